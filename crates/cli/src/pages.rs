//! What the command line says about itself: version, completions, manual page.

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::{Cli, ShellArg};
use crate::exit::{Code, Failure};
use crate::say;

/// Prints version, commit and the drivers that this host offers, io_uring by trying.
///
/// # Errors
/// Those of standard output.
pub(crate) fn version() -> Result<(), Failure> {
    let drivers = match ringmain_doctor::probe_ring() {
        Ok(_) => "io_uring, epoll".to_owned(),
        Err(cause) => format!("epoll; io_uring is refused: {cause}"),
    };
    say::result(format_args!(
        "ringmain {}\ncommit {}\ndrivers {drivers}",
        env!("CARGO_PKG_VERSION"),
        env!("RINGMAIN_COMMIT"),
    ))
}

/// Prints what makes `shell` complete the arguments.
///
/// # Errors
/// Those of standard output.
pub(crate) fn completions(shell: ShellArg) -> Result<(), Failure> {
    let shell = match shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ringmain", &mut text);
    let text = String::from_utf8_lossy(&text);
    say::result(format_args!("{}", text.trim_end()))
}

/// Prints the manual page, with every command and the exit codes.
///
/// # Errors
/// Those of standard output.
pub(crate) fn man() -> Result<(), Failure> {
    let page = page().expect("a vector takes everything");
    say::result(format_args!("{}", page.trim_end()))
}

fn page() -> std::io::Result<String> {
    let mut cli = Cli::command();
    cli.build();
    let commands: Vec<clap::Command> = cli.get_subcommands().cloned().collect();
    let whole = Man::new(cli);
    let mut page = Vec::new();
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for command in commands
        .iter()
        .filter(|command| command.get_name() != "help")
    {
        page.push_str(&format!(
            ".SH \"RINGMAIN {}\"\n",
            command.get_name().to_uppercase()
        ));
        // What every command has stands above.
        let own = command.clone().mut_args(|arg| {
            let is_common = arg.get_id() == "log" || arg.get_id() == "help";
            arg.hide(is_common)
        });
        let man = Man::new(own);
        let mut part = Vec::new();
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        page.push_str(&String::from_utf8_lossy(&part).replace(".SH ", ".SS "));
    }
    page.push_str(".SH \"EXIT STATUS\"\n");
    for code in Code::ALL {
        page.push_str(&format!(".TP\n{}\n{}\n", code as u8, code.meaning()));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_page_has_every_option_of_every_command() {
        let page = page().expect("a page").replace('\\', "");
        let mut cli = Cli::command();
        cli.build();
        for command in cli
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            let head = format!("RINGMAIN {}", command.get_name().to_uppercase());
            let (_, part) = page.split_once(&head).expect(&head);
            let part = part.split("\n.SH ").next().expect("a part");
            let options = command.get_arguments().filter_map(|arg| arg.get_long());
            for long in options.filter(|long| !["help", "log"].contains(long)) {
                assert!(part.contains(&format!("--{long}")), "{head}: {long}");
            }
        }
        assert!(page.contains("--log"));
        assert!(page.contains("EXIT STATUS"));
    }
}
