//! The command line. What each option means, its unit, range and default stand here once: `--help`
//! and the tests read them from here.
//!
//! No type here has a `Debug` that could show a server URL, because a URL holds a password.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ringmain::{DriverChoice, limits};

/// Feeds Apache Iggy: a load generator, a line sender and an embedded broker.
#[derive(Parser)]
#[command(name = "ringmain", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// How much of what happens is told on standard error. Without it: the environment variable
    /// RINGMAIN_LOG, unless that is blank, and else warnings.
    #[arg(long, value_name = "LEVEL", global = true)]
    pub(crate) log: Option<LogArg>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The least important events that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogArg {
    /// What ended something.
    Error,
    /// What a person should look at.
    Warn,
    /// What changed: connections, cores.
    Info,
    /// What was decided.
    Debug,
    /// Everything.
    Trace,
}

/// What moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverArg {
    /// io_uring where this host allows it, otherwise epoll.
    Auto,
    /// io_uring, or an error that says what refuses it.
    #[value(name = "io_uring")]
    IoUring,
    /// epoll, which works everywhere.
    Epoll,
}

impl DriverArg {
    /// The engine's word for it.
    pub(crate) fn choice(self) -> DriverChoice {
        match self {
            Self::Auto => DriverChoice::Auto,
            Self::IoUring => DriverChoice::IoUring,
            Self::Epoll => DriverChoice::Epoll,
        }
    }
}

/// The shell that is to complete arguments.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ShellArg {
    /// For `~/.local/share/bash-completion/completions/ringmain`.
    Bash,
    /// For `_ringmain` in a folder of `$fpath`.
    Zsh,
    /// For `~/.config/fish/completions/ringmain.fish`.
    Fish,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: ShellArg,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Send generated records for a few seconds and show what was reached.
    Bench(BenchArgs),
    /// Send every line of a file or of standard input as one record.
    Send(SendArgs),
    /// Write every record of a topic to standard output, one line each.
    Dump(DumpArgs),
    /// Examine this host, and a server when one is named: what costs speed and what changes it.
    Doctor(DoctorArgs),
    /// Run the embedded broker alone until Ctrl-C. In memory; user iggy, password iggy.
    Broker(BrokerArgs),
    /// Print what makes a shell complete the arguments of this command.
    Completions(CompletionsArgs),
    /// Print the manual page.
    Man,
}

/// Where the server is and who logs in.
#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Server URL: iggy://user:password@host:port or iggy://TOKEN@host:port. Without it: that of
    /// the environment variable RINGMAIN_SERVER, unless that is blank.
    ///
    /// A URL given here can be seen by other users of the machine (ps); one in the environment
    /// cannot.
    // The variable is not clap's: to clap it would be the option itself, and contradict --sink.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<OsString>,

    /// File with the password (URL iggy://user@host:port) or the token (URL iggy://host:port).
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// Which topic of the server.
#[derive(Args)]
pub(crate) struct TopicArgs {
    /// Name of the stream.
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: String,

    /// Name of the topic in it.
    #[arg(long, value_name = "NAME")]
    pub(crate) topic: String,
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// What moves the bytes. Without it: what the URL says (driver=), or auto, which takes epoll
    /// where io_uring is refused.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<DriverArg>,

    /// Stream to send to; created when missing.
    #[arg(long, value_name = "NAME", default_value = "ringmain-bench")]
    pub(crate) stream: String,

    /// Topic to send to; created when missing.
    #[arg(long, value_name = "NAME", default_value = "records")]
    pub(crate) topic: String,

    /// How long to send, in seconds: 1 to 86400.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,

    /// Payload of one record, in bytes: 0 to 64000000.
    #[arg(long, value_name = "BYTES", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=limits::PAYLOAD_BYTES_MAX as i64))]
    pub(crate) record_bytes: u32,

    /// Partitions to send to in turn: 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) partitions: u32,

    /// Connections: one a shard, which is the default, to 256.
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<u16>,

    /// Shard threads, each pinned to a core when there are more cores than shards: 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(limits::SHARDS_MAX)))]
    pub(crate) shards: u16,

    /// Requests in flight for each partition: 1 to 32.
    #[arg(long, value_name = "N", default_value_t = limits::WINDOW_REQUESTS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::WINDOW_REQUESTS_MAX)))]
    pub(crate) window: u32,

    /// How long a batch that is not full waits for more records, in microseconds: 0 to 60000000.
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=limits::LINGER_US_MAX))]
    pub(crate) linger_us: u64,

    /// Bytes of one request at most: 4096 to 16777216.
    #[arg(long, value_name = "BYTES", default_value_t = limits::SLOT_BYTES_DEFAULT, value_parser = clap::value_parser!(u32).range(i64::from(limits::SLOT_BYTES_MIN)..=i64::from(limits::SLOT_BYTES_MAX)))]
    pub(crate) batch_bytes: u32,

    /// Memory for records that are not answered yet, in bytes: 65536 to 1 TiB, and at least eight
    /// times --batch-bytes for each shard. In a run without --rate it is full, and decides the
    /// latency.
    #[arg(long, value_name = "BYTES", default_value_t = limits::MEMORY_BYTES_DEFAULT, value_parser = clap::value_parser!(u64).range(limits::MEMORY_BYTES_MIN..=limits::MEMORY_BYTES_MAX))]
    pub(crate) memory_bytes: u64,

    /// Records a second to send, 1 to 1000000000. Latency then counts from the moment a record was
    /// due, not from the moment it could be sent. Without it: as many as possible.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) rate: Option<u64>,

    /// Let an embedded broker answer without storing: measures the sender alone. Goes before
    /// RINGMAIN_SERVER.
    #[arg(long, conflicts_with_all = ["server", "password_file"])]
    pub(crate) sink: bool,

    /// Print the result as one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// How long the login may take, and the wait for the last answers at the end or after Ctrl-C,
    /// in seconds: 1 to 86400.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

/// Whether records of one partition may overtake each other.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum OrderingArg {
    /// One request in flight for each partition; the order of the input is the order of the log.
    Strict,
    /// Several; a request the server refuses or drops for the moment can be overtaken.
    Pipelined,
}

#[derive(Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// What moves the bytes. Without it: what the URL says (driver=), or auto, which takes epoll
    /// where io_uring is refused.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<DriverArg>,

    #[command(flatten)]
    pub(crate) target: TopicArgs,

    /// File to read; `-` or none is standard input.
    pub(crate) file: Option<PathBuf>,

    /// Send every line to this partition, from 0. Without it: to all in turn, or by key.
    #[arg(long, value_name = "N", conflicts_with = "key_field")]
    pub(crate) partition: Option<u32>,

    /// The field of each line, from 1, that is its key: lines of one key go to one partition, the
    /// same as in every Iggy SDK. The whole line is sent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) key_field: Option<u32>,

    /// The byte between fields: one character, or \t, \0, \\.
    #[arg(long, value_name = "BYTE", default_value = "\\t", value_parser = delimiter, requires = "key_field")]
    pub(crate) key_delimiter: u8,

    /// Create the stream and the topic when they do not exist.
    #[arg(long)]
    pub(crate) create: bool,

    /// Partitions of a topic that is created: 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000), requires = "create")]
    pub(crate) partitions: u32,

    /// Partitions that lines may go to: 1 to 65536. Each costs about 1 KiB of memory.
    #[arg(long, value_name = "N", default_value_t = limits::PARTITIONS_ENGINE_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PARTITIONS_ENGINE_MAX)))]
    pub(crate) partitions_max: u32,

    /// Whether records of one partition may overtake each other when the server refuses some for
    /// the moment.
    #[arg(long, value_enum, default_value_t = OrderingArg::Strict)]
    pub(crate) ordering: OrderingArg,

    /// How long the login may take, and a record while the server answers nothing that is ahead of
    /// it, in seconds, 1 to 86400; also how long to drain after Ctrl-C or a record that is not
    /// stored.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// What moves the bytes. Without it: what the URL says (driver=), or auto, which takes epoll
    /// where io_uring is refused.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<DriverArg>,

    #[command(flatten)]
    pub(crate) target: TopicArgs,

    /// Read this partition alone, from 0. Without it: all, one after the other.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Option<u32>,

    /// Begin each line with partition, tab, offset, tab.
    #[arg(long)]
    pub(crate) offsets: bool,

    /// Leave out the newline after the last record.
    #[arg(long)]
    pub(crate) no_final_newline: bool,

    /// How long the login and each answer may take, in seconds: 1 to 86400.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Shard threads that the engine is meant to have: 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(limits::SHARDS_MAX)))]
    pub(crate) shards: u16,

    /// Memory that the engine is meant to have, in bytes: 65536 to 1 TiB.
    #[arg(long, value_name = "BYTES", default_value_t = limits::MEMORY_BYTES_DEFAULT, value_parser = clap::value_parser!(u64).range(limits::MEMORY_BYTES_MIN..=limits::MEMORY_BYTES_MAX))]
    pub(crate) memory_bytes: u64,

    /// Also measure what some findings are worth here, for about half a minute: two cores are busy
    /// meanwhile.
    #[arg(long)]
    pub(crate) measure: bool,

    /// Print the report as one JSON object instead of one line a check.
    #[arg(long)]
    pub(crate) json: bool,

    /// How long the login and each answer of the server may take, in seconds: 1 to 86400.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct BrokerArgs {
    /// Address to listen on. Port 0 takes a free one; the address bound is printed on standard
    /// output.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub(crate) listen: String,

    /// What carries the sockets. Without it: auto.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<DriverArg>,

    /// Server version to imitate.
    #[arg(long, value_enum, default_value_t = ProfileArg::Release)]
    pub(crate) profile: ProfileArg,

    /// Memory for records, in bytes; past it the oldest are forgotten, and a batch above it is
    /// refused.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) memory_bytes: u64,

    /// TOML file of faults to commit on purpose, as the documentation of ringmain-broker's Script
    /// describes them.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Answer without storing.
    #[arg(long)]
    pub(crate) sink: bool,

    /// Also print the counters every so many seconds, 1 to 86400.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) stats_seconds: Option<u64>,
}

/// The server version that the broker imitates.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ProfileArg {
    /// 0.9.0: a retried send is recognised and stored once.
    Release,
    /// 0.9.0-edge.5: a retried send is stored again.
    Edge5,
}

/// One byte, as itself or as an escape.
fn delimiter(text: &str) -> Result<u8, String> {
    match (text, text.as_bytes()) {
        ("\\t", _) => Ok(b'\t'),
        ("\\0", _) => Ok(0),
        ("\\\\", _) => Ok(b'\\'),
        (_, [b'\n']) => Err("a newline ends a line and cannot divide it".to_owned()),
        (_, [byte]) => Ok(*byte),
        _ => Err("must be one ASCII character, or \\t, \\0 or \\\\".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn delimiters_are_one_byte() {
        for (text, byte) in [
            ("\\t", b'\t'),
            ("\\0", 0),
            ("\\\\", b'\\'),
            (",", b','),
            ("\\", b'\\'),
        ] {
            assert_eq!(delimiter(text), Ok(byte), "{text:?}");
        }
        for text in ["", "ab", "\u{e9}", "\n"] {
            assert!(delimiter(text).is_err(), "{text:?}");
        }
    }
}
