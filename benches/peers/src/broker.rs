//! The broker's process, and the director's handle on it.
//!
//! Every measurement gets a broker of its own, with the same limits: records of the last 64 MiB are
//! kept, so that within the warm-up every peer finds the same recycled memory, and no peer pays for
//! pages that another got first. What retention removes stays counted.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ringmain_broker::Broker;

use crate::failure::Failure;
use crate::machine;
use crate::spec::BrokerReport;

/// Records kept. Small enough to be full at the end of every warm-up.
const KEPT_BYTES: u64 = 64 << 20;

/// Serves until standard input ends; answers every line of it with a [`BrokerReport`].
///
/// # Errors
/// A broker that does not start, or a director that is gone.
pub(crate) fn serve(sink: bool, core: usize) -> Result<(), Failure> {
    machine::pin(core)?;
    let broker = Broker::builder()
        .sink(sink)
        .topic_bytes_max(KEPT_BYTES)
        .memory_bytes_max(KEPT_BYTES)
        .start()
        .map_err(Failure::peer("broker"))?;
    println!("{}", broker.addr());
    for line in std::io::stdin().lines() {
        line.map_err(Failure::io("reading what the director asks"))?;
        let report = serde_json::to_string(&report(&broker)).expect("plain data");
        println!("{report}");
    }
    Ok(())
}

fn report(broker: &Broker) -> BrokerReport {
    let stats = broker.stats();
    BrokerReport {
        records: stats.records,
        batches: stats.batches,
        irregular: stats.refusals
            + stats.duplicates
            + stats.swallowed
            + stats.sends_absorbed
            + stats.sends_dropped
            + stats.sends_malformed,
        bytes_in: stats.bytes_in,
        cpu_s: machine::cpu_seconds(),
        text: stats.to_string(),
    }
}

/// A broker in a process of its own. Ends with this handle.
pub(crate) struct BrokerProcess {
    child: Child,
    /// `Some` until the drop.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) addr: SocketAddr,
}

impl BrokerProcess {
    pub(crate) fn start(sink: bool, core: usize) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
        let mut command = Command::new(program);
        command
            .args(["broker", "--core", &core.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if sink {
            command.arg("--sink");
        }
        let mut child = command
            .spawn()
            .map_err(Failure::io("starting the broker process"))?;
        let ask = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().expect("a piped output"));
        let line = read_line(&mut answers)?;
        let addr = line.parse().map_err(|_| Failure::Child {
            who: "broker",
            found: line.clone(),
            expected: "its address",
        })?;
        Ok(Self {
            child,
            ask,
            answers,
            addr,
        })
    }

    /// What the broker counted so far.
    pub(crate) fn report(&mut self) -> Result<BrokerReport, Failure> {
        let ask = self.ask.as_mut().expect("open until the drop");
        ask.write_all(b"report\n")
            .map_err(Failure::io("asking the broker process"))?;
        let line = read_line(&mut self.answers)?;
        serde_json::from_str(&line).map_err(|_| Failure::Child {
            who: "broker",
            found: line,
            expected: "its counters",
        })
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        drop(self.ask.take());
        // It ends by itself now; what it says last is of no interest.
        let _ = self.child.wait();
    }
}

fn read_line(answers: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    answers
        .read_line(&mut line)
        .map_err(Failure::io("listening to the broker process"))?;
    Ok(line.trim_end().to_owned())
}
