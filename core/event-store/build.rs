//! Embeds the migrations: a new migration file triggers a compilation.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "cargo:rerun-if-changed=../../migrations")
}
