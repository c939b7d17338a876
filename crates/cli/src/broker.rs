//! `ringmain broker`: the embedded broker alone, until Ctrl-C.
//!
//! Standard output gets one line, the bound address, so that a script can read it; people are told
//! on standard error, the counters among it: at the end, and at an interval if asked for.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ringmain_broker::{Broker, Driver, Profile, Script};

use crate::args::{BrokerArgs, DriverArg, ProfileArg};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::say;
use crate::stdio::read_file;

/// Bytes read of a script: more than anybody writes, and not the whole of a wrong file.
const SCRIPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long the broker may take to end after a signal.
const END: Duration = Duration::from_secs(5);

/// Runs until a signal comes, then says what there was to do.
///
/// # Errors
/// [`Failure::Broker`] when the address cannot be had, [`Failure::ScriptFile`] and
/// [`Failure::Script`] when the faults cannot be read, and those of standard output.
pub(crate) fn run(args: BrokerArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let script = match &args.script {
        None => Script::new(),
        Some(path) => script(path)?,
    };
    let broker = Broker::builder()
        .listen(args.listen)
        .driver(match args.driver {
            None | Some(DriverArg::Auto) => Driver::Auto,
            Some(DriverArg::IoUring) => Driver::IoUring,
            Some(DriverArg::Epoll) => Driver::Epoll,
        })
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
    // Before the line that says where it is: a reader of that line ends it in order.
    interrupt.drain_within(END);
    say::result(format_args!("{}", broker.addr()))?;
    say::note(format_args!(
        "broker in memory, for tests and first runs: iggy://iggy:iggy@{}; Ctrl-C ends it and forgets all records",
        broker.addr()
    ));
    let interval = args.stats_seconds.map(Duration::from_secs);
    let next = || interval.map(|interval| Instant::now() + interval);
    while !interrupt.wait_until(next()) {
        say::note(format_args!("the broker saw so far\n{}", broker.stats()));
    }
    say::note(format_args!("the broker saw\n{}", broker.stats()));
    Ok(())
}

fn script(path: &Path) -> Result<Script, Failure> {
    let unreadable = |source| Failure::ScriptFile {
        path: path.to_path_buf(),
        source,
    };
    let bytes = read_file(path, SCRIPT_BYTES_MAX).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        unreadable(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not UTF-8",
        ))
    })?;
    Script::from_toml(&text).map_err(|source| Failure::Script {
        path: path.to_path_buf(),
        source,
    })
}
