//! Seeds, and mutated copies of them.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, TestRunner},
};

use super::{PROPERTIES, Property};

/// Number of mutated copies.
const COPIES: u32 = 1_024;
/// Maximal number of mutations of one copy.
const CHANGES_MAX: usize = 6;
/// Maximal number of bytes that one mutation removes.
const REMOVED_MAX: usize = 8;

/// Texts that have confused parsers before.
const SNIPPETS: [&str; 32] = [
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\u{a0}",
    "\u{e9}",
    "\u{ff0e}",
    "\u{200d}",
    "\u{1f600}",
    "%",
    "%00",
    "%2f",
    "%40",
    "%C3",
    "..",
    "//",
    "\\",
    "@",
    ":",
    "?",
    "#",
    "&",
    "=",
    "+",
    "-1",
    "0x7f",
    "\"",
    "\\ud800",
    "{",
    "]",
    ",",
];

/// Bytes that a failure shows as text.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Checks the property for all seeds, of which some must be accepted and some refused, and for
/// mutated copies. Add failing inputs to the corpus.
pub(super) fn explore(name: &str, property: Property) {
    let seeds = seeds_of(name);
    let accepted = seeds.iter().filter(|seed| property(seed)).count();
    assert!(accepted > 0, "no seed of {name} is accepted");
    assert!(accepted < seeds.len(), "no seed of {name} is refused");
    let mut runner = TestRunner::new(Config {
        cases: COPIES,
        failure_persistence: None,
        ..Config::default()
    });
    let tried = runner.run(&changed(seeds), |Input(bytes)| {
        property(&bytes);
        Ok(())
    });
    if let Err(failure) = tried {
        panic!("{failure}");
    }
}

fn corpus() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "fuzz", "corpus"]
        .iter()
        .collect()
}

fn seeds_of(name: &str) -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = files(&corpus().join(name))
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    if name == "event" {
        seeds.extend(golden_events());
    }
    seeds
}

/// Returns the golden file of every version of every event, as inputs of the property `event`.
fn golden_events() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/events"));
    let input = |path: &PathBuf| {
        let (event_type, version) = path.file_stem()?.to_str()?.split_once(".v")?;
        let payload = fs::read_to_string(path).unwrap();
        Some(format!("{event_type} {version}\n{}", payload.trim_end()).into_bytes())
    };
    files(&folder)
        .iter()
        .map(|path| input(path).unwrap())
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
}

fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Input> {
    let piece =
        (select(seeds.clone()), any::<Index>(), any::<Index>()).prop_map(|(seed, from, to)| {
            let (from, to) = (from.index(seed.len() + 1), to.index(seed.len() + 1));
            seed[from.min(to)..from.max(to)].to_vec()
        });
    let inserted = prop_oneof![
        Just(Vec::new()),
        vec(any::<u8>(), 1..=4),
        "[ -~]{1,4}".prop_map(String::into_bytes),
        select(&SNIPPETS[..]).prop_map(|snippet| snippet.as_bytes().to_vec()),
        piece,
    ];
    let change = (any::<Index>(), 0..=REMOVED_MAX, inserted);
    (select(seeds), vec(change, 1..=CHANGES_MAX)).prop_map(|(mut bytes, changes)| {
        for (at, removed, inserted) in changes {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, inserted);
        }
        Input(bytes)
    })
}

#[test]
fn properties_and_corpora_correspond() {
    let corpora = fs::read_dir(corpus()).unwrap();
    let mut corpora: Vec<String> = corpora
        .map(|corpus| corpus.unwrap().file_name().into_string().unwrap())
        .collect();
    corpora.sort();
    assert_eq!(corpora, PROPERTIES.map(|(name, _)| name));
}
