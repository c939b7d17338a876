//! `ringmain broker`: the embedded broker alone, until Ctrl-C.
//!
//! Standard output gets one line, the bound address, so that a script can read it; people are told on standard error.

use ringmain_broker::Broker;

use crate::args::BrokerArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::say;

/// Runs until a signal comes.
///
/// # Errors
/// [`Failure::Broker`] when the address cannot be had, [`Failure::Output`] when it cannot be printed.
pub(crate) fn run(args: BrokerArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::install()?;
    let broker = Broker::builder()
        .listen(args.listen)
        .sink(args.sink)
        .start()
        .map_err(Failure::Broker)?;
    say::result(format_args!("{}", broker.addr()))?;
    say::note(format_args!(
        "broker in memory, for tests and first runs: iggy://iggy:iggy@{}; Ctrl-C ends it and forgets all records",
        broker.addr()
    ));
    interrupt.wait();
    Ok(())
}
