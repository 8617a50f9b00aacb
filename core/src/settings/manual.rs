//! Every program's command `manual FOLDER`: its pages of the manual, and its completions for shells,
//! for packages. Made of what clap knows, so that they say what `--help` says.

use std::{fs, io, path::PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::{Shell, generate_to};

const MANUAL: &str = "manual";
const FOLDER: &str = "folder";
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// The command, hidden: nobody needs it twice.
pub(super) fn command() -> Command {
    let folder = Arg::new(FOLDER)
        .required(true)
        .value_parser(value_parser!(PathBuf));
    Command::new(MANUAL)
        .hide(true)
        .about("Write pages of the manual and completions for shells into a folder, for packages")
        .arg(folder.value_name("FOLDER"))
}

/// The folder, where that is what the command line asks for.
pub(super) fn asked_for(matches: &ArgMatches) -> Option<&PathBuf> {
    matches.subcommand_matches(MANUAL)?.get_one(FOLDER)
}

/// Writes the pages and completions of that program, which nothing of the environment is in.
pub(super) fn write(mut program: Command, folder: &PathBuf) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program.clone(), folder)?;
    let name = program.get_name().to_owned();
    for shell in SHELLS {
        generate_to(shell, &mut program, &name, folder)?;
    }
    Ok(())
}
