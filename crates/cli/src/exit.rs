//! Why a command ends, and the exit code that says so. Nothing here prints: `main` prints one line and exits.
//!
//! Every failure is one sentence that names the cause and the remedy. None of them shows a password: servers are
//! shown by address, URLs never.

use std::io;
use std::path::PathBuf;

use ringmain::server_url::ServerUrlError;
use ringmain::{Account, BuildError, CallError, Engine, Outcome, SendError};
use ringmain_broker::{ScriptError, StartError};

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
    Interrupted = 130,
}

impl Code {
    /// What the code says, for the table in README.md.
    #[cfg(test)]
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Code::Done => "done; of `send` and `bench`: every record is stored",
            Code::NotAllStored => {
                "not every accepted record is known to be stored; the account says how many are"
            }
            Code::Usage => "arguments, server URL or fault script make no sense",
            Code::Files => "a file, standard input or standard output cannot be read or written",
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
            Code::Interrupted => "ended by Ctrl-C or SIGTERM; what was accepted before is stored",
        }
    }

    /// Every code, in order.
    #[cfg(test)]
    pub(crate) const ALL: [Code; 11] = [
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
        Code::Interrupted,
    ];
}

/// Why a command could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    ServerUrl(#[from] ServerUrlError),
    #[error(
        "no server to read from: give --server iggy://user:password@host:port or set RINGMAIN_SERVER"
    )]
    ServerMissing,
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
        "topic {stream}/{topic} has {found} partitions and --partitions asks for {wanted}; give --partitions {found}, or another --topic"
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
    #[error("cannot read the password file {}: {source}; give a readable file", path.display())]
    PasswordFile { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}; give a readable file, or none to read standard input", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("cannot read standard input: {source}; give a FILE instead")]
    StandardInput { source: io::Error },
    #[error("cannot write to standard output: {source}; free space or choose another place")]
    Output { source: io::Error },
    /// The reader of standard output went away, as `head` does. Nothing is wrong and nothing is printed.
    #[error("standard output was closed")]
    OutputClosed,
    #[error("cannot reach {server}: {cause}; check the address and that the server runs")]
    Unreachable { server: String, cause: String },
    #[error("{server} refused the login ({cause}); check user name and password, or the token")]
    Login { server: String, cause: String },
    #[error("topic {stream}/{topic} does not exist; {remedy}")]
    TopicMissing {
        stream: String,
        topic: String,
        remedy: &'static str,
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
    #[error("cannot read the script {}: {source}; give a readable file", path.display())]
    ScriptFile { path: PathBuf, source: io::Error },
    #[error("the script {} is wrong: {source}", path.display())]
    Script { path: PathBuf, source: ScriptError },
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
        "interrupted; what was accepted before it is stored, the rest of the input was not sent"
    )]
    Interrupted,
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
            | Failure::FileIsUrl
            | Failure::Script { .. }
            | Failure::Configuration(_)
            | Failure::RecordBytes { .. }
            | Failure::OutOfRange { .. }
            | Failure::Contradiction { .. }
            | Failure::Partitions { .. } => Code::Usage,
            Failure::PasswordFile { .. }
            | Failure::ScriptFile { .. }
            | Failure::Input { .. }
            | Failure::StandardInput { .. }
            | Failure::Output { .. } => Code::Files,
            Failure::OutputClosed => Code::Done,
            Failure::Unreachable { .. } => Code::Unreachable,
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
            Failure::NotAllStored { .. } => Code::NotAllStored,
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
            CallError::Timeout { .. } | CallError::Lost { .. } => Failure::Unreachable {
                server: server.to_owned(),
                cause: error.to_string(),
            },
            other => Failure::Call(other),
        }
    }

    /// The embedded broker did not start.
    pub(crate) fn from_start(source: StartError) -> Self {
        let remedy = match source {
            StartError::Listen { .. } => "choose another --listen address",
            StartError::Ring { .. } => "see the README's section on what the machine must allow",
            _ => "raise the limits of open files and threads",
        };
        Failure::Broker { source, remedy }
    }

    /// Some records that `engine`, now closed, sent to `server` are not known to be stored.
    pub(crate) fn not_all_stored(engine: &Engine, server: &str, first: FirstLost) -> Self {
        let stats = engine.stats();
        let Account {
            accepted,
            stored,
            stored_offset_unknown,
            ..
        } = stats.account;
        Failure::NotAllStored {
            missing: accepted - stored - stored_offset_unknown,
            accepted,
            connection: if stats.disconnects == 0 {
                String::new()
            } else {
                format!(" (the connection to {server} was lost)")
            },
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
