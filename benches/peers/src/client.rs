//! The client's process, and the director's call of it.

use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::machine;
use crate::peers;
use crate::spec::{Order, Peer, Report};

/// Carries an order out and prints the report as one line.
///
/// # Errors
/// Whatever keeps the peer from confirming every record.
pub(crate) fn run(order: &str, core: usize) -> Result<(), Failure> {
    machine::pin(core)?;
    let order: Order = serde_json::from_str(order).map_err(Failure::peer("order"))?;
    let report = match order.peer {
        Peer::Ringmain(setup) => peers::ringmain::run(&order, setup),
        Peer::SdkDirect(setup) => peers::sdk::run_direct(&order, setup),
        Peer::SdkBackground(setup) => peers::sdk::run_background(&order, setup),
        Peer::Raw(setup) => peers::raw::run(&order, setup),
    }?;
    println!("{}", serde_json::to_string(&report).expect("plain data"));
    Ok(())
}

/// Has an order carried out by a process of its own.
pub(crate) fn start(order: &Order, core: usize) -> Result<Report, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let output = Command::new(program)
        .args(["client", "--core", &core.to_string(), "--order"])
        .arg(serde_json::to_string(order).expect("plain data"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Failure::io("starting the client process"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|_| Failure::Child {
        who: "client",
        found: line.to_owned(),
        expected: "its report",
    })
}
