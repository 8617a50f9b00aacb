//! `linkledger completions SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::{command_line::CommandLine, output::print};

const INSTALLATION: &str = "\
Install the script of your shell:
  bash  linkledger completions bash > ~/.local/share/bash-completion/completions/linkledger
  zsh   linkledger completions zsh > \"${fpath[1]}/_linkledger\"
  fish  linkledger completions fish > ~/.config/fish/completions/linkledger.fish";

/// Options of `linkledger completions`.
#[derive(Debug, Args)]
#[command(after_help = INSTALLATION)]
pub(crate) struct CompletionsOptions {
    /// Shell that reads the script.
    shell: Shell,
}

/// Prints the completion script of the shell.
pub(crate) fn run(completions: &CompletionsOptions) -> anyhow::Result<()> {
    let mut command = CommandLine::command();
    let name = command.get_name().to_owned();
    // `generate` panics if a write fails, and a closed pipe must not cause a panic.
    let mut script = Vec::new();
    generate(completions.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
