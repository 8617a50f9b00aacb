//! Charts of horizontal bars, as wide as the terminal. No I/O.

use std::fmt::Write as _;

use console::{measure_text_width, style, truncate_str};
use linkledger_core::printable::printable;

/// Gap between two columns.
const GAP: usize = 2;
/// Smallest width of the longest bar: a narrower terminal breaks its lines.
const BAR_WIDTH_MIN: usize = 8;
/// Greatest width of a label; longer labels are cut.
const LABEL_WIDTH_MAX: usize = 48;
/// Parts of a character: from one eighth to seven eighths.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const FULL: &str = "█";

/// Row of a chart; without a number the cell is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChartRow {
    pub(super) label: String,
    /// One number for each column; the bar shows the first one.
    pub(super) numbers: Vec<Option<u64>>,
}

/// Bars below a line of titles, and above rows without bars.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    /// Title of the labels, then of the numbers.
    pub(super) titles: &'a [&'a str],
    pub(super) rows: Vec<ChartRow>,
    /// Sums below the bars.
    pub(super) sums: Vec<ChartRow>,
}

impl Chart<'_> {
    /// Formats the chart for a terminal of this width.
    pub(super) fn text(&self, terminal_width: usize) -> String {
        let all = || self.rows.iter().chain(&self.sums);
        let mut widths: Vec<usize> = self.titles.iter().map(|title| title.len()).collect();
        for row in all() {
            let label = measure_text_width(&label(row));
            widths[0] = widths[0].max(label);
            for (width, number) in widths[1..].iter_mut().zip(&row.numbers) {
                *width = cell(*number).len().max(*width);
            }
        }
        let before: usize = widths.iter().map(|width| width + GAP).sum();
        let room = terminal_width.saturating_sub(before).max(BAR_WIDTH_MIN);
        let longest = self.rows.iter().map(bar_number).max().unwrap_or_default();

        let titles: Vec<String> = self.titles.iter().map(|&title| title.to_owned()).collect();
        let mut text = line(&widths, &titles, "");
        for row in &self.rows {
            let bar = bar(bar_number(row), longest, room);
            text.push_str(&line(&widths, &cells(row), &bar));
        }
        for sum in &self.sums {
            text.push_str(&line(&widths, &cells(sum), ""));
        }
        text
    }
}

fn label(row: &ChartRow) -> String {
    truncate_str(&printable(&row.label), LABEL_WIDTH_MAX, "…").into_owned()
}

fn cell(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn cells(row: &ChartRow) -> Vec<String> {
    let numbers = row.numbers.iter().copied().map(cell);
    std::iter::once(label(row)).chain(numbers).collect()
}

fn bar_number(row: &ChartRow) -> u64 {
    row.numbers.first().copied().flatten().unwrap_or_default()
}

/// Formats a line: the label to the left, numbers to the right, then the bar.
fn line(widths: &[usize], cells: &[String], bar: &str) -> String {
    let mut line = String::new();
    for (index, (width, cell)) in widths.iter().zip(cells).enumerate() {
        let padding = " ".repeat(width.saturating_sub(measure_text_width(cell)));
        match index {
            0 => line.extend([cell, padding.as_str()]),
            _ => line.extend([padding.as_str(), cell]),
        }
        line.push_str(&" ".repeat(GAP));
    }
    if bar.is_empty() {
        return format!("{}\n", line.trim_end());
    }
    // Without a terminal, the style has no effect.
    writeln!(line, "{}", style(bar).cyan()).expect("writing to a string never fails");
    line
}

/// Returns a bar in proportion to the longest one. Any number above 0 is visible.
fn bar(number: u64, longest: u64, room: usize) -> String {
    let room = u128::try_from(room).unwrap_or_default() * 8;
    let eighths = (u128::from(number) * room).div_ceil(u128::from(longest.max(1)));
    let (full, rest) = (eighths / 8, eighths % 8);
    let mut bar = FULL.repeat(usize::try_from(full).unwrap_or_default());
    if let Some(part) = usize::try_from(rest)
        .ok()
        .and_then(|rest| rest.checked_sub(1))
    {
        bar.push(EIGHTHS[part]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, numbers: &[u64]) -> ChartRow {
        ChartRow {
            label: label.to_owned(),
            numbers: numbers.iter().copied().map(Some).collect(),
        }
    }

    #[test]
    fn longest_bar_fills_the_terminal() {
        let chart = Chart {
            titles: &["DAY", "CLICKS", "BOTS"],
            rows: vec![
                row("2026-11-18", &[1_000, 7]),
                row("2026-11-19", &[0, 0]),
                row("2026-11-20", &[1, 12]),
            ],
            sums: vec![row("Total", &[1_001, 19])],
        };
        let expected = "\
DAY         CLICKS  BOTS
2026-11-18    1000     7  ██████████
2026-11-19       0     0
2026-11-20       1    12  ▏
Total         1001    19
";
        assert_eq!(chart.text(36), expected);
        let narrow = chart.text(1);
        assert!(narrow.contains("  ████████\n"), "{narrow}");
    }

    #[test]
    fn bars_are_proportional_to_eighths() {
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(7, 16, 2), "▉");
        assert_eq!(bar(1, u64::MAX, 2), "▏");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(bar(0, 0, 2), "");
    }

    #[test]
    fn labels_are_printable_and_cut() {
        let chart = Chart {
            titles: &["VALUE", "CLICKS"],
            rows: vec![row("\u{1b}[31m", &[1]), row(&"x".repeat(60), &[1])],
            sums: Vec::new(),
        };
        let text = chart.text(80);
        assert!(text.contains("\\u{1b}[31m "), "{text}");
        assert!(text.contains(&format!("{}… ", "x".repeat(47))), "{text}");
    }
}
