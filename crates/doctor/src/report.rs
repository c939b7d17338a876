//! What checks found, as lines for people and as JSON for programs.

use std::fmt::Write as _;

use serde::Serialize;

/// What a check thinks of what it saw. From the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing to gain.
    Fine,
    /// It could not be read or tried. Not a promise that it is fine.
    Unknown,
    /// ringmain works, but slower than it could.
    Slower,
    /// ringmain does not work.
    Broken,
}

impl Verdict {
    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Slower => "slower",
            Self::Broken => "broken",
        }
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, which never changes: lower case, words joined by `_`.
    pub id: &'static str,
    /// What it thinks.
    pub verdict: Verdict,
    /// What it saw.
    pub found: String,
    /// What that costs; `None` when nothing.
    pub cost: Option<String>,
    /// The command that changes it; `None` when nothing is to be changed.
    pub command: Option<String>,
    /// What a measurement on this host says of it; `None` without one.
    pub measured: Option<String>,
}

impl Check {
    pub(crate) fn fine(id: &'static str, found: impl Into<String>) -> Self {
        Self {
            id,
            verdict: Verdict::Fine,
            found: found.into(),
            cost: None,
            command: None,
            measured: None,
        }
    }

    pub(crate) fn unknown(id: &'static str, found: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Unknown,
            ..Self::fine(id, found)
        }
    }

    pub(crate) fn slower(
        id: &'static str,
        found: impl Into<String>,
        cost: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Slower,
            cost: Some(cost.into()),
            command: Some(command.into()),
            ..Self::fine(id, found)
        }
    }

    pub(crate) fn broken(
        id: &'static str,
        found: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Broken,
            cost: Some("ringmain does not work".to_owned()),
            command: Some(command.into()),
            ..Self::fine(id, found)
        }
    }
}

/// Every check, in the order they are printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The version of ringmain.
    pub ringmain: &'static str,
    /// The worst of the verdicts, with [`Verdict::Unknown`] above [`Verdict::Fine`].
    pub verdict: Verdict,
    /// What each check found.
    pub checks: Vec<Check>,
}

impl Report {
    /// A report of `checks`.
    #[must_use]
    pub fn new(checks: Vec<Check>) -> Self {
        let verdict = checks.iter().map(|check| check.verdict).max();
        Self {
            ringmain: env!("CARGO_PKG_VERSION"),
            verdict: verdict.unwrap_or(Verdict::Unknown),
            checks,
        }
    }

    /// 0; 1 when something is slower than it could be; 2 when something does not work.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Fine | Verdict::Unknown => 0,
            Verdict::Slower => 1,
            Verdict::Broken => 2,
        }
    }

    /// One line a check, without the last line end.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = Vec::with_capacity(self.checks.len());
        for check in &self.checks {
            let mut line = format!("{:<8} {}: {}", check.verdict.name(), check.id, check.found);
            if let Some(cost) = &check.cost {
                write!(line, "; costs: {cost}").expect("a String takes everything");
            }
            if let Some(measured) = &check.measured {
                write!(line, "; measured: {measured}").expect("a String takes everything");
            }
            if let Some(command) = &check.command {
                write!(line, "; change: {command}").expect("a String takes everything");
            }
            // One line a check, whatever a file or a server said.
            lines.push(line.replace(char::is_control, " "));
        }
        lines.join("\n")
    }

    /// One JSON object; `docs/doctor.md` describes it.
    ///
    /// # Panics
    /// Never: every field is text.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("text becomes JSON")
    }
}
