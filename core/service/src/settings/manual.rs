//! The hidden command `manual FOLDER` of every program: writes manual pages and shell completions,
//! for packages, from the same data as `--help`.

use std::{fs, io, path::PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::{Shell, generate_to};

const MANUAL: &str = "manual";
const FOLDER: &str = "folder";
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// Returns the command, which is hidden from help.
pub(super) fn command() -> Command {
    let folder = Arg::new(FOLDER)
        .required(true)
        .value_parser(value_parser!(PathBuf));
    Command::new(MANUAL)
        .hide(true)
        .about("Write pages of the manual and completions for shells into a folder, for packages")
        .arg(folder.value_name("FOLDER"))
}

/// Returns the folder if the command line runs `manual`.
pub(super) fn asked_for(matches: &ArgMatches) -> Option<&PathBuf> {
    matches.subcommand_matches(MANUAL)?.get_one(FOLDER)
}

/// Writes manual pages and completions of a program, without values of the environment.
pub(super) fn write(mut program: Command, folder: &PathBuf) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program.clone(), folder)?;
    let name = program.get_name().to_owned();
    for shell in SHELLS {
        generate_to(shell, &mut program, &name, folder)?;
    }
    Ok(())
}
