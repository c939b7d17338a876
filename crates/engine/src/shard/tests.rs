//! The end of a shard as appenders meet it, without a thread and without a server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ringmain_proto::{LaneConfig, LaneKey};
use ringmain_wire::{CommandCode, Operation, UserHeaders};

use super::{CallCell, OwedCall, ShardShared};
use crate::clock::Clock;
use crate::error::{CallError, SendError};
use crate::gate::{Gate, Units};
use crate::lane::{Appended, Held, Incoming, Lane, LanePlace, Payload, Time};
use crate::ledger::{BatchSettings, Ledger};
use crate::receipt::{Callbacks, Receipts};
use crate::topic::TopicName;
use ringmain_io::driver::Driver;
use ringmain_io::epoll::{Epoll, EpollConfig};
use ringmain_io::memory::{ArenaConfig, DriverMemory};

/// A lane whose shard never runs.
fn lane() -> Arc<Lane> {
    let memory = DriverMemory::new(&ArenaConfig::default()).expect("an arena");
    let arena = Arc::clone(memory.arena());
    let driver = Epoll::new(&EpollConfig::default(), memory);
    let wake = driver.expect("epoll").wake_handle();
    let credit = Arc::new(Gate::new(Units::new(0)));
    let shard = ShardShared::new(Clock::system(), wake, &arena, credit, 1, 1);
    Arc::new(Lane::new(
        LanePlace {
            index: 0,
            conn: 0,
            key: LaneKey(0),
            seat: 0,
        },
        LaneConfig::default(),
        Arc::new(TopicName::new(
            ("stream".into(), "topic".into()),
            (0, 0),
            Arc::new([Arc::clone(&shard.news)]),
        )),
        0,
        Arc::new(shard),
        &Arc::new(Callbacks::unlimited()),
        1,
    ))
}

fn incoming<'a>(payload: &'a mut Bytes, clock: &'a Clock) -> Incoming<'a> {
    Incoming {
        payload: Payload::Owned(payload),
        user_headers: UserHeaders::EMPTY,
        id: None,
        time: Time::Accepted,
        by_reference: false,
        clock,
    }
}

#[test]
fn nothing_gets_in_behind_the_last_answers_of_a_shard_that_ended() {
    let lane = lane();
    let clock = Clock::system();
    let ledger = Arc::new(Ledger::new(BatchSettings {
        batch_bytes_max: 1 << 16,
        batch_records_max: 100,
        linger_us: 0,
        delivery_timeout_us: 1_000_000,
    }));
    let mut held = Held::default();
    let mut payload = Bytes::from_static(b"before");
    let before = lane.append(&ledger, &mut incoming(&mut payload, &clock), &mut held);
    assert!(matches!(before, Ok(Appended::Accepted(_))));
    // What a shard does at its end, orderly or not: it says so, then takes what is open.
    lane.shard.ended.store(true, Ordering::SeqCst);
    lane.seal_for_flush(&mut Vec::new());
    let mut payload = Bytes::from_static(b"behind");
    let mut receipts = Receipts::default();
    let mut run = lane.run(&ledger);
    assert!(!run.join(&mut incoming(&mut payload, &clock)));
    run.end(&mut receipts);
    let behind = lane.append(&ledger, &mut incoming(&mut payload, &clock), &mut held);
    assert!(matches!(behind, Err(SendError::EngineFailed)));
    assert_eq!((ledger.account().accepted, receipts.len()), (1, 0));
}

#[test]
fn a_call_that_a_panic_drops_says_that_the_engine_failed() {
    let call = (
        Operation::NonReplicated,
        CommandCode::GET_STREAMS,
        "GetStreams",
    );
    let patience = Duration::from_secs(1);
    let cell = Arc::new(CallCell::new(
        call.0,
        call.1,
        call.2,
        Bytes::new(),
        patience,
    ));
    drop(OwedCall::new(Arc::clone(&cell)));
    let error = cell.wait(patience).expect_err("nothing answered it");
    assert!(matches!(error, CallError::EngineFailed { .. }), "{error}");
}
