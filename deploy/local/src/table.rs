//! Columns for people: aligned, as wide as their terminal, and whole where there is none. Pure.

use console::{measure_text_width, truncate_str};

use crate::output::printable;

/// Between two columns.
const GAP: &str = "  ";
/// What a last column should have before another column gives way to it.
const LAST_WIDTH_WANTED: usize = 32;
/// What remains of the last column however narrow the terminal is.
const LAST_WIDTH_MIN: usize = 16;

/// How a column is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Text,
    /// Aligned to the right.
    Number,
    /// Left out where the terminal is narrow.
    Optional,
}

/// The head of a column. The last one is cut short where the terminal is narrow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) Layout);

/// A table that is printed page by page, under one head.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(usize, Column)>,
    /// Those of the pages so far: later pages make a column wider, never narrower.
    widths: Vec<usize>,
    terminal_width: Option<usize>,
    has_head: bool,
}

impl Table {
    pub(crate) fn new(columns: &[Column], terminal_width: Option<usize>) -> Self {
        Self {
            columns: columns.iter().copied().enumerate().collect(),
            widths: columns.iter().map(|Column(title, _)| title.len()).collect(),
            terminal_width,
            has_head: false,
        }
    }

    /// The lines of these rows, after the head if they are the first. A row has all columns.
    pub(crate) fn page(&mut self, rows: &[Vec<String>]) -> String {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| printable(cell)).collect())
            .collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = measure_text_width(cell).max(*width);
            }
        }
        let mut text = String::new();
        if !self.has_head {
            self.has_head = true;
            self.leave_out();
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
        for (index, Column(title, _)) in &self.columns {
            (*title).clone_into(&mut titles[*index]);
        }
        titles
    }

    /// Once, with the head: a column does not come and go.
    fn leave_out(&mut self) {
        let Some(terminal_width) = self.terminal_width else {
            return;
        };
        let last = self.widths.last().copied().unwrap_or_default();
        let wanted = self.width_before_last() + last.min(LAST_WIDTH_WANTED);
        if wanted > terminal_width {
            self.columns
                .retain(|(_, Column(_, layout))| *layout != Layout::Optional);
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
        for (place, (index, Column(_, layout))) in self.columns.iter().enumerate() {
            let (cell, width) = (&row[*index], self.widths[*index]);
            let padding = " ".repeat(width.saturating_sub(measure_text_width(cell)));
            let is_last = place + 1 == self.columns.len();
            match layout {
                Layout::Number => line.extend([&padding, cell.as_str()]),
                Layout::Text | Layout::Optional if is_last => line.push_str(&self.cut(cell)),
                Layout::Text | Layout::Optional => line.extend([cell, padding.as_str()]),
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

/// One thing: its properties below each other.
pub(crate) fn record(properties: &[(&str, String)]) -> String {
    let width = properties
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    let line = |(name, value): &(&str, String)| format!("{name:width$}{GAP}{}\n", printable(value));
    properties.iter().map(line).collect()
}

/// An RFC 3339 instant to the second.
pub(crate) fn short_time(instant: &str) -> String {
    match instant.split_once('.') {
        Some((seconds, fraction)) if fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => instant.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column("ID", Layout::Text),
        Column("AMOUNT", Layout::Number),
        Column("CREATED", Layout::Optional),
        Column("DESTINATION", Layout::Text),
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
        Table::new(COLUMNS, width).page(rows)
    }

    #[test]
    fn columns_are_aligned_and_numbers_end_together() {
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
    fn a_narrow_terminal_loses_the_optional_column_and_the_end_of_the_last() {
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
    fn without_a_terminal_nothing_is_cut() {
        let long = "x".repeat(2_048);
        assert!(page(None, &[row("l", 1, &long)]).contains(&long));
    }

    #[test]
    fn there_is_one_head_also_where_there_are_no_rows() {
        let mut table = Table::new(COLUMNS, None);
        assert_eq!(table.page(&[]), "ID  AMOUNT  CREATED  DESTINATION\n");
        assert_eq!(table.page(&[row("a", 1, "b")]), "a        1  2026     b\n");
    }

    #[test]
    fn wide_characters_take_two_columns_and_control_characters_are_shown() {
        let rows = [row("日本", 1, "\u{1b}[31m"), row("abcd", 2, "y")];
        assert!(page(None, &rows).contains("日本       1  2026     \u{fffd}[31m\n"));
        assert!(page(None, &rows).contains("abcd       2  2026     y\n"));
    }

    #[test]
    fn properties_are_aligned() {
        let properties = [
            ("ID", "lnk_1".to_owned()),
            ("Short URL", "http://x/\n".to_owned()),
        ];
        assert_eq!(
            record(&properties),
            "ID         lnk_1\nShort URL  http://x/\u{fffd}\n"
        );
    }

    #[test]
    fn a_fraction_of_a_second_is_left_out() {
        assert_eq!(
            short_time("2026-11-20T13:01:37.876Z"),
            "2026-11-20T13:01:37Z"
        );
        for instant in ["2026-11-20T13:01:37Z", "2026-11-20T13:01:37.876+01:00", ""] {
            assert_eq!(short_time(instant), instant);
        }
    }
}
