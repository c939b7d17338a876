//! The main path on a healthy server: send, receipts, read back, account, close.

mod support;

use ringmain::{Outcome, Record};
use support::{PATIENCE, Server, read_back, unique};

#[test]
fn records_are_stored_in_order_and_read_back_as_sent() {
    let server = Server::start();
    let engine = server.engine().build().expect("a healthy server");
    let stream = unique("basic");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let receipts: Vec<_> = (0..5000_u32)
        .map(|number| {
            producer
                .send(Record::new(number.to_le_bytes().to_vec()))
                .expect("accepted")
        })
        .collect();
    for (number, receipt) in (0..).zip(&receipts) {
        let outcome = receipt.wait_deadline(std::time::Instant::now() + PATIENCE);
        assert_eq!(
            outcome,
            Some(Outcome::Stored {
                partition: 0,
                offset: number
            })
        );
    }
    let records = read_back(&engine, &stream, "topic", 0);
    assert_eq!(records.len(), 5000);
    for (number, record) in (0..5000_u32).zip(&records) {
        assert_eq!(record.payload[..], number.to_le_bytes());
    }
    let report = engine.close(PATIENCE);
    assert!(report.drained, "{report:?}");
    assert_eq!(report.account.stored, 5000);
    assert!(report.account.balances());
}
