//! The links of an import file, each with the idempotency key under which the link is created.

use std::{borrow::Cow, collections::HashMap, fs::File, io::Read as _, path::Path};

use linkledger_service::number_format::{counted, grouped};

use anyhow::{Context as _, bail};
use uuid::Uuid;

use super::{
    blank::trimmed,
    decoding::{FileText, decode},
    formats::{SourceFormat, SourceLink, distinct},
    record::shown,
};

/// Namespace of the idempotency keys. It must never change: with another namespace, a second run of
/// a file would create every link again.
const KEY_NAMESPACE: Uuid = Uuid::from_u128(0x6b8f_2c1e_74d3_4a0b_9c55_0e1d_7f3a_92b6);

/// A link of an import file.
#[derive(Debug)]
pub(super) struct ImportLine {
    pub(super) key: Uuid,
    pub(super) source: SourceLink,
}

/// The content of an import file.
#[derive(Debug)]
pub(super) struct ImportFile {
    pub(super) lines: Vec<ImportLine>,
    /// Number of links that the source says it has, if greater than the number in the file.
    announced: Option<u64>,
    /// Data of links that the file lacks, for a warning.
    untold: Option<&'static str>,
    /// Word for a numbered part of the file.
    pub(super) unit: &'static str,
    /// Name of the product whose export the file was taken for, if no option names it.
    pub(super) recognised: Option<String>,
}

impl ImportFile {
    /// Returns warnings of what the source has, and the file lacks.
    pub(super) fn warnings(&self) -> Vec<String> {
        let missing = self.announced.map(|total| {
            let (links, total) = (grouped(self.distinct().cast_signed()), counted(total, "link"));
            format!("the file has {links} of {total}: export the others too, and append them to the file")
        });
        let untold = self.untold.map(|what| format!("the file lacks {what}"));
        missing.into_iter().chain(untold).collect()
    }

    /// Returns the number of links that the source says it has, and the file lacks.
    pub(super) fn missing(&self) -> Option<u64> {
        let missing = self.announced?.saturating_sub(self.distinct());
        (missing > 0).then_some(missing)
    }

    fn distinct(&self) -> u64 {
        distinct(self.lines.iter().map(|line| &line.source))
    }

    /// Returns number and address of a record: the old address, or else the destination.
    pub(super) fn place(&self, source: &SourceLink) -> String {
        let address = source.old_address.as_ref();
        let address = address.unwrap_or(&source.link.destination_url);
        format!("{} {} ({})", self.unit, source.number, shown(address))
    }
}

/// Reads a file, in the format or in the format that its first line shows.
pub(super) fn read(path: &Path, format: Option<SourceFormat>) -> anyhow::Result<ImportFile> {
    let shown = path.display();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = bytes(path, format)?;
    let FileText {
        text,
        has_replaced_bytes,
    } = decode(bytes).with_context(|| format!("{shown}"))?;
    if trimmed(&text).is_empty() {
        bail!("{shown} is empty");
    }
    let detected = format.map_or_else(|| SourceFormat::detect(&text), Ok);
    let detected = detected.with_context(|| format!("{shown}"))?;
    let recognised = detected.product().filter(|_| format.is_none());
    let format = detected;
    let parsed = format
        .parse(&text, has_replaced_bytes)
        .with_context(|| format!("{shown}"))?;
    Ok(ImportFile {
        lines: with_keys(parsed.links, &name),
        announced: parsed.announced,
        untold: parsed.untold,
        unit: format.unit(&text),
        recognised,
    })
}

/// Returns the lines of a text, for tests.
#[cfg(test)]
pub(super) fn of_text(text: &str, format: SourceFormat) -> ImportFile {
    let parsed = format.parse(text, false).unwrap();
    ImportFile {
        lines: with_keys(parsed.links, "test"),
        announced: parsed.announced,
        untold: parsed.untold,
        unit: format.unit(text),
        recognised: None,
    }
}

/// Reads the bytes of a file that is not too large.
fn bytes(path: &Path, format: Option<SourceFormat>) -> anyhow::Result<Vec<u8>> {
    let bytes_max = format.unwrap_or(SourceFormat::Addresses).bytes_max();
    let mut bytes = Vec::new();
    let file = File::open(path);
    // One byte more shows that the file is too large, also if the file has no length, like a pipe.
    let read = file.and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    let shown = path.display();
    read.with_context(|| format!("can't read {shown}"))?;
    if bytes.len() as u64 > bytes_max {
        let megabytes = bytes_max >> 20;
        bail!("{shown} has more than {megabytes} MiB; divide the file");
    }
    Ok(bytes)
}

/// Adds the keys; equal links get different ones.
fn with_keys(links: Vec<SourceLink>, file_name: &str) -> Vec<ImportLine> {
    let mut occurrences: HashMap<Cow<'_, str>, u32> = HashMap::new();
    let key_of = |source: &SourceLink| {
        let text = source.link.key_text();
        let occurrence = occurrences.get(&text).copied().unwrap_or_default() + 1;
        let key = key(file_name, &text, occurrence);
        occurrences.insert(Cow::Owned(text.into_owned()), occurrence);
        key
    };
    let keys: Vec<Uuid> = links.iter().map(key_of).collect();
    let with_key = |(source, key)| ImportLine { key, source };
    links.into_iter().zip(keys).map(with_key).collect()
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

    /// Another key would create and charge the links of an earlier import again, so the rules that adapt
    /// links are as fixed as the keys.
    #[test]
    fn import_keys_of_adapted_links_never_change() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import");
        for (format, name, expected) in [
            (
                SourceFormat::Shlink,
                "shlink.json",
                [
                    "0606a7c4-b4b7-55fc-9a15-2ff56d3194d1",
                    "e63b2924-358b-5cc3-9f33-b4dbb67e34e4",
                ],
            ),
            (
                SourceFormat::Kutt,
                "kutt.json",
                [
                    "f2dbe440-deb9-5426-b54e-5194aef1975f",
                    "393159db-e9ec-5c33-ae6e-ec2219480f65",
                ],
            ),
            (
                SourceFormat::Yourls,
                "yourls.json",
                [
                    "9e01a175-9e22-5a25-8eec-d6fbd0f4db4f",
                    "1e5c1f3c-e4fd-5daf-80a8-04db76618811",
                ],
            ),
            (
                SourceFormat::Bitly,
                "bitly.csv",
                [
                    "f8fee664-fe16-5283-863f-bf3c3b7ce5d7",
                    "a94a78a6-1f02-560e-9a29-144c9edf028f",
                ],
            ),
            (
                SourceFormat::Dub,
                "dub.csv",
                [
                    "755a93b6-a3e4-5d1b-87d5-c600336842e4",
                    "cf783763-815e-5985-b661-739455c06116",
                ],
            ),
        ] {
            let lines = read(&folder.join(name), Some(format)).unwrap().lines;
            let keys = lines.iter().map(|line| line.key.to_string());
            assert_eq!(keys.take(2).collect::<Vec<_>>(), expected, "{name}");
        }
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
        let lines = read(&path, None).unwrap().lines;
        let destinations: Vec<_> = lines
            .iter()
            .map(|line| line.source.link.destination_url.as_str())
            .collect();
        assert_eq!(
            destinations,
            [
                "https://a.example",
                "https://b.example",
                "https://a.example"
            ]
        );
        assert_ne!(lines[0].key, lines[2].key);
        let again = read(&path, None).unwrap().lines;
        assert!(lines.iter().zip(&again).all(|(a, b)| a.key == b.key));
    }

    #[test]
    fn file_that_is_not_utf8_names_the_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.txt");
        std::fs::write(&path, b"https://a.example\n\xff\n").unwrap();
        let error = read(&path, None).err().unwrap().to_string();
        assert!(
            error.ends_with("links.txt")
                && read(&path, None)
                    .is_err_and(|error| format!("{error:#}").contains("line 2 is not UTF-8")),
            "{error}"
        );
    }

    #[test]
    fn empty_file_is_no_import_of_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.csv");
        for (content, is_empty) in [
            ("", true),
            ("\u{feff}\r\n", true),
            ("destination_url\n", false),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read(&path, None).is_err(), is_empty, "{content:?}");
        }
    }

    #[test]
    fn column_of_addresses_has_the_keys_of_a_list() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.csv");
        let keys = |text: &str| -> Vec<Uuid> {
            std::fs::write(&path, text).unwrap();
            let lines = read(&path, None).unwrap().lines;
            lines.iter().map(|line| line.key).collect()
        };
        let list = keys("https://a.example/\nhttps://b.example/\n");
        assert_eq!(
            keys("destination_url\nhttps://a.example/\nhttps://b.example/\n"),
            list
        );
        let with_slugs =
            keys("destination_url,slug\nhttps://a.example/,a-a\nhttps://b.example/,\n");
        assert_ne!(with_slugs[0], list[0]);
        assert_eq!(with_slugs[1], list[1]);
    }

    #[test]
    fn too_large_json_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.json");
        std::fs::File::create(&path)
            .unwrap()
            .set_len((256 << 20) + 1)
            .unwrap();
        let error = read(&path, Some(SourceFormat::Kutt))
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("more than 256 MiB; divide the file"),
            "{error}"
        );
    }
}
