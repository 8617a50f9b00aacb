//! CSV with a header: rows whose cells are found by the name of their column.

use csv::{ErrorKind, Position, Reader, ReaderBuilder, StringRecord};
use linkledger_core::{figures::counted, printable::printable};

use super::SourceError;

/// Maximum length of the names of columns in an error, in characters.
const SHOWN_NAMES_LENGTH_MAX: usize = 200;
/// Separators of columns; the comma is last, since a header of one column has none.
const SEPARATORS: [char; 3] = ['\t', ';', ','];

/// A CSV text, read row by row.
pub(super) struct CsvTable<'t> {
    text: &'t str,
    reader: Reader<&'t [u8]>,
    /// Names of the columns, in one spelling.
    names: Vec<String>,
}

/// A row, with the number of its line.
pub(super) struct CsvRow {
    pub(super) number: usize,
    cells: StringRecord,
}

impl<'t> CsvTable<'t> {
    /// Reads the header.
    pub(super) fn open(text: &'t str) -> Result<Self, SourceError> {
        let separator = separator_of(text.lines().next().unwrap_or_default());
        let mut reader = ReaderBuilder::new();
        let mut reader = reader
            .delimiter(separator as u8)
            .from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| refused(&error, text))?;
        let names: Vec<String> = header.iter().map(spelling).collect();
        let repeated = |(at, name): &(usize, &String)| names[..*at].contains(name);
        if let Some((at, _)) = names.iter().enumerate().find(repeated) {
            let name = &header[at];
            return Err(SourceError::line(
                1,
                format_args!("two columns are called {name:?}"),
            ));
        }
        Ok(Self {
            text,
            reader,
            names,
        })
    }

    /// Returns the first column that has one of the names; letter case, spaces, `_` and `-` do not
    /// count.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        let mut names = names.iter().map(|name| spelling(name));
        names.find_map(|name| self.names.iter().position(|known| *known == name))
    }

    /// Returns true if the file has one of the names.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.column(names).is_some()
    }

    /// Returns the names of the columns, for an error.
    pub(super) fn shown_names(&self) -> String {
        let names = self.names.join(", ");
        printable(&names)
            .chars()
            .take(SHOWN_NAMES_LENGTH_MAX)
            .collect()
    }

    /// Returns the first column with a name that is not among the names.
    pub(super) fn unknown_column(&self, names: &[&str]) -> Option<&str> {
        let known: Vec<String> = names.iter().map(|name| spelling(name)).collect();
        let mut columns = self.names.iter();
        columns
            .find(|name| !known.contains(name))
            .map(String::as_str)
    }

    /// Reads the next row; `None` after the last row.
    pub(super) fn next_row(&mut self) -> Option<Result<CsvRow, SourceError>> {
        let mut cells = StringRecord::new();
        match self.reader.read_record(&mut cells) {
            Ok(false) => None,
            Ok(true) => Some(Ok(CsvRow {
                number: line_of(cells.position(), self.text),
                cells,
            })),
            Err(error) => Some(Err(refused(&error, self.text))),
        }
    }
}

impl CsvRow {
    /// Returns the cell of a column, unless the file lacks the column or the cell is empty.
    pub(super) fn cell(&self, column: Option<usize>) -> Option<&str> {
        self.cells.get(column?).filter(|cell| !cell.is_empty())
    }
}

/// Returns the separator of a header: spreadsheets write semicolons where numbers have a comma.
pub(super) fn separator_of(header: &str) -> char {
    let count = |separator: char| header.matches(separator).count();
    // Of equal counts the last one wins.
    *SEPARATORS
        .iter()
        .max_by_key(|separator| count(**separator))
        .unwrap_or(&',')
}

/// Returns the name of a column in one spelling for `Created at`, `created_at` and `createdAt`.
pub(super) fn spelling(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, ' ' | '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns the number of the line on which the row at a position begins. The reader counts empty lines
/// before a row to the row.
fn line_of(position: Option<&Position>, text: &str) -> usize {
    let Some(position) = position else {
        return 1;
    };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let rest = text.as_bytes().iter().skip(number(position.byte()));
    let breaks = rest.take_while(|byte| matches!(byte, b'\r' | b'\n'));
    number(position.line()) + breaks.filter(|byte| **byte == b'\n').count()
}

fn refused(error: &csv::Error, text: &str) -> SourceError {
    let line = line_of(error.position(), text);
    if let ErrorKind::UnequalLengths {
        expected_len, len, ..
    } = error.kind()
    {
        let reason = format!(
            "{}, but the header has {expected_len}; is a quotation mark missing?",
            counted(*len, "column")
        );
        return SourceError::line(line, reason);
    }
    SourceError::line(line, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_is_found_in_any_spelling() {
        let table = CsvTable::open("Created at,Long URL\n").ok().unwrap();
        assert_eq!(table.column(&["created_at"]), Some(0));
        assert_eq!(table.column(&["destination_url", "long_url"]), Some(1));
        assert_eq!(table.unknown_column(&["createdAt"]), Some("longurl"));
        assert!(!table.has(&["slug"]));
        assert_eq!(table.shown_names(), "createdat, longurl");
    }

    #[test]
    fn broken_row_names_its_line() {
        let mut table = CsvTable::open("a,b\n1,\"2\n2\"\n\n3\n").ok().unwrap();
        let row = table.next_row().unwrap().ok().unwrap();
        assert_eq!((row.number, row.cell(Some(1))), (2, Some("2\n2")));
        let error = table.next_row().unwrap().err().unwrap().to_string();
        assert!(
            error.starts_with("line 5: 1 column, but the header has 2"),
            "{error}"
        );
    }

    #[test]
    fn repeated_column_is_refused() {
        let error = CsvTable::open("slug,Slug\n").err().unwrap().to_string();
        assert_eq!(error, "line 1: two columns are called \"Slug\"");
    }
}
