//! Runs one property under libFuzzer: the variable `PROPERTY` names the property. `.ci/fuzz` builds
//! and runs this program.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../testing/tests/properties/main.rs"]
mod properties;

static PROPERTY: LazyLock<properties::Property> = LazyLock::new(|| {
    let wanted = std::env::var("PROPERTY").expect("PROPERTY names a folder of corpus/");
    let found = properties::PROPERTIES
        .iter()
        .find(|(name, _)| *name == wanted);
    found.expect("PROPERTY names a folder of corpus/").1
});

fuzz_target!(|input: &[u8]| {
    PROPERTY(input);
});
