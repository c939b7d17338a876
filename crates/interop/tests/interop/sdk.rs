//! The official SDK, version 0.11.0, cannot tell the embedded broker from a server: logins,
//! streams, topics, sends in direct and background mode, polls with every strategy, consumer
//! offsets. Every byte is compared.

use std::collections::BTreeMap;
use std::str::FromStr;

use bytes::Bytes;
use iggy::prelude::*;
use ringmain_broker::{Act, Broker, RestartState};

/// A client that is logged in.
async fn connect(broker: &Broker) -> IggyClient {
    let url = format!("iggy://iggy:iggy@{}", broker.addr());
    let client = IggyClient::from_connection_string(&url).expect("a connection string");
    client.connect().await.expect("a connection");
    client
}

fn name(text: &str) -> Identifier {
    Identifier::from_str_value(text).expect("a name")
}

async fn create(client: &IggyClient, partitions: u32) {
    client.create_stream("s").await.expect("a stream");
    let options = TopicCreateOptions {
        partitions_count: Some(partitions),
        ..TopicCreateOptions::default()
    };
    let topic = client
        .create_topic(&name("s"), "t", &options)
        .await
        .expect("a topic");
    assert_eq!(
        (topic.partitions_count, topic.name.as_str()),
        (partitions, "t")
    );
}

/// Payloads of every size that could be special: empty is not among them, the SDK refuses it.
fn payloads(count: usize) -> Vec<Bytes> {
    let size = |index: usize| match index % 10 {
        0 => 1,
        1 => 47,
        2 => 48,
        9 => 70_000,
        rest => rest * 997,
    };
    (0..count)
        .map(|index| {
            Bytes::from(
                (0..size(index))
                    .map(|at| (at * 31 + index) as u8)
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
}

fn messages(payloads: &[Bytes]) -> Vec<IggyMessage> {
    let message = |payload: &Bytes| {
        IggyMessage::builder()
            .payload(payload.clone())
            .build()
            .expect("a message")
    };
    payloads.iter().map(message).collect()
}

async fn poll(
    client: &IggyClient,
    partition: u32,
    strategy: PollingStrategy,
    count: u32,
) -> PolledMessages {
    let consumer = Consumer::new(name("auditor"));
    client
        .poll_messages(
            &name("s"),
            &name("t"),
            Some(partition),
            &consumer,
            &strategy,
            count,
            false,
        )
        .await
        .expect("a poll")
}

/// All payloads of a partition, by polls of 7 messages; offsets must be dense.
async fn read_back(client: &IggyClient, partition: u32) -> Vec<Bytes> {
    let mut payloads = Vec::new();
    loop {
        let polled = poll(
            client,
            partition,
            PollingStrategy::offset(payloads.len() as u64),
            7,
        )
        .await;
        if polled.messages.is_empty() {
            return payloads;
        }
        for message in polled.messages {
            assert_eq!(message.header.offset, payloads.len() as u64);
            payloads.push(message.payload);
        }
    }
}

#[tokio::test]
async fn direct_sends_are_read_back_byte_by_byte() {
    let broker = Broker::builder().start().expect("a broker");
    let client = connect(&broker).await;
    create(&client, 2).await;
    let sent = payloads(200);
    let mut batches = messages(&sent);
    for batch in batches.chunks_mut(13) {
        let reply = client
            .send_messages(
                &name("s"),
                &name("t"),
                &Partitioning::partition_id(1),
                batch,
            )
            .await
            .expect("a send");
        assert_eq!(
            reply.confirmations.len(),
            1,
            "the broker confirms where it stored the batch"
        );
    }
    assert_eq!(read_back(&client, 1).await, sent);
    assert!(read_back(&client, 0).await.is_empty());
    assert_eq!(broker.stats().records, 200);
}

#[tokio::test]
async fn the_high_level_producer_sends_in_direct_mode() {
    let broker = Broker::builder().start().expect("a broker");
    let client = connect(&broker).await;
    let producer = client
        .producer("s", "t")
        .expect("a producer")
        .direct(DirectConfig::builder().batch_length(20).build())
        .partitioning(Partitioning::balanced())
        .create_stream_if_not_exists()
        .create_topic_if_not_exists(1, IggyExpiry::NeverExpire, MaxTopicSize::Unlimited)
        .build();
    producer.init().await.expect("stream and topic are created");
    let sent = payloads(150);
    producer.send(messages(&sent)).await.expect("a send");
    assert_eq!(read_back(&client, 0).await, sent);
}

#[tokio::test]
async fn the_high_level_producer_sends_in_the_background() {
    let broker = Broker::builder().start().expect("a broker");
    let client = connect(&broker).await;
    create(&client, 1).await;
    let producer = client
        .producer("s", "t")
        .expect("a producer")
        .background(BackgroundConfig::builder().batch_length(25).build())
        .partitioning(Partitioning::partition_id(0))
        .build();
    producer.init().await.expect("a topic");
    let sent = payloads(300);
    for message in messages(&sent) {
        producer
            .send_one(message)
            .await
            .expect("room in the buffer");
    }
    producer.shutdown().await;
    assert_eq!(read_back(&client, 0).await, sent);
}

#[tokio::test]
async fn user_headers_ids_and_timestamps_survive() {
    let broker = Broker::builder().start().expect("a broker");
    let client = connect(&broker).await;
    create(&client, 1).await;
    let mut headers = BTreeMap::new();
    headers.insert(
        HeaderKey::from_str("kind").expect("a key"),
        HeaderValue::from_str("audit").expect("a value"),
    );
    headers.insert(
        HeaderKey::from_str("size").expect("a key"),
        HeaderValue::from(77_u64),
    );
    let message = IggyMessage::builder()
        .id(0x1234_5678_9ABC)
        .payload(Bytes::from_static(b"with headers"))
        .user_headers(headers.clone())
        .build()
        .expect("a message");
    let origin = message.header.origin_timestamp;
    client
        .send_messages(
            &name("s"),
            &name("t"),
            &Partitioning::partition_id(0),
            &mut [message],
        )
        .await
        .expect("a send");
    let polled = poll(&client, 0, PollingStrategy::first(), 1).await;
    let message = &polled.messages[0];
    assert_eq!(message.header.id, 0x1234_5678_9ABC);
    assert_eq!(message.header.origin_timestamp, origin);
    assert_eq!(message.user_headers_map().expect("headers"), Some(headers));
    assert!(message.header.timestamp >= origin);
}

#[tokio::test]
async fn polls_begin_where_their_strategy_says() {
    let broker = Broker::builder().start().expect("a broker");
    let client = connect(&broker).await;
    create(&client, 1).await;
    for batch in messages(&payloads(30)).chunks_mut(10) {
        client
            .send_messages(
                &name("s"),
                &name("t"),
                &Partitioning::partition_id(0),
                batch,
            )
            .await
            .expect("a send");
    }
    let offsets = async |strategy, count| {
        let polled = poll(&client, 0, strategy, count).await;
        assert_eq!(polled.current_offset, 29);
        polled
            .messages
            .iter()
            .map(|message| message.header.offset)
            .collect::<Vec<_>>()
    };
    assert_eq!(offsets(PollingStrategy::first(), 3).await, [0, 1, 2]);
    assert_eq!(offsets(PollingStrategy::last(), 3).await, [27, 28, 29]);
    assert_eq!(offsets(PollingStrategy::offset(8), 4).await, [8, 9, 10, 11]);
    let second = poll(&client, 0, PollingStrategy::offset(10), 1)
        .await
        .messages[0]
        .header
        .timestamp;
    assert!(offsets(PollingStrategy::timestamp(second.into()), 1).await[0] <= 10);
    let consumer = Consumer::new(name("auditor"));
    let (stream, topic) = (name("s"), name("t"));
    client
        .store_consumer_offset(&consumer, &stream, &topic, Some(0), 19)
        .await
        .expect("an offset");
    let stored = client
        .get_consumer_offset(&consumer, &stream, &topic, Some(0))
        .await
        .expect("a reply");
    assert_eq!(stored.map(|offset| offset.stored_offset), Some(19));
    assert_eq!(offsets(PollingStrategy::next(), 2).await, [20, 21]);
    client
        .delete_consumer_offset(&consumer, &stream, &topic, Some(0))
        .await
        .expect("a delete");
    let stored = client
        .get_consumer_offset(&consumer, &stream, &topic, Some(0))
        .await
        .expect("a reply");
    assert!(stored.is_none());
}

#[tokio::test]
async fn what_exists_is_told_changed_and_deleted() {
    let broker = Broker::builder()
        .token("a-personal-access-token")
        .start()
        .expect("a broker");
    let client = connect(&broker).await;
    create(&client, 3).await;
    let (stream, topic) = (name("s"), name("t"));
    assert_eq!(client.get_streams().await.expect("streams").len(), 1);
    assert_eq!(client.get_topics(&stream).await.expect("topics").len(), 1);
    client
        .create_partitions(&stream, &topic, 2)
        .await
        .expect("partitions");
    let details = client
        .get_topic(&stream, &topic)
        .await
        .expect("a reply")
        .expect("a topic");
    assert_eq!(details.partitions.len(), 5);
    client
        .delete_partitions(&stream, &topic, 4)
        .await
        .expect("fewer partitions");
    client
        .update_topic(&stream, &topic, "renamed", &TopicUpdateOptions::default())
        .await
        .expect("another name");
    assert!(
        client
            .get_topic(&stream, &topic)
            .await
            .expect("a reply")
            .is_none()
    );
    client
        .purge_topic(&stream, &name("renamed"))
        .await
        .expect("an empty topic");
    client
        .delete_topic(&stream, &name("renamed"))
        .await
        .expect("no topic");
    let again = client
        .create_stream("s")
        .await
        .expect_err("the name is taken");
    assert_eq!(again.as_code(), 1012);
    assert_eq!(client.get_me().await.expect("a reply").user_id, Some(0));
    assert_eq!(client.get_stats().await.expect("a reply").streams_count, 1);
    assert_eq!(
        client
            .get_cluster_metadata()
            .await
            .expect("a reply")
            .nodes
            .len(),
        1
    );
    client.logout_user().await.expect("a logout");
    client
        .login_with_personal_access_token("a-personal-access-token")
        .await
        .expect("a login by token");
    client.delete_stream(&stream).await.expect("no stream");
}

#[tokio::test]
async fn wrong_credentials_are_refused_by_name() {
    let broker = Broker::builder().start().expect("a broker");
    let url = format!("iggy://iggy:wrong@{}", broker.addr());
    let client = IggyClient::from_connection_string(&url).expect("a connection string");
    let error = client.connect().await.expect_err("the password is wrong");
    assert_eq!(
        error.as_code(),
        IggyError::InvalidCredentials.as_code(),
        "{error}"
    );
}

#[tokio::test]
async fn the_sdk_survives_a_restart_of_the_broker() {
    let broker = Broker::builder().start().expect("a broker");
    let client = connect(&broker).await;
    create(&client, 1).await;
    let send = async |payload: &'static [u8]| {
        let mut batch = messages(&[Bytes::from_static(payload)]);
        client
            .send_messages(
                &name("s"),
                &name("t"),
                &Partitioning::partition_id(0),
                &mut batch,
            )
            .await
    };
    send(b"before").await.expect("a send");
    broker.act(Act::Restart {
        state: RestartState::Kept,
        down_us: 0,
    });
    // The SDK reports the broken connection to the caller instead of sending again by itself, and
    // reconnects with the next call. What the closed connection was given was not read.
    let mut result = send(b"after").await;
    for _ in 0..3 {
        if result.is_ok() {
            break;
        }
        result = send(b"after").await;
    }
    result.expect("a send on a new connection");
    assert_eq!(
        read_back(&client, 0).await,
        [Bytes::from_static(b"before"), Bytes::from_static(b"after")]
    );
}
