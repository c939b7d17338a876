//! An HTTP ingest handler: a POST is answered when its record is stored, or with what became of it.
//!
//! `cargo run -p ringmain --example http_ingest [iggy://user:password@host:port [ADDRESS]]`;
//! without a server it starts the embedded broker. With ADDRESS it serves until Ctrl-C; without one
//! it makes a few requests to itself and ends.
//!
//! ```text
//! curl --data 'hello' 'http://127.0.0.1:8080/ingest/some-key'
//! ```

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use ringmain::{Engine, NotSentReason, Outcome, Partitioning, Producer, Record, SendError};
use ringmain_broker::Broker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Clone)]
struct Ingest {
    engine: Engine,
    producer: Producer,
}

/// The body goes into the record as it is, without a copy when it is large.
async fn ingest(
    State(ingest): State<Ingest>,
    Path(key): Path<String>,
    body: Bytes,
) -> (StatusCode, String) {
    // A handler that may not wait uses `try_send` and answers 503: back-pressure reaches the
    // client.
    let receipt = match ingest.producer.try_send(Record::new(body).key(key)) {
        Ok(receipt) => receipt,
        Err(refused) => {
            let status = match refused.error {
                SendError::Full => StatusCode::SERVICE_UNAVAILABLE,
                SendError::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                SendError::Key { .. } => StatusCode::BAD_REQUEST,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            return (status, refused.to_string());
        }
    };
    let outcome = receipt.await;
    let status = match outcome {
        Outcome::Stored { .. } | Outcome::StoredOffsetUnknown { .. } => StatusCode::CREATED,
        Outcome::Rejected { .. } => StatusCode::BAD_GATEWAY,
        Outcome::NotSent {
            reason: NotSentReason::Closed,
        } => StatusCode::SERVICE_UNAVAILABLE,
        Outcome::NotSent { .. } | Outcome::Unknown { .. } => StatusCode::GATEWAY_TIMEOUT,
    };
    (status, outcome.to_string())
}

async fn metrics(State(ingest): State<Ingest>) -> String {
    ingest.engine.stats().to_prometheus()
}

fn build(server: String) -> Result<Ingest, ringmain::BuildError> {
    let engine = Engine::builder().server(server).build()?;
    let producer = engine
        .producer("http", "ingest")
        .create_if_missing(4)
        .partitioning(Partitioning::Key)
        .build()?;
    Ok(Ingest { engine, producer })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broker = Broker::builder().start()?;
    let mut arguments = std::env::args().skip(1);
    let server = arguments
        .next()
        .unwrap_or_else(|| format!("iggy://iggy:iggy@{}", broker.addr()));
    let address = arguments.next();

    let ingest_state = tokio::task::spawn_blocking(move || build(server)).await??;
    let router = Router::new()
        .route("/ingest/{key}", post(ingest))
        .route("/metrics", get(metrics))
        .with_state(ingest_state.clone());
    let listener =
        tokio::net::TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    if address.is_some() {
        let stop = async {
            // Without a signal handler Ctrl-C still ends the process, only less gracefully.
            drop(tokio::signal::ctrl_c().await);
        };
        axum::serve(listener, router)
            .with_graceful_shutdown(stop)
            .await?;
    } else {
        let at = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, router).await });
        try_out(at).await?;
    }

    // The handlers are gone; whatever they had accepted is drained now.
    let engine = ingest_state.engine;
    let report = tokio::task::spawn_blocking(move || engine.close(Duration::from_secs(10))).await?;
    println!("{}", report.account);
    Ok(())
}

/// A few requests over one connection, as a client would make them.
async fn try_out(address: std::net::SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    for number in 0..3 {
        let body = format!("record {number}");
        let request = format!(
            "POST /ingest/key-{number} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        let (status, answer) = (response.lines().next(), response.lines().last());
        println!(
            "{} -> {}",
            status.unwrap_or_default(),
            answer.unwrap_or_default()
        );
        assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    }
    println!("three requests in {:?}", started.elapsed());
    Ok(())
}
