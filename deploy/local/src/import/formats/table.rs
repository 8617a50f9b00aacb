//! CSV with a header: rows whose cells are found by the name of their column.

mod first_lines;
mod rows;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use csv::StringRecord;
use linkledger_service::number_format::counted;

use super::SourceError;
use crate::import::{
    blank::{is_blank, trimmed},
    destination::is_address,
    missing_header::{SEPARATORS, missing_header, row_of},
    record::shown,
};
pub(super) use first_lines::first_line;
use first_lines::{separator_of, without_empty_lines, without_separator_line};
use rows::{Rows, index};

/// Maximum number of columns; a file with more is not a list of links.
const COLUMNS_MAX: usize = 1_000;
/// Maximum number of rows whose open quotation mark is passed over: each is searched to the end of the file.
const OPEN_QUOTES_MAX: usize = 20;
/// A CSV text, read row by row.
pub(super) struct CsvTable<'t> {
    rows: Rows<'t>,
    /// Positions of the columns by their name, in one spelling. Columns without a name are none.
    positions: HashMap<String, usize>,
    /// Positions of the columns whose name other columns have too.
    repeated: HashSet<usize>,
    /// Error of a repeated column that the format reads.
    fault: Option<SourceError>,
    /// Positions and names of the columns as written, in order.
    names: Vec<(usize, String)>,
    /// Positions of the columns that the format reads.
    read: HashSet<usize>,
    /// Number of cells of the header.
    width: usize,
    open_quotes: usize,
}

/// Position of a column that the format does not read, and its name in the report; `None` for a column without a name.
pub(super) type LeftColumn = (usize, Option<Cow<'static, str>>);

/// A row, with the number of its line.
pub(super) struct CsvRow {
    pub(super) number: usize,
    pub(super) cells: StringRecord,
    /// Reason for which the cells cannot be told apart.
    pub(super) fault: Option<String>,
    /// Separator of the row, if the row has fewer cells than the header.
    short: Option<char>,
}

impl<'t> CsvTable<'t> {
    /// Reads the header. A line `sep=;` before the header names the separator, as spreadsheets write it. Lines
    /// before the header that say nothing are passed over.
    pub(super) fn open(text: &'t str) -> Result<Self, SourceError> {
        let (declared, text, lines_before) = without_separator_line(text);
        let (text, empty_lines) = without_empty_lines(text);
        let separator = declared.unwrap_or_else(|| separator_of(first_line(text)));
        let mut rows = Rows::new(text, separator, lines_before + empty_lines);
        let (number, header) = rows.next()?.unwrap_or_default();
        if header.len() > COLUMNS_MAX {
            let reason = format!(
                "the header has more than {}",
                counted(COLUMNS_MAX as u64, "column")
            );
            return Err(SourceError::line(number.max(1), reason));
        }
        let (mut positions, mut names) = (HashMap::new(), Vec::new());
        let mut repeated = HashSet::new();
        for (position, name) in header.iter().enumerate() {
            let name = trimmed(name);
            if name.is_empty() {
                continue;
            }
            let first = *positions.entry(spelling(name)).or_insert(position);
            if first != position {
                repeated.insert(first);
            }
            names.push((position, name.to_owned()));
        }
        let width = header.len();
        Ok(Self {
            rows,
            positions,
            repeated,
            fault: None,
            names,
            read: HashSet::new(),
            width,
            open_quotes: 0,
        })
    }

    /// Returns the first column that has one of the names. If two columns have the name, the next row is an error:
    /// nobody knows which one counts.
    pub(super) fn column(&mut self, names: &[&str]) -> Option<usize> {
        let column = self.ignored_column(names)?;
        self.read.insert(column);
        if self.repeated.contains(&column) {
            let reason = format!("two columns are called \"{}\"", shown(names[0]));
            self.fault.get_or_insert(SourceError::line(1, reason));
        }
        Some(column)
    }

    /// Returns the first column that has one of the names, of which the report alone speaks; letter case, spaces, `_`
    /// and `-` do not count.
    pub(super) fn ignored_column(&self, names: &[&str]) -> Option<usize> {
        let mut names = names.iter().map(|name| self.positions.get(&spelling(name)));
        names.find_map(Option::<&usize>::copied)
    }

    /// Returns true if the file has one of the names.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.ignored_column(names).is_some()
    }

    /// Refuses a table whose rows have another separator than its header: each row would be one address.
    pub(super) fn check_separator(&self) -> Result<(), SourceError> {
        let separator = char::from(self.rows.separator);
        let rows = self
            .rows
            .text
            .get(index(self.rows.reader.position().byte())..);
        let Some(header) = missing_header(rows.unwrap_or_default(), Some(separator)) else {
            return Ok(());
        };
        let reason = format!(
            "the rows look separated in another way than the header; write it like this: {header}. If they are addresses \
             as they are, put each between quotation marks"
        );
        Err(SourceError::line(1, reason))
    }

    /// Returns the names of the columns as written.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, name)| name.as_str())
    }

    /// Returns the names of the columns, for an error.
    pub(super) fn shown_names(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        shown(&names.join(", "))
    }

    /// Returns the first column with a name that is not among the names.
    pub(super) fn unknown_column(&self, names: &[&str]) -> Option<&str> {
        let known: Vec<String> = names.iter().map(|name| spelling(name)).collect();
        let mut columns = self.names.iter().map(|(_, name)| name.as_str());
        columns.find(|name| !known.contains(&spelling(name)))
    }

    /// Returns the columns that the format does not read, with their names in the report: the name of the group that has
    /// the column, or else the name as written. To be called after the columns that the format reads.
    pub(super) fn left_columns(
        &self,
        groups: &[(&[&str], &'static str)],
        ignored: &[&str],
    ) -> Vec<LeftColumn> {
        let has = |names: &[&str], name: &str| {
            let name = spelling(name);
            names.iter().any(|known| spelling(known) == name)
        };
        let is_left = |(position, name): &&(usize, String)| {
            !self.read.contains(position) && !has(ignored, name)
        };
        let left = self.names.iter().filter(is_left);
        let named = left.map(|(position, name)| {
            let group = groups.iter().find(|(names, _)| has(names, name));
            let name = group.map_or_else(|| shown(name).into(), |(_, group)| (*group).into());
            (*position, Some(name))
        });
        named.chain(self.unnamed_columns()).collect()
    }

    /// Returns the columns without a name: a slug in one of them would be lost.
    pub(super) fn unnamed_columns(&self) -> Vec<LeftColumn> {
        let is_named = |position| self.names.iter().any(|(named, _)| *named == position);
        let unnamed = (0..self.width).filter(|position| !is_named(*position));
        unnamed.map(|position| (position, None)).collect()
    }

    /// Reads the next row that has a cell with text; `None` after the last row.
    pub(super) fn next_row(&mut self) -> Result<Option<CsvRow>, SourceError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        loop {
            let begin = self.rows.reader.position().clone();
            let Some((number, cells)) = self.rows.next()? else {
                return Ok(None);
            };
            if cells.iter().all(|cell| trimmed(cell).is_empty()) {
                continue;
            }
            let is_short = cells.len() < self.width;
            let short = is_short.then(|| char::from(self.rows.separator));
            if let Some(fault) = self.pass_open_quote(&begin, number, &cells)? {
                let first_lines = cells
                    .iter()
                    .map(|cell| cell.lines().next().unwrap_or_default());
                return Ok(Some(CsvRow {
                    number,
                    cells: first_lines.collect(),
                    fault: Some(fault),
                    short: None,
                }));
            }
            let fault = self.excess(&cells);
            return Ok(Some(CsvRow {
                number,
                cells,
                fault,
                short,
            }));
        }
    }

    /// Returns the reason for which the cells of a row with more cells than the header stand under wrong columns.
    fn excess(&self, cells: &StringRecord) -> Option<String> {
        let excess = cells
            .iter()
            .skip(self.width)
            .any(|cell| !trimmed(cell).is_empty());
        excess.then(|| {
            let cell_count = counted(cells.len() as u64, "cell");
            let columns = counted(self.width as u64, "column");
            format!(
                "The row has {cell_count}, the header {columns}: put cells that contain the separator between quotation marks."
            )
        })
    }

    /// Returns true if a quotation mark of the row is closed by one of a later row: a later line of the row has as many
    /// cells as the header, and an address among them. Titles of several lines have none.
    fn swallows_rows(&self, cells: &StringRecord) -> bool {
        let separator = char::from(self.rows.separator);
        let is_row = |line: &[&str]| {
            line.len() == self.width && line.iter().any(|cell| is_address(trimmed(cell)))
        };
        cells.iter().enumerate().any(|(at, cell)| {
            let mut lines = cell
                .lines()
                .map(|line| line.split(separator).collect::<Vec<_>>());
            let first = lines.next().unwrap_or_default();
            let Some(mut last) = lines.next_back() else {
                return false;
            };
            // The last line goes on in the next cells of the row, if the first one was whole.
            if at + first.len() == self.width {
                last.extend(cells.iter().skip(at + 1));
            }
            is_row(&last) || lines.any(|line| is_row(&line))
        })
    }

    /// Returns true if the text ends within the quotation marks of the last cell.
    fn breaks_off(&self, cells: &StringRecord) -> bool {
        let cell = cells.iter().next_back().unwrap_or_default();
        let open = format!("\"{}", cell.replace('"', "\"\""));
        let before = self.rows.text.strip_suffix(&open);
        before.is_some_and(|before| {
            before.is_empty() || before.ends_with(['\n', char::from(self.rows.separator)])
        })
    }

    /// Returns a reason if a quotation mark of the row is never closed, or by a later row, and continues after its first
    /// line.
    fn pass_open_quote(
        &mut self,
        begin: &csv::Position,
        number: usize,
        cells: &StringRecord,
    ) -> Result<Option<String>, SourceError> {
        let text = self.rows.text;
        let is_at_end = index(self.rows.reader.position().byte()) >= text.len();
        let has_break = cells.iter().any(|cell| cell.contains('\n'));
        if !has_break && is_at_end && self.breaks_off(cells) {
            let reason =
                "The file breaks off in this line, within quotation marks: export it again.";
            return Ok(Some(reason.to_owned()));
        }
        let from = text.get(index(begin.byte())..).unwrap_or_default();
        let is_never_closed = || is_at_end && from.matches('"').count() % 2 == 1;
        if !has_break || !self.swallows_rows(cells) && !is_never_closed() {
            return Ok(None);
        }
        if is_at_end {
            self.open_quotes += 1;
        }
        if self.open_quotes > OPEN_QUOTES_MAX {
            let reason = format!("more than {OPEN_QUOTES_MAX} quotation marks are never closed");
            return Err(SourceError::line(number, reason));
        }
        let from = from.trim_start_matches(['\r', '\n']);
        let rest = from.split_once('\n').map_or("", |(_, rest)| rest);
        self.rows = Rows::new(rest, char::from(self.rows.separator), number);
        Ok(Some(
            "A quotation mark of this line is not closed before the next row.".to_owned(),
        ))
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

    /// Returns the reason for which the cells cannot be told apart, also by the cell of the destination: in a row with
    /// too few cells, it may be a whole row with another separator, and so may the first cell if there is no destination.
    pub(super) fn fault(&self, destination: &str) -> Option<String> {
        let first = self.cell(Some(0));
        let first = first.filter(|cell| destination.is_empty() && cell.contains("://"));
        let is_row = |own| {
            let mut others = SEPARATORS.into_iter().filter(|separator| *separator != own);
            others.any(|other| {
                row_of(destination, other, false).is_some_and(|slug| !slug.is_empty())
                    || first.is_some_and(|cell| row_of(cell, other, true).is_some())
            })
        };
        let wrong = self.short.filter(|own| is_row(*own)).map(|own| {
            format!(
                "The row has fewer cells than the header, and looks separated in another way: write {own:?} between its \
                 cells, and at its end if this is one address."
            )
        });
        self.fault.clone().or(wrong)
    }
}

/// Returns the name of a column in one spelling for `Created at`, `created_at` and `createdAt`.
pub(in crate::import) fn spelling(name: &str) -> String {
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
        let mut table = CsvTable::open("Created at,\"Long URL\u{a0}\",,\n")
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
        assert!(rows(text)[0].2);
        assert_eq!(rows("a,b\n1,5\" pipe\n2,\"5\"\" pipe\"\n").len(), 2);
    }

    #[test]
    fn row_in_which_the_file_breaks_off_is_faulty() {
        for (last, breaks_off) in [
            ("2,\"Tw", true),
            ("2,\"", true),
            ("2,\"5\"\" pipe", true),
            ("2,\"Two\"", false),
            ("2,\"\"", false),
            ("2,5\" pipe", false),
            ("2,5 pipe\"", false),
        ] {
            let found = rows(&format!("a,b\n1,\"x\"\n{last}"));
            assert_eq!(
                (found.len(), found[0].2, found[1].2),
                (2, false, breaks_off),
                "{last}"
            );
        }
    }

    #[test]
    fn repeated_column_is_refused_only_if_it_is_read() {
        let mut table = CsvTable::open("slug,Slug,clicks,Clicks\n").ok().unwrap();
        assert_eq!(table.ignored_column(&["clicks"]), Some(2));
        assert!(table.next_row().is_ok());
        table.column(&["slug"]);
        let error = table.next_row().err().unwrap().to_string();
        assert_eq!(error, "line 1: two columns are called \"slug\"");
    }

    #[test]
    fn quotation_mark_of_a_later_row_swallows_no_rows() {
        for text in [
            "u,s,t\ne.com/1,a,\"open\ne.com/2,b,two\ne.com/3,c,\"closed\"\ne.com/4,d,x\n",
            "t,s,u\nopen,a,\"e.com/1\ntwo,b,e.com/2\nthree,c,\"e.com/3\"\nx,d,e.com/4\n",
        ] {
            let found: Vec<_> = rows(text).iter().map(|row| (row.0, row.2)).collect();
            assert_eq!(
                found[1..],
                [(3, false), (4, found[2].1), (5, false)],
                "{text}"
            );
            assert_eq!(found[0], (2, true), "{text}");
        }
        for text in [
            "s,u,t\na,https://e.com/1,\"Launch\nmore: https://e.com/docs\"\n",
            "t,u\n\"see\nhttps://e.com/docs\",https://e.com/1\n",
            "u,t,s\nhttps://e.com/1,\"One, two\nthree, four https://e.com\",a\n",
        ] {
            assert_eq!(
                rows(text).iter().map(|row| row.2).collect::<Vec<_>>(),
                [false],
                "{text}"
            );
        }
    }

    #[test]
    fn lines_that_say_nothing_are_passed_over() {
        for text in [
            "\n;;;\na;b;;\n1;2;;\n",
            "\n\nsep=;\n1;2\n",
            "\"\";\n# My links\na;b\n1;2\n",
        ] {
            let found = rows(text);
            assert_eq!(
                found.last().map(|row| row.0),
                text.contains("a;b").then_some(4),
                "{text}"
            );
        }
    }

    #[test]
    fn rows_with_another_separator_are_refused() {
        let is_refused = |text: &str| {
            CsvTable::open(text)
                .ok()
                .unwrap()
                .check_separator()
                .is_err()
        };
        assert!(is_refused(
            "destination_url,slug\nhttps://e.com/a;one\nhttps://e.com/b;two\n"
        ));
        assert!(is_refused(
            "destination_url\nhttps://e.com/a;one\nhttps://e.com/b;two\n"
        ));
        assert!(!is_refused(
            "destination_url\n\"https://e.com/a;one\"\n\"https://e.com/b;two\"\n"
        ));
        assert!(!is_refused(
            "destination_url;slug\nhttps://e.com/a,x;one\nhttps://e.com/b,y;two\n"
        ));
        let fault_of = |text: &str, destination| {
            let mut table = CsvTable::open(text).ok().unwrap();
            let row = table.next_row().ok().flatten().unwrap();
            row.fault(row.cell(Some(destination)).unwrap_or_default())
        };
        let fault = |text: &str| fault_of(text, 0);
        assert!(fault("destination_url,slug\nhttps://e.com/a;one\n").is_some());
        assert!(fault("destination_url;slug;title\nhttps://e.com/a,one,T\n").is_some());
        let slug_first = |text: &str| fault_of(text, 1);
        assert!(slug_first("short link,url,tags\nhttps://s.test/a;https://e.com/a;t\n").is_some());
        assert!(slug_first("slug,url\na\thttps://e.com/a\n").is_some());
        assert_eq!(slug_first("slug,url\na;b\n"), None);
        assert_eq!(
            fault("destination_url;slug;title\nhttps://e.com/@1,2/x?y=3;one\n"),
            None
        );
    }

    #[test]
    fn header_has_a_maximum_of_columns() {
        let names: Vec<String> = (0..100_000).map(|n| format!("c{n}")).collect();
        let error = CsvTable::open(&names.join(",")).err().unwrap().to_string();
        assert_eq!(error, "line 1: the header has more than 1,000 columns");
    }
}
