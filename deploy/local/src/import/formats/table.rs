//! CSV with a header: rows whose cells are found by the name of their column.

use std::collections::HashMap;

use csv::{Reader, ReaderBuilder, StringRecord};
use linkledger_core::figures::counted;

use super::SourceError;
use crate::import::{
    blank::{is_blank, trimmed},
    record::shown,
};

/// Maximum number of columns; a file with more is not a list of links.
const COLUMNS_MAX: usize = 1_000;
/// Maximum number of rows whose open quotation mark is passed over: each is searched to the end of the file.
const OPEN_QUOTES_MAX: usize = 20;
/// Separators of columns; the comma is last, since a header of one column has none.
const SEPARATORS: [char; 4] = ['|', '\t', ';', ','];

/// A CSV text, read row by row.
pub(super) struct CsvTable<'t> {
    rows: Rows<'t>,
    /// Positions of the columns by their name, in one spelling. Columns without a name are none.
    positions: HashMap<String, usize>,
    /// Names of the columns as written, in order.
    names: Vec<String>,
    /// Number of cells of the header.
    width: usize,
    open_quotes: usize,
}

/// A row, with the number of its line.
pub(super) struct CsvRow {
    pub(super) number: usize,
    pub(super) cells: StringRecord,
    /// Reason for which the cells cannot be told apart.
    pub(super) fault: Option<String>,
}

/// The records of a text from some line on.
struct Rows<'t> {
    text: &'t str,
    separator: u8,
    reader: Reader<&'t [u8]>,
    /// Number of the lines before the text.
    lines_before: usize,
}

impl<'t> CsvTable<'t> {
    /// Reads the header. A line `sep=;` before the header names the separator, as spreadsheets write it.
    pub(super) fn open(text: &'t str) -> Result<Self, SourceError> {
        let (named, text, lines_before) = without_separator_line(text);
        let first = text.lines().find(|line| !trimmed(line).is_empty());
        let separator = named.unwrap_or_else(|| separator_of(first.unwrap_or_default()));
        let mut rows = Rows::new(text, separator, lines_before);
        let (number, header) = rows.next()?.unwrap_or_default();
        if header.len() > COLUMNS_MAX {
            let reason = format!(
                "the header has more than {}",
                counted(COLUMNS_MAX as u64, "column")
            );
            return Err(SourceError::line(number.max(1), reason));
        }
        let (mut positions, mut names) = (HashMap::new(), Vec::new());
        for (position, name) in header.iter().enumerate() {
            let name = trimmed(name);
            if name.is_empty() {
                continue;
            }
            if positions.insert(spelling(name), position).is_some() {
                let reason = format!("two columns are called \"{}\"", shown(name));
                return Err(SourceError::line(number, reason));
            }
            names.push(name.to_owned());
        }
        let width = header.len();
        Ok(Self {
            rows,
            positions,
            names,
            width,
            open_quotes: 0,
        })
    }

    /// Returns the first column that has one of the names; letter case, spaces, `_` and `-` do not
    /// count.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        let mut names = names.iter().map(|name| self.positions.get(&spelling(name)));
        names.find_map(|position| position.copied())
    }

    /// Returns true if the file has one of the names.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.column(names).is_some()
    }

    /// Returns the names of the columns, for an error.
    pub(super) fn shown_names(&self) -> String {
        shown(&self.names.join(", "))
    }

    /// Returns the first column with a name that is not among the names.
    pub(super) fn unknown_column(&self, names: &[&str]) -> Option<&str> {
        let known: Vec<String> = names.iter().map(|name| spelling(name)).collect();
        let mut columns = self.names.iter();
        columns
            .find(|name| !known.contains(&spelling(name)))
            .map(String::as_str)
    }

    /// Reads the next row that has a cell with text; `None` after the last row.
    pub(super) fn next_row(&mut self) -> Result<Option<CsvRow>, SourceError> {
        loop {
            let begin = self.rows.reader.position().clone();
            let Some((number, cells)) = self.rows.next()? else {
                return Ok(None);
            };
            if cells.iter().all(|cell| trimmed(cell).is_empty()) {
                continue;
            }
            if let Some(fault) = self.pass_open_quote(&begin, number, &cells)? {
                return Ok(Some(CsvRow {
                    number,
                    cells,
                    fault: Some(fault),
                }));
            }
            let fault = self.fault(number, &cells);
            return Ok(Some(CsvRow {
                number,
                cells,
                fault,
            }));
        }
    }

    /// Returns the reason for which the cells of a row may stand under wrong columns.
    fn fault(&self, number: usize, cells: &StringRecord) -> Option<String> {
        let excess = cells
            .iter()
            .skip(self.width)
            .any(|cell| !trimmed(cell).is_empty());
        if excess {
            let (cells, columns) = (
                counted(cells.len() as u64, "cell"),
                counted(self.width as u64, "column"),
            );
            return Some(format!(
                "The row has {cells}, the header {columns}: put cells that contain the separator between quotation marks."
            ));
        }
        // A cell of several lines with an address in its later lines has swallowed other rows.
        let swallows = |cell: &str| {
            cell.split_once('\n')
                .is_some_and(|(_, rest)| rest.contains("://"))
        };
        cells.iter().any(swallows).then(|| {
            let breaks = cells
                .iter()
                .map(|cell| cell.matches('\n').count())
                .sum::<usize>();
            let last = number + breaks;
            format!("The lines {number} to {last} are one row: is a quotation mark missing?")
        })
    }

    /// Returns a reason if a quotation mark of the row is never closed, and continues after its first line.
    fn pass_open_quote(
        &mut self,
        begin: &csv::Position,
        number: usize,
        cells: &StringRecord,
    ) -> Result<Option<String>, SourceError> {
        let text = self.rows.text;
        let is_at_end = index(self.rows.reader.position().byte()) >= text.len();
        let has_break = cells.iter().any(|cell| cell.contains('\n'));
        let from = text.get(index(begin.byte())..).unwrap_or_default();
        if !is_at_end || !has_break || from.matches('"').count() % 2 == 0 {
            return Ok(None);
        }
        self.open_quotes += 1;
        if self.open_quotes > OPEN_QUOTES_MAX {
            let reason = format!("more than {OPEN_QUOTES_MAX} quotation marks are never closed");
            return Err(SourceError::line(number, reason));
        }
        let from = from.trim_start_matches(['\r', '\n']);
        let rest = from.split_once('\n').map_or("", |(_, rest)| rest);
        self.rows = Rows::new(rest, char::from(self.rows.separator), number);
        Ok(Some(
            "A quotation mark of this line is never closed.".to_owned(),
        ))
    }
}

impl<'t> Rows<'t> {
    fn new(text: &'t str, separator: char, lines_before: usize) -> Self {
        let separator = u8::try_from(separator).unwrap_or(b',');
        let mut reader = ReaderBuilder::new();
        let reader = reader
            .delimiter(separator)
            .has_headers(false)
            .flexible(true);
        let reader = reader.from_reader(text.as_bytes());
        Self {
            text,
            separator,
            reader,
            lines_before,
        }
    }

    /// Reads a record, with the number of its first line.
    fn next(&mut self) -> Result<Option<(usize, StringRecord)>, SourceError> {
        let mut cells = StringRecord::new();
        let has_record = self.reader.read_record(&mut cells);
        let number = self.lines_before + self.line_of(cells.position());
        match has_record {
            Ok(true) => Ok(Some((number, cells))),
            Ok(false) => Ok(None),
            Err(error) => Err(SourceError::line(number, error)),
        }
    }

    /// Returns the number of the line on which the record at a position begins. The reader counts empty lines
    /// before a record to the record.
    fn line_of(&self, position: Option<&csv::Position>) -> usize {
        let Some(position) = position else {
            return 1;
        };
        let rest = self.text.as_bytes().iter().skip(index(position.byte()));
        let breaks = rest.take_while(|byte| matches!(byte, b'\r' | b'\n'));
        index(position.line()) + breaks.filter(|byte| **byte == b'\n').count()
    }
}

impl CsvRow {
    /// Returns the cell of a column, unless the file lacks the column or the cell is empty.
    pub(super) fn cell(&self, column: Option<usize>) -> Option<&str> {
        self.cells
            .get(column?)
            .filter(|cell| !trimmed(cell).is_empty())
    }

    /// Returns the cell of a column, also if nobody sees its characters.
    pub(super) fn whole_cell(&self, column: Option<usize>) -> Option<&str> {
        self.cells.get(column?).filter(|cell| !cell.is_empty())
    }

    pub(super) fn owned(&self, column: Option<usize>) -> Option<String> {
        self.cell(column).map(ToOwned::to_owned)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Takes away a first line `sep=;`. Returns its separator, and the number of lines that are taken away.
fn without_separator_line(text: &str) -> (Option<char>, &str, usize) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let first = first
        .trim_matches(|c: char| is_blank(c) && c != '\t')
        .trim_matches('"');
    let named = first
        .get(..4)
        .filter(|begin| begin.eq_ignore_ascii_case("sep="));
    let separator = named.and_then(|_| first[4..].chars().next());
    match separator.filter(char::is_ascii) {
        Some(separator) => (Some(separator), rest, 1),
        None => (None, text, 0),
    }
}

/// Returns the separator of a header: spreadsheets write semicolons where numbers have a comma.
fn separator_of(header: &str) -> char {
    let count = |separator: char| header.matches(separator).count();
    // Of equal counts the last one wins.
    *SEPARATORS
        .iter()
        .max_by_key(|separator| count(**separator))
        .unwrap_or(&',')
}

/// Returns the name of a column in one spelling for `Created at`, `created_at` and `createdAt`.
pub(super) fn spelling(name: &str) -> String {
    let letters = name
        .chars()
        .filter(|c| !is_blank(*c) && !matches!(c, '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<(usize, Vec<String>, bool)> {
        let mut table = CsvTable::open(text).ok().unwrap();
        let mut rows = Vec::new();
        while let Some(row) = table.next_row().ok().unwrap() {
            let cells = row.cells.iter().map(ToOwned::to_owned).collect();
            rows.push((row.number, cells, row.fault.is_some()));
        }
        rows
    }

    fn row(number: usize, cells: &[&str], is_faulty: bool) -> (usize, Vec<String>, bool) {
        (
            number,
            cells.iter().map(|cell| (*cell).to_owned()).collect(),
            is_faulty,
        )
    }

    #[test]
    fn column_is_found_in_any_spelling() {
        let table = CsvTable::open("Created at,\"Long URL\u{a0}\",,\n")
            .ok()
            .unwrap();
        assert_eq!(table.column(&["created_at"]), Some(0));
        assert_eq!(table.column(&["destination_url", "long_url"]), Some(1));
        assert_eq!(table.unknown_column(&["createdAt"]), Some("Long URL"));
        assert!(!table.has(&["slug"]));
        assert_eq!(table.shown_names(), "Created at, Long URL");
    }

    #[test]
    fn empty_rows_and_missing_cells_are_skipped() {
        let text = "a;b;;\r\n1;2;;\r\n;;;\r\n\r\n \u{a0};\r\n3\r\n";
        assert_eq!(
            rows(text),
            [row(2, &["1", "2", "", ""], false), row(6, &["3"], false)]
        );
    }

    #[test]
    fn first_line_can_name_the_separator() {
        for text in [
            "sep=;\na,b;c\n1;2\n",
            "\"sep=;\"\r\na,b;c\r\n1;2\r\n",
            "SEP=;\n\na,b;c\n1;2\n",
        ] {
            let numbers: Vec<_> = rows(text).iter().map(|row| row.1.clone()).collect();
            assert_eq!(numbers, [["1", "2"]], "{text}");
        }
        assert_eq!(rows("sep=\t\na\tb\n1\t2\n"), [row(3, &["1", "2"], false)]);
        assert_eq!(rows("a|b\n1|2\n"), [row(2, &["1", "2"], false)]);
    }

    #[test]
    fn row_with_too_many_cells_is_faulty_alone() {
        let text = "a,b\n1,\"2\n2\"\n\n3,4,5\n6,7,\n";
        let expected = [
            row(2, &["1", "2\n2"], false),
            row(5, &["3", "4", "5"], true),
            row(6, &["6", "7", ""], false),
        ];
        assert_eq!(rows(text), expected);
    }

    #[test]
    fn open_quotation_mark_swallows_no_rows() {
        let text = "a,b\n1,\"x\n2,y\n3,z\n";
        let found: Vec<_> = rows(text).iter().map(|row| (row.0, row.2)).collect();
        assert_eq!(found, [(2, true), (3, false), (4, false)]);
        let text = "a,b\nhttps://a.e,\"x\nhttps://b.e,\"y\nhttps://c.e,z\n";
        assert_eq!(rows(text)[0].2, true);
        assert_eq!(rows("a,b\n1,5\" pipe\n2,\"5\"\" pipe\"\n").len(), 2);
    }

    #[test]
    fn repeated_column_is_refused() {
        let error = CsvTable::open("slug,Slug\n").err().unwrap().to_string();
        assert_eq!(error, "line 1: two columns are called \"Slug\"");
    }

    #[test]
    fn header_has_a_maximum_of_columns() {
        let header: String = (0..100_000).map(|n| format!("c{n},")).collect();
        let error = CsvTable::open(&header).err().unwrap().to_string();
        assert_eq!(error, "line 1: the header has more than 1,000 columns");
    }
}
