//! ringmain and the official SDK on the same broker: each reads what the other sent, byte by byte,
//! and both put a key on the same partition.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use iggy::prelude::{
    Client, Consumer, Identifier, IggyClient, IggyMessage, MessageClient,
    Partitioning as SdkPartitioning, PollingStrategy, StreamClient, TopicClient,
    TopicCreateOptions,
};
use ringmain::{Engine, Outcome, Partitioning, Producer, Record};
use ringmain_broker::Broker;

/// No call of these tests takes so long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

const PARTITIONS: u32 = 5;

fn name(text: &str) -> Identifier {
    Identifier::from_str_value(text).expect("a name")
}

/// A broker with topic `t` in stream `s`, created by the SDK.
async fn start() -> (Broker, IggyClient, Engine) {
    let broker = Broker::builder().start().expect("a broker");
    let url = format!("iggy://iggy:iggy@{}", broker.addr());
    let client = IggyClient::from_connection_string(&url).expect("a connection string");
    client.connect().await.expect("a connection");
    client.create_stream("s").await.expect("a stream");
    let options = TopicCreateOptions {
        partitions_count: Some(PARTITIONS),
        ..TopicCreateOptions::default()
    };
    client
        .create_topic(&name("s"), "t", &options)
        .await
        .expect("a topic");
    let engine = Engine::builder()
        .server(url.as_str())
        .memory_bytes_max(32 << 20)
        .build()
        .expect("an engine");
    (broker, client, engine)
}

fn producer(engine: &Engine, partitioning: Partitioning) -> Producer {
    engine
        .producer("s", "t")
        .partitioning(partitioning)
        .build()
        .expect("a producer")
}

/// Payloads from 1 byte to 300 kB, each different.
fn payloads() -> Vec<Bytes> {
    let sizes = [1, 7, 47, 48, 49, 1000, 4096, 65_535, 65_537, 300_000];
    let payload = |(index, size): (usize, usize)| {
        Bytes::from(
            (0..size)
                .map(|at| (at * 31 + index * 7) as u8)
                .collect::<Vec<_>>(),
        )
    };
    (0..60)
        .map(|index| payload((index, sizes[index % sizes.len()])))
        .collect()
}

/// Sends records and waits until each is stored; returns partition and offset of each.
fn send_all(producer: &Producer, records: impl Iterator<Item = Record>) -> Vec<(u32, u64)> {
    let receipts: Vec<_> = records
        .map(|record| producer.send(record).expect("room"))
        .collect();
    assert!(producer.flush(PATIENCE), "everything is answered in time");
    let place = |outcome| match outcome {
        Outcome::Stored { partition, offset } => (partition, offset),
        other => panic!("a record is not stored with an offset: {other}"),
    };
    receipts
        .into_iter()
        .map(|receipt| place(receipt.wait()))
        .collect()
}

/// What the SDK reads from a partition, by offset.
async fn sdk_reads(client: &IggyClient, partition: u32) -> Vec<(u64, Bytes)> {
    let consumer = Consumer::new(name("auditor"));
    let mut read = Vec::new();
    loop {
        let strategy = PollingStrategy::offset(read.len() as u64);
        let (stream, topic) = (name("s"), name("t"));
        let polled = client
            .poll_messages(
                &stream,
                &topic,
                Some(partition),
                &consumer,
                &strategy,
                7,
                false,
            )
            .await;
        let polled = polled.expect("a poll");
        if polled.messages.is_empty() {
            return read;
        }
        read.extend(
            polled
                .messages
                .into_iter()
                .map(|message| (message.header.offset, message.payload)),
        );
    }
}

async fn sdk_sends(client: &IggyClient, partitioning: &SdkPartitioning, payloads: &[Bytes]) {
    let message = |payload: &Bytes| {
        IggyMessage::builder()
            .payload(payload.clone())
            .build()
            .expect("a message")
    };
    let mut messages: Vec<_> = payloads.iter().map(message).collect();
    client
        .send_messages(&name("s"), &name("t"), partitioning, &mut messages)
        .await
        .expect("a send");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_reads_what_ringmain_sent() {
    let (_broker, client, engine) = start().await;
    let payloads = payloads();
    let records = payloads.iter().cloned().map(Record::new);
    let places = send_all(&producer(&engine, Partitioning::Partition(3)), records);
    let read = sdk_reads(&client, 3).await;
    assert_eq!(read.len(), payloads.len());
    for ((partition, offset), payload) in places.iter().zip(&payloads) {
        assert_eq!(*partition, 3);
        assert_eq!(
            &read[*offset as usize],
            &(*offset, payload.clone()),
            "the receipt's offset is the record's"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ringmain_reads_what_the_sdk_sent() {
    let (_broker, client, engine) = start().await;
    let payloads = payloads();
    for batch in payloads.chunks(9) {
        sdk_sends(&client, &SdkPartitioning::partition_id(2), batch).await;
    }
    let mut read = Vec::new();
    while read.len() < payloads.len() {
        let polled = engine
            .poll("s", "t", 2, read.len() as u64, 11, PATIENCE)
            .expect("a poll");
        assert!(!polled.records.is_empty(), "the partition ends early");
        read.extend(polled.records.into_iter().map(|record| record.payload));
    }
    assert_eq!(read, payloads);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_put_a_key_on_the_same_partition() {
    let (_broker, client, engine) = start().await;
    let keys: Vec<String> = (0..40).map(|index| format!("key-{index}")).collect();
    let keyed = producer(&engine, Partitioning::Key);
    let records = keys
        .iter()
        .map(|key| Record::new(format!("r {key}")).key(key.clone()));
    let places = send_all(&keyed, records);
    for key in &keys {
        let partitioning = SdkPartitioning::messages_key_str(key).expect("a key");
        sdk_sends(&client, &partitioning, &[Bytes::from(format!("s {key}"))]).await;
    }
    let mut partition_of: BTreeMap<Bytes, u32> = BTreeMap::new();
    for partition in 0..PARTITIONS {
        for (_, payload) in sdk_reads(&client, partition).await {
            partition_of.insert(payload, partition);
        }
    }
    assert_eq!(partition_of.len(), 2 * keys.len());
    for (key, (partition, _)) in keys.iter().zip(places) {
        assert_eq!(
            partition_of[format!("r {key}").as_bytes()],
            partition,
            "ringmain, {key}"
        );
        assert_eq!(
            partition_of[format!("s {key}").as_bytes()],
            partition,
            "the SDK, {key}"
        );
    }
    let used: std::collections::BTreeSet<_> = partition_of.values().collect();
    assert_eq!(
        used.len(),
        PARTITIONS as usize,
        "forty keys reach every partition"
    );
}
