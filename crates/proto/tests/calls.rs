//! Control calls: one of a kind at a time, numbers, retries, answers.

mod common;

use common::{FAR_US, World, code, config, refused, requests_of, window};
use ringmain_proto::*;
use ringmain_wire::{CommandCode, Operation};

const READ: Operation = Operation::NonReplicated;
const CREATE: Operation = Operation::CreateTopic;

fn world() -> World {
    let calm = Config {
        heartbeat_interval_us: FAR_US,
        ..config()
    };
    World::active(calm, window(8))
}

impl World {
    fn ask(&mut self, key: u32, operation: Operation) {
        let deadline = self.now.after(FAR_US);
        self.call(key, operation, deadline).expect("accepted");
    }
}

#[test]
fn one_call_of_a_kind_is_in_flight_and_the_rest_follow_in_order() {
    let mut world = world();
    for key in 0..4 {
        world.ask(key, [CREATE, READ][key as usize % 2]);
    }
    let sent = world.send_all();
    assert!(matches!(
        sent[0],
        Transmit::Call {
            key: CallKey(0),
            operation: CREATE,
            request: 1,
            attempt: 1,
            ..
        }
    ));
    let Transmit::Call {
        key: CallKey(1),
        code,
        request: 2,
        ..
    } = sent[1]
    else {
        panic!("{sent:?}")
    };
    assert_eq!(code, CommandCode::GET_TOPIC);
    assert_eq!(sent.len(), 2);
    let rewritten = Operation::CreateTopicWithAssignments;
    let answered = |key| ReplyMatch::Call {
        key: CallKey(key),
        answered: true,
    };
    assert_eq!(
        world.reply(rewritten, 1, Verdict::Success),
        answered(0),
        "the server's rewrite counts"
    );
    assert_eq!(
        requests_of(&world.send_all()),
        [2],
        "the second metadata call"
    );
    assert_eq!(world.reply(READ, 2, Verdict::Success), answered(1));
    assert_eq!(
        requests_of(&world.send_all()),
        [3],
        "the second read, under another number than the first"
    );
}

#[test]
fn a_send_a_read_and_a_metadata_call_may_share_no_key() {
    let mut world = world();
    world.ask(0, READ);
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.give(0, 0);
    assert_eq!(
        requests_of(&world.send_all()),
        [1],
        "a read takes no number"
    );
    assert_eq!(
        world.reply(READ, 1, Verdict::Success),
        ReplyMatch::Call {
            key: CallKey(0),
            answered: true
        }
    );
    assert_eq!(world.receipts(), [], "the send is another request");
    assert_eq!(world.confirm(1), ReplyMatch::Batch(BatchKey(0)));
}

#[test]
fn silence_repeats_a_metadata_call_under_its_number_also_after_a_reconnect() {
    let mut world = world();
    world.ask(0, CREATE);
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.advance(1_000);
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.give(0, 0);
    world.send_all();
    world.disconnect();
    world.log_in();
    assert_eq!(requests_of(&world.send_all()), [1, 2]);
    world.reply(CREATE, 1, Verdict::Success);
    assert_eq!(world.answers(), [(0, Answer::Answered)]);
}

#[test]
fn a_read_is_asked_anew_after_a_reconnect_and_a_late_answer_is_not_taken_for_the_next_ones() {
    let mut world = world();
    world.ask(0, READ);
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.advance(1_000);
    assert_eq!(
        requests_of(&world.send_all()),
        [1],
        "asked twice on this connection"
    );
    world.reply(READ, 1, Verdict::Success);
    world.ask(0, READ);
    assert_eq!(requests_of(&world.send_all()), [2]);
    assert_eq!(
        world.reply(READ, 1, Verdict::Success),
        ReplyMatch::Late,
        "the first one's second answer"
    );
    world.disconnect();
    world.log_in();
    assert_eq!(
        requests_of(&world.send_all()),
        [2],
        "no reply of the old connection can come"
    );
    assert_eq!(
        world.reply(READ, 2, Verdict::Success),
        ReplyMatch::Call {
            key: CallKey(0),
            answered: true
        }
    );
    assert_eq!(
        world.answers(),
        [(0, Answer::Answered), (0, Answer::Answered)]
    );
}

#[test]
fn answers_by_code() {
    for (number, answer) in [
        (59, Answer::AlreadyApplied),
        (41, Answer::Rejected { code: code(41) }),
        (1012, Answer::Rejected { code: code(1012) }),
    ] {
        let mut world = world();
        world.ask(0, CREATE);
        world.send_all();
        let matched = world.reply(CREATE, 1, refused(number));
        assert_eq!(
            matched,
            ReplyMatch::Call {
                key: CallKey(0),
                answered: false
            }
        );
        assert_eq!(world.answers(), [(0, answer)]);
    }
}

#[test]
fn refused_for_now_pauses_and_repeats() {
    for number in [57, 58] {
        let mut world = world();
        world.ask(0, CREATE);
        world.ask(1, CREATE);
        for _ in 0..3 {
            assert_eq!(
                requests_of(&world.send_next()),
                [1],
                "the next one waits: order of execution"
            );
            world.reply(CREATE, 1, refused(number));
            assert_eq!(world.send_all(), []);
        }
        world.advance(FAR_US);
        let first = match number {
            57 => Answer::Unknown { request: 1 },
            _ => Answer::NotSent {
                reason: NotSent::Refused,
            },
        };
        let second = Answer::NotSent {
            reason: NotSent::Deadline,
        };
        assert_eq!(world.answers(), [(0, first), (1, second)]);
    }
}

#[test]
fn a_read_that_is_refused_after_a_lost_connection_is_rejected_not_unknown() {
    let mut world = world();
    world.ask(0, READ);
    world.send_all();
    world.disconnect();
    world.log_in();
    let request = requests_of(&world.send_all())[0];
    world.reply(READ, request, refused(3));
    assert_eq!(world.answers(), [(0, Answer::Rejected { code: code(3) })]);
}

#[test]
fn unanswered_until_the_deadline_is_unknown() {
    for operation in [CREATE, READ] {
        let mut world = world();
        world
            .call(0, operation, world.now.after(1_500))
            .expect("accepted");
        world.send_all();
        world.advance(1_000);
        world.send_all();
        world.advance(500);
        assert_eq!(world.answers(), [(0, Answer::Unknown { request: 1 })]);
        assert_eq!(
            world.reply(operation, 1, Verdict::Success),
            ReplyMatch::Late
        );
    }
}

#[test]
fn a_metadata_call_that_may_be_done_is_unknown_when_coverage_is_lost() {
    let mut world = world();
    world.ask(0, CREATE);
    world.ask(1, READ);
    world.ask(2, CREATE);
    world.send_all();
    world.disconnect();
    world.log_in_with(Verdict::LoggedIn { session: 1 });
    assert_eq!(world.answers(), [(0, Answer::Unknown { request: 1 })]);
    assert_eq!(
        world.send_all().len(),
        2,
        "the next metadata call, and the read again"
    );
}

#[test]
fn not_logged_in_logs_in_again_once_for_a_call() {
    let mut world = world();
    world.ask(0, READ);
    world.send_all();
    world.reply(READ, 1, refused(40));
    assert_eq!(world.client.state(), SessionState::Recycling);
    world.disconnect();
    world.log_in();
    let request = requests_of(&world.send_all())[0];
    world.reply(READ, request, refused(40));
    assert_eq!(world.answers(), [(0, Answer::Rejected { code: code(40) })]);
}

#[test]
fn the_answer_waits_for_the_write_of_a_retry() {
    let mut world = world();
    world.ask(0, CREATE);
    world.send_all();
    world.advance(1_000);
    assert!(world.transmit().is_some());
    world.reply(CREATE, 1, Verdict::Success);
    assert_eq!(world.answers(), []);
    assert_eq!(world.reply(CREATE, 1, Verdict::Success), ReplyMatch::Late);
    world.write_all();
    assert_eq!(world.answers(), [(0, Answer::Answered)]);
}

#[test]
fn only_metadata_operations_and_reads_are_calls() {
    let mut world = world();
    for operation in Operation::ALL {
        let accepted =
            world
                .client
                .call(CallKey(0), operation, CommandCode::PING, world.now.after(1));
        let is_call = (128..=149).contains(&operation.as_u8()) || operation == READ;
        assert_eq!(accepted.is_ok(), is_call, "{operation}");
        if is_call {
            world.client.purge(world.now);
            let not_sent = Answer::NotSent {
                reason: NotSent::Purged,
            };
            let outcome = Outcome::Call {
                key: CallKey(0),
                answer: not_sent,
            };
            assert_eq!(world.client.poll_outcome(), Some(outcome));
        } else {
            assert_eq!(accepted, Err(CallError::NotACall(operation)));
        }
    }
    world.ask(0, READ);
    assert_eq!(
        world.call(0, READ, Micros::MAX),
        Err(CallError::KeyInUse(CallKey(0)))
    );
    assert_eq!(
        world.call(4, READ, Micros::MAX),
        Err(CallError::KeyOutOfRange(CallKey(4)))
    );
}

#[test]
fn a_committed_rejection_answers_every_transmission_of_a_metadata_call() {
    let rejection = |echo| Reply {
        operation: CREATE,
        request: 1,
        echo,
        verdict: refused(2013),
    };
    for (echo, answer) in [
        (Echo::ServerTime, Answer::Rejected { code: code(2013) }),
        (Echo::Attempt(2), Answer::Unknown { request: 1 }),
        (Echo::Absent, Answer::Unknown { request: 1 }),
    ] {
        let mut world = world();
        world.ask(0, CREATE);
        world.send_all();
        world.disconnect();
        world.log_in();
        world.send_all();
        world.client.handle_reply(world.now, &rejection(echo));
        world.drain();
        assert_eq!(world.answers(), [(0, answer)], "{echo:?}");
    }
}
