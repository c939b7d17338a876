//! Cuts blocks of bytes into lines. Any bytes, any length up to a limit; no I/O.
//!
//! A line ends at `\n`, which is not part of it; the last line may lack it. A carriage return is
//! part of its line.
//!
//! Invariant: between blocks, `carry` holds the bytes since the last `\n` and never more than the
//! limit.

use bytes::Bytes;
use memchr::{memchr, memchr_iter};

/// One line, without its `\n`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Lies whole in memory that is used again after the call.
    Borrowed(&'a [u8]),
    /// So long that handing it over is cheaper than copying it once more.
    Owned(Bytes),
}

impl Line<'_> {
    /// The bytes of the line.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Line::Borrowed(bytes) => bytes,
            Line::Owned(bytes) => bytes,
        }
    }
}

/// A line is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts blocks into lines, carrying what a block leaves unfinished over to the next one.
pub(crate) struct LineSplitter {
    carry: Vec<u8>,
    line_bytes_max: usize,
    owned_bytes_min: usize,
}

impl LineSplitter {
    /// Lines longer than `line_bytes_max` are an error. Of the lines that are put together from
    /// several blocks, those of `owned_bytes_min` and more are handed over instead of lent.
    pub(crate) fn new(line_bytes_max: usize, owned_bytes_min: usize) -> Self {
        LineSplitter {
            carry: Vec::new(),
            line_bytes_max,
            owned_bytes_min,
        }
    }

    /// Calls `each` with every line that ends in `block`, in order, until one call fails.
    ///
    /// # Errors
    /// What `each` returns, or [`TooLong`] as such an error. The splitter is of no use afterwards.
    pub(crate) fn feed<E: From<TooLong>>(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = block;
        if !self.carry.is_empty() {
            let Some(end) = memchr(b'\n', block) else {
                return Ok(self.keep(block)?);
            };
            self.keep(&block[..end])?;
            each(self.carried())?;
            self.carry.clear();
            rest = &block[end + 1..];
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', rest) {
            let line = &rest[start..end];
            if line.len() > self.line_bytes_max {
                return Err(TooLong.into());
            }
            each(Line::Borrowed(line))?;
            start = end + 1;
        }
        Ok(self.keep(&rest[start..])?)
    }

    /// Calls `each` with the last line if it lacks its `\n`. To be called once, after the last
    /// block.
    ///
    /// # Errors
    /// What `each` returns.
    pub(crate) fn finish<E>(
        mut self,
        each: impl FnOnce(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.carry.is_empty() {
            return Ok(());
        }
        each(self.carried())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.carry.len() + bytes.len() > self.line_bytes_max {
            return Err(TooLong);
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }

    /// The line that `carry` holds. The caller empties `carry` afterwards.
    fn carried(&mut self) -> Line<'_> {
        if self.carry.len() >= self.owned_bytes_min {
            Line::Owned(Bytes::from(std::mem::take(&mut self.carry)))
        } else {
            Line::Borrowed(&self.carry)
        }
    }
}

/// Field number `field` (from 1) of `line`, fields being divided by the byte `delimiter`.
pub(crate) fn field(line: &[u8], delimiter: u8, field: usize) -> Option<&[u8]> {
    line.split(|&byte| byte == delimiter)
        .nth(field.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 10;
    const OWNED: usize = 6;

    /// The lines of `blocks`, each with whether it was handed over.
    fn split(blocks: &[&[u8]]) -> Result<Vec<(Vec<u8>, bool)>, TooLong> {
        let mut splitter = LineSplitter::new(LIMIT, OWNED);
        let mut lines = Vec::new();
        let mut keep = |line: Line<'_>| {
            lines.push((line.bytes().to_vec(), matches!(line, Line::Owned(_))));
            Ok(())
        };
        for block in blocks {
            splitter.feed(block, &mut keep)?;
        }
        splitter.finish::<TooLong>(&mut keep)?;
        Ok(lines)
    }

    #[test]
    fn every_cut_of_a_text_gives_the_lines_of_the_text() {
        let text = b"ab\n\n\0\xff\r\n\n0123456789\nlast one";
        let wanted: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let blocks = [&text[..first], &text[first..second], &text[second..]];
                let lines = split(&blocks).expect("no line is too long");
                let lines: Vec<Vec<u8>> = lines.into_iter().map(|(line, _)| line).collect();
                assert_eq!(lines, wanted, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn an_ending_newline_begins_no_line() {
        assert_eq!(split(&[]), Ok(vec![]));
        assert_eq!(split(&[b""]), Ok(vec![]));
        assert_eq!(split(&[b"\n"]), Ok(vec![(vec![], false)]));
        assert_eq!(split(&[b"a\n"]), Ok(vec![(b"a".to_vec(), false)]));
        assert_eq!(split(&[b"a", b"\n"]), Ok(vec![(b"a".to_vec(), false)]));
    }

    #[test]
    fn long_lines_of_several_blocks_are_handed_over() {
        let lines = split(&[b"01234567\n01234", b"56\n0123", b"\n"]).expect("short enough");
        let handed_over: Vec<bool> = lines.iter().map(|&(_, owned)| owned).collect();
        assert_eq!(handed_over, [false, true, false]);
    }

    #[test]
    fn a_line_over_the_limit_is_refused_wherever_it_is_cut() {
        let text = b"0123456789x\n";
        for cut in 0..=text.len() {
            assert_eq!(split(&[&text[..cut], &text[cut..]]), Err(TooLong), "{cut}");
        }
        assert_eq!(split(&[b"0123456789", b"x"]), Err(TooLong), "unfinished");
    }

    #[test]
    fn fields_are_counted_from_one() {
        let line = b"a,,c";
        assert_eq!(field(line, b',', 1), Some(&b"a"[..]));
        assert_eq!(field(line, b',', 2), Some(&b""[..]));
        assert_eq!(field(line, b',', 3), Some(&b"c"[..]));
        assert_eq!(field(line, b',', 4), None);
        assert_eq!(field(line, b',', 0), None);
        assert_eq!(field(b"", b',', 1), Some(&b""[..]));
    }
}
