//! Sparkline as SVG.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::lag_samples::SAMPLES_MAX;
use crate::operations::figures::grouped;

const WIDTH: usize = SAMPLES_MAX;
const HEIGHT: i64 = 40;

/// Draws the values, newest at the right; a missing value interrupts the line. `label` describes
/// the values.
pub(super) fn sparkline(label: &str, values: &[Option<i64>]) -> Markup {
    let highest = values.iter().flatten().copied().max();
    let Some(highest) = highest else {
        return html! { span.quiet { "no samples yet" } };
    };
    let said = format!("{label}: at most {}", grouped(highest));
    html! {
        figure.sparkline {
            svg viewBox={ "0 -2 " (WIDTH) " " (HEIGHT + 4) } preserveAspectRatio="none" role="img"
                aria-label=(said)
            {
                path.baseline d={ "M0 " (HEIGHT) "H" (WIDTH) } {}
                path.line d=(line(values, highest)) {}
            }
            figcaption { "peak " (grouped(highest)) }
        }
    }
}

/// Returns the commands of an SVG path.
fn line(values: &[Option<i64>], highest: i64) -> String {
    let first = WIDTH.saturating_sub(values.len());
    let mut path = String::new();
    let mut is_drawing = false;
    for (index, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let command = if is_drawing { 'L' } else { 'M' };
            let x = first + index;
            let y = HEIGHT - value.saturating_mul(HEIGHT) / highest.max(1);
            write!(path, "{command}{x} {y}").expect("writing to a string never fails");
            // Each piece begins with a dash of width 1: a single value between two gaps stays visible.
            if !is_drawing {
                path.push_str("h1");
            }
        }
        is_drawing = value.is_some();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_value_interrupts_the_line() {
        let values = [Some(0), Some(10), None, Some(5)];
        let expected = "M296 40h1L297 0M299 20h1";
        assert_eq!(line(&values, 10), expected);
        assert_eq!(line(&[Some(0), Some(0)], 0), "M298 40h1L299 40");
    }

    #[test]
    fn sparkline_has_a_text_alternative() {
        let picture = sparkline("lag of links", &[Some(1_200), Some(0)]).into_string();
        assert!(picture.contains("aria-label=\"lag of links: at most 1,200\""));
        assert!(sparkline("x", &[]).into_string().contains("no samples yet"));
    }
}
