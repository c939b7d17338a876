//! The log: what engine and broker report while they run, on standard error, from warnings up.
//!
//! Shard threads write it. They must not stand still because the reader of standard error does, so
//! a line that finds no room is left out, and the next line that is written says how many were.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::say;

/// Starts the log of this process. To be called once, before any other thread runs.
pub(crate) fn start() {
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::WARN)
        .event_format(Sentence)
        .with_writer(Lines {
            left_out: AtomicU64::new(0),
        })
        .finish();
    tracing::subscriber::set_global_default(log).expect("nothing else sets a log");
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
