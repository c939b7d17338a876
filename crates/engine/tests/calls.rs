//! Scripted faults of logins and of control calls: what can be repeated is, the rest is a typed
//! error that says why.

mod support;

use ringmain::{BuildError, CallError, ErrorCode, Record};
use ringmain_broker::{Act, Action, Fault, Script};
use ringmain_wire::payload::Command;
use ringmain_wire::payload::poll::PollMessages;
use ringmain_wire::payload::topic::GetTopic;
use ringmain_wire::{EvictionReason, Operation};
use support::{Checked, PATIENCE, Server};

const TRANSIENT: [ErrorCode; 2] = [
    ErrorCode::TRANSIENT_NOT_ACCEPTED,
    ErrorCode::TRANSIENT_NOT_COMMITTED,
];

/// Faults that a request survives, whatever it asks for. Each acts once.
fn passing() -> Vec<Action> {
    let mut actions = vec![
        Action::CommitAndCut,
        Action::Delay { us: 150_000 },
        Action::Pieces { bytes: 3 },
        Action::StallReading { us: 50_000 },
        Action::Evict(EvictionReason::StaleClient),
    ];
    actions.extend(TRANSIENT.map(Action::Refuse));
    actions
}

/// An engine whose logins are repeated until one works.
fn engine(server: &Server) -> Result<Checked, BuildError> {
    let url = format!("{}?reconnection_retries=unlimited", server.url());
    let builder = server.engine().server(url).request_timeout_us(100_000);
    builder.build().map(Checked::new)
}

/// Makes a topic, sends one record and reads it back: a login and every call that the engine makes
/// by itself.
fn makes_sends_and_reads(server: &Server, what: &str) {
    let engine = engine(server).unwrap_or_else(|error| panic!("{what}: {error}"));
    let stream = server.stream("calls");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(2)
        .build()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(producer.partitions_count(), 2, "{what}");
    let receipt = producer.send(Record::new("x")).expect("accepted");
    assert!(receipt.wait().is_stored(), "{what}");
    let records: usize = (0..2)
        .map(|partition| {
            let polled = engine.poll(&stream, "topic", partition, 0, 10, PATIENCE);
            let polled = polled.unwrap_or_else(|error| panic!("{what}: {error}"));
            polled.records.len()
        })
        .sum();
    assert_eq!(records, 1, "{what}");
}

#[test]
fn a_login_is_repeated_after_every_passing_fault() {
    for action in passing() {
        let script = Script::new().fault(Fault::on(Operation::Register).action(action));
        makes_sends_and_reads(&Server::faulty(script), &format!("login, {action:?}"));
    }
}

#[test]
fn a_call_is_repeated_after_every_passing_fault() {
    let mut actions = passing();
    actions.push(Action::Drop);
    actions.extend(TRANSIENT.map(Action::Reject));
    let faults = [
        Fault::on(Operation::CreateStream),
        Fault::on(Operation::CreateTopic),
        Fault::on_code(GetTopic::CODE),
        Fault::on_code(PollMessages::CODE),
    ];
    for fault in faults {
        for action in &actions {
            let script = Script::new().fault(fault.clone().action(*action));
            makes_sends_and_reads(&Server::faulty(script), &format!("{fault:?}, {action:?}"));
        }
    }
}

#[test]
fn a_login_that_is_refused_for_good_is_told_at_once() {
    let denied = ErrorCode::new(42).expect("not zero");
    for action in [
        Action::Refuse(denied),
        Action::Evict(EvictionReason::InvalidCredentials),
        Action::Evict(EvictionReason::UserInactive),
        Action::Evict(EvictionReason::IncompatibleProtocol { max: 2, min: 1 }),
    ] {
        let script = Script::new().fault(Fault::on(Operation::Register).action(action).times(0));
        let error = engine(&Server::faulty(script)).err().expect("refused");
        assert!(
            matches!(error, BuildError::Call(CallError::Login(_))),
            "{action:?}: {error}"
        );
    }
}

#[test]
fn a_call_that_is_refused_for_good_names_the_code() {
    let denied = ErrorCode::new(41).expect("not zero");
    for action in [Action::Refuse(denied), Action::Reject(denied)] {
        let script = Script::new().fault(Fault::on(Operation::CreateTopic).action(action));
        let server = Server::faulty(script);
        let engine = engine(&server).expect("the script spares logins");
        let error = engine
            .producer(server.stream("refused"), "topic")
            .create_if_missing(1)
            .build()
            .expect_err("refused");
        let BuildError::Call(CallError::Refused { code, .. }) = error else {
            panic!("{action:?}: {error}")
        };
        assert_eq!(code, denied);
    }
}

#[test]
fn a_call_that_may_have_been_carried_out_says_so() {
    // The server forgets the client, and with it whether it had answered.
    let lost = Action::Broker(Act::LoseClientTable);
    let script = Script::new().fault(Fault::on(Operation::CreateTopic).action(lost));
    let server = Server::faulty(script);
    let engine = engine(&server).expect("the script spares logins");
    let stream = server.stream("forgotten");
    let build = || {
        engine
            .producer(&stream, "topic")
            .create_if_missing(1)
            .build()
    };
    let error = build().expect_err("the server cannot tell");
    assert!(
        matches!(error, BuildError::Call(CallError::Lost { .. })),
        "{error}"
    );
    let producer = build().expect("a second attempt, in a new session");
    let receipt = producer.send(Record::new("x")).expect("accepted");
    assert!(receipt.wait().is_stored());
}
