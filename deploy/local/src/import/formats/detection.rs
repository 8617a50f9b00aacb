//! Recognition of the format of a text, by its first line or by the names in its JSON.

use std::fmt::Write as _;

use super::{
    SourceError, SourceFormat, bitly, csv_columns, dub, shlink,
    table::{CsvTable, first_line},
};
use crate::import::{destination::is_address, missing_header::missing_header, record::shown};

/// Number of bytes at the begin of a JSON file that name its product.
const BEGIN_BYTES: usize = 64 << 10;
/// Names that only the JSON of one product has.
const JSON_NAMES: [(&str, SourceFormat); 6] = [
    ("\"shortUrls\"", SourceFormat::Shlink),
    ("\"shorturl\"", SourceFormat::Yourls),
    ("\"total_links\"", SourceFormat::Yourls),
    ("\"visit_count\"", SourceFormat::Kutt),
    ("\"expire_in\"", SourceFormat::Kutt),
    ("\"destination_url\"", SourceFormat::Ndjson),
];
/// Refusal of JSON without a member that only one product has.
const UNKNOWN_JSON: &str = "this is JSON, but of no known product: perhaps its answer to a request that was refused; name \
     the product with --from to learn what its file must have, or write each link on a line of its own as \
     {\"destination_url\": …, \"slug\": …}";
/// Refusal of a page, such as that of a log-in.
const HTML: &str = "this is HTML, perhaps the page of an error or for logging in; open it in a browser, and export again";
/// Refusal of an export in the other form that some products have.
const XML: &str = "this is XML; export as JSON or CSV";
/// Refusal of a file whose first line is no address.
const UNKNOWN_HEADER: &str = "the first line is neither an address nor a header with the column destination_url; rename \
     the columns that hold slug and destination to slug and destination_url, or for a file of another product name the \
     product with --from; the columns are ";

impl SourceFormat {
    /// Returns the format of a text that no option names. No address begins like a header or like JSON,
    /// so a list of addresses is never taken for another format.
    ///
    /// # Errors
    /// Returns an error for a first line like the header of an unknown table, since its rows are no addresses, and for
    /// rows of a table without a header.
    pub(in crate::import) fn detect(text: &str) -> Result<Self, SourceError> {
        if let Some(format) = Self::recognised(text) {
            return Ok(format);
        }
        let first = first_line(text);
        let begin = text.trim_start();
        let is_table = first.contains([',', ';', '\t', '|']) && !is_address(first);
        let has_destination = |table: &CsvTable<'_>| csv_columns::unknown_column(table).is_some();
        if !first.contains("://") && has_destination(&CsvTable::open(text)?) {
            return Ok(Self::Csv);
        }
        // Such a line is the header, so that no header is missing.
        if is_table && !begin.starts_with(['{', '[', '<']) && !first.contains("://") {
            let table = CsvTable::open(text)?;
            if !table.names().any(is_address) {
                return Err(SourceError(
                    UNKNOWN_HEADER.to_owned() + &table.shown_names(),
                ));
            }
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
        if begin.starts_with(['{', '[']) {
            Err(SourceError(UNKNOWN_JSON.to_owned()))
        } else if begin.starts_with('<') && !first.contains("://") {
            let what = if begin.starts_with("<?xml") {
                XML
            } else {
                HTML
            };
            Err(SourceError(what.to_owned()))
        } else if is_table {
            let names = CsvTable::open(text)?.shown_names();
            Err(SourceError(UNKNOWN_HEADER.to_owned() + &names))
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

    /// Refuses a table with columns of another format.
    pub(super) fn check_columns(self, table: &CsvTable<'_>) -> Result<(), SourceError> {
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
    pub(super) fn unexpected(self, what: &str, text: &str) -> SourceError {
        let (name, expected) = (self.name(), self.expected());
        let other = Self::recognised(text).filter(|other| *other != self);
        let advice = other.map_or_else(String::new, |other| {
            format!("; the file looks like one of --from {}", other.name())
        });
        SourceError(format!("{what}; --from {name} expects {expected}{advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                include_str!("../../../tests/data/import/dub.csv"),
                SourceFormat::Dub,
            ),
            (
                include_str!("../../../tests/data/import/bitly.csv"),
                SourceFormat::Bitly,
            ),
            (
                include_str!("../../../tests/data/import/shlink.json"),
                SourceFormat::Shlink,
            ),
            (
                include_str!("../../../tests/data/import/yourls.json"),
                SourceFormat::Yourls,
            ),
            (
                include_str!("../../../tests/data/import/kutt.json"),
                SourceFormat::Kutt,
            ),
        ] {
            assert_eq!(SourceFormat::detect(text), Ok(format), "{text}");
        }
        for (text, names) in [
            ("url,slug\nhttps://example.com/,a\n", "url, slug"),
            ("long_url;title\n", "long_url, title"),
            (
                "key,domain,url,tags\na,dub.sh,https://e.com/,\nb,dub.sh,https://e.com/2,\nc,dub.sh,https://e.com/3,\n\
                 d,dub.sh,https://e.com/4,\n",
                "key, domain, url, tags",
            ),
        ] {
            let error = SourceFormat::detect(text).unwrap_err().to_string();
            assert!(
                error.starts_with("the first line is neither an address"),
                "{error}"
            );
            assert!(
                error.ends_with(&format!("the columns are {names}")),
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
    fn unknown_json_and_pages_are_no_lists_of_addresses() {
        for (text, begin) in [
            (
                "{\"message\":\"Please log in\",\"errorCode\":\"403\"}",
                "this is JSON, but of no known",
            ),
            (
                "[{\"url\":\"https://e.com/\"}]",
                "this is JSON, but of no known",
            ),
            ("<!doctype html>\n<title>Log in</title>", "this is HTML"),
            ("<?xml version=\"1.0\"?><result/>", "this is XML"),
        ] {
            let error = SourceFormat::detect(text).unwrap_err().to_string();
            assert!(error.starts_with(begin), "{error}");
        }
    }

    #[test]
    fn columns_of_another_product_are_refused_by_name() {
        let dub = include_str!("../../../tests/data/import/dub.csv");
        let bitly = include_str!("../../../tests/data/import/bitly.csv");
        let shlink = include_str!("../../../tests/data/import/shlink.csv");
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
        let shlink = include_str!("../../../tests/data/import/shlink.json");
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
}
