//! Keeps the tables of README.md equal to the definitions they describe. Tests only.
//!
//! The environment variable `RINGMAIN_UPDATE_README` makes the test write the tables instead of
//! comparing them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, CommandFactory};

use crate::args::Cli;
use crate::exit::Code;

/// One line of text that can stand in a cell.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

fn option_row(option: &Arg) -> String {
    let values: Vec<&str> = option
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| name.as_str())
        .collect();
    let takes_value = option.get_action().takes_values();
    let name = match option.get_long() {
        Some(long) if takes_value => format!("--{long} {}", values.join(" ")),
        Some(long) => format!("--{long}"),
        None => values.join(" "),
    };
    let default: Vec<String> = option
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let default = if option.is_required_set() {
        "required".to_owned()
    } else {
        default.join(" ")
    };
    let help = option.get_long_help().or(option.get_help());
    let mut effect = cell(&help.expect("every option is described").to_string());
    for value in option.get_possible_values().iter().filter(|_| takes_value) {
        let meaning = value.get_help().expect("every value is described");
        let meaning = cell(&meaning.to_string());
        write!(effect, "; `{}`: {meaning}", value.get_name()).expect("a String takes everything");
    }
    format!("| `{name}` | {default} | {effect} |")
}

/// The table of the options of one command.
fn options(command: &str) -> String {
    let mut cli = Cli::command();
    cli.build();
    let command = cli.find_subcommand(command).expect("a command");
    let rows = command
        .get_arguments()
        // `--log` is an option of every command, and described once.
        .filter(|option| option.get_id() != "help" && option.get_id() != "log")
        .map(option_row);
    let head = ["| option | default | effect |", "|---|---|---|"].map(str::to_owned);
    head.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

fn exit_codes() -> String {
    let rows = Code::ALL.map(|code| format!("| {} | {} |", code as u8, code.meaning()));
    let head = ["| code | meaning |", "|---|---|"].map(str::to_owned);
    head.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// `text` with `table` between the marker `<!-- name -->` and the end marker after it.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let begin = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&begin).expect(name);
    let (_, after) = rest.split_once("<!-- end -->").expect(name);
    format!("{before}{begin}{table}\n<!-- end -->{after}")
}

#[test]
fn the_tables_of_the_readme_are_those_of_the_definitions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let found = fs::read_to_string(&path).expect("README.md");
    let mut wanted = with_table(&found, "exit codes", &exit_codes());
    for command in ["bench", "send", "dump", "doctor", "broker", "completions"] {
        wanted = with_table(&wanted, command, &options(command));
    }
    if std::env::var_os("RINGMAIN_UPDATE_README").is_some() {
        fs::write(&path, &wanted).expect("README.md");
        return;
    }
    assert!(
        found == wanted,
        "README.md is behind: RINGMAIN_UPDATE_README=1 cargo test -p ringmain-cli readme"
    );
}

#[test]
fn a_table_takes_the_place_of_what_was_between_its_markers() {
    let text = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\n";
    let wanted = "a\n<!-- x -->\nnew\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\n";
    assert_eq!(with_table(text, "x", "new"), wanted);
    assert_eq!(with_table(wanted, "x", "new"), wanted);
}
