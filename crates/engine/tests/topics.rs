//! What a name means: topics deleted, created anew and renamed, by this engine or another, before
//! and during sends.
//!
//! Every record is looked for in every topic of the stream: it is where its answer says, once, and
//! never in a topic that did not have its producer's name.

mod support;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ringmain::{
    BuildError, Call, Engine, NotSentReason, Outcome, Partitioning, Producer, Record, SendError,
};
use ringmain_broker::{Act, Action, Fault, RestartState, Script};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::payload::stream::{DeleteStream, GetStream, StreamDetails};
use ringmain_wire::payload::topic::{CreatePartitions, DeleteTopic, UpdateTopic};
use ringmain_wire::{CommandCode, Identifier, Name, Operation, Options};
use support::{Checked, PATIENCE, Server, Start, read_back};

const REPLACED: Outcome = Outcome::NotSent {
    reason: NotSentReason::TopicReplaced,
};

const DAY_US: u64 = 86_400_000_000;

/// Who changes a topic, in its stream.
struct Actor<'a> {
    engine: &'a Engine,
    stream: &'a str,
}

impl Actor<'_> {
    fn call(&self, operation: Operation, body: Vec<u8>) {
        let call = Call::replicated(operation.as_u8(), body);
        self.engine.call(call, PATIENCE).expect("a legal change");
    }

    fn create(&self, topic: &str, partitions: u32) {
        let created = self
            .engine
            .create_topic(self.stream, topic, partitions, PATIENCE);
        assert_eq!(created, Ok(true), "{topic} is new");
    }

    fn delete(&self, topic: &str) {
        let request = DeleteTopic {
            stream_id: named(self.stream),
            topic_id: named(topic),
        };
        self.call(Operation::DeleteTopic, request.to_vec());
    }

    fn rename(&self, topic: &str, to: &str) {
        let request = UpdateTopic {
            stream_id: named(self.stream),
            topic_id: named(topic),
            name: Name::new(to).expect("a name"),
            options: Options::EMPTY,
        };
        self.call(Operation::UpdateTopic, request.to_vec());
    }

    fn delete_stream(&self) {
        let request = DeleteStream {
            stream_id: named(self.stream),
        };
        self.call(Operation::DeleteStream, request.to_vec());
    }

    fn add_partitions(&self, topic: &str, partitions_count: u32) {
        let request = CreatePartitions {
            stream_id: named(self.stream),
            topic_id: named(topic),
            partitions_count,
        };
        self.call(Operation::CreatePartitions, request.to_vec());
    }
}

fn named(name: &str) -> Identifier<'_> {
    Identifier::named(name).expect("a name")
}

/// What becomes of the topic `x`; `y` is another topic of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// `x` is deleted and created anew, under the number it had.
    Recreated,
    /// `x` is deleted, `w` takes its number, `x` is created anew under another.
    Renumbered,
    /// `x` becomes `z`, and `y` becomes `x`.
    Swapped,
    /// `x` becomes `z`, and a new `x` is created.
    Succeeded,
    /// The stream is deleted and created anew, with `y` and `x`.
    StreamRecreated,
    /// `x` becomes `z`.
    Renamed,
    /// `x` is deleted.
    Deleted,
}

impl Change {
    const ALL: [Self; 7] = [
        Self::Recreated,
        Self::Renumbered,
        Self::Swapped,
        Self::Succeeded,
        Self::StreamRecreated,
        Self::Renamed,
        Self::Deleted,
    ];

    fn make(self, actor: &Actor<'_>) {
        match self {
            Self::Recreated => {
                actor.delete("x");
                actor.create("x", 1);
            }
            Self::Renumbered => {
                actor.delete("x");
                actor.create("w", 1);
                actor.create("x", 1);
            }
            Self::Swapped => {
                actor.rename("x", "z");
                actor.rename("y", "x");
            }
            Self::Succeeded => {
                actor.rename("x", "z");
                actor.create("x", 1);
            }
            Self::StreamRecreated => {
                actor.delete_stream();
                let created = actor.engine.create_stream(actor.stream, PATIENCE);
                assert_eq!(created, Ok(true));
                actor.create("y", 1);
                actor.create("x", 1);
            }
            Self::Renamed => actor.rename("x", "z"),
            Self::Deleted => actor.delete("x"),
        }
    }

    /// Whether there is an `x` afterwards.
    fn leaves_x(self) -> bool {
        !matches!(self, Self::Renamed | Self::Deleted)
    }

    /// Where the records of the `x` before are.
    fn old_log(self) -> Option<&'static str> {
        match self {
            Self::Swapped | Self::Succeeded | Self::Renamed => Some("z"),
            _ => None,
        }
    }

    /// Whether confirmations of the new `x` name other numbers than those of the old one.
    fn is_told_by_numbers(self) -> bool {
        matches!(
            self,
            Self::Renumbered | Self::Swapped | Self::Succeeded | Self::StreamRecreated
        )
    }
}

/// Every record of a stream: topic, partition and offset by its text.
struct Logs(HashMap<String, Vec<(String, u32, u64)>>);

impl Logs {
    fn read(engine: &Engine, stream: &str) -> Self {
        let request = GetStream {
            stream_id: named(stream),
        };
        let call = Call::read(CommandCode::GET_STREAM.0, request.to_vec());
        let reply = engine.call(call, PATIENCE).expect("the stream exists");
        let details = StreamDetails::decode(&reply.body).expect("a stream");
        let mut logs: HashMap<String, Vec<_>> = HashMap::new();
        for topic in &details.topics {
            let name = topic.name.as_str();
            for partition in 0..topic.partitions_count {
                for record in read_back(engine, stream, name, partition) {
                    let text = String::from_utf8(record.payload.to_vec()).expect("text");
                    let at = (name.to_owned(), partition, record.offset);
                    logs.entry(text).or_default().push(at);
                }
            }
        }
        Self(logs)
    }

    /// Names of the topics that a record is in.
    fn topics(&self, text: &str) -> Vec<&str> {
        let places = self.0.get(text).map_or(&[][..], Vec::as_slice);
        let mut topics: Vec<&str> = places.iter().map(|(topic, ..)| &**topic).collect();
        topics.sort_unstable();
        topics
    }

    /// Holds an answer against the logs. `log` is the topic of a record that was stored, if it
    /// still exists.
    fn check(&self, what: &str, text: &str, outcome: Outcome, log: Option<&str>) {
        let found = self.0.get(text).map_or(&[][..], Vec::as_slice);
        match outcome {
            Outcome::Stored { partition, offset } => {
                let expected = log.map(|log| (log.to_owned(), partition, offset));
                assert_eq!(found, expected.as_slice(), "{what}, {text}: {outcome}");
            }
            Outcome::Rejected { .. } | Outcome::NotSent { .. } => {
                assert_eq!(found, [], "{what}, {text}: {outcome}");
            }
            Outcome::StoredOffsetUnknown { .. } | Outcome::Unknown { .. } => {
                panic!("{what}, {text}: {outcome} where all is known");
            }
        }
    }
}

fn producer(engine: &Engine, stream: &str, topic: &str) -> Producer {
    let builder = engine
        .producer(stream, topic)
        .create_if_missing(1)
        .window_requests_max(1)
        .batch_records_max(1)
        .partitions_refresh_us(DAY_US);
    builder.build().expect("a topic")
}

fn send(producer: &Producer, text: &str) -> Outcome {
    let receipt = producer.send(Record::new(text.to_owned()));
    receipt.expect("accepted").wait()
}

/// Every change, by this engine and by another one.
fn for_all_changes(run: impl Fn(&str, Change, bool)) {
    for change in Change::ALL {
        for ours in [true, false] {
            let by = if ours { "us" } else { "others" };
            run(&format!("{change:?} by {by}"), change, ours);
        }
    }
}

#[test]
fn a_record_goes_to_the_topic_that_has_its_name() {
    for_all_changes(|what, change, ours| {
        let server = Server::start();
        let engine = server.engine().start();
        let others = server.engine().start();
        let stream = &server.stream("named");
        let (x, y) = (
            producer(&engine, stream, "x"),
            producer(&engine, stream, "y"),
        );
        let mut sent = vec![("x before", send(&x, "x before"), change.old_log())];
        let y_log = match change {
            Change::Swapped => Some("x"),
            Change::StreamRecreated => None,
            _ => Some("y"),
        };
        sent.push(("y before", send(&y, "y before"), y_log));
        assert!(
            sent.iter().all(|(_, outcome, _)| outcome.is_stored()),
            "{what}"
        );
        change.make(&Actor {
            engine: if ours { &engine } else { &others },
            stream,
        });
        // The producers that were there, which have heard of nothing.
        sent.push(("x behind", send(&x, "x behind"), Some("x")));
        sent.push(("y behind", send(&y, "y behind"), Some("y")));
        // Producers of every name, made now.
        for topic in ["x", "y", "w", "z"] {
            match engine
                .producer(stream, topic)
                .window_requests_max(1)
                .build()
            {
                Err(BuildError::TopicMissing { .. }) => {}
                made => {
                    let text = format!("{topic} anew");
                    let outcome = send(&made.expect("a topic"), &text);
                    assert!(outcome.is_stored(), "{what}, {text}: {outcome}");
                    sent.push((topic, outcome, None));
                }
            }
        }
        // And again those that were there.
        sent.push(("x again", send(&x, "x again"), Some("x")));
        let logs = Logs::read(&others, stream);
        for (text, outcome, log) in sent {
            if ["x", "y", "w", "z"].contains(&text) {
                logs.check(what, &format!("{text} anew"), outcome, Some(text));
            } else {
                logs.check(what, text, outcome, log);
            }
            if text == "x behind" || text == "x again" {
                assert_eq!(
                    outcome.is_stored(),
                    change.leaves_x(),
                    "{what}, {text}: {outcome}"
                );
            }
        }
    });
}

/// A row of the table of what is unanswered while its topic changes.
#[derive(Clone, Copy)]
struct Unanswered {
    /// The first record is stored before the change, and its reply lost. Otherwise the request is
    /// lost.
    is_stored: bool,
    /// The engine learns of the change before the connection is made anew.
    is_learned: bool,
}

/// Sends ten records to `x`, of which the first is out and the others wait; changes `x`; ends the
/// connection.
fn change_while_unanswered(what: &str, change: Change, ours: bool, row: Unanswered) {
    let action = if row.is_stored {
        Action::Delay { us: 3_600_000_000 }
    } else {
        Action::Drop
    };
    let script = Script::new().fault(Fault::on(Operation::SendMessages).at(3).action(action));
    let server = Server::faulty(script);
    // Nothing is sent again but after the connection has ended.
    let engine = server.engine().request_timeout_us(DAY_US).start();
    let others = server.engine().start();
    let stream = &server.stream("unanswered");
    let (x, y) = (
        producer(&engine, stream, "x"),
        producer(&engine, stream, "y"),
    );
    assert!(send(&x, "x before").is_stored() && send(&y, "y before").is_stored());
    let texts: Vec<String> = (0..10).map(|number| format!("x {number}")).collect();
    let receipts = texts.iter().map(|text| x.send(Record::new(text.clone())));
    let receipts: Vec<_> = receipts.map(|receipt| receipt.expect("accepted")).collect();
    while server.broker().stats().faults == 0 {
        std::thread::yield_now();
    }
    change.make(&Actor {
        engine: if ours { &engine } else { &others },
        stream,
    });
    if row.is_learned {
        drop(engine.producer(stream, "x").window_requests_max(1).build());
        if change.leaves_x() {
            let waiting = receipts.iter().skip(1).map(|receipt| receipt.wait());
            assert!(
                waiting.into_iter().all(|outcome| outcome == REPLACED),
                "{what}"
            );
        }
    }
    server.broker().act(Act::Restart {
        state: RestartState::Kept,
        down_us: 0,
    });
    let outcomes: Vec<Outcome> = receipts.iter().map(|receipt| receipt.wait()).collect();
    let logs = Logs::read(&others, stream);
    check_first(what, change, row, outcomes[0], &logs);
    for (text, outcome) in texts.iter().zip(&outcomes).skip(1) {
        logs.check(what, text, *outcome, Some("x"));
        // Unless it was told, the engine learns of the change from the first answers, while the
        // others still wait.
        let is_sound = match (change.leaves_x(), row.is_learned) {
            (true, true) => *outcome == REPLACED,
            (true, false) => outcome.is_stored() || *outcome == REPLACED,
            (false, _) => matches!(outcome, Outcome::Rejected { .. }),
        };
        assert!(is_sound, "{what}, {text}: {outcome}");
    }
    // What is accepted from now on is for the topic that has the name now, as soon as the engine
    // has learned of it.
    let mut outcome = send(&x, "x at last");
    while outcome == REPLACED {
        outcome = send(&x, "x at last");
    }
    assert_eq!(outcome.is_stored(), change.leaves_x(), "{what}: {outcome}");
    Logs::read(&others, stream).check(what, "x at last", outcome, Some("x"));
}

/// The record that was out when its topic changed.
fn check_first(what: &str, change: Change, row: Unanswered, outcome: Outcome, logs: &Logs) {
    let old = change.old_log().filter(|_| row.is_stored);
    let found = logs.topics("x 0");
    let what = format!("{what}: {outcome}");
    if !change.leaves_x() {
        // The old transmission may have been stored; the new one was refused.
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{what}");
        assert!(found.iter().copied().eq(old), "{what}");
    } else if row.is_learned {
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{what}");
        assert!(found.iter().copied().eq(old), "{what}");
    } else if change.is_told_by_numbers() {
        // Sent again before the engine could learn: it may be in both, and the answer says no more
        // than is known.
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{what}");
        assert!(
            found.iter().copied().eq(["x"].into_iter().chain(old)),
            "{what}"
        );
    } else {
        logs.check(&what, "x 0", outcome, Some("x"));
        assert!(outcome.is_stored(), "{what}");
    }
}

#[test]
fn what_is_unanswered_when_its_topic_changes_is_not_sent_to_another() {
    for_all_changes(|what, change, ours| {
        for is_stored in [true, false] {
            for is_learned in [true, false] {
                let row = Unanswered {
                    is_stored,
                    is_learned,
                };
                let what = format!("{what}, stored {is_stored}, learned {is_learned}");
                change_while_unanswered(&what, change, ours, row);
            }
        }
    });
}

#[test]
fn a_topic_created_anew_is_noticed_by_its_answers() {
    for change in [Change::Recreated, Change::Renumbered] {
        let server = Server::start();
        let engine = server.engine().start();
        let others = server.engine().start();
        let stream = &server.stream("noticed");
        let x = producer(&engine, stream, "x");
        for text in ["0", "1"] {
            assert!(send(&x, text).is_stored());
        }
        let actor = Actor {
            engine: &others,
            stream,
        };
        change.make(&actor);
        actor.add_partitions("x", 2);
        // The interval is a day: the numbers in the answers, or the offsets, show that it is
        // another log.
        let deadline = Instant::now() + PATIENCE;
        while x.partitions_count() != 3 {
            let outcome = send(&x, "more");
            assert!(outcome.is_stored() || outcome == REPLACED, "{outcome}");
            assert!(Instant::now() < deadline, "{change:?} is not noticed");
        }
    }
}

/// Builds a producer to a topic of its own, sends one record to each of its partitions, and lets it
/// go.
fn use_topic(engine: &Checked, stream: &str, number: u32, partitions: u32) {
    let topic = format!("tenant-{number}");
    let builder = engine.producer(stream, &topic);
    let producer = builder
        .create_if_missing(partitions)
        .build()
        .expect("a new topic");
    let records = (0..partitions).map(|_| Record::new("once"));
    let receipts = producer.send_batch(records).expect("there is a place");
    assert!(
        receipts.iter().all(|receipt| receipt.wait().is_stored()),
        "{topic}"
    );
}

#[test]
fn topics_used_one_after_the_other_take_no_more_places_than_one() {
    let server = Server::start();
    // Shards, connections, places, partitions of each topic.
    for (shards, connections, places, partitions) in
        [(1, 1, 1, 1), (1, 1, 2, 2), (2, 3, 4, 3), (1, 4, 5, 5)]
    {
        let stream = server.stream("tenants");
        let engine = server
            .engine()
            .shards(shards)
            .connections(connections)
            .partitions_max(places)
            .start();
        for number in 0..40 {
            use_topic(&engine, &stream, number, partitions);
        }
    }
}

#[test]
fn a_place_is_held_as_long_as_a_producer_or_a_record_needs_it() {
    let server = Server::start();
    let engine = server.engine().partitions_max(2).start();
    let stream = &server.stream("held");
    let make = |topic: &str| producer(&engine, stream, topic);
    let (a, b, c) = (make("a"), make("b"), make("c"));
    server.broker().act(Act::HoldCommits);
    let try_send = |producer: &Producer| producer.send(Record::new("x"));
    let full = |refused: Result<_, SendError>, why: &str| {
        let error = refused.map(drop).expect_err(why);
        assert_eq!(error, SendError::PartitionsMax { max: 2 }, "{why}");
    };
    let of_a = try_send(&a).expect("one place");
    let of_b = try_send(&b).expect("two places");
    full(try_send(&c), "producers hold both places");
    drop(a);
    full(
        try_send(&c),
        "a record holds a place that no producer holds",
    );
    let a = make("a");
    assert!(!a.flush(Duration::ZERO), "the record is found again");
    server.broker().act(Act::ReleaseCommits);
    assert!(of_a.wait().is_stored() && of_b.wait().is_stored());
    full(try_send(&c), "a producer holds a place without records");
    drop(a);
    let of_c = try_send(&c).expect("neither a producer nor a record needs the place");
    assert!(of_c.wait().is_stored());
    assert!(
        b.send(Record::new("y"))
            .expect("its place")
            .wait()
            .is_stored()
    );
}

#[test]
fn nobody_asks_about_topics_that_nobody_uses() {
    let server = Server::embedded(ringmain_broker::Broker::builder());
    let engine = server.engine().start();
    let stream = &server.stream("unused");
    let producers: Vec<Producer> = (0..20)
        .map(|number| {
            let builder = engine.producer(stream, format!("t{number}"));
            let builder = builder.create_if_missing(1).partitions_refresh_us(1_000);
            builder.build().expect("a new topic")
        })
        .collect();
    let reads = || server.broker().stats().requests(Operation::NonReplicated);
    let ask = || {
        let call = Call::read(
            CommandCode::GET_STREAM.0,
            GetStream {
                stream_id: named(stream),
            }
            .to_vec(),
        );
        engine.call(call, PATIENCE).expect("an answer");
    };
    let before = reads();
    while reads() < before + 100 {
        ask();
    }
    drop(producers);
    // This one is behind all that was asked before the producers went.
    ask();
    let before = reads();
    let until = Instant::now() + Duration::from_millis(100);
    let mut asked = 0;
    while Instant::now() < until {
        ask();
        asked += 1;
    }
    assert_eq!(reads() - before, asked);
}

#[test]
fn every_topic_is_asked_about_again_after_an_outage_and_calls_have_their_places() {
    const TOPICS: usize = 100;
    let server = Server::start();
    let proxy = support::Proxy::start(server.address().parse().expect("an address"), Vec::new());
    let url = format!("iggy://iggy:iggy@{}", proxy.address());
    let engine = server.engine().server(url.as_str()).start();
    let others = server.engine().start();
    let stream = &server.stream("outage");
    let producers: Vec<Producer> = (0..TOPICS)
        .map(|number| {
            let builder = engine.producer(stream, format!("t{number}"));
            let builder = builder.create_if_missing(1).partitions_refresh_us(50_000);
            builder.build().expect("a new topic")
        })
        .collect();
    proxy.set(support::Network::Frozen);
    let call = || {
        Call::read(
            CommandCode::GET_STREAM.0,
            GetStream {
                stream_id: named(stream),
            }
            .to_vec(),
        )
    };
    // All topics are due meanwhile, and one of the application's calls has to have a place whatever
    // they do.
    let error = engine
        .call(call(), Duration::from_millis(300))
        .expect_err("an outage");
    assert!(
        !matches!(error, ringmain::CallError::Busy { .. }),
        "{error}"
    );
    let error = engine
        .call(call(), Duration::from_millis(300))
        .expect_err("an outage");
    assert!(
        !matches!(error, ringmain::CallError::Busy { .. }),
        "{error}"
    );
    proxy.set(support::Network::Up);
    let actor = Actor {
        engine: &others,
        stream,
    };
    for number in 0..TOPICS {
        actor.add_partitions(&format!("t{number}"), 1);
    }
    let deadline = Instant::now() + PATIENCE;
    for producer in &producers {
        while producer.partitions_count() != 2 {
            assert!(
                Instant::now() < deadline,
                "{producer:?} is never asked about"
            );
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_topic_of_many_partitions_needs_places_for_those_in_use() {
    let server = Server::start();
    let engine = server.engine().partitions_max(4).start();
    let stream = &server.stream("wide");
    let actor = Actor {
        engine: &engine,
        stream,
    };
    assert_eq!(engine.create_stream(stream, PATIENCE), Ok(true));
    actor.create("topic", 1000);
    actor.add_partitions("topic", 1000);
    let builder = || engine.producer(stream, "topic");
    for partitioning in [Partitioning::Balanced, Partitioning::Sticky] {
        let error = builder().partitioning(partitioning).build();
        assert!(
            matches!(
                error,
                Err(BuildError::PartitionsMax {
                    count: 2000,
                    max: 4,
                    ..
                })
            ),
            "{error:?}"
        );
    }
    let to = |partition: u32| {
        let builder = builder().partitioning(Partitioning::Partition(partition));
        builder.build().expect("a topic")
    };
    let producers: Vec<Producer> = [1999, 0, 1024, 1998].map(to).into();
    for producer in &producers {
        assert!(send(producer, "x").is_stored());
    }
    let error = to(1)
        .send(Record::new("one too many"))
        .expect_err("four places");
    assert_eq!(error, SendError::PartitionsMax { max: 4 });
    let key = builder().partitioning(Partitioning::Key).build();
    assert!(key.is_ok(), "keys may go to few partitions");
}
