//! Seeds that once failed, kept with their cause.
//!
//! Role: reads the lists in `seeds/`. Does not: promise that a seed still runs into the same
//! trouble: a seed draws another run as soon as the simulator draws otherwise, so each cause also
//! has a test of its own where that is possible. Kept seeds are replayed because they cost little
//! and once were worth a fault.

/// A seed and what it once found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSeed {
    /// The seed.
    pub seed: u64,
    /// Short name of the fault.
    pub name: String,
    /// Its cause, one line.
    pub cause: String,
}

/// A line that is neither a comment nor `seed name: cause`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not `seed name: cause`: {text}")]
pub struct SeedListError {
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

/// The seeds kept with this version.
pub const KEPT: &str = include_str!("../seeds/found.txt");

/// Reads a list: one `seed name: cause` a line; lines that are empty or begin with `#` are passed
/// over.
///
/// # Errors
///
/// The first line that reads otherwise.
pub fn parse(text: &str) -> Result<Vec<KeptSeed>, SeedListError> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, text)| parse_line(line, text))
        .collect()
}

fn parse_line(line: usize, text: &str) -> Result<KeptSeed, SeedListError> {
    let error = || SeedListError {
        line,
        text: text.to_owned(),
    };
    let (head, cause) = text.split_once(": ").ok_or_else(error)?;
    let (seed, name) = head.split_once(' ').ok_or_else(error)?;
    let seed = seed.parse().map_err(|_| error())?;
    Ok(KeptSeed {
        seed,
        name: name.to_owned(),
        cause: cause.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_a_bad_line_is_named() {
        let kept = parse("# comment\n\n17 early-free: the slot was reused\n").expect("a good list");
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (kept[0].seed, kept[0].name.as_str(), kept[0].cause.as_str()),
            (17, "early-free", "the slot was reused")
        );
        assert_eq!(
            parse("# one\nseventeen x: y").map_err(|error| error.line),
            Err(2)
        );
        assert_eq!(parse("17 no cause").map_err(|error| error.line), Err(1));
    }
}
