//! The formats of import files: a pure parser each, which yields the records of a file. What becomes of a record is
//! decided by [`rule`](super::rule) alone.

mod addresses;
mod bitly;
mod csv_columns;
mod detection;
mod dub;
mod json_record;
mod kutt;
mod ndjson;
mod shlink;
mod table;
mod yourls;

use std::{collections::HashSet, fmt::Display};

use clap::ValueEnum;
use linkledger_core::link::Slug;
use serde_json::value::RawValue;

use super::{
    blank::trimmed,
    link::{ImportedLink, LinkDetails},
    record::{Change, RawRecord, Refusal, shown},
    rule::RuleState,
};
use json_record::{JsonMembers, JsonRecord, MemberFault};
pub(super) use table::spelling;
use table::{CsvRow, LeftColumn};

/// Largest JSON file that is read; a JSON document is parsed as a whole.
const JSON_BYTES_MAX: u64 = 256 << 20;
/// Largest file of any other format.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Begin of the ids of links of this service.
const ID_PREFIX: &str = "lnk_";

/// Format of an import file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SourceFormat {
    /// One destination address on each line, after a space perhaps a slug.
    Addresses,
    /// CSV with the columns of this service, such as `linkledger export --format csv` writes.
    Csv,
    /// One JSON object on each line, such as `linkledger export` writes.
    Ndjson,
    /// Shlink: JSON of `GET /rest/v3/short-urls`, or the CSV of its web client.
    Shlink,
    /// Kutt: JSON of `GET /api/v2/links`.
    Kutt,
    /// YOURLS: JSON of the API action `stats`.
    Yourls,
    /// Bitly: CSV export of links.
    Bitly,
    /// Dub: CSV export of links.
    Dub,
}

/// A link of a file.
#[derive(Debug)]
pub(super) struct SourceLink {
    /// Number of the line, from 1, or of the link in a JSON document.
    pub(super) number: usize,
    /// Old short address as written, or the slug where no address is written.
    pub(super) old_address: Option<String>,
    /// Slug whose link visitors of the old address reach here; `None` if it is not sure, or the link is this one.
    pub(super) reached_slug: Option<Slug>,
    pub(super) link: ImportedLink,
    /// Differences between the record and the link.
    pub(super) changes: Vec<Change>,
    /// Reason to refuse the link without asking the service.
    pub(super) refusal: Option<Refusal>,
    /// Members of a refused record, as written, that the link may lack.
    pub(super) as_written: LinkDetails,
    /// An earlier link of the file that has the same slug.
    pub(super) repeat: Option<Repeat>,
}

/// Earlier link with the same slug: only one of the two can have it.
#[derive(Debug)]
pub(super) struct Repeat {
    /// Index of the earlier link in the file.
    pub(super) earlier: usize,
    /// Reason to refuse the later link, unless the earlier one is refused.
    pub(super) refusal: Refusal,
}

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct SourceLinks {
    pub(super) links: Vec<SourceLink>,
    /// Number of links that the source says it has, if greater than the number in the file.
    pub(super) announced: Option<u64>,
    /// Data of links that the file lacks, and what follows from that, for a warning.
    pub(super) untold: Option<&'static str>,
    state: RuleState,
}

/// Error of a file that is not of its format. Nothing of the file is imported.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct SourceError(String);

impl SourceError {
    fn line(number: usize, reason: impl Display) -> Self {
        Self(format!("line {number}: {reason}"))
    }
}

impl SourceLinks {
    /// Adds what the rule makes of a record.
    fn add(&mut self, record: RawRecord) {
        let link = self.state.decide(record);
        self.links.push(link);
    }

    /// Adds a record of a JSON document, with the members that have no counterpart.
    fn add_json(
        &mut self,
        raw: &RawValue,
        members: &JsonMembers,
        read: impl FnOnce(&JsonRecord) -> Result<RawRecord, MemberFault>,
    ) {
        let number = self.links.len() + 1;
        let json = match JsonRecord::parse(raw) {
            Ok(json) => json,
            Err(fault) => return self.add(fault.into_record(number)),
        };
        let mut record =
            read(&json).unwrap_or_else(|fault| json.broken(number, fault, members.texts));
        record.number = number;
        for (path, name) in members.not_imported {
            if let Some(value) = json.shown(path) {
                record.leave_behind(*name, &value);
            }
        }
        for name in json.names().filter(|name| !members.has(name)) {
            if let Some(value) = json.shown(name) {
                record.leave_behind(shown(name), &value);
            }
        }
        self.add(record);
    }

    /// Adds the record of a row, with the cells of the row that have no counterpart.
    fn add_row(&mut self, row: &CsvRow, not_imported: &[LeftColumn], mut record: RawRecord) {
        record.number = row.number;
        for (column, name) in not_imported {
            match (row.cell(Some(*column)), name) {
                (Some(cell), Some(name)) if says_something(cell) => {
                    record.leave_behind(name.clone(), cell);
                }
                // It may be a slug, and `no` is one too.
                (Some(cell), None) => {
                    record.leave_behind(format!("column {} (no name)", column + 1), cell);
                }
                _ => {}
            }
        }
        if let Some(fault) = row.fault(&record.destination_url) {
            record.refusal = Some(Refusal::broken(fault));
        }
        self.add(record);
    }

    /// Notes the number of links that the source says it has.
    fn announce(&mut self, total: u64) {
        self.announced = (total > distinct(&self.links)).then_some(total);
    }
}

/// Returns the number of links with different old addresses: pages of a source can overlap.
pub(super) fn distinct<'l>(links: impl IntoIterator<Item = &'l SourceLink>) -> u64 {
    let mut seen = HashSet::new();
    let addresses = links.into_iter().map(|link| link.old_address.as_deref());
    let new = addresses.filter(|address| address.is_none_or(|address| seen.insert(address)));
    new.count() as u64
}

/// Returns false for a cell with a word for nothing.
fn says_something(cell: &str) -> bool {
    let nothing = ["0", "false", "no", "null"];
    let cell = trimmed(cell);
    !nothing.iter().any(|word| cell.eq_ignore_ascii_case(word))
}

/// Returns the texts of a cell that has several.
fn list_of_cell(cell: Option<&str>, separator: char) -> Vec<String> {
    let texts = cell.unwrap_or_default().split(separator);
    texts
        .filter(|text| !trimmed(text).is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

impl SourceFormat {
    /// Returns the size of the largest file that is read.
    pub(super) const fn bytes_max(self) -> u64 {
        if self.is_json() {
            JSON_BYTES_MAX
        } else {
            FILE_BYTES_MAX
        }
    }

    const fn is_json(self) -> bool {
        matches!(self, Self::Shlink | Self::Kutt | Self::Yourls)
    }

    /// Returns the word for a numbered part of a file of the format.
    pub(super) fn unit(self, text: &str) -> &'static str {
        if self.is_json() && text.trim_start().starts_with('{') {
            "link"
        } else {
            "line"
        }
    }

    /// Returns the content of the files of the format, for an error.
    fn expected(self) -> String {
        let expected = match self {
            Self::Addresses => "an address on each line",
            Self::Csv => return csv_columns::expected(),
            Self::Ndjson => "one JSON object on each line, with the member destination_url",
            Self::Shlink => {
                "the JSON of GET /rest/v3/short-urls, or the CSV of its web client (columns shortCode, longUrl)"
            }
            Self::Kutt => "the JSON of GET /api/v2/links",
            Self::Yourls => "the JSON of yourls-api.php?action=stats&format=json",
            Self::Bitly => bitly::EXPECTED,
            Self::Dub => dub::EXPECTED,
        };
        expected.to_owned()
    }

    /// Returns the name of the product whose exports have the format; `None` for the formats of this service.
    pub(super) fn product(self) -> Option<String> {
        match self {
            Self::Addresses | Self::Csv | Self::Ndjson => None,
            Self::Shlink | Self::Kutt | Self::Yourls | Self::Dub | Self::Bitly => Some(self.name()),
        }
    }

    /// Returns the name of the format for `--from`.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Parses the text of a file. `has_replaced_bytes` is true if U+FFFD stands for bytes that are no UTF-8.
    ///
    /// # Errors
    /// Returns the reason for which the text is not of the format.
    pub(super) fn parse(
        self,
        text: &str,
        has_replaced_bytes: bool,
    ) -> Result<SourceLinks, SourceError> {
        let mut links = SourceLinks {
            state: RuleState::new(self.unit(text), has_replaced_bytes),
            ..SourceLinks::default()
        };
        match self {
            Self::Addresses => addresses::parse(text, &mut links),
            Self::Csv => csv_columns::parse(text, &mut links)?,
            Self::Ndjson => ndjson::parse(text, &mut links)?,
            Self::Shlink => shlink::parse(text, &mut links)?,
            Self::Kutt => kutt::parse(text, &mut links)?,
            Self::Yourls => yourls::parse(text, &mut links)?,
            Self::Bitly => bitly::parse(text, &mut links)?,
            Self::Dub => dub::parse(text, &mut links)?,
        }
        Ok(links)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn parsed(format: SourceFormat, text: &str) -> SourceLinks {
        format.parse(text, false).unwrap()
    }

    pub(super) fn change_lines(link: &SourceLink) -> Vec<String> {
        link.changes.iter().map(ToString::to_string).collect()
    }

    /// Text that looks like the formats, so that parsers get beyond the first character.
    fn hostile() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("{\"shortUrls\":{\"data\":["),
            Just("{\"data\":["),
            Just("{\"links\":{\"link_1\":"),
            Just("{\"longUrl\":\"a\",\"shortCode\":1}"),
            Just("destination_url,slug\n"),
            Just("Bitlink,Long URL\n"),
            Just("\"'=a\",\n"),
            Just("[[[[{"),
            Just("null"),
            Just("]}}"),
            Just("\u{feff}\u{0}é"),
        ];
        proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn hostile_text_is_parsed_or_refused(text in prop_oneof![hostile(), any::<String>()]) {
            for format in SourceFormat::value_variants() {
                if let Err(error) = format.parse(&text, true) {
                    prop_assert!(!error.0.is_empty());
                }
            }
            SourceFormat::detect(&text).ok();
        }
    }

    #[test]
    fn deeply_nested_json_is_refused() {
        let text = format!("{{\"data\":[{}", "[".repeat(1_000_000));
        for format in [
            SourceFormat::Shlink,
            SourceFormat::Kutt,
            SourceFormat::Yourls,
        ] {
            assert!(format.parse(&text, false).is_err());
        }
        let element = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        let text = format!("{{\"data\":[{{\"target\":{element}}}]}}");
        let refused = parsed(SourceFormat::Kutt, &text).links;
        assert_eq!(refused[0].refusal.as_ref().unwrap().code, "record_invalid");
    }
}
