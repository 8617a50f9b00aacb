//! Statistics of clicks as CSV: RFC 4180, with a header row, and cells that common spreadsheets do not take for
//! formulas.

use linkledger_core::csv_cell::{guarded, quoted};

/// Row of a table.
pub(crate) trait CsvRow {
    /// Names of the columns.
    const COLUMNS: &'static [&'static str];

    /// Returns one cell for each column; empty for none.
    fn cells(&self) -> Vec<String>;
}

/// Returns the table with a header row.
pub(crate) fn rows<R: CsvRow>(rows: &[R]) -> Vec<u8> {
    let mut table = R::COLUMNS.join(",");
    table.push_str("\r\n");
    for row in rows {
        let cells = row.cells();
        let cells: Vec<_> = cells.iter().map(|cell| guarded(cell)).collect();
        let cells: Vec<_> = cells.iter().map(|cell| quoted(cell)).collect();
        table.push_str(&cells.join(","));
        table.push_str("\r\n");
    }
    table.into_bytes()
}

/// Returns the cell of an optional number.
pub(crate) fn optional(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(&'static str, Option<u64>);

    impl CsvRow for Row {
        const COLUMNS: &'static [&'static str] = &["value", "clicks"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.to_owned(), optional(self.1)]
        }
    }

    #[test]
    fn cells_are_quoted_and_guarded() {
        let table = rows(&[
            Row("a,b\"c", Some(1)),
            Row("=HYPERLINK(\"x\")", None),
            Row("\tx\n", Some(2)),
            Row("a;=1+1;", Some(4)),
            Row("", Some(3)),
        ]);
        assert_eq!(
            String::from_utf8(table).unwrap(),
            "value,clicks\r\n\"a,b\"\"c\",1\r\n\"'=HYPERLINK(\"\"x\"\")\",\r\n\"'\tx\n\",2\r\n\
             \"a;'=1+1;\",4\r\n,3\r\n"
        );
    }
}
