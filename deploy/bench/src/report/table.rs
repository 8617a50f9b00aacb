//! Table of answers for people.

use std::fmt::Write as _;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    rounds::Spread,
};

const HEADINGS: [&str; 6] = ["", "measured", "baseline", "ratio", "target", ""];

/// Formats one line for each row: the median, with minimum and maximum in brackets.
pub fn table(answers: &[QuestionAnswer]) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    for answer in answers {
        lines.push([
            answer.title.to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ]);
        lines.extend(answer.rows.iter().map(cells));
    }
    let widths: Vec<usize> = (0..HEADINGS.len())
        .map(|column| {
            // A title may extend into the empty cells beside it.
            let cells = lines
                .iter()
                .filter(|line| !line[1].is_empty() || column > 0);
            cells
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        writeln!(text, "{}", line.trim_end()).expect("writing to a string never fails");
    }
    for note in answers.iter().flat_map(|answer| &answer.notes) {
        writeln!(text, "{note}").expect("writing to a string never fails");
    }
    text
}

fn cells(row: &ReportRow) -> [String; 6] {
    let with_unit = |spread: &Spread| format!("{} {}", numbers(spread), row.unit);
    [
        format!("  {}", row.what),
        with_unit(&row.measured),
        row.baseline.as_ref().map_or_else(String::new, |baseline| {
            format!("{}: {}", baseline.what, with_unit(&baseline.figures))
        }),
        row.ratio.as_ref().map_or_else(String::new, numbers),
        row.reach.map_or_else(String::new, |reach| match reach {
            TargetValue::AtLeast(least) => format!("≥ {}", number(least)),
            TargetValue::AtMost(most) => format!("≤ {}", number(most)),
        }),
        row.is_reached().map_or_else(String::new, |is_reached| {
            if is_reached { "reached" } else { "missed" }.to_owned()
        }),
    ]
}

fn numbers(spread: &Spread) -> String {
    let Spread {
        min, median, max, ..
    } = spread;
    format!("{} ({}–{})", number(*median), number(*min), number(*max))
}

/// Formats a number with its significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => thousands(&format!("{value:.0}")),
    }
}

/// Formats `12345` as `12,345`.
fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::answer::{QuestionAnswer, ReportRow, TargetValue};

    #[test]
    fn report_row_has_figures_ratio_and_verdict() {
        let answer = QuestionAnswer {
            question: "creates",
            title: "Creates",
            rows: vec![
                ReportRow::ratio(
                    "64 connections",
                    "creates/s",
                    &[12_345.0, 10_000.0, 15_000.0],
                    ("pgbench", &[5_000.0; 3]),
                    Some(TargetValue::AtLeast(2.5)),
                ),
                ReportRow::absolute("p50", "ms", &[4.5], Some(TargetValue::AtMost(5.0))),
            ],
            latencies: Vec::new(),
            notes: vec!["Beside each other.".to_owned()],
        };
        let text = table(&[answer]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("Creates"), "{text}");
        assert!(
            lines[2].contains("12,345 (10,000–15,000) creates/s"),
            "{text}"
        );
        assert!(
            lines[2].contains("2.47 (2.00–3.00)  ≥ 2.50  missed"),
            "{text}"
        );
        assert!(lines[3].ends_with("≤ 5.00  reached"), "{text}");
        assert_eq!(lines[4], "Beside each other.");
    }
}
