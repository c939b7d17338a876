//! Situations that users of such systems have reported, each one scripted on the model broker.
//!
//! One client and one lane, a calm network, and only the faults named: what became of each batch
//! can be told exactly. The oracle judges these runs as it judges all others.

use ringmain_proto::Receipt;
use ringmain_sim::{
    BrokerDraws, ClientDraws, Draws, Fate, Fault, FaultPlan, NetworkDraws, Options, Strike,
    Summary, run,
};

/// Eight batches at once, a window of eight, replies within 2 ms, patience of 50 ms.
fn calm() -> Draws {
    let broker = BrokerDraws {
        topics: 1,
        partitions: 1,
        op_start: 1,
        heartbeat_us: 30_000_000,
        commit_us: (200, 400),
        metadata_us: (200, 400),
        answers_in_flight: true,
        echoes: true,
        unknown_code: 2011,
    };
    let network = NetworkDraws {
        latency_us: (100, 300),
        write_us_max: 10,
        hold_us_max: 0,
        frames_max: 32,
    };
    let client = ClientDraws {
        lanes: vec![(0, 0)],
        window_requests_max: 8,
        strict: false,
        connections: 1,
        slots: 16,
        batch_records_max: 1,
        copy_bytes_max: 3_000,
        payload_bytes_max: 8,
        linger_us: 0,
        writes_max: 1,
        turn_us_max: 0,
        interleave_ppm: 0,
        batches: 8,
        burst: 32,
        pause_us_max: 1,
        calls_ppm: 0,
        request_timeout_us: 50_000,
        delivery_us: (10_000_000, 10_000_000),
        patient_ppm: 0,
        resume_requests_max: 1,
        heartbeat_us: 10_000_000,
        login_timeout_us: 1_000_000,
        connect_timeout_us: 1_000_000,
        write_stall_us: 1_000_000,
        reconnect_us: (1_000, 10_000),
        refusal_us: (1_000, 10_000),
        resends_uncovered: false,
        purge_ppm: 0,
        request_first: 1,
        closes_early: false,
    };
    Draws {
        seed: 1,
        broker,
        network,
        clients: vec![client],
        work_us: 60_000_000,
        faults: FaultPlan::none(),
    }
}

/// Runs a script; nothing may be wrong with the run.
fn play(draws: &Draws, script: &[Strike]) -> Summary {
    let summary = run(
        draws,
        script.to_vec(),
        &Options {
            trace_lines: 200,
            ..Options::default()
        },
    );
    assert_eq!(summary.violation, None, "{}", summary.trace.join("\n"));
    summary
}

const fn strike(fault: Fault, batch: u32) -> Strike {
    Strike {
        fault,
        batch,
        times: 1,
    }
}

/// Whether a batch is stored once and its receipt tells where.
fn is_stored_and_told(fate: &Fate) -> bool {
    matches!((fate.receipt, &fate.offsets[..]), (Some(Receipt::Stored { base_offset, .. }), [only]) if base_offset == *only)
}

#[test]
fn nothing_happens_on_a_calm_day() {
    let summary = play(&calm(), &[]);
    assert!(summary.fates.iter().all(is_stored_and_told));
    assert_eq!(summary.stats[0].batches_resent, 0);
}

#[test]
fn a_lost_reply_and_the_retry_store_once_and_the_duplicate_has_no_offset() {
    let summary = play(&calm(), &[strike(Fault::ReplyLost, 3)]);
    assert_eq!(summary.coverage.fired(Fault::ReplyLost), 1);
    assert_eq!(summary.fates[3].receipt, Some(Receipt::StoredOffsetUnknown));
    assert_eq!(summary.fates[3].offsets.len(), 1);
    let others = summary
        .fates
        .iter()
        .enumerate()
        .filter(|(batch, _)| *batch != 3);
    assert!(others.map(|(_, fate)| fate).all(is_stored_and_told));
}

#[test]
fn a_lost_reply_without_time_for_a_retry_is_unknown_and_stored_once() {
    let mut draws = calm();
    draws.clients[0].delivery_us = (30_000, 30_000);
    let summary = play(&draws, &[strike(Fault::ReplyLost, 3)]);
    assert!(
        matches!(summary.fates[3].receipt, Some(Receipt::Unknown { .. })),
        "{:?}",
        summary.fates[3]
    );
    assert_eq!(summary.fates[3].offsets.len(), 1);
}

#[test]
fn whichever_of_a_window_is_refused_nothing_is_lost() {
    for fault in [Fault::Refused58, Fault::Refused57] {
        for refused in 0..8 {
            let summary = play(&calm(), &[strike(fault, refused)]);
            assert_eq!(summary.coverage.fired(fault), 1);
            assert!(
                summary.fates.iter().all(is_stored_and_told),
                "{fault:?} {refused}: {:?}",
                summary.fates
            );
            let mut rest: Vec<u64> = summary.fates.iter().map(|fate| fate.offsets[0]).collect();
            rest.remove(refused as usize);
            assert!(rest.is_sorted(), "the others keep their order: {rest:?}");
        }
    }
}

#[test]
fn whichever_is_refused_in_strict_order_the_order_holds() {
    let mut draws = calm();
    draws.clients[0].strict = true;
    for refused in 0..8 {
        let summary = play(
            &draws,
            &[Strike {
                fault: Fault::Refused58,
                batch: refused,
                times: 3,
            }],
        );
        assert!(summary.fates.iter().all(is_stored_and_told));
        assert!(summary.fates.iter().map(|fate| fate.offsets[0]).is_sorted());
        assert_eq!(summary.stats[0].overtaken, 0);
    }
}

#[test]
fn a_request_parked_by_the_server_commits_after_its_resend_and_is_stored_once() {
    for answers_in_flight in [true, false] {
        let mut draws = calm();
        draws.broker.answers_in_flight = answers_in_flight;
        let summary = play(&draws, &[strike(Fault::ParkedSilently, 3)]);
        assert!(
            summary.stats[0].batches_resent > 0,
            "it was parked for longer than the client's patience"
        );
        assert!(summary.fates.iter().all(|fate| fate.offsets.len() == 1));
        let stored = |fate: &Fate| {
            matches!(
                fate.receipt,
                Some(Receipt::Stored { .. } | Receipt::StoredOffsetUnknown)
            )
        };
        assert!(summary.fates.iter().all(stored));
    }
}

#[test]
fn a_request_parked_across_a_reset_is_stored_once() {
    let script = [
        strike(Fault::ParkedSilently, 3),
        strike(Fault::ResetDuringCommit, 3),
    ];
    let summary = play(&calm(), &script);
    assert!(summary.stats[0].logins > 1, "the connection was reset");
    assert!(summary.fates.iter().all(|fate| fate.offsets.len() == 1));
    assert!(
        summary
            .fates
            .iter()
            .all(|fate| !matches!(fate.receipt, Some(Receipt::Unknown { .. }) | None))
    );
}

#[test]
fn a_reset_between_commit_and_reply_stores_once() {
    for struck in 0..8 {
        let summary = play(&calm(), &[strike(Fault::ResetAfterCommit, struck)]);
        assert!(summary.fates.iter().all(|fate| fate.offsets.len() == 1));
        assert_eq!(
            summary.fates[struck as usize].receipt,
            Some(Receipt::StoredOffsetUnknown)
        );
    }
}

#[test]
fn a_topic_deleted_and_created_again_while_sending_is_told_batch_by_batch() {
    let mut draws = calm();
    draws.faults = FaultPlan::none().with(Fault::TopicRecreated, 4_000);
    let client = &mut draws.clients[0];
    (client.batches, client.burst, client.pause_us_max) = (400, 2, 60_000);
    let summary = play(&draws, &[]);
    assert!(summary.coverage.fired(Fault::TopicRecreated) > 0);
    assert!(summary.account.stored > 0);
    assert!(
        summary.account.rejected > 0,
        "some met a topic that was not there: {:?}",
        summary.account
    );
}

/// A server acknowledges late, so that the kernel reads the login's memory still when the engine
/// logs out.
#[test]
fn an_engine_that_closes_soon_after_its_start_does_not_tear_its_login() {
    for seed in 1..=20 {
        let mut draws = calm();
        draws.seed = seed;
        draws.network.hold_us_max = 500_000;
        // The second connection has nothing to send: its logout follows its login.
        let client = &mut draws.clients[0];
        (client.connections, client.batches, client.writes_max) = (2, 1, 8);
        let summary = play(&draws, &[]);
        assert!(summary.fates.iter().all(is_stored_and_told));
    }
}
