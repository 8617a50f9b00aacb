//! Tables for people: aligned, cut to the width of the terminal, and whole without a terminal.
//! Pure.

use console::{Style, measure_text_width, truncate_str};

/// Gap between two columns.
const GAP: &str = "  ";

/// Properties of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    /// Width in columns; `None` without a terminal, and then nothing is cut.
    pub(super) width: Option<usize>,
    /// True if the output shows colours.
    pub(super) is_coloured: bool,
}

impl Screen {
    /// Properties of an output that is no terminal.
    pub(super) const PLAIN: Self = Self {
        width: None,
        is_coloured: false,
    };

    /// Returns the properties of standard output.
    pub(super) fn of_stdout() -> Self {
        let terminal = console::Term::stdout();
        if !terminal.is_term() {
            return Self::PLAIN;
        }
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
        Self {
            width: terminal.size_checked().map(|(_, columns)| columns.into()),
            is_coloured: !is_refused && terminal.features().colors_supported(),
        }
    }

    /// Applies the style, if the output shows colours.
    pub(super) fn paint(self, style: &Style, text: &str) -> String {
        let style = style.clone().force_styling(self.is_coloured);
        style.apply_to(text).to_string()
    }

    /// Cuts the line at the width of the screen.
    pub(super) fn cut(self, line: &str) -> String {
        match self.width {
            Some(width) => truncate_str(line, width, "…").into_owned(),
            None => line.to_owned(),
        }
    }

    /// Breaks the text between words into lines.
    pub(super) fn wrapped(self, text: &str) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.last_mut().expect("there is one");
            let width = measure_text_width(line) + 1 + measure_text_width(word);
            if line.is_empty() {
                line.push_str(word);
            } else if self.width.is_some_and(|max| width > max) {
                lines.push(word.to_owned());
            } else {
                line.extend([" ", word]);
            }
        }
        lines
    }
}

/// Layout of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Text,
    /// Aligned to the right.
    Number,
    /// Aligned to the right, and omitted on a narrow screen.
    OptionalNumber,
    /// Omitted on a narrow screen.
    OptionalText,
}

impl Layout {
    const fn is_right_aligned(self) -> bool {
        matches!(self, Self::Number | Self::OptionalNumber)
    }

    const fn is_optional(self) -> bool {
        matches!(self, Self::OptionalNumber | Self::OptionalText)
    }
}

/// Formats a head and rows with a cell for each column. Cells may be coloured.
pub(super) fn table(
    screen: Screen,
    columns: &[(&str, Layout)],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Vec<String> {
    let rows: Vec<_> = rows.into_iter().collect();
    let width = |index: usize| {
        let cells = rows.iter().map(|row| measure_text_width(&row[index]));
        cells.max().unwrap_or(0).max(columns[index].0.len())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let full: usize = widths.iter().map(|width| width + GAP.len()).sum();
    let is_narrow = screen.width.is_some_and(|width| full > width + GAP.len());
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| !(is_narrow && columns[*index].1.is_optional()))
        .collect();
    let line = |cells: &[String]| {
        let mut line = String::new();
        for index in &shown {
            let cell = &cells[*index];
            let padding = " ".repeat(widths[*index] - measure_text_width(cell));
            if columns[*index].1.is_right_aligned() {
                line.extend([padding.as_str(), cell]);
            } else {
                line.extend([cell.as_str(), &padding]);
            }
            line.push_str(GAP);
        }
        screen.cut(line.trim_end())
    };
    let head: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let bold = Style::new().bold();
    let mut lines = vec![screen.paint(&bold, &line(&head))];
    lines.extend(rows.iter().map(|row| line(row)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[(&str, Layout)] = &[
        ("NAME", Layout::Text),
        ("HEAD", Layout::OptionalNumber),
        ("LAG", Layout::Number),
        ("WHY", Layout::Text),
    ];

    fn lines(width: Option<usize>, is_coloured: bool) -> Vec<String> {
        let red = Style::new().red();
        let screen = Screen { width, is_coloured };
        let rows = [
            ["links", "1,000", "7", "a long reason"],
            ["r", "2", "1,024", "-"],
        ];
        let rows = rows.map(|row| {
            let mut row = row.map(str::to_owned).to_vec();
            row[0] = screen.paint(&red, &row[0]);
            row
        });
        table(screen, COLUMNS, rows)
    }

    #[test]
    fn columns_align_and_numbers_align_right() {
        let expected = [
            "NAME    HEAD    LAG  WHY",
            "links  1,000      7  a long reason",
            "r          2  1,024  -",
        ];
        assert_eq!(lines(None, false), expected);
        assert_eq!(lines(Some(34), false), expected);
    }

    #[test]
    fn narrow_screen_drops_optional_columns_and_cuts_lines() {
        let expected = [
            "NAME     LAG  WHY",
            "links      7  a lo…",
            "r      1,024  -",
        ];
        assert_eq!(lines(Some(19), false), expected);
    }

    #[test]
    fn colours_take_no_width() {
        let coloured = lines(None, true);
        assert!(coloured[1].starts_with("\u{1b}[31mlinks\u{1b}[0m  1,000"));
        let plain: Vec<_> = coloured
            .iter()
            .map(|line| console::strip_ansi_codes(line).into_owned())
            .collect();
        assert_eq!(plain, lines(None, false));
    }

    #[test]
    fn sentence_breaks_between_words() {
        let text = "an account is parked in credits: look";
        let screen = |width| Screen {
            width,
            is_coloured: false,
        };
        let narrow = screen(Some(20)).wrapped(text);
        assert_eq!(narrow, ["an account is parked", "in credits: look"]);
        assert_eq!(screen(None).wrapped(text), [text]);
        assert_eq!(screen(Some(1)).wrapped("a bc"), ["a", "bc"]);
    }
}
