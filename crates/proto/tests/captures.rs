//! Replies of a real server, as decisions see them: every captured reply decodes, and the client
//! goes by operation and number alone.

use ringmain_proto::*;
use ringmain_wire::header::HEADER_BYTES;
use ringmain_wire::{Inbound, Operation};

/// Scenario, and the reply, of every captured reply frame.
fn replies() -> Vec<(String, Vec<u8>)> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../wire/testdata/server-0.9.0-edge.5.jsonl"
    );
    let lines = std::fs::read_to_string(path).expect("the captures are part of the project");
    let frame = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let hex = text("hex");
        let byte = |index| u8::from_str_radix(&hex[index..index + 2], 16).expect("hexadecimal");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        (text("dir") == "in" && bytes.len() >= HEADER_BYTES).then(|| (text("scenario"), bytes))
    };
    lines.lines().filter_map(frame).collect()
}

fn decode(bytes: &[u8]) -> Option<Reply> {
    match Inbound::decode(bytes).expect("a real server's frame") {
        Inbound::Reply(reply) => Some(Reply::decode(&reply).expect("a real server's reply").0),
        _ => None,
    }
}

#[test]
fn every_captured_reply_decodes_to_a_verdict_that_fits_its_operation() {
    let mut counts = [0; 4];
    for (scenario, bytes) in replies() {
        let Some(reply) = decode(&bytes) else {
            continue;
        };
        let kind = match (reply.operation, reply.verdict) {
            (Operation::Register, Verdict::LoggedIn { session }) if session > 0 => 0,
            (Operation::SendMessages, Verdict::Confirmed { .. }) => 1,
            (_, Verdict::Refused(_)) => 2,
            (operation, Verdict::Success) if operation != Operation::Register => 3,
            (operation, verdict) => panic!("{scenario}: {operation} says {verdict:?}"),
        };
        counts[kind] += 1;
    }
    assert!(
        counts.iter().all(|&count| count > 5),
        "logins, sends, refusals, others: {counts:?}"
    );
}

/// Sixty-four sends over four partitions in one write, answered in the order of the capture.
#[test]
fn a_captured_pipeline_resolves_every_batch_at_its_own_offset() {
    let now = Micros(0);
    let config = Config {
        request_first: 3,
        ..Config::new(0xC0FFEE, 1)
    };
    let mut client = Client::new(config).expect("valid");
    let scenario: Vec<Reply> = replies()
        .iter()
        .filter(|(scenario, _)| scenario == "pipeline-64")
        .filter_map(|(_, bytes)| decode(bytes))
        .filter(|reply| {
            matches!(
                reply.operation,
                Operation::Register | Operation::SendMessages
            )
        })
        .collect();
    assert_eq!(client.poll_connection(now), Some(ConnectionAction::Connect));
    client.handle_connected(now).expect("asked for");
    assert_eq!(client.poll_transmit(now), Some(Transmit::Login));
    assert_eq!(client.handle_reply(now, &scenario[0]), ReplyMatch::Login);
    let wide = LaneConfig {
        window_requests_max: 16,
        ..LaneConfig::default()
    };
    for lane in 0..4 {
        client.open_lane(LaneKey(lane), wide).expect("free");
    }
    for key in 0..64 {
        client
            .submit(LaneKey(key % 4), BatchKey(key), 1, Micros::MAX)
            .expect("accepted");
    }
    while let Some(transmit) = client.poll_transmit(now) {
        client
            .handle_written(now, transmit.frame())
            .expect("handed over");
    }
    for reply in &scenario[1..] {
        assert!(matches!(
            client.handle_reply(now, reply),
            ReplyMatch::Batch(_)
        ));
        client.check_invariants();
    }
    let mut next_offset = [0; 4];
    while let Some(Outcome::Batch { lane, receipt, .. }) = client.poll_outcome() {
        let base_offset = next_offset[lane.0 as usize];
        assert_eq!(
            receipt,
            Receipt::Stored {
                partition_id: lane.0,
                base_offset
            },
            "each partition in order"
        );
        next_offset[lane.0 as usize] += 1;
    }
    assert_eq!(next_offset, [16; 4]);
    assert_eq!(client.stats().overtaken, 0);
}
