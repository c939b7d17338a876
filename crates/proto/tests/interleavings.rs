//! Random interleavings of everything that can happen to a client, against the ledger.

mod common;

use common::{World, code, config, refused};
use proptest::prelude::*;
use ringmain_proto::*;
use ringmain_wire::{EvictionReason, Operation};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        lane: u32,
        records: u32,
        deadline_us: u64,
    },
    Call {
        metadata: bool,
        deadline_us: u64,
    },
    Transmit(u8),
    Write(u8),
    Answer {
        pick: usize,
        verdict: u8,
    },
    AnswerAll,
    /// A reply of this connection arrives once more.
    Again {
        pick: usize,
    },
    /// A reply that the peer has no reason to send.
    Nonsense {
        operation: usize,
        request_back: u64,
        verdict: u8,
    },
    ConnectionUp,
    ConnectionDown,
    Evict(u8),
    Advance(u64),
    NextDeadline,
    Burst {
        lane: u32,
        count: u8,
    },
    Purge,
    PurgeSome {
        lane: u32,
        remainder: u32,
    },
    Resume,
    Close(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let deadline = prop_oneof![1u64..200, 1_000u64..20_000, Just(1_000_000)];
    let step = prop_oneof![
        12 => (0u32..3, 1u32..9, deadline.clone())
            .prop_map(|(lane, records, deadline_us)| Step::Submit { lane, records, deadline_us }),
        2 => (any::<bool>(), deadline).prop_map(|(metadata, deadline_us)| Step::Call { metadata, deadline_us }),
        12 => (1u8..12).prop_map(Step::Transmit),
        10 => (1u8..12).prop_map(Step::Write),
        14 => (any::<prop::sample::Index>(), 0u8..20)
            .prop_map(|(pick, verdict)| Step::Answer { pick: pick.index(1 << 20), verdict }),
        3 => Just(Step::AnswerAll),
        2 => any::<prop::sample::Index>().prop_map(|pick| Step::Again { pick: pick.index(1 << 20) }),
        2 => (0usize..33, 0u64..40, 0u8..25)
            .prop_map(|(operation, request_back, verdict)| Step::Nonsense { operation, request_back, verdict }),
        8 => Just(Step::ConnectionUp),
        1 => Just(Step::ConnectionDown),
        1 => (0u8..30).prop_map(Step::Evict),
        4 => (1u64..1_500).prop_map(Step::Advance),
        4 => Just(Step::NextDeadline),
        1 => (0u32..3, 10u8..60).prop_map(|(lane, count)| Step::Burst { lane, count }),
        1 => Just(Step::Resume),
        1 => (0u32..3, 0u32..3).prop_map(|(lane, remainder)| Step::PurgeSome { lane, remainder }),
        1 => prop_oneof![40 => Just(Step::NextDeadline), 1 => Just(Step::Purge), 1 => (0u64..5_000).prop_map(Step::Close)],
    ];
    prop::collection::vec(step, 1..250)
}

fn verdict_of(world: &mut World, operation: Operation, choice: u8) -> Verdict {
    if operation == Operation::Register {
        let session = world.client.session().unwrap_or(0);
        return match choice {
            0 => refused(57),
            1 => refused(58),
            2 => Verdict::LoggedIn {
                session: session.max(1),
            },
            3 => Verdict::LoggedIn { session: 0 },
            _ => Verdict::LoggedIn {
                session: session + 3,
            },
        };
    }
    match choice {
        0 | 1 => refused(58),
        2 => refused(57),
        3 => refused(59),
        4 => refused(20),
        5 => refused(40),
        6 => Verdict::Success,
        7 => refused(30),
        8 => refused(60_000),
        _ if operation == Operation::SendMessages => world.confirmation(),
        _ => Verdict::Success,
    }
}

fn reason_of(choice: u8) -> EvictionReason {
    match choice {
        0..4 => EvictionReason::NoSession,
        4..8 => EvictionReason::SessionTooLow,
        8..12 => EvictionReason::StaleClient,
        12..16 => EvictionReason::SessionError,
        16..28 => EvictionReason::SessionReleaseMismatch,
        28 => EvictionReason::InvalidRequestBody,
        _ => EvictionReason::InvalidCredentials,
    }
}

fn answer(world: &mut World, pick: usize, choice: u8) {
    if world.owed.is_empty() {
        return;
    }
    let owed = world.owed.remove(pick % world.owed.len());
    let verdict = verdict_of(world, owed.operation, choice);
    world.deliver(owed, verdict);
}

/// A free key, dense and reused at once, so that stale keys would be noticed.
fn free_key(world: &mut World, lane: u32, records: u32, deadline: Micros) {
    for key in 0..world.client.config().requests_max {
        match world.submit(lane, key, records, deadline) {
            Err(SubmitError::KeyInUse(_)) => {}
            _ => return,
        }
    }
}

fn call(world: &mut World, metadata: bool, deadline: Micros) {
    let operation = if metadata {
        Operation::CreateTopic
    } else {
        Operation::NonReplicated
    };
    for key in 0..world.client.config().calls_max {
        if world.call(key, operation, deadline).is_ok() {
            break;
        }
    }
}

/// A reply that nobody asked for.
fn nonsense(world: &mut World, operation: usize, request_back: u64, verdict: u8) {
    let request = world
        .client
        .request_next()
        .saturating_add(2)
        .saturating_sub(request_back);
    let operation = Operation::ALL[(operation + 30) % 33];
    let verdict = match verdict {
        20.. => Verdict::LoggedIn {
            session: verdict.into(),
        },
        choice => verdict_of(world, operation, choice),
    };
    world.reply(
        operation,
        [request, 0, u64::MAX][request as usize % 3],
        verdict,
    );
}

fn apply(world: &mut World, step: &Step) {
    match *step {
        Step::Submit {
            lane,
            records,
            deadline_us,
        } => free_key(world, lane, records, world.now.after(deadline_us)),
        Step::Call {
            metadata,
            deadline_us,
        } => call(world, metadata, world.now.after(deadline_us)),
        Step::Transmit(count) if world.connected => {
            for _ in 0..count {
                world.transmit();
            }
        }
        Step::Write(count) => {
            for _ in 0..count {
                world.write_one();
            }
        }
        Step::Answer { pick, verdict } => answer(world, pick, verdict),
        Step::AnswerAll => {
            while !world.owed.is_empty() {
                answer(world, 0, 19);
            }
        }
        Step::Again { pick } if world.connected && !world.delivered.is_empty() => {
            let (owed, verdict) = world.delivered[pick % world.delivered.len()];
            world.deliver(owed, verdict);
        }
        Step::Nonsense {
            operation,
            request_back,
            verdict,
        } if world.connected => {
            nonsense(world, operation, request_back, verdict);
        }
        Step::ConnectionUp if world.connecting => {
            world.connect();
            world.send_all();
            answer(world, 0, 19);
        }
        Step::ConnectionDown if world.connected || world.connecting => world.disconnect(),
        Step::Evict(choice) if world.connected => world.evict(reason_of(choice)),
        Step::Advance(us) => world.advance(us),
        Step::NextDeadline if world.client.poll_deadline().is_some() => world.advance_to_deadline(),
        Step::Burst { lane, count } => {
            for _ in 0..count {
                free_key(world, lane, 1, world.now.after(50_000));
                if world.connected {
                    world.send_all();
                }
                answer(world, world.owed.len().saturating_sub(1), 19);
            }
        }
        Step::Purge => world.purge(),
        Step::PurgeSome { lane, remainder } => world.purge_some(lane, |key| key.0 % 3 == remainder),
        Step::Resume => world.resume(0),
        Step::Close(us) => {
            world.client.close(world.now, world.now.after(us));
            world.drain();
        }
        _ => {}
    }
    if world.ledger.closing && world.now.0.is_multiple_of(3) {
        world.disconnect();
    }
}

/// Whatever happened before: closed, with a driver that keeps its part, everything ends by the
/// deadline.
fn end(world: &mut World) {
    let deadline = world.now.after(30_000);
    world.client.close(world.now, deadline);
    world.drain();
    let mut turns = 0;
    while !world.client.state().is_final() {
        turns += 1;
        assert!(
            turns < 10_000,
            "the client ends: {:?}",
            world.client.state()
        );
        if world.ledger.closing {
            world.disconnect();
        } else if world.connecting && turns % 2 == 0 {
            world.connect();
        } else if world.connected && !world.send_all().is_empty() {
            answer(world, 0, 19);
        } else {
            world.advance_to_deadline();
        }
    }
    assert!(
        world.now <= deadline.after(1),
        "the close ends by its deadline"
    );
    assert!(world.ledger.is_empty(), "everything has an outcome");
    let account = world.client.account();
    assert!(account.is_balanced() && account.in_flight == 0);
}

fn run(orderings: [Ordering; 3], policy: OnLostCoverage, server_echoes: bool, steps: &[Step]) {
    let mut world = World::new(Config {
        on_lost_coverage: policy,
        ..config()
    });
    world.ledger.server_echoes = server_echoes;
    for (lane, ordering) in (0..).zip(orderings) {
        world.open(
            lane,
            LaneConfig {
                window_requests_max: 2 + 5 * lane as u8,
                ordering,
            },
        );
    }
    world.drain();
    for step in steps {
        apply(&mut world, step);
    }
    end(&mut world);
}

/// Enough for every test run; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(96)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn no_interleaving_breaks_a_law(
        steps in steps(),
        strict in any::<bool>(),
        resend in any::<bool>(),
        server_echoes in any::<bool>(),
    ) {
        let first = if strict { Ordering::Strict } else { Ordering::Pipelined };
        let policy = if resend { OnLostCoverage::Resend } else { OnLostCoverage::Report };
        run([first, Ordering::Pipelined, Ordering::Pipelined], policy, server_echoes, &steps);
    }
}

#[test]
fn codes_used_here_are_what_the_steps_say() {
    assert_eq!(code(57), ringmain_wire::ErrorCode::TRANSIENT_NOT_COMMITTED);
    assert_eq!(code(58), ringmain_wire::ErrorCode::TRANSIENT_NOT_ACCEPTED);
    assert_eq!(code(59), ringmain_wire::ErrorCode::REQUEST_ALREADY_APPLIED);
}
