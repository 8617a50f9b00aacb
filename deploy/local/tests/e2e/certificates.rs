//! Certificates for the tests, made with the program `openssl`.

use std::{path::Path, process::Command};

/// Runs `openssl req` for a certificate with a new key, in the folder; valid for two days.
pub(crate) fn openssl(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(["req", "-x509"]);
    command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.args(["-nodes", "-days", "2"]).args(arguments);
    let output = command.output().expect("openssl is installed");
    assert!(output.status.success(), "{output:?}");
}
