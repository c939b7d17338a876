//! Start, use, stop: on both kernel interfaces.

mod support;

use std::io::Write;

use ringmain_broker::{Broker, Driver, StartError};
use ringmain_wire::header::RequestHeader;
use ringmain_wire::operation::{CommandCode, Operation};
use support::{Client, poll_body, polled, send_body};

fn send_and_poll(driver: Driver) {
    let broker = Broker::builder().driver(driver).start().expect("a broker");
    assert_eq!(broker.driver(), driver);
    let mut client = Client::login(broker.addr(), 7);
    assert_eq!(client.create_stream("s").result(), 0);
    assert_eq!(client.create_topic("s", "t", 2).result(), 0);
    let answer = client.send(&send_body("s", "t", 1, &[b"one", b"", b"three"]));
    assert_eq!(answer.confirmation(), (0, 0, 1, 0));
    let large = vec![7; 3 << 20];
    let answer = client.send(&send_body("s", "t", 1, &[&large]));
    assert_eq!(answer.confirmation(), (0, 0, 1, 3));
    let answer = client.ask(
        CommandCode::POLL_MESSAGES,
        &poll_body("s", "t", 1, (1, 1), 10),
    );
    let (current, messages) = polled(&answer);
    assert_eq!(current, 3);
    assert_eq!(messages, [(1, vec![]), (2, b"three".to_vec()), (3, large)]);
    let stats = broker.stats();
    assert_eq!(
        (stats.records, stats.batches, stats.connections_open),
        (4, 2, 1)
    );
    assert_eq!(stats.requests(Operation::SendMessages), 2);
    drop(broker);
    assert!(
        client.try_read().is_none(),
        "dropping the broker closes its connections"
    );
}

#[test]
fn epoll_carries_sends_and_polls() {
    send_and_poll(Driver::Epoll);
}

#[test]
fn io_uring_carries_sends_and_polls() {
    match Broker::builder().driver(Driver::IoUring).start() {
        Ok(_) => send_and_poll(Driver::IoUring),
        Err(StartError::Ring { source, .. }) => println!("skipped: no io_uring here: {source}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_address_that_is_taken_is_named_in_the_error() {
    let broker = Broker::builder().start().expect("a broker");
    let taken = broker.addr().to_string();
    let error = Broker::builder()
        .listen(&taken)
        .start()
        .expect_err("the address is taken");
    assert!(error.to_string().contains(&taken), "{error}");
}

#[test]
fn a_sink_answers_and_keeps_nothing() {
    let broker = Broker::builder().sink(true).start().expect("a broker");
    let mut client = Client::login(broker.addr(), 7);
    assert_eq!(client.create_stream("s").result(), 0);
    assert_eq!(client.create_topic("s", "t", 1).result(), 0);
    let large = vec![7; 3 << 20];
    let answer = client.send(&send_body("s", "t", 0, &[&large, b"two"]));
    assert_eq!(answer.confirmation(), (0, 0, 0, 0));
    let answer = client.send(&send_body("s", "t", 0, &[b"three"]));
    assert_eq!(answer.confirmation(), (0, 0, 0, 2));
    let body = poll_body("s", "t", 0, (1, 0), 10);
    let polled = polled(&client.ask(CommandCode::POLL_MESSAGES, &body));
    assert_eq!(polled.1, []);
    let stats = broker.stats();
    assert_eq!(
        (stats.records, stats.batches, stats.record_bytes),
        (3, 2, 0)
    );
}

#[test]
fn a_frame_that_has_not_fully_arrived_holds_so_much_memory_and_no_more() {
    let broker = Broker::builder()
        .inbound_bytes_max(1 << 20)
        .start()
        .expect("a broker");
    // Writes the first bytes of a frame of 6 MiB.
    let begin = |id, bytes: usize| {
        let mut client = Client::login(broker.addr(), id);
        let operation = Operation::SendMessages;
        let header = RequestHeader::partition(operation, id, client.session, 1, 6 << 20);
        let frame = [header.expect("a header").as_bytes(), &vec![0; bytes][..]].concat();
        // The broker may close before it has read everything.
        let _ = client.socket.write_all(&frame);
        client
    };
    let modest = begin(7, 100_000);
    let mut greedy = begin(8, 5 << 20);
    assert!(greedy.try_read().is_none(), "it is closed");
    let mut witness = Client::login(broker.addr(), 9);
    witness.assert_silence();
    let stats = broker.stats();
    assert_eq!((stats.inbound_overflows, stats.connections_closed), (1, 1));
    drop(modest);
}
