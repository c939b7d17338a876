//! The house rules, held against every file of the workspace. A finding names file, line and rule.
//!
//! Rust files are read as token streams, not as syntax trees: functions written inside macro calls are seen too,
//! while words in comments and strings are not mistaken for code. The rules themselves are tested below on small
//! inputs, so that each one is known to be able to fail.
//!
//! Not checked here: formatting and lints, which rustfmt and clippy check better.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A file of Rust stays below this many lines: beyond it there are two reasons to change in one file.
const FILE_LINES_MAX: usize = 800;
/// A function stays below this many lines, from `fn` to its closing brace: one screen.
const FUNCTION_LINES_MAX: usize = 70;
/// No file is larger: a repository is cloned whole, for ever.
const FILE_BYTES_MAX: u64 = 512 * 1024;

/// Where `unsafe` may stand: what moves bytes.
const UNSAFE_HOMES: [&str; 3] = [
    "crates/io/src/memory",
    "crates/io/src/ring",
    "crates/io/src/transport",
];
/// Files elsewhere that need `unsafe`, each with its reason.
const UNSAFE_ELSEWHERE: &[(&str, &str)] = &[
    (
        "crates/io/tests/transport/lifecycle.rs",
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
        "crates/engine/tests/paths.rs",
        "lowers the limit of locked memory of a child process",
    ),
];

/// The packages and what each may depend on inside the workspace. Dev-dependencies are free: they do not ship.
const ARROWS: [(&str, &[&str]); 10] = [
    ("ringmain-wire", &[]),
    ("ringmain-proto", &["ringmain-wire"]),
    ("ringmain-io", &[]),
    (
        "ringmain",
        &["ringmain-io", "ringmain-proto", "ringmain-wire"],
    ),
    ("ringmain-broker", &["ringmain-wire"]),
    ("ringmain-sim", &["ringmain-proto", "ringmain-wire"]),
    (
        "ringmain-cli",
        &["ringmain", "ringmain-broker", "ringmain-wire"],
    ),
    ("ringmain-bench-micro", &["ringmain-wire"]),
    (
        "ringmain-bench-peers",
        &[
            "ringmain",
            "ringmain-broker",
            "ringmain-io",
            "ringmain-wire",
        ],
    ),
    ("ringmain-interop", &[]),
];

/// Macros that mark unfinished work. Spelled apart, as are the next two lists, so that this file passes itself.
const UNFINISHED_MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];
/// Words that mark unfinished work.
const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
/// Absolute paths of one machine, and hosts of a registry.
const MACHINE_TEXTS: [&str; 7] = [
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/rm"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
];

#[derive(Debug)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
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
struct Report<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl<'a> Report<'a> {
    fn new(path: &'a str) -> Self {
        Report {
            path,
            findings: Vec::new(),
        }
    }

    fn add(&mut self, line: usize, rule: &'static str, note: impl Into<String>) {
        self.findings.push(Finding {
            path: self.path.to_owned(),
            line,
            rule,
            note: note.into(),
        });
    }
}

#[test]
fn the_workspace_is_tidy() {
    let root = workspace_root();
    let mut findings = Vec::new();
    let mut rust_files = 0;
    let mut unsafe_seen = Vec::new();
    for path in files(&root) {
        let name = relative(&root, &path);
        let mut report = Report::new(&name);
        let bytes = fs::metadata(&path).expect("a listed file").len();
        if bytes > FILE_BYTES_MAX {
            report.add(
                1,
                "file size",
                format!("{bytes} bytes, at most {FILE_BYTES_MAX}"),
            );
        }
        let text = fs::read(&path).expect("a readable file");
        // A file that is no text has no lines to look at.
        if let Ok(text) = String::from_utf8(text) {
            machine_texts(&text, &mut report);
            if name.ends_with(".rs") {
                rust_files += 1;
                if check_rust(&text, &mut report) {
                    unsafe_seen.push(name.clone());
                }
            }
        }
        findings.append(&mut report.findings);
    }
    // The walk itself can go wrong, and a test that looks at nothing passes.
    assert!(rust_files >= 10, "only {rust_files} Rust files found");
    for (path, reason) in UNSAFE_ELSEWHERE {
        assert!(!reason.is_empty(), "{path} is excepted without a reason");
        assert!(
            unsafe_seen.iter().any(|seen| seen == path),
            "{path} is excepted from the unsafe rule and does not need it"
        );
    }
    manifests(&root, &mut findings);
    let listed: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(
        listed.is_empty(),
        "{} findings:\n{}",
        listed.len(),
        listed.join("\n")
    );
}

/// All rules for one Rust file. Says whether it has any `unsafe`.
fn check_rust(text: &str, report: &mut Report<'_>) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() >= FILE_LINES_MAX {
        let note = format!("{} lines, fewer than {FILE_LINES_MAX} wanted", lines.len());
        report.add(lines.len(), "file length", note);
    }
    if !text.starts_with("//!") {
        report.add(1, "module doc", "the file does not open with //!");
    }
    unfinished_words(&lines, report);
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

/// The rules that need tokens.
struct Code<'a> {
    lines: &'a [&'a str],
    unsafe_seen: bool,
}

impl Code<'_> {
    /// `in_unsafe_impl` is true inside the braces of an `unsafe impl`: its comment speaks for its `unsafe fn`s too.
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

    /// `#[allow(lint)]` says why, by `reason = ".."` or by a comment. A method named `expect` has a text inside.
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

    /// Whether a comment on the line itself or in the block of comments, attributes and unfinished statements
    /// straight above it is as wanted.
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
fn function_length(line: usize, rest: &[TokenTree], report: &mut Report<'_>) {
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

/// Whether `rest`, which follows the word `unsafe`, goes on as the type of a function: `extern "C" fn(..)`. A type
/// does nothing that could be unsafe.
fn is_function_pointer(rest: &[TokenTree]) -> bool {
    let at = rest
        .iter()
        .take(3)
        .position(|token| is_ident(Some(token), "fn"));
    let after = at.and_then(|at| rest.get(at + 1));
    matches!(after, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

fn is_ident(token: Option<&TokenTree>, wanted: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == wanted)
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Every crate of the workspace but `io`. Fuzz targets are left out: their macro expands to `unsafe`.
fn is_crate_root(path: &str) -> bool {
    let Some(inside) = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    let (package, file) = inside;
    package != "io" && (file == "src/lib.rs" || file == "src/main.rs")
}

fn forbids_unsafe(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim() == "#![forbid(unsafe_code)]")
}

fn unfinished_words(lines: &[&str], report: &mut Report<'_>) {
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

fn machine_texts(text: &str, report: &mut Report<'_>) {
    for (index, line) in text.lines().enumerate() {
        for wanted in MACHINE_TEXTS {
            let found = line.match_indices(wanted).any(|(at, _)| {
                // `target/work/x` is a relative path, and `example.net/root/` a part of a URL.
                !wanted.starts_with('/')
                    || !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-".contains(c))
            });
            if found {
                report.add(index + 1, "machine path", format!("{wanted} in the tree"));
            }
        }
    }
}

/// Reasons beside the dependencies, and the direction of the arrows.
fn manifests(root: &Path, findings: &mut Vec<Finding>) {
    let text = fs::read_to_string(root.join("Cargo.toml")).expect("the root manifest");
    let mut report = Report::new("Cargo.toml");
    dependency_reasons(&text, &mut report);
    findings.append(&mut report.findings);
    let manifest: toml::Table = text.parse().expect("a manifest cargo reads");
    let members = manifest["workspace"]["members"]
        .as_array()
        .expect("members");
    assert!(members.len() >= 6, "members are missing");
    for member in members {
        let path = format!("{}/Cargo.toml", member.as_str().expect("a path"));
        let text = fs::read_to_string(root.join(&path)).expect("a member's manifest");
        let mut report = Report::new(&path);
        arrows(&text, &mut report);
        findings.append(&mut report.findings);
    }
}

/// Every line of `[workspace.dependencies]` that brings a package of others ends with `# why`.
fn dependency_reasons(text: &str, report: &mut Report<'_>) {
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if inside && line.contains('=') && !line.starts_with('#') && !line.contains("path =")
        {
            let reason = line
                .rsplit_once('#')
                .map_or("", |(_, reason)| reason.trim());
            if reason.is_empty() {
                report.add(index + 1, "dependency reason", line);
            }
        }
    }
}

fn arrows(text: &str, report: &mut Report<'_>) {
    let manifest: toml::Table = text.parse().expect("a manifest cargo reads");
    let package = manifest["package"]["name"].as_str().expect("a name");
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let Some(allowed) = allowed.get(package) else {
        report.add(
            1,
            "arrows",
            format!("{package} is not in the table of arrows"),
        );
        return;
    };
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    for name in dependencies.into_iter().flat_map(toml::Table::keys) {
        if name.starts_with("ringmain") && !allowed.contains(&name.as_str()) {
            let line = text
                .lines()
                .position(|line| line.starts_with(name.as_str()));
            report.add(
                line.map_or(1, |index| index + 1),
                "arrows",
                format!("{package} may not depend on {name}"),
            );
        }
    }
}

fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("crates/cli lies two below");
    assert!(root.join("Cargo.lock").is_file(), "{}", root.display());
    root.to_path_buf()
}

/// Every file below `root` that belongs to the project, in order.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a file type");
            let name = entry.file_name();
            // In a linked work tree `.git` is a file.
            let is_foreign = name == "target" || name == ".git";
            if kind.is_dir() && !is_foreign {
                folders.push(entry.path());
            } else if kind.is_file() && !is_foreign {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).expect("below the root");
    path.to_str()
        .expect("names of the project are UTF-8")
        .to_owned()
}

// The rules on small inputs.

/// The rules that `text` breaks as the file `path`, with their lines.
fn broken(path: &str, text: &str) -> Vec<(usize, &'static str)> {
    let mut report = Report::new(path);
    check_rust(text, &mut report);
    machine_texts(text, &mut report);
    report.findings.iter().map(|f| (f.line, f.rule)).collect()
}

/// A place for a file that no rule treats apart.
const ANYWHERE: &str = "crates/engine/src/x.rs";

#[test]
fn a_finding_names_file_line_and_rule() {
    let mut report = Report::new("a.rs");
    report.add(3, "rule", "note");
    assert_eq!(report.findings[0].to_string(), "a.rs:3: rule: note");
}

#[test]
fn files_and_functions_have_a_length() {
    let file = |lines| "//! Doc.\n".to_owned() + &"\n".repeat(lines - 1);
    assert_eq!(broken(ANYWHERE, &file(FILE_LINES_MAX - 1)), []);
    assert_eq!(
        broken(ANYWHERE, &file(FILE_LINES_MAX)),
        [(FILE_LINES_MAX, "file length")]
    );
    let function = |lines| format!("//! Doc.\nfn f() {{{}}}\n", "\n".repeat(lines - 1));
    assert_eq!(broken(ANYWHERE, &function(FUNCTION_LINES_MAX - 1)), []);
    let long = function(FUNCTION_LINES_MAX);
    assert_eq!(broken(ANYWHERE, &long), [(2, "function length")]);
    let in_macro = long.replace("fn f", "m! { fn f") + "}";
    assert_eq!(broken(ANYWHERE, &in_macro), [(2, "function length")]);
    let pointer = "//! Doc.\ntype F = fn(u8);\ntrait T { fn f(); }\n";
    assert_eq!(broken(ANYWHERE, pointer), []);
}

#[test]
fn files_open_with_a_doc() {
    assert_eq!(broken(ANYWHERE, "fn f() {}\n"), [(1, "module doc")]);
    assert_eq!(broken(ANYWHERE, ""), [(1, "module doc")]);
}

#[test]
fn unsafe_has_a_place_and_a_reason() {
    let bare = "//! Doc.\nfn f() { unsafe {} }\n";
    let reasoned = "//! Doc.\nfn f() {\n// SAFETY: why.\nlet x =\nunsafe {};\n}\n";
    let documented = "//! Doc.\n/// # Safety\n/// Why.\n#[inline]\nunsafe fn f() {}\n";
    let pointer = "//! Doc.\ntype F = unsafe extern \"C\" fn(u8);\n";
    let spoken_for = "//! Doc.\n// SAFETY: why.\nunsafe impl A for B {\nunsafe fn f() {}\n}\nimpl B { unsafe fn g() {} }\n";
    let stale = "//! Doc.\n// SAFETY: why.\nfn f() {}\nunsafe fn g() {}\n";
    for home in ["crates/io/src/ring.rs", "crates/io/src/ring/x.rs"] {
        assert_eq!(broken(home, reasoned), []);
        assert_eq!(broken(home, documented), []);
        assert_eq!(broken(home, bare), [(2, "unsafe reason")]);
        assert_eq!(broken(home, stale), [(4, "unsafe reason")]);
        assert_eq!(broken(home, pointer), []);
        assert_eq!(broken(home, spoken_for), [(6, "unsafe reason")]);
    }
    for elsewhere in [ANYWHERE, "crates/io/src/ringer.rs"] {
        assert_eq!(broken(elsewhere, reasoned), [(5, "unsafe place")]);
    }
    let spoken_of = "//! Doc, unsafe.\nconst A: &str = \"unsafe\"; // unsafe\n";
    assert_eq!(broken(ANYWHERE, spoken_of), []);
}

#[test]
fn crate_roots_forbid_unsafe() {
    let without = "//! Doc.\n";
    let with = "//! Doc.\n#![forbid(unsafe_code)]\n";
    for root in ["crates/wire/src/lib.rs", "crates/cli/src/main.rs"] {
        assert_eq!(broken(root, without), [(1, "forbid unsafe")]);
        assert_eq!(broken(root, with), []);
    }
    for other in ["crates/io/src/lib.rs", "crates/wire/src/x.rs"] {
        assert_eq!(broken(other, without), []);
    }
}

#[test]
fn unfinished_work_is_found() {
    for macro_name in UNFINISHED_MACROS {
        let text = format!("//! Doc.\nfn f() {{ {macro_name}!() }}\n");
        assert_eq!(broken(ANYWHERE, &text), [(2, "unfinished")]);
    }
    for word in UNFINISHED_WORDS {
        let text = format!("//! Doc.\n// {word}: later\nconst NOT{word}: u8 = 0;\n");
        assert_eq!(broken(ANYWHERE, &text), [(2, "unfinished")]);
    }
}

#[test]
fn lint_exceptions_say_why() {
    let bare = "//! Doc.\n#[allow(dead_code)]\nfn f() {}\n";
    assert_eq!(broken(ANYWHERE, bare), [(2, "lint exception")]);
    let reasons = "//! Doc.\n#[allow(dead_code, reason = \"why\")]\nfn f() {}\n\n// Why.\n#[expect(dead_code)]\nfn g() {}\n";
    assert_eq!(broken(ANYWHERE, reasons), []);
    assert_eq!(
        broken(ANYWHERE, "//! Doc.\nfn f() { x.expect(\"y\") }\n"),
        []
    );
}

#[test]
fn machine_paths_are_found() {
    for wanted in MACHINE_TEXTS {
        let text = format!("//! See {wanted}x.\n");
        assert_eq!(broken(ANYWHERE, &text), [(1, "machine path")], "{wanted}");
    }
    let relative = MACHINE_TEXTS[0];
    assert_eq!(
        broken(ANYWHERE, &format!("//! See target{relative}x.\n")),
        []
    );
}

#[test]
fn dependencies_say_why() {
    let text = "[workspace.dependencies]\na = { path = \"a\" }\nb = \"1\" # why\nc = \"1\"\nd = \"1\" #\n[x]\ne = 1\n";
    let mut report = Report::new("Cargo.toml");
    dependency_reasons(text, &mut report);
    let lines: Vec<usize> = report.findings.iter().map(|f| f.line).collect();
    assert_eq!(lines, [4, 5]);
}

#[test]
fn arrows_point_one_way() {
    let findings = |package: &str, dependency: &str| {
        let text = format!(
            "[package]\nname = \"{package}\"\n[dependencies]\n{dependency}.workspace = true\n"
        );
        let mut report = Report::new("crates/x/Cargo.toml");
        arrows(&text, &mut report);
        report.findings.iter().map(|f| f.line).collect::<Vec<_>>()
    };
    assert_eq!(findings("ringmain-proto", "ringmain-wire"), []);
    assert_eq!(findings("ringmain-proto", "bytes"), []);
    assert_eq!(findings("ringmain-wire", "ringmain-proto"), [4]);
    assert_eq!(findings("ringmain-broker", "ringmain-proto"), [4]);
    assert_eq!(findings("ringmain-sim", "ringmain"), [4]);
    assert_eq!(findings("ringmain-new", "bytes"), [1]);
}
