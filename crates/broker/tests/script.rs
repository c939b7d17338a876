//! Every action of a script file, from its TOML to what a client sees on its socket.

mod support;

use std::time::{Duration, Instant};

use ringmain_broker::{Broker, Script};
use ringmain_wire::operation::{CommandCode, Operation};
use support::{Answer, Client, poll_body, polled, send_body};

fn start(script: &str) -> Broker {
    let script = Script::from_toml(script).expect("a script");
    Broker::builder().script(script).start().expect("a broker")
}

/// A script of one fault that counts sends.
fn on_sends(rest: &str) -> Broker {
    start(&format!("[[fault]]\nrequest = \"SendMessages\"\n{rest}"))
}

fn client_with_topic(broker: &Broker) -> Client {
    let mut client = Client::login(broker.addr(), 7);
    assert_eq!(client.create_stream("s").result(), 0);
    assert_eq!(client.create_topic("s", "t", 1).result(), 0);
    client
}

fn body() -> Vec<u8> {
    send_body("s", "t", 0, &[b"a"])
}

/// Sends under the next `count` numbers without reading a reply.
fn write(client: &mut Client, count: u64) -> Vec<u64> {
    let number = |_| {
        let request = client.next_request();
        client.write_messages(request, &body());
        request
    };
    (0..count).map(number).collect()
}

fn read(client: &mut Client, count: usize) -> Vec<u64> {
    let request = |_| client.read().reply().request();
    (0..count).map(request).collect()
}

#[test]
fn the_kth_send_is_refused_with_58_or_57_and_its_retry_is_stored() {
    for code in [58, 57] {
        let broker = on_sends(&format!("at = 2\naction = \"refuse\"\ncode = {code}"));
        let mut client = client_with_topic(&broker);
        assert_eq!(client.send(&body()).confirmation(), (0, 0, 0, 0));
        let refused = client.send(&body());
        assert_eq!((refused.status(), refused.body()), (code, &[][..]));
        client.write_messages(client.request, &body());
        assert_eq!(client.read().confirmation(), (0, 0, 0, 1));
        assert_eq!((broker.stats().records, broker.stats().faults), (2, 1));
    }
}

#[test]
fn a_metadata_operation_is_rejected_in_its_result_section() {
    let broker = start("[[fault]]\nrequest = \"CreateStream\"\naction = \"reject\"\ncode = 57");
    let mut client = Client::login(broker.addr(), 7);
    let rejected = client.create_stream("s");
    assert_eq!((rejected.status(), rejected.result()), (0, 57));
    let body = support::name_bytes("s");
    let again = client.metadata_at(Operation::CreateStream, client.request, &body);
    assert_eq!(again.result(), 0, "the same number may be sent again");
}

#[test]
fn every_third_send_is_dropped_without_a_word() {
    let broker = on_sends("at = 3\nevery = 3\ntimes = 0\naction = \"drop\"");
    let mut client = client_with_topic(&broker);
    let requests = write(&mut client, 7);
    let answered = [0, 1, 3, 4, 6].map(|index| requests[index]);
    assert_eq!(read(&mut client, 5), answered);
    client.assert_silence();
    assert_eq!(broker.stats().records, 5);
}

#[test]
fn a_send_is_stored_and_the_connection_cut_before_its_reply() {
    let broker = on_sends("at = 2\naction = \"commit_and_cut\"");
    let mut client = client_with_topic(&broker);
    let requests = write(&mut client, 2);
    assert_eq!(read(&mut client, 1), requests[..1]);
    assert!(client.try_read().is_none());
    assert_eq!(broker.stats().records, 2);
}

#[test]
fn a_reply_is_overtaken_by_others() {
    let broker = on_sends("action = \"reorder\"\nreplies = 2");
    let mut client = client_with_topic(&broker);
    let requests = write(&mut client, 4);
    let order = [1, 2, 0, 3].map(|index| requests[index]);
    assert_eq!(read(&mut client, 4), order);
}

#[test]
fn a_reply_is_held_back_for_its_time_and_the_others_are_not() {
    let broker = on_sends("action = \"delay\"\nus = 100000");
    let mut client = client_with_topic(&broker);
    let started = Instant::now();
    let requests = write(&mut client, 2);
    assert_eq!(read(&mut client, 2), [requests[1], requests[0]]);
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_reply_comes_in_pieces_of_one_byte() {
    let broker = on_sends("times = 0\naction = \"pieces\"\nbytes = 1");
    let mut client = client_with_topic(&broker);
    let requests = write(&mut client, 3);
    assert_eq!(read(&mut client, 3), requests);
}

#[test]
fn reading_stalls_for_its_time() {
    let broker = on_sends("action = \"stall_reading\"\nus = 100000");
    let mut client = client_with_topic(&broker);
    let started = Instant::now();
    let requests = write(&mut client, 1);
    assert_eq!(read(&mut client, 1), requests);
    client.assert_silence();
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_client_is_evicted_with_any_reason() {
    for reason in 1..=15 {
        let broker = on_sends(&format!("action = \"evict\"\nreason = {reason}"));
        let mut client = client_with_topic(&broker);
        assert_eq!(client.send(&body()).eviction(), reason);
        assert_eq!(
            client.send(&body()).eviction(),
            1,
            "after it there is no session"
        );
        let mut again = Client::login(broker.addr(), 7);
        again.request = client.request;
        assert_eq!(again.send(&body()).confirmation(), (0, 0, 0, 0));
    }
}

#[test]
fn a_restart_keeps_its_state_or_loses_it() {
    for (state, status) in [("kept", 0), ("lost", 20)] {
        let broker = on_sends(&format!(
            "at = 2\naction = \"restart\"\nstate = \"{state}\""
        ));
        let mut client = client_with_topic(&broker);
        client.send(&body());
        write(&mut client, 1);
        assert!(client.try_read().is_none(), "every connection is closed");
        let mut again = Client::login(broker.addr(), 7);
        assert_eq!(again.session > client.session, state == "kept");
        again.request = client.request;
        assert_eq!(again.send(&body()).status(), status);
    }
}

#[test]
fn a_broker_that_is_down_takes_connections_again_after_its_time() {
    let broker = on_sends("action = \"restart\"\nstate = \"kept\"\ndown_us = 50000");
    let mut client = client_with_topic(&broker);
    let started = Instant::now();
    write(&mut client, 1);
    assert!(client.try_read().is_none());
    let mut refused = 0;
    loop {
        let mut again = Client::connect(broker.addr(), 7);
        let ended = again.try_register("iggy", "iggy").is_none();
        if !ended {
            break;
        }
        refused += 1;
    }
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!(broker.stats().connections_refused, refused);
}

#[test]
fn a_lost_client_table_evicts_at_the_next_metadata_operation() {
    let broker = on_sends("action = \"lose_client_table\"");
    let mut client = client_with_topic(&broker);
    assert_eq!(client.send(&body()).status(), 0, "sends need no table");
    assert_eq!(client.create_stream("x").eviction(), 1);
}

#[test]
fn a_lost_window_stores_a_retry_again() {
    let broker = on_sends("at = 2\naction = \"lose_windows\"");
    let mut client = client_with_topic(&broker);
    assert_eq!(client.send(&body()).confirmation(), (0, 0, 0, 0));
    assert_eq!(client.send(&body()).confirmation(), (0, 0, 0, 1));
    client.write_messages(client.request - 1, &body());
    assert_eq!(client.read().confirmation(), (0, 0, 0, 2));
}

#[test]
fn epochs_jump_back() {
    let broker = on_sends("action = \"jump_epoch_back\"\nby = 3");
    let mut client = client_with_topic(&broker);
    assert_eq!(client.send(&body()).status(), 0);
    let again = Client::login(broker.addr(), 7);
    assert!(
        again.session <= client.session,
        "{} after {}",
        again.session,
        client.session
    );
}

#[test]
fn commits_wait_until_another_fault_releases_them() {
    let broker = start(
        "[[fault]]\nrequest = \"SendMessages\"\nat = 2\naction = \"hold_commits\"\n\
         [[fault]]\nrequest = \"GetMe\"\naction = \"release_commits\"",
    );
    let mut client = client_with_topic(&broker);
    let requests = write(&mut client, 3);
    assert_eq!(read(&mut client, 1), requests[..1]);
    client.assert_silence();
    let mut other = Client::login(broker.addr(), 8);
    assert_eq!(other.ask(CommandCode::GET_ME, &[]).status(), 0);
    assert_eq!(read(&mut client, 2), requests[1..]);
}

#[test]
fn the_same_script_and_bytes_give_the_same_answers_over_sockets() {
    let script = "[[fault]]\nrequest = \"SendMessages\"\nat = 2\nevery = 3\ntimes = 0\naction = \"reorder\"\nreplies = 1\n\
         [[fault]]\nrequest = \"SendMessages\"\nat = 3\nevery = 4\ntimes = 2\naction = \"drop\"\n\
         [[fault]]\nrequest = \"SendMessages\"\nat = 19\naction = \"commit_and_cut\"";
    let run = || {
        let broker = start(script);
        let mut client = client_with_topic(&broker);
        write(&mut client, 19);
        let answers: Vec<_> = std::iter::from_fn(|| client.try_read())
            .map(without_time)
            .collect();
        (answers, broker.stats().records)
    };
    let first = run();
    assert!(first.0.len() > 10);
    for _ in 0..5 {
        assert_eq!(run(), first);
    }
}

/// The server's timestamp is the one field that two runs do not share.
fn without_time(answer: Answer) -> Vec<u8> {
    let mut bytes = answer.bytes;
    bytes[192..200].fill(0);
    bytes
}

#[test]
fn a_client_that_never_reads_holds_up_only_itself() {
    const POLLS: u64 = 120;
    let broker = Broker::builder().start().expect("a broker");
    let mut client = client_with_topic(&broker);
    let large = vec![7; 1 << 20];
    client.send(&send_body("s", "t", 0, &[&large]));
    let poll = poll_body("s", "t", 0, (1, 0), 1);
    for _ in 0..POLLS {
        client.write_read(CommandCode::POLL_MESSAGES, &poll);
    }
    let mut other = Client::login(broker.addr(), 8);
    other.assert_silence();
    let replies = broker.stats().replies_out;
    assert!(
        replies < POLLS / 2,
        "{replies} replies of 1 MB wait for a client that does not read"
    );
    for _ in 0..POLLS {
        assert_eq!(polled(&client.read()).1.len(), 1);
    }
}
