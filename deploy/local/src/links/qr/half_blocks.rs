//! A QR code as text: each character has two modules, one above the other. No I/O.

use linkledger_core::qr_code::QrCode;

/// Black on bright white, whatever the colours of the terminal are.
const BLACK_ON_WHITE: &str = "\u{1b}[30;107m";
const RESET: &str = "\u{1b}[0m";

/// Formats the code with a margin of light modules. Without colours, dark modules are as ink on paper.
pub(super) fn text(code: &QrCode, margin: u16, has_colors: bool) -> String {
    let side = code.modules() + 2 * margin;
    // Modules outside of the code are light.
    let is_dark =
        |column: u16, row: u16| match (column.checked_sub(margin), row.checked_sub(margin)) {
            (Some(column), Some(row)) => code.is_dark(column, row),
            (None, _) | (_, None) => false,
        };
    let mut text = String::new();
    for row in (0..side).step_by(2) {
        let characters =
            (0..side).map(
                |column| match (is_dark(column, row), is_dark(column, row + 1)) {
                    (true, true) => '█',
                    (true, false) => '▀',
                    (false, true) => '▄',
                    (false, false) => ' ',
                },
            );
        let line: String = characters.collect();
        let line = if has_colors {
            format!("{BLACK_ON_WHITE}{line}{RESET}\n")
        } else {
            format!("{line}\n")
        };
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use linkledger_core::qr_code::ErrorCorrection;

    use super::*;

    #[test]
    fn lines_show_margin_and_finder_patterns() {
        let code = QrCode::of("HELLO", ErrorCorrection::Low).unwrap();
        let plain = text(&code, 2, false);
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), 13);
        assert!(lines.iter().all(|line| line.chars().count() == 25));
        assert_eq!(lines[0].trim(), "");
        for (line, finder) in [
            (1, "█▀▀▀▀▀█"),
            (2, "█ ███ █"),
            (3, "█ ▀▀▀ █"),
            (4, "▀▀▀▀▀▀▀"),
        ] {
            let line = lines[line];
            assert!(line.starts_with(&format!("  {finder} ")), "{line}");
            assert!(line.ends_with(&format!(" {finder}  ")), "{line}");
        }
    }

    #[test]
    fn colored_line_resets_the_terminal() {
        let code = QrCode::of("HELLO", ErrorCorrection::Low).unwrap();
        let colored = text(&code, 0, true);
        for line in colored.lines() {
            assert!(line.starts_with(BLACK_ON_WHITE) && line.ends_with(RESET));
        }
    }
}
