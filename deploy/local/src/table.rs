//! Tables for people: aligned columns, cut to the width of the terminal, and never cut if the output
//! is not a terminal. No I/O.

use console::{measure_text_width, truncate_str};
use linkledger_core::printable::printable;
use serde_json::Value;

/// Gap between two columns.
const GAP: &str = "  ";
/// Width of the last column below which the optional columns are dropped.
const LAST_WIDTH_WANTED: usize = 32;
/// Smallest width of the last column, on a terminal of any width.
const LAST_WIDTH_MIN: usize = 16;

/// Layout of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnLayout {
    Text,
    /// Aligned to the right.
    Number,
    /// Dropped if the terminal is narrow.
    WideOnly,
}

/// Title and layout of a column. The last column of a table is cut if the terminal is narrow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableColumn(pub(crate) &'static str, pub(crate) ColumnLayout);

/// A table that is printed page by page, below one line of titles.
#[derive(Debug)]
pub(crate) struct PagedTable {
    columns: Vec<(usize, TableColumn)>,
    /// Widths of the columns. A later page can make a column wider, never narrower.
    widths: Vec<usize>,
    terminal_width: Option<usize>,
    has_head: bool,
}

impl PagedTable {
    pub(crate) fn new(columns: &[TableColumn], terminal_width: Option<usize>) -> Self {
        Self {
            columns: columns.iter().copied().enumerate().collect(),
            widths: columns
                .iter()
                .map(|TableColumn(title, _)| title.len())
                .collect(),
            terminal_width,
            has_head: false,
        }
    }

    /// Formats the rows of a page, below the titles if the page is the first. Each row must have a
    /// cell for every column.
    pub(crate) fn page(&mut self, rows: &[Vec<String>]) -> String {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|cell| printable(cell).into_owned())
                    .collect()
            })
            .collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = measure_text_width(cell).max(*width);
            }
        }
        let mut text = String::new();
        if !self.has_head {
            self.has_head = true;
            self.drop_optional_columns();
            let head: Vec<String> = self.all_titles();
            text.push_str(&self.line(&head));
        }
        for row in &rows {
            text.push_str(&self.line(row));
        }
        text
    }

    fn all_titles(&self) -> Vec<String> {
        let mut titles = vec![String::new(); self.widths.len()];
        for (index, TableColumn(title, _)) in &self.columns {
            (*title).clone_into(&mut titles[*index]);
        }
        titles
    }

    /// Drops the optional columns if the terminal is narrow. Called once, before the titles, so that
    /// all pages have the same columns.
    fn drop_optional_columns(&mut self) {
        let Some(terminal_width) = self.terminal_width else {
            return;
        };
        let last = self.widths.last().copied().unwrap_or_default();
        let wanted = self.width_before_last() + last.min(LAST_WIDTH_WANTED);
        if wanted > terminal_width {
            self.columns
                .retain(|(_, TableColumn(_, layout))| *layout != ColumnLayout::WideOnly);
        }
    }

    fn width_before_last(&self) -> usize {
        let before = self.columns.iter().rev().skip(1);
        before
            .map(|(index, _)| self.widths[*index] + GAP.len())
            .sum()
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (place, (index, TableColumn(_, layout))) in self.columns.iter().enumerate() {
            let (cell, width) = (&row[*index], self.widths[*index]);
            let padding = " ".repeat(width.saturating_sub(measure_text_width(cell)));
            let is_last = place + 1 == self.columns.len();
            match layout {
                ColumnLayout::Number => line.extend([&padding, cell.as_str()]),
                ColumnLayout::Text | ColumnLayout::WideOnly if is_last => {
                    line.push_str(&self.cut(cell));
                }
                ColumnLayout::Text | ColumnLayout::WideOnly => {
                    line.extend([cell, padding.as_str()]);
                }
            }
            if !is_last {
                line.push_str(GAP);
            }
        }
        format!("{}\n", line.trim_end())
    }

    fn cut(&self, cell: &str) -> String {
        let Some(terminal_width) = self.terminal_width else {
            return cell.to_owned();
        };
        let room = terminal_width.saturating_sub(self.width_before_last());
        truncate_str(cell, room.max(LAST_WIDTH_MIN), "…").into_owned()
    }
}

/// Formats the properties of one item, one property on each line.
pub(crate) fn record(properties: &[(&str, String)]) -> String {
    let width = properties
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    let line = |(name, value): &(&str, String)| format!("{name:width$}{GAP}{}\n", printable(value));
    properties.iter().map(line).collect()
}

/// Removes the fraction of a second from an RFC 3339 instant.
pub(crate) fn short_time(instant: &str) -> String {
    match instant.split_once('.') {
        Some((seconds, fraction)) if fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => instant.to_owned(),
    }
}

/// Returns a value of a JSON document as text. Texts have no quotes; null is a hyphen.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[TableColumn] = &[
        TableColumn("ID", ColumnLayout::Text),
        TableColumn("AMOUNT", ColumnLayout::Number),
        TableColumn("CREATED", ColumnLayout::WideOnly),
        TableColumn("DESTINATION", ColumnLayout::Text),
    ];

    fn row(id: &str, amount: i64, destination: &str) -> Vec<String> {
        vec![
            id.to_owned(),
            amount.to_string(),
            "2026".to_owned(),
            destination.to_owned(),
        ]
    }

    fn page(width: Option<usize>, rows: &[Vec<String>]) -> String {
        PagedTable::new(COLUMNS, width).page(rows)
    }

    #[test]
    fn text_is_aligned_left_and_numbers_right() {
        let rows = [
            row("lnk_1", -7, "https://example.com/"),
            row("l", 1_000_000, "x"),
        ];
        let expected = "\
ID      AMOUNT  CREATED  DESTINATION
lnk_1       -7  2026     https://example.com/
l      1000000  2026     x
";
        assert_eq!(page(None, &rows), expected);
        assert_eq!(page(Some(80), &rows), expected);
    }

    #[test]
    fn narrow_terminal_drops_optional_and_cuts_last_column() {
        let rows = [row("lnk_1", 7, "https://example.com/a-long-path")];
        let expected = "\
ID     AMOUNT  DESTINATION
lnk_1       7  https://example…
";
        assert_eq!(page(Some(31), &rows), expected);
        let narrowest = page(Some(1), &rows);
        assert!(narrowest.ends_with("7  https://example…\n"), "{narrowest}");
    }

    #[test]
    fn table_without_a_terminal_is_never_cut() {
        let long = "x".repeat(2_048);
        assert!(page(None, &[row("l", 1, &long)]).contains(&long));
    }

    #[test]
    fn empty_table_has_one_line_of_titles() {
        let mut table = PagedTable::new(COLUMNS, None);
        assert_eq!(table.page(&[]), "ID  AMOUNT  CREATED  DESTINATION\n");
        assert_eq!(table.page(&[row("a", 1, "b")]), "a        1  2026     b\n");
    }

    #[test]
    fn wide_and_control_characters_keep_the_alignment() {
        let rows = [row("日本", 1, "\u{1b}[31m"), row("abcd", 2, "y")];
        assert!(page(None, &rows).contains("日本       1  2026     \\u{1b}[31m\n"));
        assert!(page(None, &rows).contains("abcd       2  2026     y\n"));
    }

    #[test]
    fn properties_of_a_record_are_aligned() {
        let properties = [
            ("ID", "lnk_1".to_owned()),
            ("Short URL", "http://x/\n".to_owned()),
        ];
        assert_eq!(
            record(&properties),
            "ID         lnk_1\nShort URL  http://x/\\n\n"
        );
    }

    #[test]
    fn short_time_drops_the_fraction_of_a_second() {
        assert_eq!(
            short_time("2026-11-20T13:01:37.876Z"),
            "2026-11-20T13:01:37Z"
        );
        for instant in ["2026-11-20T13:01:37Z", "2026-11-20T13:01:37.876+01:00", ""] {
            assert_eq!(short_time(instant), instant);
        }
    }
}
