//! The command line, of the director and of the processes it starts.

use clap::{Parser, Subcommand};

/// ringmain, the official SDK and raw loops side by side.
#[derive(Debug, Parser)]
#[command(name = "ringmain-bench-peers")]
pub(crate) struct Args {
    /// Only this case; may be given again. Default: all of them.
    #[arg(long = "case", value_name = "NAME", global = true)]
    pub(crate) cases: Vec<String>,
    /// Rounds, in each of which every peer runs once.
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Seconds of each measurement, after a warm-up of a quarter of that.
    #[arg(long, global = true, default_value_t = 1.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Changes an option of ringmain's setup in every case, to try it; the value as JSON:
    /// `write_path="SendMsg"`, `memory_bytes_max=16777216`, `window=32`. The table then shows
    /// another thing than the cases say.
    #[arg(long = "set", value_name = "OPTION=VALUE", global = true)]
    pub(crate) settings: Vec<String>,
    /// A server that runs already, user and password iggy, instead of a broker for each
    /// measurement. Deletes and makes its stream `bench`. What a peer claims to be stored is
    /// believed then, and the figures of the broker and of other work are 0: the server is not
    /// asked.
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    pub(crate) server: Option<std::net::SocketAddr>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What a process is for, when it is not the director.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tries configurations of the official SDK and shows what each reaches.
    Sweep,
    /// Runs one contender of every case asked for once, for a profiler: `perf record -C CORE -- ..
    /// once ringmain`.
    Once {
        /// The contender, as it stands in the table.
        label: String,
    },
    /// One broker, for one measurement.
    #[command(hide = true)]
    Broker {
        /// Answer without storing.
        #[arg(long)]
        sink: bool,
        /// Core to stay on.
        #[arg(long)]
        core: usize,
    },
    /// One client, for one measurement.
    #[command(hide = true)]
    Client {
        /// What to do, as JSON.
        #[arg(long)]
        order: String,
        /// Core to stay on.
        #[arg(long)]
        core: usize,
    },
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number from 0.05 to 60".to_owned()),
    }
}
