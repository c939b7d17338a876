//! A tokio service: many tasks share one producer, each waits for its own record without holding a
//! thread.
//!
//! `cargo run -p ringmain --example tokio_service [iggy://user:password@host:port]`; without a
//! server it starts the embedded broker. ringmain itself knows nothing of tokio: its futures run on
//! any executor.

use std::time::Duration;

use ringmain::{Engine, Record};
use ringmain_broker::Broker;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broker = Broker::builder().start()?;
    let server = std::env::args()
        .nth(1)
        .unwrap_or_else(|| format!("iggy://iggy:iggy@{}", broker.addr()));

    // Building waits for the login, so it belongs on a thread that may block.
    let (engine, producer) = tokio::task::spawn_blocking(move || {
        let engine = Engine::builder().server(server).build()?;
        let producer = engine
            .producer("shop", "orders")
            .create_if_missing(4)
            .build()?;
        Ok::<_, ringmain::BuildError>((engine, producer))
    })
    .await??;

    let mut tasks = tokio::task::JoinSet::new();
    for customer in 0..100 {
        let producer = producer.clone();
        tasks.spawn(async move {
            let mut stored = 0;
            for order in 0..100 {
                // The first await is for memory, the second for the server's answer.
                let receipt = producer
                    .send_async(Record::new(format!("{customer}/{order}")))
                    .await?;
                if receipt.await.is_stored() {
                    stored += 1;
                }
            }
            Ok::<u32, ringmain::SendError>(stored)
        });
    }
    let mut stored = 0;
    while let Some(task) = tasks.join_next().await {
        stored += task??;
    }
    println!("{stored} orders stored");

    let report = tokio::task::spawn_blocking(move || engine.close(Duration::from_secs(10))).await?;
    println!("{}", report.account);
    assert!(report.account.all_stored());
    Ok(())
}
