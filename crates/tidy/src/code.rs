//! The rules for one Rust file, read as a token stream.
//!
//! Tokens, not syntax trees: functions written inside macro calls are seen too, while words in
//! comments and strings are not mistaken for code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::report::Report;

/// A file of Rust stays below this many lines: beyond it there are two reasons to change in one
/// file.
pub(crate) const FILE_LINES_MAX: usize = 800;
/// The widest prose of a comment, as rustfmt's `max_width` for code.
pub(crate) const COMMENT_COLUMNS_MAX: usize = 100;
/// A function stays below this many lines, from `fn` to its closing brace: one screen.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;
/// Where `unsafe` may stand: what moves bytes.
pub(crate) const UNSAFE_HOMES: [&str; 4] = [
    "crates/io/src/memory",
    "crates/io/src/ring",
    "crates/io/src/socket",
    "crates/io/src/transport",
];
/// Files elsewhere that need `unsafe`, each with its reason.
pub(crate) const UNSAFE_ELSEWHERE: &[(&str, &str)] = &[
    (
        "crates/io/tests/transport/support.rs",
        "gives a listening socket a backlog of 0, which std does not offer",
    ),
    (
        "crates/io/tests/transport/refusals.rs",
        "lowers the limits of a child process, and installs a seccomp filter in it",
    ),
    (
        "crates/io/tests/support/counting.rs",
        "counts allocations with an allocator of its own",
    ),
    (
        "crates/engine/tests/fork.rs",
        "forks children that use the engine of their parent",
    ),
    (
        "crates/engine/tests/paths.rs",
        "lowers the limit of locked memory of a child process",
    ),
];

/// Macros that mark unfinished work. Spelled apart, as are the next two lists, so that this file
/// passes itself.
pub(crate) const UNFINISHED_MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];
/// Words that mark unfinished work.
pub(crate) const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Where an event of the log may come from a shard's thread, which a subscriber that panics must
/// not end: there the macros of `tracing` stand behind one that contains them.
const CONTAINED_LOGS: [&str; 2] = ["crates/engine/src/", "crates/io/src/"];

/// All rules for one Rust file. Says whether it has any `unsafe`.
pub(crate) fn check_rust(text: &str, report: &mut Report<'_>) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() >= FILE_LINES_MAX {
        let note = format!("{} lines, fewer than {FILE_LINES_MAX} wanted", lines.len());
        report.add(lines.len(), "file length", note);
    }
    if !text.starts_with("//!") {
        report.add(1, "module doc", "the file does not open with //!");
    }
    unfinished_words(&lines, report);
    long_comments(&lines, report);
    let tokens: TokenStream = match text.parse() {
        Ok(tokens) => tokens,
        Err(error) => {
            report.add(1, "tokens", format!("cannot be read: {error}"));
            return false;
        }
    };
    if is_crate_root(report.path) && !forbids_unsafe(text) {
        report.add(
            1,
            "forbid unsafe",
            "the crate root lacks #![forbid(unsafe_code)]",
        );
    }
    let mut code = Code {
        lines: &lines,
        unsafe_seen: false,
    };
    code.walk(tokens, false, report);
    code.unsafe_seen
}

/// Prose in comments keeps to the width that rustfmt keeps code to. Drawings, examples and tables
/// have the width they need.
fn long_comments(lines: &[&str], report: &mut Report<'_>) {
    let mut in_drawing = false;
    for (index, line) in lines.iter().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            in_drawing = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        in_drawing ^= text.starts_with("```");
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS_MAX && !in_drawing && !text.starts_with('|') {
            let note = format!("{columns} columns, at most {COMMENT_COLUMNS_MAX} wanted");
            report.add(index + 1, "comment width", note);
        }
    }
}

/// `tracing` is followed by `::`, a name and `!`.
fn is_event(rest: &[TokenTree]) -> bool {
    is_punct(rest.first(), ':')
        && is_punct(rest.get(1), ':')
        && matches!(rest.get(2), Some(TokenTree::Ident(_)))
        && is_punct(rest.get(3), '!')
}

fn contained_log(line: usize, report: &mut Report<'_>) {
    if CONTAINED_LOGS
        .iter()
        .any(|home| report.path.starts_with(home))
    {
        let note = "use log! of ringmain-io: a subscriber that panics ends a shard here";
        report.add(line, "contained log", note);
    }
}

/// The rules that need tokens.
pub(crate) struct Code<'a> {
    lines: &'a [&'a str],
    unsafe_seen: bool,
}

impl Code<'_> {
    /// `in_unsafe_impl` is true inside the braces of an `unsafe impl`: its comment speaks for its
    /// `unsafe fn`s too.
    fn walk(&mut self, tokens: TokenStream, in_unsafe_impl: bool, report: &mut Report<'_>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut unsafe_impl_begun = false;
        for (index, token) in tokens.iter().enumerate() {
            let rest = &tokens[index + 1..];
            match token {
                TokenTree::Group(group) => {
                    let is_body = group.delimiter() == Delimiter::Brace;
                    self.walk(group.stream(), unsafe_impl_begun && is_body, report);
                    unsafe_impl_begun &= !is_body;
                }
                TokenTree::Ident(ident) => {
                    let line = ident.span().start().line;
                    match ident.to_string().as_str() {
                        "fn" => function_length(line, rest, report),
                        "unsafe" => {
                            unsafe_impl_begun |= is_ident(rest.first(), "impl");
                            let spoken_for = in_unsafe_impl && is_ident(rest.first(), "fn");
                            let reason_wanted = !spoken_for && !is_function_pointer(rest);
                            self.unsafe_token(line, reason_wanted, report);
                        }
                        "tracing" if is_event(rest) => contained_log(line, report),
                        "allow" | "expect" => self.lint_exception(line, rest.first(), report),
                        name if UNFINISHED_MACROS.contains(&name)
                            && is_punct(rest.first(), '!') =>
                        {
                            report.add(line, "unfinished", format!("{name}! in the tree"));
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn unsafe_token(&mut self, line: usize, reason_wanted: bool, report: &mut Report<'_>) {
        self.unsafe_seen = true;
        let at_home = UNSAFE_HOMES.iter().any(|home| {
            report
                .path
                .strip_prefix(home)
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        let excepted = UNSAFE_ELSEWHERE
            .iter()
            .any(|(path, _)| *path == report.path);
        if !at_home && !excepted {
            report.add(line, "unsafe place", format!("only under {UNSAFE_HOMES:?}"));
        }
        let says_why = |text: &str| text.contains("SAFETY:") || text.contains("# Safety");
        if reason_wanted && !self.has_comment_above(line, says_why) {
            report.add(line, "unsafe reason", "no SAFETY comment above");
        }
    }

    /// `#[allow(lint)]` says why, by `reason = ".."` or by a comment. A method named `expect` has a
    /// text inside.
    fn lint_exception(&self, line: usize, next: Option<&TokenTree>, report: &mut Report<'_>) {
        let Some(TokenTree::Group(group)) = next else {
            return;
        };
        let in_attribute = self.lines[line - 1].trim_start().starts_with("#");
        let reasoned = group
            .stream()
            .into_iter()
            .any(|token| matches!(token, TokenTree::Ident(ident) if ident == "reason"));
        // Doc comments say what a thing is, not why a lint is wrong about it.
        let comment = |text: &str| {
            text.split_once("//")
                .is_some_and(|(_, after)| !after.starts_with(['/', '!']))
        };
        if in_attribute && !reasoned && !self.has_comment_above(line, comment) {
            report.add(line, "lint exception", "no reason given");
        }
    }

    /// Whether a comment on the line itself or in the block of comments, attributes and unfinished
    /// statements straight above it is as wanted.
    fn has_comment_above(&self, line: usize, wanted: impl Fn(&str) -> bool) -> bool {
        if wanted(self.lines[line - 1]) {
            return true;
        }
        for text in self.lines[..line - 1].iter().rev() {
            let text = text.trim();
            if text.starts_with("//") {
                if wanted(text) {
                    return true;
                }
            } else if text.is_empty() || text.ends_with([';', '{', '}', ',']) {
                return false;
            }
        }
        false
    }
}

/// `rest` follows the word `fn`. A function has a name and then, before any `;`, a body.
pub(crate) fn function_length(line: usize, rest: &[TokenTree], report: &mut Report<'_>) {
    let Some(TokenTree::Ident(name)) = rest.first() else {
        return;
    };
    for token in rest {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let lines = group.span_close().end().line - line + 1;
                if lines >= FUNCTION_LINES_MAX {
                    let note =
                        format!("{name}: {lines} lines, fewer than {FUNCTION_LINES_MAX} wanted");
                    report.add(line, "function length", note);
                }
                return;
            }
            _ => {}
        }
    }
}

/// Whether `rest`, which follows the word `unsafe`, goes on as the type of a function: `extern "C"
/// fn(..)`. A type does nothing that could be unsafe.
pub(crate) fn is_function_pointer(rest: &[TokenTree]) -> bool {
    let at = rest
        .iter()
        .take(3)
        .position(|token| is_ident(Some(token), "fn"));
    let after = at.and_then(|at| rest.get(at + 1));
    matches!(after, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

pub(crate) fn is_ident(token: Option<&TokenTree>, wanted: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == wanted)
}

pub(crate) fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Every crate of the workspace but `io`. Fuzz targets are left out: their macro expands to
/// `unsafe`.
pub(crate) fn is_crate_root(path: &str) -> bool {
    let Some(inside) = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    let (package, file) = inside;
    package != "io" && (file == "src/lib.rs" || file == "src/main.rs")
}

pub(crate) fn forbids_unsafe(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim() == "#![forbid(unsafe_code)]")
}

pub(crate) fn unfinished_words(lines: &[&str], report: &mut Report<'_>) {
    for (index, line) in lines.iter().enumerate() {
        for word in UNFINISHED_WORDS {
            if line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|token| token == word)
            {
                report.add(index + 1, "unfinished", format!("{word} in the tree"));
            }
        }
    }
}
