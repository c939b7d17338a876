//! Whatever fault the server commits: `send` stops at the first line that is not stored, and the
//! log holds the lines before it, in order and once, and nothing behind it.

use crate::support::{Broker, Ended, Process};

const LINES: usize = 3_000;

/// Lines of 1000 bytes with their number, so that they fill a dozen requests.
fn input() -> Vec<u8> {
    let line = |number| format!("{number:0>999}\n").into_bytes();
    (1..=LINES).flat_map(line).collect()
}

/// The line that the message calls the first one not stored.
fn first_lost(ended: &Ended) -> usize {
    let sentence = ended.err.lines().last().expect("a message");
    let words: Vec<&str> = sentence.split(' ').collect();
    let at = words
        .windows(3)
        .position(|words| words == ["is", "the", "first:"]);
    words[at.expect("it names the line") - 1]
        .parse()
        .expect("a number")
}

/// Runs `send` against a broker with the faults and holds the promise against what a dump shows.
fn promise_holds(script: &str, timeout: &str, codes: &[i32]) {
    let broker = Broker::start_with_script(script);
    let sent = broker.run(&["send", "--create", "--timeout", timeout], &input());
    assert!(
        codes.contains(&sent.code),
        "{script}: {} {}",
        sent.code,
        sent.err
    );
    let dumped = broker.run(&["dump"], b"");
    assert_eq!(dumped.code, 0, "{script}: {}", dumped.err);
    let stored = dumped.out.len() / 1_000;
    let is_prefix = dumped.out == input()[..stored * 1_000];
    assert!(
        is_prefix,
        "{script}: {stored} lines, not the first of the input in order: {}",
        sent.err
    );
    match sent.code {
        0 => assert_eq!(stored, LINES, "{script}"),
        _ if sent.err.contains("may or may not be stored") => {
            assert!(
                stored + 1 >= first_lost(&sent),
                "{script}: {stored} {}",
                sent.err
            );
        }
        _ => assert_eq!(stored + 1, first_lost(&sent), "{script}: {}", sent.err),
    }
}

/// A fault at the third request to send.
fn at_third(action: &str) -> String {
    format!("[[fault]]\nrequest = 'SendMessages'\nat = 3\n{action}\n")
}

#[test]
fn faults_that_a_retry_mends() {
    for action in [
        "action = 'refuse'\ncode = 58",
        "action = 'refuse'\ncode = 57",
        "action = 'commit_and_cut'",
        "action = 'delay'\nus = 300000",
        "action = 'reorder'\nreplies = 1",
        "action = 'pieces'\nbytes = 3",
        "action = 'stall_reading'\nus = 300000",
        "action = 'evict'\nreason = 13",
        "action = 'lose_client_table'",
        "action = 'jump_epoch_back'\nby = 1",
    ] {
        promise_holds(&at_third(action), "60", &[0]);
    }
}

#[test]
fn a_slow_server_is_waited_for_although_the_whole_takes_longer_than_the_timeout() {
    let slow = "[[fault]]\nrequest = 'SendMessages'\ntimes = 0\naction = 'delay'\nus = 200000\n";
    promise_holds(slow, "1", &[0]);
}

#[test]
fn faults_that_leave_it_open_whether_a_record_is_stored() {
    for action in [
        "action = 'lose_windows'",
        "action = 'restart'\nstate = 'kept'\ndown_us = 100000",
    ] {
        promise_holds(&at_third(action), "4", &[0, 1]);
    }
}

#[test]
fn refusals_for_good_and_for_long() {
    for action in [
        "action = 'refuse'\ncode = 41",
        "action = 'refuse'\ncode = 58\ntimes = 0",
        "action = 'refuse'\ncode = 57\ntimes = 0",
        "action = 'reject'\ncode = 41",
    ] {
        promise_holds(&at_third(action), "4", &[1]);
    }
}

#[test]
fn silence_of_every_kind() {
    for action in [
        "action = 'drop'",
        "action = 'drop'\ntimes = 0",
        "action = 'delay'\nus = 60000000",
        "action = 'stall_reading'\nus = 60000000",
    ] {
        promise_holds(&at_third(action), "4", &[0, 1]);
    }
    promise_holds(
        &at_third("every = 2\ntimes = 0\naction = 'drop'"),
        "4",
        &[0, 1],
    );
}

#[test]
fn a_lost_line_is_noticed_while_the_input_is_silent() {
    let broker = Broker::start_with_script(
        "[[fault]]\nrequest = 'SendMessages'\nat = 2\ntimes = 0\naction = 'refuse'\ncode = 58\n",
    );
    let mut send = Process::start(&mut broker.command(&["send", "--create", "--timeout", "2"]));
    send.write(b"a\n");
    broker.wait_for(b"a\n");
    send.write(b"b\n");
    // The input stays open, and nothing more comes.
    let ended = send.ended_with_input_open();
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert_eq!(first_lost(&ended), 2);
    assert_eq!(broker.run(&["dump"], b"").out, b"a\n");
}

#[test]
fn nothing_more_is_read_after_a_lost_line() {
    let broker = Broker::start_with_script(
        "[[fault]]\nrequest = 'SendMessages'\nat = 1\naction = 'refuse'\ncode = 41\n",
    );
    for arguments in [
        &["send", "--create", "--partitions", "4"][..],
        &["send", "--ordering", "pipelined"],
    ] {
        let mut send = Process::start(&mut broker.command(arguments));
        send.write(b"first\n");
        let mut ended = None;
        if arguments.contains(&"--create") {
            ended = Some(send.ended_with_input_open());
        } else {
            // The fault was committed: this run goes well, and ends with its input.
            assert_eq!(send.ended().code, 0);
        }
        if let Some(ended) = ended {
            assert_eq!(ended.code, 1, "{}", ended.err);
            assert_eq!(first_lost(&ended), 1);
        }
    }
}
