//! The lines of an import file, each with the idempotency key under which its link is created.

use std::{collections::HashMap, path::Path};

use anyhow::Context as _;
use uuid::Uuid;

/// Namespace of the idempotency keys. It must never change: with another namespace, a second run of
/// a file would create every link again.
const KEY_NAMESPACE: Uuid = Uuid::from_u128(0x6b8f_2c1e_74d3_4a0b_9c55_0e1d_7f3a_92b6);

/// A line of an import file.
#[derive(Debug)]
pub(super) struct ImportLine {
    /// Line number, from 1; empty lines count.
    pub(super) number: usize,
    pub(super) key: Uuid,
    pub(super) destination: String,
}

/// Reads the lines of a file that are not empty.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<ImportLine>> {
    let bytes = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = String::from_utf8(bytes)
        .map_err(|error| line_of(error.as_bytes(), error.utf8_error().valid_up_to()))
        .map_err(|line| anyhow::anyhow!("{}: line {line} is not valid UTF-8", path.display()))?;
    let mut occurrences: HashMap<&str, u32> = HashMap::new();
    Ok(text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| {
            let occurrence = occurrences.entry(line).or_default();
            *occurrence += 1;
            ImportLine {
                number,
                key: key(&name, line, *occurrence),
                destination: line.to_owned(),
            }
        })
        .collect())
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    bytes[..offset].split(|byte| *byte == b'\n').count()
}

/// Computes the idempotency key of a line: always the same key for the same file name, line and
/// occurrence of the line.
fn key(file_name: &str, line: &str, occurrence: u32) -> Uuid {
    Uuid::new_v5(
        &KEY_NAMESPACE,
        format!("{file_name}\n{line}\n{occurrence}").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_key_of_a_line_never_changes() {
        let expected = Uuid::parse_str("20e926f6-cd3c-5a9d-a617-9461c53f4794").unwrap();
        assert_eq!(key("links.txt", "https://example.com/", 1), expected);
    }

    #[test]
    fn equal_lines_have_different_and_stable_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.txt");
        std::fs::write(
            &path,
            "https://a.example\r\n\n  \nhttps://b.example\nhttps://a.example\n",
        )
        .unwrap();
        let lines = read(&path).unwrap();
        let destinations: Vec<_> = lines.iter().map(|line| line.destination.as_str()).collect();
        assert_eq!(
            destinations,
            [
                "https://a.example",
                "https://b.example",
                "https://a.example"
            ]
        );
        assert_ne!(lines[0].key, lines[2].key);
        let again = read(&path).unwrap();
        assert!(lines.iter().zip(&again).all(|(a, b)| a.key == b.key));
    }

    #[test]
    fn file_that_is_not_utf8_names_the_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.txt");
        std::fs::write(&path, b"https://a.example\n\xff\n").unwrap();
        let error = read(&path).err().unwrap().to_string();
        assert!(
            error.ends_with("links.txt: line 2 is not valid UTF-8"),
            "{error}"
        );
    }
}
