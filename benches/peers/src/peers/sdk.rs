//! The official SDK, `iggy` 0.11.0, through its high-level producer.
//!
//! The producer names the partition and creates nothing, so that no request of a measured stretch
//! asks for metadata. A background producer can be flushed only by shutting it down: the warm-up
//! has a producer of its own, on the same client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;
use iggy::clients::producer_error_callback::{ErrorCallback, ErrorCtx};
use iggy::prelude::{
    BackgroundConfig, BalancedSharding, Client, DirectConfig, IggyByteSize, IggyClient,
    IggyDuration, IggyMessage, IggyProducer, OrderedSharding, Partitioning, Sharding,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::machine;
use crate::measure::{Deadline, Stretch};
use crate::payloads::Payloads;
use crate::spec::{
    Load, Order, Report, STREAM, SdkBackgroundSetup, SdkClientSetup, SdkDirectSetup, Shape, TOPIC,
};

const PEER: &str = "iggy";

/// How a producer sends.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Direct(SdkDirectSetup),
    Background(SdkBackgroundSetup),
}

pub(crate) fn run_direct(order: &Order, setup: SdkDirectSetup) -> Result<Report, Failure> {
    run(order, setup.client, Mode::Direct(setup))
}

pub(crate) fn run_background(order: &Order, setup: SdkBackgroundSetup) -> Result<Report, Failure> {
    run(order, setup.client, Mode::Background(setup))
}

fn run(order: &Order, client: SdkClientSetup, mode: Mode) -> Result<Report, Failure> {
    let rss_idle_bytes = machine::rss_bytes();
    let runtime = runtime(client.current_thread)?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..client.clients {
            clients.push(Arc::new(connect(order, client.nodelay).await?));
        }
        let warm = send(&clients, order.load, mode, order.warm_seconds).await?;
        let mut stretch = Stretch::begin(rss_idle_bytes);
        let sent = send(&clients, order.load, mode, order.seconds).await?;
        stretch.add_round_trips(&sent.round_trips);
        let payload_bytes = sent.records * order.load.record_bytes as u64;
        Ok(stretch.end(sent.records, warm.records, payload_bytes))
    })
}

fn runtime(current_thread: bool) -> Result<Runtime, Failure> {
    let mut builder = if current_thread {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    builder
        .enable_all()
        .build()
        .map_err(Failure::io("building the SDK's runtime"))
}

async fn connect(order: &Order, nodelay: bool) -> Result<IggyClient, Failure> {
    let url = format!("iggy://iggy:iggy@{}?nodelay={nodelay}", order.addr);
    let client = IggyClient::from_connection_string(&url).map_err(Failure::peer(PEER))?;
    client.connect().await.map_err(Failure::peer(PEER))?;
    Ok(client)
}

/// What one stretch sent: records confirmed.
struct Sent {
    records: u64,
    round_trips: Histogram<u64>,
}

/// Sends with every client at once, and returns when everything is confirmed.
async fn send(
    clients: &[Arc<IggyClient>],
    load: Load,
    mode: Mode,
    seconds: f64,
) -> Result<Sent, Failure> {
    // With one client the loop runs where an application's `main` does.
    if let [client] = clients {
        return send_one(client, load, mode, seconds).await;
    }
    let mut tasks = JoinSet::new();
    for client in clients {
        let client = Arc::clone(client);
        tasks.spawn(async move { send_one(&client, load, mode, seconds).await });
    }
    let mut all: Option<Sent> = None;
    while let Some(sent) = tasks.join_next().await {
        let sent = sent.map_err(Failure::peer(PEER))??;
        all = Some(match all {
            None => sent,
            Some(mut all) => {
                all.records += sent.records;
                all.round_trips
                    .add(&sent.round_trips)
                    .map_err(Failure::peer(PEER))?;
                all
            }
        });
    }
    all.ok_or_else(|| Failure::Peer {
        peer: PEER,
        why: "no client".to_owned(),
    })
}

async fn send_one(
    client: &IggyClient,
    load: Load,
    mode: Mode,
    seconds: f64,
) -> Result<Sent, Failure> {
    let failed = Arc::new(AtomicU64::new(0));
    let producer = producer(client, mode, &failed)?;
    producer.init().await.map_err(Failure::peer(PEER))?;
    let mut sent = Sent {
        records: 0,
        round_trips: Histogram::new_with_bounds(1, 60_000_000_000, 3)
            .expect("bounds in the order that is wanted"),
    };
    let mut payloads = Payloads::new(load.record_bytes);
    match load.shape {
        Shape::OneByOne | Shape::Mixed { .. } => {
            let mut deadline = Deadline::within(seconds);
            while !deadline.is_over_after(1) {
                let message = message(&mut payloads)?;
                producer
                    .send_one(message)
                    .await
                    .map_err(Failure::peer(PEER))?;
                sent.records += 1;
            }
        }
        Shape::Batches(records) => {
            let mut deadline = Deadline::within(seconds);
            while !deadline.is_over_after(records) {
                let batch = (0..records)
                    .map(|_| message(&mut payloads))
                    .collect::<Result<_, _>>()?;
                producer.send(batch).await.map_err(Failure::peer(PEER))?;
                sent.records += u64::from(records);
            }
        }
        Shape::RoundTrip => {
            let deadline = Deadline::within(seconds);
            while !deadline.is_over() {
                let message = message(&mut payloads)?;
                let started = Instant::now();
                producer
                    .send_one(message)
                    .await
                    .map_err(Failure::peer(PEER))?;
                let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                sent.round_trips.saturating_record(took);
                sent.records += 1;
            }
        }
    }
    producer.shutdown().await;
    match failed.load(Ordering::Relaxed) {
        0 => Ok(sent),
        failed => Err(Failure::Peer {
            peer: PEER,
            why: format!("{failed} messages failed in the background"),
        }),
    }
}

fn message(payloads: &mut Payloads) -> Result<IggyMessage, Failure> {
    IggyMessage::builder()
        .payload(payloads.take())
        .build()
        .map_err(Failure::peer(PEER))
}

fn producer(
    client: &IggyClient,
    mode: Mode,
    failed: &Arc<AtomicU64>,
) -> Result<IggyProducer, Failure> {
    let builder = client
        .producer(STREAM, TOPIC)
        .map_err(Failure::peer(PEER))?
        .partitioning(Partitioning::partition_id(0))
        .do_not_create_stream_if_not_exists()
        .do_not_create_topic_if_not_exists();
    let builder = match mode {
        Mode::Direct(setup) => builder.direct(
            DirectConfig::builder()
                .batch_length(setup.batch_length)
                .build(),
        ),
        Mode::Background(setup) => {
            let sharding: Box<dyn Sharding + Send + Sync> = if setup.num_shards > 1 {
                Box::new(BalancedSharding::default())
            } else {
                Box::new(OrderedSharding)
            };
            let callback: Box<dyn ErrorCallback + Send + Sync> =
                Box::new(CountFailed(Arc::clone(failed)));
            builder.background(
                BackgroundConfig::builder()
                    .batch_length(setup.batch_length)
                    .batch_size(setup.batch_size)
                    .linger_time(IggyDuration::from(setup.linger_us))
                    .num_shards(setup.num_shards)
                    .sharding(sharding)
                    .max_in_flight(setup.max_in_flight)
                    .max_buffer_size(IggyByteSize::from(setup.max_buffer_size))
                    .error_callback(Arc::new(callback))
                    .build(),
            )
        }
    };
    Ok(builder.build())
}

/// Counts messages that the background could not send.
#[derive(Debug)]
struct CountFailed(Arc<AtomicU64>);

impl ErrorCallback for CountFailed {
    fn call(&self, ctx: ErrorCtx) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        self.0
            .fetch_add(ctx.messages.len() as u64, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}
