//! `send`, then `dump`: what comes back is what was sent, byte for byte.

use std::collections::HashMap;
use std::fs;
use std::io::Read;

use crate::support::{Broker, Ended, Process, ringmain, run};

fn sent(ended: &Ended, records: usize) {
    assert_eq!(ended.code, 0, "{}", ended.err);
    let out = String::from_utf8_lossy(&ended.out);
    let account = format!("accepted {records} = stored {records} +");
    assert!(out.contains(&account), "{out}");
}

/// Lines of `partition<TAB>offset<TAB>payload`, taken apart.
fn with_offsets(dumped: &Ended) -> Vec<(u32, u64, String)> {
    assert_eq!(dumped.code, 0, "{}", dumped.err);
    let text = String::from_utf8(dumped.out.clone()).expect("UTF-8");
    let fields = text.lines().map(|line| {
        let mut fields = line.splitn(3, '\t');
        let mut next = || fields.next().expect("three fields");
        let partition = next().parse().expect("a partition");
        let offset = next().parse().expect("an offset");
        (partition, offset, next().to_owned())
    });
    fields.collect()
}

#[test]
fn lines_of_every_kind_come_back_byte_for_byte() {
    let mut input = b"first\n\n\n\0\n\0\0a\0\n\xff\xfe not UTF-8\nends in CR\r\n".to_vec();
    // Larger than the copy threshold, than a block of input, and than a request of copied records.
    for bytes in [33_000, 300_000, 5_000_000] {
        input.extend((0..bytes).map(|index: u32| (index % 251) as u8 | 0x80));
        input.push(b'\n');
    }
    input.extend_from_slice(b"last, without a newline");
    let records = input.split(|&byte| byte == b'\n').count();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("input");
    fs::write(&file, &input).expect("a file");
    let broker = Broker::start();

    let ended = broker.run(&["send", "--create", file.to_str().expect("UTF-8")], b"");
    sent(&ended, records);
    let exact = broker.run(&["dump", "--no-final-newline"], b"");
    assert_eq!(exact.code, 0, "{}", exact.err);
    assert!(exact.out == input, "{} bytes back", exact.out.len());
    let ended = broker.run(&["dump"], b"");
    input.push(b'\n');
    assert!(ended.out == input, "{} bytes back", ended.out.len());
}

#[test]
fn standard_input_is_read_to_its_end_and_appended() {
    let broker = Broker::start();
    let input: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    sent(&broker.run(&["send", "--create"], input.as_bytes()), 20_000);
    sent(&broker.run(&["send", "-"], input.as_bytes()), 20_000);
    let dumped = broker.run(&["dump"], b"");
    assert!(dumped.out == input.repeat(2).as_bytes());
    assert!(dumped.err.contains("40000 records"), "{}", dumped.err);
}

#[test]
fn an_empty_input_stores_nothing() {
    let broker = Broker::start();
    sent(&broker.run(&["send", "--create"], b""), 0);
    let dumped = broker.run(&["dump"], b"");
    assert_eq!((dumped.code, dumped.out), (0, vec![]));
}

#[test]
fn lines_of_one_key_stay_together_and_in_order() {
    let broker = Broker::start();
    let input: String = (0..1_000)
        .map(|line| format!("{line},key-{},x\n", line % 10))
        .collect();
    let arguments = [
        "send",
        "--create",
        "--partitions",
        "4",
        "--key-field",
        "2",
        "--key-delimiter",
        ",",
    ];
    sent(&broker.run(&arguments, input.as_bytes()), 1_000);

    let mut of_key: HashMap<String, (u32, Vec<u32>)> = HashMap::new();
    for (partition, _, line) in with_offsets(&broker.run(&["dump", "--offsets"], b"")) {
        let fields: Vec<&str> = line.split(',').collect();
        let seen = of_key
            .entry(fields[1].to_owned())
            .or_insert((partition, vec![]));
        assert_eq!(seen.0, partition, "{} is in two partitions", fields[1]);
        seen.1.push(fields[0].parse().expect("a number"));
    }
    assert_eq!(of_key.len(), 10);
    let mut partitions: Vec<u32> = of_key.values().map(|(partition, _)| *partition).collect();
    partitions.sort_unstable();
    partitions.dedup();
    assert!(partitions.len() > 1, "ten keys share one partition of four");
    for (key, (_, lines)) in of_key {
        assert_eq!(lines.len(), 100, "{key}");
        assert!(lines.is_sorted(), "{key}");
    }
}

#[test]
fn one_partition_takes_everything_when_asked_to() {
    let broker = Broker::start();
    let arguments = ["send", "--create", "--partitions", "3", "--partition", "2"];
    sent(&broker.run(&arguments, b"a\nb\n"), 2);
    let dumped = with_offsets(&broker.run(&["dump", "--offsets"], b""));
    let wanted = [(2, 0, "a".to_owned()), (2, 1, "b".to_owned())];
    assert_eq!(dumped, wanted);
    let empty = broker.run(&["dump", "--partition", "0"], b"");
    assert_eq!((empty.code, empty.out), (0, vec![]));
    let full = broker.run(&["dump", "--partition", "2"], b"");
    assert_eq!((full.code, full.out), (0, b"a\nb\n".to_vec()));
}

#[test]
fn without_a_server_the_embedded_broker_is_used_and_named() {
    let ended = run(
        ringmain(&["send", "--stream", "s", "--topic", "t"]),
        b"a\nb\n",
    );
    sent(&ended, 2);
    assert!(ended.err.contains("embedded broker"), "{}", ended.err);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let broker = Broker::start();
    let input = "x".repeat(99).repeat(30_000).into_bytes();
    let lines: Vec<u8> = input
        .chunks(99)
        .flat_map(|line| [line, b"\n"].concat())
        .collect();
    sent(&broker.run(&["send", "--create"], &lines), 30_000);
    let mut dump = Process::start(&mut broker.command(&["dump"]));
    let mut out = dump.take_out();
    out.read_exact(&mut [0; 10]).expect("the first bytes");
    drop(out);
    let ended = dump.ended();
    assert_eq!((ended.code, ended.said().as_str()), (0, ""));
}

#[test]
fn a_gone_reader_does_not_hide_lost_records() {
    let broker =
        Broker::start_with_fault("request = 'SendMessages'\naction = 'refuse'\ncode = 41\n");
    let mut send = Process::start(&mut broker.command(&["send", "--create"]));
    drop(send.take_out());
    send.write(b"a\n");
    assert_eq!(send.ended().code, 1);
}

#[test]
fn a_log_that_begins_above_0_is_said_to() {
    let broker = Broker::start_with(&["--memory-bytes", "2000000"]);
    let lines: Vec<u8> = (0..6_000)
        .flat_map(|line| format!("{line:0>999}\n").into_bytes())
        .collect();
    sent(&broker.run(&["send", "--create"], &lines), 6_000);
    let dumped = broker.run(&["dump"], b"");
    assert_eq!(dumped.code, 0, "{}", dumped.err);
    assert!(dumped.out.len() < lines.len(), "the oldest are forgotten");
    let first = 6_000 - dumped.out.len() / 1_000;
    let told =
        format!("partition 0 begins at offset {first}; its older records are no longer there");
    assert!(dumped.err.contains(&told), "{}", dumped.err);

    let whole = Broker::start();
    sent(&whole.run(&["send", "--create"], b"a\nb\n"), 2);
    let dumped = whole.run(&["dump"], b"");
    assert_eq!(dumped.said(), "ringmain: 2 records\n");
}
