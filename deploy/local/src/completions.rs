//! `linkledger completions SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::{command_line::CommandLine, output::print};

const WHERE: &str = "\
Where they belong:
  bash  linkledger completions bash > ~/.local/share/bash-completion/completions/linkledger
  zsh   linkledger completions zsh > \"${fpath[1]}/_linkledger\"
  fish  linkledger completions fish > ~/.config/fish/completions/linkledger.fish";

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(crate) struct Completions {
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(completions: &Completions) -> anyhow::Result<()> {
    let mut command = CommandLine::command();
    let name = command.get_name().to_owned();
    // The generator panics where it can't write, which a closed pipe must not cause.
    let mut script = Vec::new();
    generate(completions.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
