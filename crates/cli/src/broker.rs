//! `ringmain broker`: the embedded broker alone, until Ctrl-C.
//!
//! Standard output gets one line, the bound address, so that a script can read it; people are told on standard error,
//! the counters among it: at the end, and at an interval if asked for.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ringmain_broker::{Broker, Profile, Script};

use crate::args::{BrokerArgs, ProfileArg};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::say;

/// Runs until a signal comes, then says what there was to do.
///
/// # Errors
/// [`Failure::Broker`] when the address cannot be had, [`Failure::ScriptFile`] and [`Failure::Script`] when the faults
/// cannot be read, and those of standard output.
pub(crate) fn run(args: BrokerArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::install()?;
    let script = match &args.script {
        None => Script::new(),
        Some(path) => script(path)?,
    };
    let broker = Broker::builder()
        .listen(args.listen)
        .profile(match args.profile {
            ProfileArg::Release => Profile::Release,
            ProfileArg::Edge5 => Profile::Edge5,
        })
        .topic_bytes_max(args.memory_bytes)
        .memory_bytes_max(args.memory_bytes)
        .script(script)
        .sink(args.sink)
        .start()
        .map_err(Failure::from_start)?;
    say::result(format_args!("{}", broker.addr()))?;
    say::note(format_args!(
        "broker in memory, for tests and first runs: iggy://iggy:iggy@{}; Ctrl-C ends it and forgets all records",
        broker.addr()
    ));
    match args.stats_seconds.map(Duration::from_secs) {
        None => interrupt.wait(),
        Some(interval) => {
            while !interrupt.wait_for(interval)? {
                say::note(format_args!("the broker saw so far\n{}", broker.stats()));
            }
        }
    }
    say::note(format_args!("the broker saw\n{}", broker.stats()));
    Ok(())
}

fn script(path: &Path) -> Result<Script, Failure> {
    let text = fs::read_to_string(path).map_err(|source| Failure::ScriptFile {
        path: path.to_path_buf(),
        source,
    })?;
    Script::from_toml(&text).map_err(|source| Failure::Script {
        path: path.to_path_buf(),
        source,
    })
}
