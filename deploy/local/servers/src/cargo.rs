//! Runs cargo as from a shell, also from a program that cargo has started.

use std::{env, process::Command};

/// Returns a command that runs cargo, without the variables that an outer cargo has set for its package.
///
/// A dependency is compiled again, with its dependents, if a variable changes that its build script names
/// (the one of `ring` names `CARGO_PKG_NAME`).
pub fn command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    for (name, _) in env::vars_os() {
        let is_of_package = |prefix| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if is_of_package("CARGO_PKG_") || is_of_package("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}
