//! The formats of import files: a pure parser each, which yields the records of a file. What becomes of a record is
//! decided by [`rule`](super::rule) alone.

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

use std::{
    collections::HashSet,
    fmt::{Display, Write as _},
};

use clap::ValueEnum;
use serde_json::value::RawValue;

use super::{
    blank::trimmed,
    destination::is_address,
    link::ImportedLink,
    missing_header::missing_header,
    record::{Change, RawRecord, Refusal, shown},
    rule::RuleState,
};
use json_record::{JsonRecord, MemberFault};
use table::{CsvRow, CsvTable, first_line};

/// Largest JSON file that is read; a JSON document is parsed as a whole.
const JSON_BYTES_MAX: u64 = 256 << 20;
/// Largest file of any other format.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Number of bytes at the begin of a JSON file that name its product.
const BEGIN_BYTES: usize = 64 << 10;
/// Begin of the ids of links of this service.
const ID_PREFIX: &str = "lnk_";
/// Names that only the JSON of one product has.
const JSON_NAMES: [(&str, SourceFormat); 6] = [
    ("\"shortUrls\"", SourceFormat::Shlink),
    ("\"shorturl\"", SourceFormat::Yourls),
    ("\"total_links\"", SourceFormat::Yourls),
    ("\"visit_count\"", SourceFormat::Kutt),
    ("\"expire_in\"", SourceFormat::Kutt),
    ("\"destination_url\"", SourceFormat::Ndjson),
];

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
    pub(super) link: ImportedLink,
    /// Differences between the record and the link.
    pub(super) changes: Vec<Change>,
    /// Reason to refuse the link without asking the service.
    pub(super) refusal: Option<Refusal>,
}

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct SourceLinks {
    pub(super) links: Vec<SourceLink>,
    /// Number of links that the source says it has, if greater than the number in the file.
    pub(super) announced: Option<u64>,
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

    /// Adds a record of a JSON document. `texts` names the members of the old address and of the destination, by which
    /// people find a broken record.
    fn add_json(
        &mut self,
        raw: &RawValue,
        texts: [&str; 2],
        not_imported: &[(&str, &'static str)],
        read: impl FnOnce(&JsonRecord) -> Result<RawRecord, MemberFault>,
    ) {
        let number = self.links.len() + 1;
        let json = match JsonRecord::parse(raw) {
            Ok(json) => json,
            Err(fault) => return self.add(fault.into_record(number)),
        };
        let mut record = read(&json).unwrap_or_else(|fault| json.broken(number, fault, texts));
        record.number = number;
        for (path, name) in not_imported {
            if let Some(value) = json.shown(path) {
                record.leave_behind(*name, &value);
            }
        }
        self.add(record);
    }

    /// Adds the record of a row, with the cells of the row that have no counterpart.
    fn add_row(
        &mut self,
        row: &CsvRow,
        not_imported: &[(Option<usize>, &'static str)],
        mut record: RawRecord,
    ) {
        record.number = row.number;
        for (column, name) in not_imported {
            let says_nothing = |cell: &str| matches!(trimmed(cell), "0" | "false" | "FALSE");
            if let Some(cell) = row.cell(*column).filter(|cell| !says_nothing(cell)) {
                record.leave_behind(*name, cell);
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

/// Returns the texts of a cell that has several.
fn list_of_cell(cell: Option<&str>, separator: char) -> Vec<String> {
    let texts = cell.unwrap_or_default().split(separator);
    texts
        .filter(|text| !trimmed(text).is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// Refusal of a file whose first line is no address.
const UNKNOWN_HEADER: &str = "the first line is neither an address nor a header with the column destination_url; name the \
     columns so, or for a file of another product name the product with --from";

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

    /// Returns the format of a text that no option names. No address begins like a header or like JSON,
    /// so a list of addresses is never taken for another format.
    ///
    /// # Errors
    /// Returns an error for a first line like the header of an unknown table, since its rows are no addresses, and for
    /// rows of a table without a header.
    pub(super) fn detect(text: &str) -> Result<Self, SourceError> {
        if let Some(format) = Self::recognised(text) {
            return Ok(format);
        }
        let first = first_line(text);
        let has_destination = |table: &CsvTable<'_>| csv_columns::unknown_column(table).is_some();
        if !first.contains("://") && has_destination(&CsvTable::open(text)?) {
            return Ok(Self::Csv);
        }
        if let Some(header) = missing_header(text, None) {
            let mut reason = format!(
                "the lines look like the rows of a table whose header is missing; write as its first line: {header} \
                 (further columns: title, tags, …)"
            );
            if !first.contains(char::is_whitespace) && !first.contains('"') {
                let shown = shown(first);
                write!(
                    reason,
                    ". If \"{shown}\" as a whole is one address, name --from addresses"
                )
                .expect("writing to a string never fails");
            }
            return Err(SourceError(reason));
        }
        let is_table = first.contains([',', ';', '\t', '|']) && !is_address(first);
        if text.trim_start().starts_with('{') {
            Ok(Self::Ndjson)
        } else if is_table {
            Err(SourceError(UNKNOWN_HEADER.to_owned()))
        } else {
            Ok(Self::Addresses)
        }
    }

    /// Returns the format that a text has by the names in its first line, or in its JSON.
    fn recognised(text: &str) -> Option<Self> {
        if text.trim_start().starts_with(['{', '[']) {
            let begin = &text[..text.floor_char_boundary(BEGIN_BYTES)];
            let found = JSON_NAMES.iter().find(|(name, _)| begin.contains(name));
            return found.map(|(_, format)| *format);
        }
        let is_list = first_line(text).contains("://");
        let table = CsvTable::open(text).ok().filter(|_| !is_list)?;
        Self::of_columns(&table)
    }

    /// Returns the format whose columns a table has.
    fn of_columns(table: &CsvTable<'_>) -> Option<Self> {
        let formats = [
            (Self::Csv, csv_columns::has_columns_of_format(table)),
            (Self::Shlink, shlink::has_columns_of_format(table)),
            (Self::Dub, dub::has_columns_of_format(table)),
            (Self::Bitly, bitly::has_columns_of_format(table)),
        ];
        let found = formats.into_iter().find(|(_, is_found)| *is_found);
        found.map(|(format, _)| format)
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

    /// Refuses a table with columns of another format.
    fn check_columns(self, table: &CsvTable<'_>) -> Result<(), SourceError> {
        let columns = match Self::of_columns(table) {
            Some(format) if format == self => return table.check_separator(),
            Some(other) => format!("the columns are those of --from {}", other.name()),
            None => match csv_columns::unknown_column(table) {
                Some(unknown) if self == Self::Csv => unknown,
                Some(_) | None => format!("the columns are {}", table.shown_names()),
            },
        };
        let (name, expected) = (self.name(), self.expected());
        let reason = format!("--from {name} expects {expected}; {columns}");
        Err(SourceError::line(1, reason))
    }

    /// Returns the error of a file of another form: what the file is, what is expected, and the format that the file
    /// has.
    fn unexpected(self, what: &str, text: &str) -> SourceError {
        let (name, expected) = (self.name(), self.expected());
        let other = Self::recognised(text).filter(|other| *other != self);
        let advice = other.map_or_else(String::new, |other| {
            format!("; the file looks like one of --from {}", other.name())
        });
        SourceError(format!("{what}; --from {name} expects {expected}{advice}"))
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

    const EXPORT: &str = "id,short_url,slug,destination_url,title,tags,external_id,expires_at,expired_url,created_at,\
                          disabled_by,clicks,bots,visitors\n";

    #[test]
    fn format_is_detected_by_the_begin_of_the_file() {
        for (text, format) in [
            ("https://example.com/\n", SourceFormat::Addresses),
            ("", SourceFormat::Addresses),
            ("example.com/a,b\n", SourceFormat::Addresses),
            (
                "https://example.com/?a,destination_url\n",
                SourceFormat::Addresses,
            ),
            ("slug,destination_url\r\n", SourceFormat::Csv),
            ("\"destination_url\"\n", SourceFormat::Csv),
            ("Destination_URL;Slug\n", SourceFormat::Csv),
            ("sep=|\nDestination_URL|Slug\n", SourceFormat::Csv),
            ("slug\tdestination url\n", SourceFormat::Csv),
            ("destination_url,slugg\n", SourceFormat::Csv),
            (EXPORT, SourceFormat::Csv),
            ("{\"destination_url\":\"x\"}\n", SourceFormat::Ndjson),
            (
                include_str!("../../tests/data/import/dub.csv"),
                SourceFormat::Dub,
            ),
            (
                include_str!("../../tests/data/import/bitly.csv"),
                SourceFormat::Bitly,
            ),
            (
                include_str!("../../tests/data/import/shlink.json"),
                SourceFormat::Shlink,
            ),
            (
                include_str!("../../tests/data/import/yourls.json"),
                SourceFormat::Yourls,
            ),
            (
                include_str!("../../tests/data/import/kutt.json"),
                SourceFormat::Kutt,
            ),
        ] {
            assert_eq!(SourceFormat::detect(text), Ok(format), "{text}");
        }
        for text in ["url,slug\nhttps://example.com/,a\n", "long_url;title\n"] {
            let error = SourceFormat::detect(text).unwrap_err().to_string();
            assert!(
                error.starts_with("the first line is neither an address"),
                "{error}"
            );
        }
        let error = SourceFormat::detect("https://e.com/a;aa\nhttps://e.com/b;bb\n").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("write as its first line: destination_url;slug "),
            "{error}"
        );
    }

    #[test]
    fn columns_of_another_product_are_refused_by_name() {
        let dub = include_str!("../../tests/data/import/dub.csv");
        let bitly = include_str!("../../tests/data/import/bitly.csv");
        let shlink = include_str!("../../tests/data/import/shlink.csv");
        for (format, text, other) in [
            (SourceFormat::Bitly, dub, "dub"),
            (SourceFormat::Bitly, EXPORT, "csv"),
            (SourceFormat::Bitly, shlink, "shlink"),
            (SourceFormat::Dub, bitly, "bitly"),
            (SourceFormat::Dub, EXPORT, "csv"),
            (SourceFormat::Csv, dub, "dub"),
            (SourceFormat::Csv, bitly, "bitly"),
            (SourceFormat::Csv, shlink, "shlink"),
            (SourceFormat::Shlink, dub, "dub"),
        ] {
            let error = format.parse(text, false).err().unwrap().to_string();
            let name = format.name();
            assert!(
                error.starts_with(&format!("line 1: --from {name} expects ")),
                "{error}"
            );
            let end = format!("; the columns are those of --from {other}");
            assert!(error.ends_with(&end), "{error}");
        }
        let bitly_of_long_urls = "Short Link,Long URL,Title\n";
        for (format, text) in [
            (SourceFormat::Bitly, bitly_of_long_urls),
            (SourceFormat::Csv, EXPORT),
            (SourceFormat::Dub, dub),
            (SourceFormat::Bitly, bitly),
        ] {
            assert!(format.parse(text, false).is_ok(), "{format:?}");
        }
    }

    #[test]
    fn json_format_says_what_another_file_is() {
        let shlink = include_str!("../../tests/data/import/shlink.json");
        for (format, text, begin, end) in [
            (
                SourceFormat::Kutt,
                shlink,
                "this JSON has other members; --from kutt expects ",
                "--from shlink",
            ),
            (
                SourceFormat::Shlink,
                "<html>",
                "this is HTML or XML",
                "longUrl)",
            ),
            (
                SourceFormat::Yourls,
                EXPORT,
                "this is CSV; --from yourls expects ",
                "--from csv",
            ),
            (SourceFormat::Kutt, "hello", "this is no JSON; ", "links"),
            (SourceFormat::Kutt, "", "the file is empty; ", "links"),
            (
                SourceFormat::Kutt,
                "{\"data\":[",
                "the JSON breaks off at line 1, column 9; ",
                "links",
            ),
            (
                SourceFormat::Kutt,
                "{\"data\":[}",
                "this is no valid JSON: line 1, column 10; ",
                "links",
            ),
            (
                SourceFormat::Ndjson,
                EXPORT,
                "no line is JSON; ",
                "--from csv",
            ),
        ] {
            let error = format.parse(text, false).err().unwrap().to_string();
            assert!(error.starts_with(begin) && error.ends_with(end), "{error}");
            for word in [
                "struct",
                "invalid type",
                "missing field",
                "Document",
                "expected value",
            ] {
                assert!(!error.contains(word), "{error}");
            }
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
