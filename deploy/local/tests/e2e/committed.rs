//! Documents in `docs/` that are generated from the programs.

use std::{env, fs, path::Path};

/// Asserts that the committed file equals the generated text. With `REWRITE_…` in the environment,
/// writes the text to the file instead. `module` is the module of the test, for the error message.
pub(crate) fn assert_current(file: &str, generated: &str, rewrite: &str, module: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    if env::var_os(rewrite).is_some() {
        fs::write(&path, generated).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == generated,
        "{file} is out of date; write the file again and read the difference:\n\
         {rewrite}=1 cargo test -p linkledger --test e2e {module} && git diff {file}"
    );
}
