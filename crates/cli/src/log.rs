//! The log: what engine and broker report while they run, on standard error: warnings and
//! errors, or as much as `--log` and [`LOG_VARIABLE`] ask for.
//!
//! Shard threads write it. They must not stand still because the reader of standard error does, so
//! a line that finds no room is left out, and the next line that is written says how many were.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::args::LogArg;
use crate::exit::Failure;
use crate::say;

/// The environment variable that names the level when no argument does.
pub(crate) const LOG_VARIABLE: &str = "RINGMAIN_LOG";

/// Starts the log of this process. To be called once, before any other thread runs.
///
/// # Errors
/// [`Failure::LogLevel`] when the environment names a level that there is not.
pub(crate) fn start(asked: Option<LogArg>) -> Result<(), Failure> {
    let level = level(asked, std::env::var_os(LOG_VARIABLE))?;
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .event_format(Sentence)
        .with_writer(Lines {
            left_out: AtomicU64::new(0),
        })
        .finish();
    tracing::subscriber::set_global_default(log).expect("nothing else sets a log");
    Ok(())
}

/// The level of the argument, else of the environment, where blank is nothing, else warnings.
fn level(asked: Option<LogArg>, of_environment: Option<OsString>) -> Result<LevelFilter, Failure> {
    let of_environment = || {
        let text = of_environment?;
        let text = text.to_string_lossy();
        let name = text.trim();
        let parsed = LogArg::from_str(name, true).map_err(|_| Failure::LogLevel);
        (!name.is_empty()).then_some(parsed)
    };
    let asked = match asked {
        Some(asked) => Some(asked),
        None => of_environment().transpose()?,
    };
    Ok(match asked {
        Some(LogArg::Error) => LevelFilter::ERROR,
        Some(LogArg::Warn) | None => LevelFilter::WARN,
        Some(LogArg::Info) => LevelFilter::INFO,
        Some(LogArg::Debug) => LevelFilter::DEBUG,
        Some(LogArg::Trace) => LevelFilter::TRACE,
    })
}

/// `warning: text name=value ...`, behind what [`say`] puts before every line.
struct Sentence;

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(match *event.metadata().level() {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            Level::INFO => "info: ",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
        })?;
        context.format_fields(writer.by_ref(), event)
    }
}

/// Where lines go.
struct Lines {
    /// Lines that found no room since the last one that did.
    left_out: AtomicU64,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &Lines {
    /// Takes one whole event.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let is_written = match left_out {
            0 => say::note_now(format_args!("{text}")),
            _ => say::note_now(format_args!(
                "{text} ({left_out} lines before it found no room)"
            )),
        };
        if !is_written {
            self.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_goes_before_the_variable_and_blank_is_unset() {
        for (asked, variable, wanted) in [
            (None, None, LevelFilter::WARN),
            (None, Some(" \t"), LevelFilter::WARN),
            (None, Some("info"), LevelFilter::INFO),
            (None, Some(" TRACE "), LevelFilter::TRACE),
            (Some(LogArg::Error), Some("trace"), LevelFilter::ERROR),
            (Some(LogArg::Debug), Some("nonsense"), LevelFilter::DEBUG),
        ] {
            let found = level(asked, variable.map(OsString::from));
            assert_eq!(found.ok(), Some(wanted), "{asked:?} {variable:?}");
        }
        for variable in ["loud", "5", "warn,info"] {
            let found = level(None, Some(OsString::from(variable)));
            assert!(matches!(found, Err(Failure::LogLevel)), "{variable}");
        }
    }
}
