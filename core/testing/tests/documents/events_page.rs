//! Checks `docs/events.md`: its examples, its table of headers and its rule match the code.

use std::{collections::BTreeMap, fs};

use linkledger_core::link::LinkState;
use serde_json::Value;

use super::{asyncapi, file};

fn page() -> String {
    fs::read_to_string(file("docs/events.md")).expect("the page")
}

/// Returns the code blocks of a language below each heading of the page.
pub(super) fn blocks<'a>(page: &'a str, language: &str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let begin = format!("```{language}\n");
    let sections = page.split("\n#").map(|section| {
        let heading = section.lines().next().unwrap_or_default();
        let blocks = section.split(&begin).skip(1);
        let blocks = blocks.map(|block| block.split_once("```").map_or(block, |(code, _)| code));
        (heading.trim_matches(['#', ' ', '`']), blocks.collect())
    });
    sections.collect()
}

#[test]
fn events_page_has_the_golden_examples() {
    let page = page();
    let blocks = blocks(&page, "json");
    for entry in fs::read_dir(file("core/tests/events")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let golden: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let section = blocks.get(format!("linkledger.{name}").as_str());
        let [example] = section.map(Vec::as_slice).unwrap_or_default() else {
            panic!("docs/events.md has no example of {name}");
        };
        assert_eq!(
            serde_json::from_str::<Value>(example).unwrap(),
            golden,
            "{name}"
        );
    }
}

#[test]
fn events_page_has_a_whole_state() {
    let page = page();
    let [example] = blocks(&page, "json")["State of a link"][..] else {
        panic!("docs/events.md has not one state");
    };
    let example: Value = serde_json::from_str(example).unwrap();
    let state: LinkState = serde_json::from_value(example.clone()).unwrap();
    assert_eq!(serde_json::to_value(state).unwrap(), example);
}

#[test]
fn events_page_lists_all_headers() {
    let page = page();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    listed.sort_unstable();
    assert_eq!(listed, asyncapi::header_names());
}

#[test]
fn events_page_rule_equals_examples() {
    let page = page();
    let code = fs::read_to_string(file("docs/examples/event_stream.py")).unwrap();
    let snippets = &blocks(&page, "python")["Order, duplicates"];
    assert!(!snippets.is_empty());
    for snippet in snippets {
        assert!(code.contains(snippet), "not in event_stream.py:\n{snippet}");
    }
}
