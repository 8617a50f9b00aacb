//! The formats of import files: a pure parser each, which turns the text of a file into links.

mod addresses;
mod bitly;
mod csv_columns;
mod dub;
mod json_record;
mod kutt;
mod ndjson;
mod shlink;
mod table;
mod yourls;

use std::fmt::Display;

use clap::ValueEnum;

use super::{adapt::ForeignLink, link::ImportedLink, report::SourceReport};
use json_record::JsonRecord;
use table::{CsvRow, CsvTable};

/// Largest JSON file that is read; a JSON document is parsed as a whole.
const JSON_BYTES_MAX: u64 = 256 << 20;
/// Spelling of the column `destination_url` in a header.
const DESTINATION_COLUMN: &str = "destinationurl";
/// Largest file of any other format.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Format of an import file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SourceFormat {
    /// One destination address on each line.
    Addresses,
    /// CSV with the columns of this service, such as `linkledger export --format csv` writes.
    Csv,
    /// One JSON object on each line, such as `linkledger export` writes.
    Ndjson,
    /// Shlink: JSON of `GET /rest/v3/short-urls`.
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
    pub(super) link: ImportedLink,
    /// Reason to refuse the link without asking the service.
    pub(super) refusal: Option<SourceRefusal>,
}

/// Reason for which a link of a file is not sent to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceRefusal {
    pub(super) code: &'static str,
    pub(super) detail: String,
}

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct SourceLinks {
    pub(super) links: Vec<SourceLink>,
    pub(super) report: SourceReport,
}

/// Error of a file that is not of its format. Nothing of the file is imported.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub(super) struct SourceError {
    /// Line, or member of a JSON document.
    place: String,
    reason: String,
}

impl SourceError {
    fn new(place: impl Display, reason: impl Display) -> Self {
        Self {
            place: place.to_string(),
            reason: reason.to_string(),
        }
    }

    fn line(number: usize, reason: impl Display) -> Self {
        Self::new(format_args!("line {number}"), reason)
    }
}

impl SourceLinks {
    /// Adds the link of a record, and counts the members of the record that have no counterpart.
    fn add_record(
        &mut self,
        record: &JsonRecord,
        not_imported: &[(&str, &str)],
        foreign: ForeignLink<'_>,
    ) {
        for (path, name) in not_imported {
            if record.is_set(path) {
                self.report.count_not_imported(name);
            }
        }
        let number = self.links.len() + 1;
        self.links.push(foreign.adapt(number, &mut self.report));
    }

    /// Adds the link of a row, and counts the cells of the row that have no counterpart.
    fn add_row(
        &mut self,
        row: &CsvRow,
        not_imported: &[(Option<usize>, &str)],
        foreign: ForeignLink<'_>,
    ) {
        for (column, name) in not_imported {
            let says_nothing = |cell: &str| matches!(cell, "0" | "false" | "FALSE");
            if row.cell(*column).is_some_and(|cell| !says_nothing(cell)) {
                self.report.count_not_imported(name);
            }
        }
        let adapted = foreign.adapt(row.number, &mut self.report);
        self.links.push(adapted);
    }
}

impl SourceRefusal {
    fn disabled() -> Self {
        Self {
            code: "link_disabled",
            detail: "The link is disabled, and an import creates only links that redirect."
                .to_owned(),
        }
    }

    fn no_slug() -> Self {
        Self {
            code: "slug_missing",
            detail: "The short address is missing or has no slug.".to_owned(),
        }
    }
}

/// Refusal of a file whose first line is no address.
const UNKNOWN_HEADER: &str = "neither an address nor a header with the column destination_url; for a file of another \
     product name the product with --from, for a list of addresses --from addresses";

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

    /// Returns the word for a numbered part of the file.
    pub(super) const fn unit(self) -> &'static str {
        if self.is_json() { "link" } else { "line" }
    }

    /// Returns the format of a text that no option names. No address begins like a header or like JSON,
    /// so a list of addresses is never taken for another format.
    ///
    /// # Errors
    /// Returns an error for a first line like the header of an unknown table: its rows are no addresses.
    pub(super) fn detect(text: &str) -> Result<Self, SourceError> {
        let text = without_mark(text);
        let first = text.lines().next().unwrap_or_default();
        let separator = table::separator_of(first);
        let mut names = first
            .split(separator)
            .map(|name| table::spelling(name.trim().trim_matches('"')));
        if text.trim_start().starts_with('{') {
            Ok(Self::Ndjson)
        } else if first.contains("://") || !first.contains(separator) {
            let is_column = !first.contains("://") && names.any(|name| name == DESTINATION_COLUMN);
            Ok(if is_column {
                Self::Csv
            } else {
                Self::Addresses
            })
        } else if names.any(|name| name == DESTINATION_COLUMN) {
            Ok(Self::Csv)
        } else {
            Err(SourceError::line(1, UNKNOWN_HEADER))
        }
    }

    /// Returns the format whose columns a table has.
    fn of_columns(table: &CsvTable<'_>) -> Option<Self> {
        let formats = [
            (Self::Csv, csv_columns::has_columns_of_format(table)),
            (Self::Dub, dub::has_columns_of_format(table)),
            (Self::Bitly, bitly::has_columns_of_format(table)),
        ];
        let found = formats.into_iter().find(|(_, is_found)| *is_found);
        found.map(|(format, _)| format)
    }

    /// Refuses a table with columns of another format. `expected` names the columns of this format.
    fn check_columns(self, table: &CsvTable<'_>, expected: &str) -> Result<(), SourceError> {
        let columns = match Self::of_columns(table) {
            Some(format) if format == self => return Ok(()),
            Some(other) => format!("the columns are those of --from {}", other.name()),
            None => match csv_columns::unknown_column(table) {
                Some(unknown) if self == Self::Csv => format!("{unknown:?} is none of them"),
                Some(_) | None => format!("the columns are {}", table.shown_names()),
            },
        };
        let name = self.name();
        let reason = format!("--from {name} expects {expected}; {columns}");
        Err(SourceError::line(1, reason))
    }

    /// Returns the name of the format for `--from`.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the first line or member that is not of the format.
    pub(super) fn parse(self, text: &str) -> Result<SourceLinks, SourceError> {
        let text = without_mark(text);
        match self {
            Self::Addresses => Ok(addresses::parse(text)),
            Self::Csv => csv_columns::parse(text),
            Self::Ndjson => ndjson::parse(text),
            Self::Shlink => shlink::parse(text),
            Self::Kutt => kutt::parse(text),
            Self::Yourls => yourls::parse(text),
            Self::Bitly => bitly::parse(text),
            Self::Dub => dub::parse(text),
        }
    }
}

/// Removes the byte order mark, which spreadsheets and editors of Windows write.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn format_is_detected_by_the_first_line() {
        for (text, format) in [
            ("https://example.com/\n", SourceFormat::Addresses),
            ("", SourceFormat::Addresses),
            (
                "https://example.com/?a,destination_url\n",
                SourceFormat::Addresses,
            ),
            ("slug,destination_url\r\n", SourceFormat::Csv),
            ("\u{feff}\"destination_url\"\n", SourceFormat::Csv),
            ("Destination_URL;Slug\n", SourceFormat::Csv),
            ("slug\tdestination url\n", SourceFormat::Csv),
            ("{\"destination_url\":\"x\"}\n", SourceFormat::Ndjson),
        ] {
            assert_eq!(SourceFormat::detect(text), Ok(format), "{text}");
        }
        for text in ["url,slug\nhttps://example.com/,a\n", "long_url;title\n"] {
            let error = SourceFormat::detect(text).unwrap_err().to_string();
            assert!(error.starts_with("line 1: neither an address"), "{error}");
        }
    }

    #[test]
    fn byte_order_mark_is_no_part_of_an_address() {
        let parsed = |text| format!("{:?}", SourceFormat::Addresses.parse(text));
        assert_eq!(
            parsed("\u{feff}https://example.com/\n"),
            parsed("https://example.com/\n")
        );
    }

    #[test]
    fn columns_of_another_product_are_refused_by_name() {
        let export = "id,short_url,slug,destination_url,title,tags,external_id,expires_at,expired_url,created_at,\
                      disabled_by,clicks,bots,visitors\n";
        let dub = include_str!("../../tests/data/import/dub.csv");
        let bitly = include_str!("../../tests/data/import/bitly.csv");
        for (format, text, other) in [
            (SourceFormat::Bitly, dub, "dub"),
            (SourceFormat::Bitly, export, "csv"),
            (SourceFormat::Dub, bitly, "bitly"),
            (SourceFormat::Dub, export, "csv"),
            (SourceFormat::Csv, dub, "dub"),
            (SourceFormat::Csv, bitly, "bitly"),
        ] {
            let error = format.parse(text).err().unwrap().to_string();
            let name = format.name();
            assert!(
                error.starts_with(&format!("line 1: --from {name} expects ")),
                "{error}"
            );
            let end = format!("; the columns are those of --from {other}");
            assert!(error.ends_with(&end), "{error}");
        }
        let with_notes = export.replace('\n', ",notes\n");
        let error = SourceFormat::Csv.parse(&with_notes).err().unwrap();
        let error = error.to_string();
        assert!(error.ends_with("; \"notes\" is none of them"), "{error}");
        let bitly_of_long_urls = "Short Link,Long URL,Title\n";
        for (format, text) in [
            (SourceFormat::Bitly, bitly_of_long_urls),
            (SourceFormat::Csv, export),
            (SourceFormat::Dub, dub),
            (SourceFormat::Bitly, bitly),
        ] {
            assert!(format.parse(text).is_ok(), "{format:?}");
        }
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
                if let Err(error) = format.parse(&text) {
                    prop_assert!(!error.place.is_empty() && !error.reason.is_empty());
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
            assert!(format.parse(&text).is_err());
        }
        let element = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        let text = format!("{{\"data\":[{{\"target\":{element}}}]}}");
        assert!(SourceFormat::Kutt.parse(&text).is_err());
    }
}
