//! The last events of a run, as readable lines.
//!
//! Role: what is printed when a run fails. Does not: cost anything unless it is switched on; a
//! failing seed is run again with the trace on, which gives the same run, because nothing depends
//! on the trace.

use std::collections::VecDeque;

/// Lines of the last events.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: VecDeque<String>,
    lines_max: usize,
}

impl Trace {
    /// A trace of the last `lines_max` events; 0 switches it off.
    #[must_use]
    pub(crate) const fn new(lines_max: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            lines_max,
        }
    }

    /// Notes an event. `line` is not called when the trace is off.
    pub(crate) fn note(&mut self, now_us: u64, line: impl FnOnce() -> String) {
        if self.lines_max == 0 {
            return;
        }
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        let line = line();
        self.lines.push_back(format!(
            "{:>6}.{:06} {line}",
            now_us / 1_000_000,
            now_us % 1_000_000
        ));
    }

    /// The lines, oldest first.
    #[must_use]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut trace = Trace::new(2);
        for (index, word) in ["one", "two", "three"].into_iter().enumerate() {
            trace.note(index as u64, || word.to_owned());
        }
        assert_eq!(trace.lines(), ["     0.000001 two", "     0.000002 three"]);
    }

    #[test]
    fn a_trace_that_is_off_builds_no_lines() {
        Trace::new(0).note(0, || unreachable!("the trace is off"));
    }
}
