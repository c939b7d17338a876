//! What a rule finds: file, line, rule, note.

use std::fmt;

/// One place that breaks one rule.
#[derive(Debug)]
pub struct Finding {
    path: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    note: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.note
        )
    }
}

/// What one file is found guilty of.
pub(crate) struct Report<'a> {
    pub(crate) path: &'a str,
    pub(crate) findings: Vec<Finding>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(path: &'a str) -> Self {
        Report {
            path,
            findings: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, line: usize, rule: &'static str, note: impl Into<String>) {
        self.findings.push(Finding {
            path: self.path.to_owned(),
            line,
            rule,
            note: note.into(),
        });
    }
}
