//! The smallest program: one thread, some records, what became of them.
//!
//! `cargo run -p ringmain --example plain_thread [iggy://user:password@host:port]`; without a
//! server it starts the embedded broker.

use std::time::Duration;

use ringmain::{Engine, Partitioning, Record};
use ringmain_broker::Broker;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broker = Broker::builder().start()?;
    let server = std::env::args()
        .nth(1)
        .unwrap_or_else(|| format!("iggy://iggy:iggy@{}", broker.addr()));

    let engine = Engine::builder().server(server).build()?;
    let producer = engine
        .producer("plant", "temperatures")
        .create_if_missing(4)
        .partitioning(Partitioning::Key)
        .build()?;

    // Most records need no attention: their receipts are dropped, the account tells at the end.
    for second in 0..100_000 {
        let sensor = format!("sensor-{}", second % 16);
        let reading = format!("{second}: {} C", 20 + second % 5);
        drop(producer.send(Record::new(reading).key(sensor))?);
    }

    // One that matters is waited for.
    let receipt = producer.send(Record::new("valve closed").key("valve-1"))?;
    println!("the last record is {}", receipt.wait());

    let report = engine.close(Duration::from_secs(10));
    println!("{}", report.account);
    assert!(report.account.all_stored());
    Ok(())
}
