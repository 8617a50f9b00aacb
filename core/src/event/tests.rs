use std::{collections::BTreeSet, fs, path::Path};

use super::*;

/// Folder with one file for each version of each event ever written: `<type>.v<version>.json`.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/events");

/// Type, version and payload of each golden file.
fn golden() -> Vec<(String, i16, String)> {
    let files = fs::read_dir(GOLDEN).unwrap();
    files
        .map(|file| {
            let path = file.unwrap().path();
            let (event_type, version) = named(&path).unwrap_or_else(|| panic!("{path:?}"));
            let payload = fs::read_to_string(&path).unwrap();
            (event_type, version, payload.trim_end().to_owned())
        })
        .collect()
}

fn named(path: &Path) -> Option<(String, i16)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let (event_type, version) = name.rsplit_once(".v")?;
    Some((event_type.to_owned(), version.parse().ok()?))
}

#[test]
fn every_version_of_every_event_has_a_golden_file() {
    let known = CATALOGUE.iter().flat_map(|(event_type, newest)| {
        (1..=*newest).map(|version| ((*event_type).to_owned(), version))
    });
    let files = golden()
        .into_iter()
        .map(|(event_type, version, _)| (event_type, version));
    assert_eq!(files.collect::<BTreeSet<_>>(), known.collect());
}

#[test]
fn golden_events_round_trip_byte_for_byte() {
    for (event_type, version, payload) in golden() {
        let event = Event::from_stored(&event_type, version, &payload).unwrap();
        assert_eq!(event.event_type(), event_type);
        let written = event.to_payload();
        if version == event.schema_version() {
            assert_eq!(written, payload);
        } else {
            // An older version cannot be written any more, but the event that it is read as can.
            let again = Event::from_stored(&event_type, event.schema_version(), &written);
            assert_eq!(again.unwrap(), event);
        }
    }
}

#[test]
fn unknown_members_pass_unknown_types_fail() {
    for (event_type, version, payload) in golden() {
        let payload = payload.replacen('{', r#"{"later":1,"#, 1);
        assert!(Event::from_stored(&event_type, version, &payload).is_ok());
        let error = Event::from_stored(&event_type, version, "{}").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("malformed payload of `{event_type}`")
        );
    }
    for (event_type, version) in [("LinkCreated", 99), ("LinkCreated", 0), ("LinkFrozen", 1)] {
        let error = Event::from_stored(event_type, version, "{}").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("unknown event `{event_type}` version {version}")
        );
    }
}
