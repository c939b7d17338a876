//! Why a command ends, and the exit code that says so. Nothing here prints: `main` prints one line
//! and exits.
//!
//! Every failure is one sentence that names the cause and the remedy. None of them shows a
//! password: servers are shown by address, URLs never.

use std::io;
use std::path::PathBuf;

use ringmain::server_url::ServerUrlError;
use ringmain::{Account, BuildError, CallError, Outcome, SendError};
use ringmain_broker::{ScriptError, StartError};

use crate::redact::shown;

/// The exit codes of every command. README.md has the table, made from the meanings below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Done = 0,
    NotAllStored = 1,
    Usage = 2,
    Files = 3,
    Unreachable = 4,
    Login = 5,
    Missing = 6,
    Line = 7,
    Machine = 8,
    Server = 9,
    RateMissed = 10,
    Interrupted = 130,
}

impl Code {
    /// What the code says, for the manual page and the table in README.md.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Code::Done => "done; of `send` and `bench`: every record is stored",
            Code::NotAllStored => {
                "not every accepted record is known to be stored; the account says how many are; \
                 of `doctor`: works, but slower than it could"
            }
            Code::Usage => {
                "arguments, server URL or fault script make no sense; \
                 of `doctor`: something does not work"
            }
            Code::Files => {
                "a file, standard input or standard output cannot be read or written, or is closed"
            }
            Code::Unreachable => "the server cannot be reached or does not answer",
            Code::Login => "the server refused the login",
            Code::Missing => "the stream, topic or partition does not exist",
            Code::Line => {
                "a line cannot be a record: too long, or without a usable key; the lines before it were sent"
            }
            Code::Machine => {
                "this machine refuses what is needed: io_uring, memory, threads, an address"
            }
            Code::Server => "the server refused a call or answered nonsense",
            Code::RateMissed => "of `bench`: every record sent is stored, but --rate was not held",
            Code::Interrupted => "ended by Ctrl-C or SIGTERM; what was accepted before is stored",
        }
    }

    /// Every code, in order.
    pub(crate) const ALL: [Code; 12] = [
        Code::Done,
        Code::NotAllStored,
        Code::Usage,
        Code::Files,
        Code::Unreachable,
        Code::Login,
        Code::Missing,
        Code::Line,
        Code::Machine,
        Code::Server,
        Code::RateMissed,
        Code::Interrupted,
    ];
}

/// Why a command could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "RINGMAIN_LOG names no level; set it to error, warn, info, debug or trace, or unset it"
    )]
    LogLevel,
    #[error(
        "ringmain works here, but slower than it could; the lines marked `slower` say what \
         changes that"
    )]
    HostSlower,
    #[error("something does not work here; the lines marked `broken` say what changes that")]
    HostBroken,
    #[error(transparent)]
    ServerUrl(#[from] ServerUrlError),
    #[error(
        "no server to read from: give --server iggy://user:password@host:port or set RINGMAIN_SERVER"
    )]
    ServerMissing,
    #[error("--password-file has no server to log in to: give --server, or set RINGMAIN_SERVER")]
    PasswordWithoutServer,
    #[error("the server URL is not UTF-8: percent-encode it")]
    ServerNotText,
    #[error(
        "FILE looks like a server URL; give the URL with --server, or the file as ./FILE if that is its name"
    )]
    FileIsUrl,
    #[error("{0}; see --help")]
    Configuration(BuildError),
    #[error("--{option} is {found}, allowed is {min} to {max}; correct it")]
    OutOfRange {
        option: &'static str,
        found: u64,
        min: u64,
        max: u64,
    },
    #[error("--{option} contradicts --{other}: {why}")]
    Contradiction {
        option: &'static str,
        other: &'static str,
        why: &'static str,
    },
    #[error(
        "topic {}/{} has {found} partitions and --partitions asks for {wanted}; give --partitions {found}, or another --topic",
        shown(stream),
        shown(topic)
    )]
    Partitions {
        stream: String,
        topic: String,
        found: u32,
        wanted: u32,
    },
    #[error(
        "records of {bytes} bytes cannot be sent: {error}; choose other --record-bytes or --memory-bytes"
    )]
    RecordBytes { bytes: u32, error: SendError },
    /// Without its name, because a password may stand in its place.
    #[error(
        "cannot read the password file: {source}; --password-file takes the name of a readable file"
    )]
    PasswordFile { source: io::Error },
    #[error("cannot read {}: {source}; give a readable file, or none to read standard input", shown(&path.to_string_lossy()))]
    Input { path: PathBuf, source: io::Error },
    #[error("cannot read standard input: {source}; give a FILE instead")]
    StandardInput { source: io::Error },
    #[error("standard input is closed; give a FILE, or an input (< /dev/null for none)")]
    InputClosed,
    #[error("standard output is closed, so the records have no place to go; give one (> FILE)")]
    NoOutput,
    #[error("cannot write to standard output: {source}; free space or choose another place")]
    Output { source: io::Error },
    /// The reader of standard output went away, as `head` does. Nothing is wrong and nothing is
    /// printed.
    #[error("standard output was closed")]
    OutputClosed,
    #[error("cannot reach {server}: {cause}; check the address and that the server runs")]
    Unreachable { server: String, cause: String },
    #[error(
        "{server} gave no final answer to {operation} in time; check that it runs, raise --timeout, and in a cluster \
         give the address of the node that leads"
    )]
    NoReply {
        server: String,
        operation: &'static str,
    },
    #[error("{server} refused the login ({cause}); check user name and password, or the token")]
    Login { server: String, cause: String },
    #[error("topic {}/{} does not exist; {remedy}", shown(stream), shown(topic))]
    TopicMissing {
        stream: String,
        topic: String,
        remedy: &'static str,
    },
    #[error(
        "{}--partitions-max is {max}: raise it{}",
        .found.map_or_else(
            || "the topic has grown to more partitions than may be sent to, and ".to_owned(),
            |found| format!("the topic has {found} partitions and "),
        ),
        .found.map_or_else(String::new, |found| format!(" to {found}, or give --partition")),
    )]
    PartitionsMax {
        /// `None` when it grew while it was sent to.
        found: Option<u32>,
        max: u32,
    },
    #[error("partition {partition} does not exist: the topic has {count}, numbered from 0")]
    PartitionMissing { partition: u32, count: u32 },
    #[error(
        "line {line} is longer than {bytes_max} bytes, the largest record of the protocol; split it"
    )]
    LineTooLong { line: u64, bytes_max: usize },
    #[error(
        "line {line} has no field {field}, and --key-field needs one; check --key-delimiter, or leave --key-field out"
    )]
    KeyMissing { line: u64, field: usize },
    #[error(
        "line {line} has a key of {bytes} bytes in field {field}, and the protocol takes 1 to 255; choose another --key-field"
    )]
    KeyLength {
        line: u64,
        field: usize,
        bytes: usize,
    },
    #[error("line {line} was not accepted: {error}")]
    Refused { line: u64, error: SendError },
    #[error("{cause}; see the README's section on what the machine must allow")]
    Machine { cause: String },
    #[error("cannot read the script {}: {source}; give a readable file", shown(&path.to_string_lossy()))]
    ScriptFile { path: PathBuf, source: io::Error },
    #[error("the script {} is wrong: {source}", shown(&path.to_string_lossy()))]
    Script { path: PathBuf, source: ScriptError },
    /// Without what was given: it may be a server URL, or worse.
    #[error("--listen takes host:port, 127.0.0.1:8090 for instance, and was given something else")]
    ListenAddress,
    #[error("cannot start the broker: {source}; {remedy}")]
    Broker {
        source: StartError,
        remedy: &'static str,
    },
    #[error("cannot watch for Ctrl-C: {source}; raise the limit of open files")]
    Signals { source: io::Error },
    #[error("{0}")]
    Call(CallError),
    #[error(
        "{missing} of {accepted} accepted records are not known to be stored{connection}; {first}"
    )]
    NotAllStored {
        missing: u64,
        accepted: u64,
        /// Empty while the connection held; ` (..)` otherwise.
        connection: String,
        first: FirstLost,
    },
    #[error(
        "the rate of {} records/s was not held: {:.0} records/s were reached, {} records were never sent; lower --rate, \
         or raise what is the limit (--memory-bytes, --window, --connections, the server)",
        .0.rate, .0.reached, .0.never_sent
    )]
    RateMissed(MissedRate),
    #[error(
        "interrupted; what was accepted before it is stored, the rest of the input was not sent"
    )]
    Interrupted,
}

/// How a run fell short of its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MissedRate {
    /// Records a second asked for.
    pub(crate) rate: u64,
    /// Records a second stored.
    pub(crate) reached: f64,
    /// Records that were due and not accepted in time.
    pub(crate) never_sent: u64,
}

/// The first record that is not known to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstLost {
    /// What is counted: `line` of an input, `record` where there are no lines.
    pub(crate) what: &'static str,
    /// Which one, from 1.
    pub(crate) number: u64,
    /// What became of it.
    pub(crate) outcome: Outcome,
}

impl std::fmt::Display for FirstLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let remedy = match self.outcome {
            Outcome::Unknown { .. } => "sending from there on again may store records twice",
            Outcome::Rejected { .. } => "correct the cause and send from there on again",
            _ => "send from there on again",
        };
        let FirstLost {
            what,
            number,
            outcome,
        } = self;
        write!(f, "{what} {number} is the first: {outcome}; {remedy}")
    }
}

impl Failure {
    /// The exit code of the process.
    pub(crate) fn code(&self) -> Code {
        match self {
            Failure::ServerUrl(_)
            | Failure::ServerMissing
            | Failure::ServerNotText
            | Failure::PasswordWithoutServer
            | Failure::PartitionsMax { .. }
            | Failure::ListenAddress
            | Failure::FileIsUrl
            | Failure::Script { .. }
            | Failure::Configuration(_)
            | Failure::RecordBytes { .. }
            | Failure::OutOfRange { .. }
            | Failure::Contradiction { .. }
            | Failure::Partitions { .. }
            | Failure::LogLevel
            | Failure::HostBroken => Code::Usage,
            Failure::PasswordFile { .. }
            | Failure::ScriptFile { .. }
            | Failure::Input { .. }
            | Failure::StandardInput { .. }
            | Failure::InputClosed
            | Failure::NoOutput
            | Failure::Output { .. } => Code::Files,
            Failure::OutputClosed => Code::Done,
            Failure::Unreachable { .. } | Failure::NoReply { .. } => Code::Unreachable,
            Failure::Login { .. } => Code::Login,
            Failure::TopicMissing { .. } | Failure::PartitionMissing { .. } => Code::Missing,
            Failure::LineTooLong { .. }
            | Failure::KeyMissing { .. }
            | Failure::KeyLength { .. }
            | Failure::Refused { .. } => Code::Line,
            Failure::Machine { .. } | Failure::Broker { .. } | Failure::Signals { .. } => {
                Code::Machine
            }
            Failure::Call(_) => Code::Server,
            Failure::NotAllStored { .. } | Failure::HostSlower => Code::NotAllStored,
            Failure::RateMissed(_) => Code::RateMissed,
            Failure::Interrupted => Code::Interrupted,
        }
    }

    /// What went wrong while an engine or a producer was built, `server` being the address to show.
    pub(crate) fn from_build(error: BuildError, server: &str) -> Self {
        match error {
            BuildError::ServerUrl(error) => Failure::ServerUrl(error),
            BuildError::Resolve { host, why } => Failure::Unreachable {
                server: server.to_owned(),
                cause: format!("the host name {host} has no address ({why})"),
            },
            BuildError::Connect(cause) => Failure::Unreachable {
                server: server.to_owned(),
                cause,
            },
            BuildError::TopicMissing { stream, topic } => Failure::TopicMissing {
                stream,
                topic,
                remedy: "give --create to create it, or another name",
            },
            BuildError::OutOfRange {
                option,
                found,
                min,
                max,
            } => Failure::OutOfRange {
                option: flag(option),
                found,
                min,
                max,
            },
            BuildError::Contradiction { option, other, why } => Failure::Contradiction {
                option: flag(option),
                other: flag(other),
                why,
            },
            BuildError::PartitionsMax { count, max, .. } => Failure::PartitionsMax {
                found: Some(count),
                max,
            },
            BuildError::Setup(cause) => Failure::Machine { cause },
            BuildError::Call(error) => Failure::from_call(error, server),
            other => Failure::Configuration(other),
        }
    }

    /// What went wrong in a call to `server`.
    pub(crate) fn from_call(error: CallError, server: &str) -> Self {
        match error {
            CallError::Login(cause) => Failure::Login {
                server: server.to_owned(),
                cause,
            },
            CallError::Timeout { operation, .. } | CallError::Lost { operation } => {
                Failure::NoReply {
                    server: server.to_owned(),
                    operation,
                }
            }
            CallError::NoSession { .. } => Failure::Unreachable {
                server: server.to_owned(),
                cause: error.to_string(),
            },
            other => Failure::Call(other),
        }
    }

    /// The embedded broker did not start.
    pub(crate) fn from_start(source: StartError) -> Self {
        let remedy = match source {
            StartError::Listen { ref address, .. } if !is_address(address) => {
                return Failure::ListenAddress;
            }
            StartError::Listen { .. } => "choose another --listen address",
            StartError::Ring { .. } => "see the README's section on what the machine must allow",
            _ => "raise the limits of open files and threads",
        };
        Failure::Broker { source, remedy }
    }

    /// Some records of a final account are not known to be stored. `lost_at` is the server to show
    /// when the connection to it was lost while records were sent.
    pub(crate) fn not_all_stored(
        account: &Account,
        lost_at: Option<String>,
        first: FirstLost,
    ) -> Self {
        Failure::NotAllStored {
            missing: account.accepted - account.stored - account.stored_offset_unknown,
            accepted: account.accepted,
            connection: lost_at.map_or_else(String::new, |server| {
                format!(" (the connection to {server} was lost)")
            }),
            first,
        }
    }

    /// What went wrong on standard output.
    pub(crate) fn from_output(source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            Failure::OutputClosed
        } else {
            Failure::Output { source }
        }
    }
}

/// Whether `text` has the form `host:port`; the host may have no address all the same.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_host = !host.is_empty() && shown(text) == text;
    is_host && host.starts_with('[') == host.ends_with(']') && port.parse::<u16>().is_ok()
}

/// The command-line option that sets an option of the engine.
fn flag(option: &'static str) -> &'static str {
    match option {
        "memory_bytes_max" => "memory-bytes",
        "slot_bytes" | "batch_bytes_max" => "batch-bytes",
        "window_requests_max" => "window",
        "connect_timeout_us" | "delivery_timeout_us" => "timeout",
        other => other,
    }
}
