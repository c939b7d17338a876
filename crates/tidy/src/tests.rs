//! The rules on small inputs: each one is shown to be able to fail.

use crate::code::{
    COMMENT_COLUMNS_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX, UNFINISHED_MACROS, UNFINISHED_WORDS,
    check_rust,
};
use crate::manifests::{arrows, dependency_reasons};
use crate::report::Report;
use crate::texts::{MACHINE_TEXTS, machine_texts};

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
fn prose_of_comments_has_a_width() {
    let wide = "x".repeat(COMMENT_COLUMNS_MAX - 3);
    assert_eq!(broken(ANYWHERE, &format!("//! Doc.\n// {wide}\n")), []);
    for marker in ["// x", "    /// ", "//! "] {
        let text = format!("//! Doc.\n{marker}{wide}\n");
        assert_eq!(broken(ANYWHERE, &text), [(2, "comment width")], "{marker}");
    }
    let free =
        format!("//! ```text\n//! {wide}\n//! ```\n/// | {wide} |\nconst A: &str = \"{wide}\";\n");
    assert_eq!(broken(ANYWHERE, &free), []);
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
fn the_log_of_a_shard_is_contained() {
    let event = "//! Doc.\nfn f() {\n    tracing::warn!(x, \"y\");\n}\n";
    for path in [ANYWHERE, "crates/io/src/x.rs"] {
        assert_eq!(broken(path, event), [(3, "contained log")], "{path}");
    }
    for path in ["crates/broker/src/x.rs", "crates/engine/tests/x.rs"] {
        assert_eq!(broken(path, event), [], "{path}");
    }
    let contained = "//! Doc.\nuse tracing::Level;\nfn f() { ringmain_io::log!(warn, \"y\") }\n";
    assert_eq!(broken(ANYWHERE, contained), []);
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
    assert_eq!(findings("ringmain-sim", "ringmain-broker"), [4]);
    assert_eq!(findings("ringmain-new", "bytes"), [1]);
}
