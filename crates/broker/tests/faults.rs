//! Faults that only sockets can show: cuts, pieces, stalls, restarts. On both kernel interfaces.

mod support;

use std::io::Write;
use std::time::{Duration, Instant};

use ringmain_broker::{Act, Action, Broker, Driver, Fault, RestartState, Script, StartError};
use ringmain_wire::header::RequestHeader;
use ringmain_wire::operation::{CommandCode, Operation};
use support::{Client, send_body};

/// Runs a test on epoll, and on io_uring where the kernel has it.
fn on_both(test: impl Fn(Broker), script: &Script) {
    for driver in [Driver::Epoll, Driver::IoUring] {
        match Broker::builder()
            .driver(driver)
            .script(script.clone())
            .start()
        {
            Ok(broker) => test(broker),
            Err(StartError::Ring { source, .. }) => {
                println!("skipped: no {driver:?} here: {source}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn client_with_topic(broker: &Broker) -> Client {
    let mut client = Client::login(broker.addr(), 7);
    assert_eq!(client.create_stream("s").result(), 0);
    assert_eq!(client.create_topic("s", "t", 1).result(), 0);
    client
}

/// Sends `count` requests in one write, each with one record of `bytes` bytes.
fn write_burst(client: &mut Client, count: u64, bytes: usize) -> Vec<u64> {
    let body = send_body("s", "t", 0, &[&vec![7; bytes]]);
    let mut burst = Vec::new();
    let mut requests = Vec::new();
    for _ in 0..count {
        let request = client.next_request();
        let operation = Operation::SendMessages;
        let header =
            RequestHeader::partition(operation, client.id, client.session, request, body.len());
        burst.extend_from_slice(header.expect("a header").as_bytes());
        burst.extend_from_slice(&body);
        requests.push(request);
    }
    // A broker that cuts the connection takes only a part of it.
    let _ = client.socket.write_all(&burst);
    requests
}

#[test]
fn a_cut_delivers_what_was_answered_before_it_although_more_was_sent() {
    let script = Script::new().fault(
        Fault::on(Operation::SendMessages)
            .at(3)
            .action(Action::CommitAndCut),
    );
    let test = |broker: Broker| {
        let mut client = client_with_topic(&broker);
        let requests = write_burst(&mut client, 50, 2_000);
        let answered: Vec<_> = std::iter::from_fn(|| client.try_read())
            .map(|answer| answer.reply().request())
            .collect();
        assert_eq!(answered, requests[..2]);
        assert_eq!(
            broker.stats().records,
            3,
            "the third is stored, its reply is lost"
        );
        let mut client = Client::login(broker.addr(), 7);
        client.request = requests[2] - 1;
        assert_eq!(
            client.send(&send_body("s", "t", 0, &[b"again"])).body(),
            b"",
            "the retry is a duplicate"
        );
    };
    on_both(test, &script);
}

#[test]
fn a_reply_in_pieces_arrives_whole() {
    let fault = Fault::on(Operation::SendMessages)
        .times(0)
        .action(Action::Pieces { bytes: 7 });
    let test = |broker: Broker| {
        let mut client = client_with_topic(&broker);
        let requests = write_burst(&mut client, 20, 10);
        let answered: Vec<_> = requests
            .iter()
            .map(|_| client.read().reply().request())
            .collect();
        assert_eq!(answered, requests);
    };
    on_both(test, &Script::new().fault(fault));
}

#[test]
fn a_stalled_reader_takes_nothing_until_its_time_is_up_and_then_everything() {
    let stall = Duration::from_millis(150);
    let us = stall.as_micros() as u64;
    let script =
        Script::new().fault(Fault::on_code(CommandCode::PING).action(Action::StallReading { us }));
    let test = |broker: Broker| {
        let mut client = client_with_topic(&broker);
        let started = Instant::now();
        client.assert_silence();
        let requests = write_burst(&mut client, 5, 10);
        let mut other = Client::login(broker.addr(), 8);
        other.assert_silence();
        assert_eq!(client.read().reply().request(), requests[0]);
        assert!(
            started.elapsed() >= stall,
            "the first send was read before its time"
        );
        for request in &requests[1..] {
            assert_eq!(client.read().reply().request(), *request);
        }
    };
    on_both(test, &script);
}

#[test]
fn a_restart_closes_every_connection_and_a_client_can_resume() {
    let test = |broker: Broker| {
        let mut client = client_with_topic(&broker);
        let mut other = Client::login(broker.addr(), 8);
        client.send(&send_body("s", "t", 0, &[b"a"]));
        broker.act(Act::Restart {
            state: RestartState::Kept,
            down_us: 0,
        });
        assert!(client.try_read().is_none());
        assert!(other.try_read().is_none());
        let mut again = Client::login(broker.addr(), 7);
        assert!(again.session > client.session);
        again.request = client.request;
        assert_eq!(
            again.send(&send_body("s", "t", 0, &[b"b"])).confirmation(),
            (0, 0, 0, 1)
        );
        broker.act(Act::Restart {
            state: RestartState::Lost,
            down_us: 0,
        });
        let mut again = Client::login(broker.addr(), 7);
        assert_eq!(again.send(&send_body("s", "t", 0, &[b"c"])).status(), 20);
    };
    on_both(test, &Script::new());
}

#[test]
fn commits_that_are_held_and_released_by_the_handle_answer_in_order() {
    let test = |broker: Broker| {
        let mut client = client_with_topic(&broker);
        broker.act(Act::HoldCommits);
        let requests = write_burst(&mut client, 97, 10);
        client.assert_silence();
        assert_eq!(broker.stats().sends_dropped, 1);
        broker.act(Act::ReleaseCommits);
        let answered: Vec<_> = (0..96).map(|_| client.read().reply().request()).collect();
        assert_eq!(answered, requests[..96]);
        client.assert_silence();
    };
    on_both(test, &Script::new());
}

#[test]
fn a_fault_injected_at_run_time_counts_from_then_on() {
    let test = |broker: Broker| {
        let mut client = client_with_topic(&broker);
        let body = send_body("s", "t", 0, &[b"a"]);
        assert_eq!(client.send(&body).status(), 0);
        broker.inject(
            Fault::on(Operation::SendMessages)
                .at(2)
                .action(Action::Drop),
        );
        assert_eq!(client.send(&body).status(), 0);
        let request = client.next_request();
        client.write_messages(request, &body);
        client.assert_silence();
        assert_eq!(broker.stats().faults, 1);
    };
    on_both(test, &Script::new());
}
