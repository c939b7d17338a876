//! `ringmain doctor`: what this host costs, one line a check. Reads and tries, changes nothing.

use std::path::Path;
use std::time::Duration;

use ringmain_doctor::{
    Asked, Effort, Facts, Host, check, clock_cost_ns, measure, probe_ring, probe_server,
};

use crate::args::DoctorArgs;
use crate::exit::Failure;
use crate::say;
use crate::server::{self, Server};

/// Examines this host, and the server when one is named.
///
/// # Errors
/// [`Failure::HostSlower`] and [`Failure::HostBroken`] after the report was printed, and those of
/// the server's URL and of standard output.
pub(crate) fn run(args: DoctorArgs) -> Result<(), Failure> {
    let url = server::named(&args.server)?;
    let facts = Facts {
        asked: Asked {
            shards: args.shards,
            memory_bytes: args.memory_bytes,
        },
        host: Host::read(Path::new("/")),
        ring: Some(probe_ring()),
        clock_ns: Some(clock_cost_ns()),
        server: url.map(|url| probe_server(&url, Duration::from_secs(args.timeout))),
    };
    let mut report = check(&facts);
    if args.measure {
        let sink = Server::sink()?;
        measure(&mut report, &facts.host, &sink.url(), &Effort::default());
    }
    if args.json {
        say::result(format_args!("{}", report.json()))?;
    } else {
        say::result(format_args!("{}", report.text()))?;
    }
    match report.exit_code() {
        0 => Ok(()),
        1 => Err(Failure::HostSlower),
        _ => Err(Failure::HostBroken),
    }
}
