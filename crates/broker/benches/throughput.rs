//! How fast one connection is taken in: two plain read loops, the broker as a sink, and the broker
//! with every checksum verified and every record kept, in turns in one run with the same sender.
//!
//! ```text
//! cargo bench -p ringmain-broker --bench throughput [-- GIGABYTES]
//! ```
//!
//! Records of 1000 bytes in frames of 256 KiB, 2 GB a turn by default. The sender prepares its
//! batch once and stamps only the request number. It has one core and the receiver another; where
//! there is only one, nothing is pinned and that is said. Two rates: by the clock, which the slower
//! of the two ends decides, and by the processor time of the receiving thread alone, which is what
//! it takes when the sender is not the limit. The median of the rounds; every round begins with
//! another turn, so that a slow spell of the host does not always hit the same one.
//!
//! `README.md` beside this file has a run's table. Run by `cargo test`, which gives no `--bench`,
//! this moves 64 MB and only checks that all turns work.

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use core_affinity::CoreId;
use ringmain_broker::Broker;
use ringmain_wire::batch::{BatchWriter, RecordParts, SendTarget};
use ringmain_wire::codec::Encode;
use ringmain_wire::header::{HEADER_BYTES, ReplyHeader, RequestHeader};
use ringmain_wire::name::Name;
use ringmain_wire::operation::Operation;
use ringmain_wire::options::Options;
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::payload::login::{ClientVersion, LoginRegister};
use ringmain_wire::payload::stream::CreateStream;
use ringmain_wire::payload::topic::CreateTopic;
use ringmain_wire::text::{Secret, Text};
use ringmain_wire::user_headers::UserHeaders;
use ringmain_wire::version::ProtocolVersion;
use ringmain_wire::{Identifier, RequestHeader as Header};

const RECORD_BYTES: usize = 1000;
const FRAME_BYTES: usize = 256 << 10;
const ROUNDS: usize = 7;

/// Who receives.
#[derive(Debug, Clone, Copy)]
enum Receiver {
    /// A loop around `read` into a buffer of so many bytes.
    Plain { buffer_bytes: usize },
    /// The broker in sink mode.
    Sink,
    /// The broker as users start it.
    Verified,
}

/// The two loops differ in their buffer: the size of a frame, and that of the sink's own.
const RECEIVERS: [(&str, Receiver); 4] = [
    (
        "plain loop, 256 KiB",
        Receiver::Plain {
            buffer_bytes: 256 << 10,
        },
    ),
    (
        "plain loop, 1 MiB",
        Receiver::Plain {
            buffer_bytes: 1 << 20,
        },
    ),
    ("broker, sink", Receiver::Sink),
    ("broker, verified and kept", Receiver::Verified),
];

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let gigabytes: f64 = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(2.0);
    let (bytes, rounds) = if measured {
        ((gigabytes * 1e9) as usize, ROUNDS)
    } else {
        (64 << 20, 1)
    };
    let cores = Cores::find();
    let body = body();
    let frames = bytes / (HEADER_BYTES + body.len());
    let mut costs = RECEIVERS.map(|_| Vec::new());
    for round in 0..rounds {
        for step in 0..RECEIVERS.len() {
            let turn = (round + step) % RECEIVERS.len();
            costs[turn].push(match RECEIVERS[turn].1 {
                Receiver::Plain { buffer_bytes } => plain(&cores, &body, frames, buffer_bytes),
                Receiver::Sink => broker(&cores, &body, frames, true),
                Receiver::Verified => broker(&cores, &body, frames, false),
            });
        }
    }
    report(frames * (HEADER_BYTES + body.len()), &costs);
}

/// What it took to receive all frames.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    /// Of the receiving thread.
    cpu_seconds: f64,
}

/// Prints the median of each receiver beside that of the faster loop.
fn report(bytes: usize, costs: &[Vec<Cost>]) {
    let median = |costs: &[Cost], of: fn(&Cost) -> f64| {
        let mut seconds: Vec<_> = costs.iter().map(of).collect();
        seconds.sort_by(f64::total_cmp);
        bytes as f64 / 1e6 / seconds[seconds.len() / 2]
    };
    let rates: Vec<_> = costs
        .iter()
        .map(|costs| {
            let clock = median(costs, |cost| cost.seconds);
            (clock, median(costs, |cost| cost.cpu_seconds))
        })
        .collect();
    let loops = |of: fn(&(f64, f64)) -> f64| of(&rates[0]).max(of(&rates[1]));
    let (loop_clock, loop_cpu) = (loops(|rate| rate.0), loops(|rate| rate.1));
    println!(
        "receiver                     MB/s by the clock   of the loop   MB/s by its processor time   of the loop"
    );
    for ((name, _), (clock, cpu)) in RECEIVERS.iter().zip(&rates) {
        println!(
            "{name:<26} {clock:>19.0} {:>11.0} % {cpu:>28.0} {:>11.0} %",
            clock / loop_clock * 100.0,
            cpu / loop_cpu * 100.0,
        );
    }
}

/// One core for each end, so that neither waits for the other to be scheduled.
struct Cores(Option<[CoreId; 2]>);

impl Cores {
    fn find() -> Self {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        if let [sender, receiver, ..] = cores[..] {
            return Self(Some([sender, receiver]));
        }
        println!("one core for both ends: nothing is pinned, rates by the clock mean little");
        Self(None)
    }

    /// The calling thread, and every thread that it starts from now on, sends.
    fn send_here(&self) {
        self.pin(0);
    }

    /// The calling thread, and every thread that it starts from now on, receives.
    fn receive_here(&self) {
        self.pin(1);
    }

    fn pin(&self, end: usize) {
        if let Some(cores) = self.0 {
            assert!(core_affinity::set_for_current(cores[end]), "a core of ours");
        }
    }
}

/// Processor time of a thread of this process so far, by its name.
fn cpu_seconds(thread_name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let task = tasks
        .map(|task| task.expect("a thread").path())
        .find(|task| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread_name)
        });
    let schedstat = task.and_then(|task| std::fs::read_to_string(task.join("schedstat")).ok());
    let schedstat = schedstat.expect("a thread of that name");
    let nanoseconds = schedstat
        .split(' ')
        .next()
        .and_then(|field| field.parse::<f64>().ok());
    nanoseconds.expect("the first field is the time on a processor") / 1e9
}

/// A `SendMessages` body of about 256 KiB.
fn body() -> Vec<u8> {
    let target = SendTarget {
        stream: Identifier::named("s").expect("a name"),
        topic: Identifier::named("t").expect("a name"),
        partitioning: Partitioning::PartitionId(0),
    };
    let mut writer =
        BatchWriter::new(vec![0; FRAME_BYTES - HEADER_BYTES], &target).expect("room for a head");
    let payload: Vec<u8> = (0..RECORD_BYTES).map(|index| (index * 31) as u8).collect();
    let mut id = 1;
    let timestamp_us = 1_700_000_000_000_000;
    while writer
        .append(&RecordParts {
            id,
            timestamp_us,
            payload: &payload,
            user_headers: UserHeaders::EMPTY,
        })
        .is_ok()
    {
        id += 1;
    }
    writer.seal().body().to_vec()
}

/// What a loop around `read` needs for so many frames.
fn plain(cores: &Cores, body: &[u8], frames: usize, buffer_bytes: usize) -> Cost {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let bytes = frames * (HEADER_BYTES + body.len());
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("plain-loop".to_owned());
        let receive = move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            let mut buffer = vec![0; buffer_bytes];
            let mut left = bytes;
            while left > 0 {
                let read = socket.read(&mut buffer).expect("bytes");
                assert!(read > 0, "the sender sends all");
                left -= read;
            }
            cpu_seconds("plain-loop")
        };
        cores.receive_here();
        let reader = builder.spawn_scoped(scope, receive).expect("a thread");
        cores.send_here();
        let mut socket = TcpStream::connect(addr).expect("the loop listens");
        let started = Instant::now();
        send(&mut socket, body, frames, 1);
        let cpu_seconds = reader.join().expect("all bytes");
        Cost {
            seconds: started.elapsed().as_secs_f64(),
            cpu_seconds,
        }
    })
}

/// What a broker needs until it has answered so many frames.
fn broker(cores: &Cores, body: &[u8], frames: usize, sink: bool) -> Cost {
    cores.receive_here();
    let broker = Broker::builder().sink(sink).start().expect("a broker");
    cores.send_here();
    let mut socket = prepare(broker.addr());
    let mut replies = socket.try_clone().expect("a second handle");
    let seconds = std::thread::scope(|scope| {
        let started = Instant::now();
        let reader = scope.spawn(move || {
            let mut buffer = vec![0; (HEADER_BYTES + 24) * 64];
            let mut left = frames * (HEADER_BYTES + 24);
            while left > 0 {
                let most = left.min(buffer.len());
                let read = replies.read(&mut buffer[..most]).expect("replies");
                assert!(read > 0, "the broker answers all");
                left -= read;
            }
        });
        send(&mut socket, body, frames, 3);
        reader.join().expect("all replies");
        started.elapsed().as_secs_f64()
    });
    assert_eq!(
        broker.stats().batches,
        frames as u64,
        "every batch was taken"
    );
    Cost {
        seconds,
        cpu_seconds: cpu_seconds("ringmain-broker"),
    }
}

/// Sends so many frames with rising request numbers.
fn send(socket: &mut TcpStream, body: &[u8], frames: usize, first: u64) {
    let mut header =
        Header::partition(Operation::SendMessages, 7, 1, first, body.len()).expect("a header");
    for request in first..first + frames as u64 {
        header.set_request(request).expect("a number");
        let bytes = header.as_bytes();
        let mut sent = 0;
        while sent < HEADER_BYTES + body.len() {
            let pieces = match bytes.get(sent..) {
                Some(rest) => [IoSlice::new(rest), IoSlice::new(body)],
                None => [
                    IoSlice::new(&body[sent - HEADER_BYTES..]),
                    IoSlice::new(&[]),
                ],
            };
            sent += socket.write_vectored(&pieces).expect("an open connection");
        }
    }
}

/// Logs in and creates the topic.
fn prepare(addr: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(addr).expect("the broker listens");
    let name = |text| Name::new(text).expect("a name");
    let client_version = ClientVersion {
        protocol_version: ProtocolVersion::CURRENT,
        sdk_name: name("bench"),
        sdk_version: name("1"),
    };
    let password = Secret::new("iggy").expect("a password");
    let login = LoginRegister {
        client_version,
        username: name("iggy"),
        password,
        context: Text::EMPTY,
    }
    .to_vec();
    ask(
        &mut socket,
        RequestHeader::register(7, &login)
            .expect("a header")
            .as_bytes(),
        &login,
    );
    let stream = CreateStream {
        name: name("s"),
        options: Options::EMPTY,
    }
    .to_vec();
    let header =
        RequestHeader::metadata(Operation::CreateStream, 7, 1, 1, &stream).expect("a header");
    ask(&mut socket, header.as_bytes(), &stream);
    let stream_id = Identifier::String(name("s"));
    let topic = CreateTopic {
        stream_id,
        partitions_count: 1,
        name: name("t"),
        options: Options::EMPTY,
    }
    .to_vec();
    let header =
        RequestHeader::metadata(Operation::CreateTopic, 7, 1, 2, &topic).expect("a header");
    ask(&mut socket, header.as_bytes(), &topic);
    socket
}

fn ask(socket: &mut TcpStream, header: &[u8], body: &[u8]) {
    socket
        .write_all(&[header, body].concat())
        .expect("an open connection");
    let mut reply = vec![0; HEADER_BYTES];
    socket.read_exact(&mut reply).expect("a reply");
    let size = ReplyHeader::from_bytes(&reply).expect("a header").size() as usize;
    socket
        .read_exact(&mut vec![0; size - HEADER_BYTES])
        .expect("its body");
}
