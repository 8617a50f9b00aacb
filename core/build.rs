//! A new migration is a reason to compile: the files are embedded.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "cargo:rerun-if-changed=../migrations")
}
