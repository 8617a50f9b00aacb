//! Shell scripts that stand for programs such as `java` or `initdb` in tests.

use std::path::Path;
use std::process::Command;

/// Creates an executable shell script.
///
/// Another process writes the file: children of concurrent tests inherit the open files of this
/// process for a moment, and a program that is open for writing cannot be started (ETXTBSY).
pub(crate) fn create_program(path: &Path, script: &str) -> anyhow::Result<()> {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod 755 "$0""#;
    let mut shell = Command::new("/bin/sh");
    let written = shell.args(["-c", write]).arg(path).arg(script).status()?;
    anyhow::ensure!(written.success(), "{written}");
    Ok(())
}
