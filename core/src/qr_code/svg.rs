//! A code as an SVG document: one rectangle, and one path with all dark modules.

use std::fmt::Write as _;

use super::{QrCode, QrStyle};

/// Draws the code. The unit of the coordinates is one module.
pub(super) fn draw(code: &QrCode, style: &QrStyle) -> String {
    let QrStyle {
        size,
        color,
        background,
        ..
    } = style;
    let side = code.modules_with_margin(style);
    let dark = dark_modules(code, style.margin.into());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" \
         viewBox=\"0 0 {side} {side}\" shape-rendering=\"crispEdges\">\
         <path fill=\"#{background}\" d=\"M0 0h{side}v{side}H0z\"/>\
         <path fill=\"#{color}\" d=\"{dark}\"/></svg>\n"
    )
}

/// Returns a path of rectangles: one for each run of dark modules in a row.
fn dark_modules(code: &QrCode, margin: u16) -> String {
    let modules = code.modules();
    let mut path = String::new();
    for row in 0..modules {
        let mut column = 0;
        while column < modules {
            let run = (column..modules).take_while(|column| code.is_dark(*column, row));
            let length = u16::try_from(run.count()).expect("a row is short");
            if length > 0 {
                let (x, y) = (margin + column, margin + row);
                write!(path, "M{x} {y}h{length}v1h-{length}z")
                    .expect("writing to a string never fails");
            }
            // The module after a run is light.
            column += length + 1;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use crate::qr_code::{Color, ErrorCorrection};

    use super::*;

    #[test]
    fn document_has_size_colours_and_finder_pattern() {
        let code = QrCode::of("HELLO", ErrorCorrection::Low).unwrap();
        let style = QrStyle {
            size: 300,
            margin: 4,
            color: Color::parse("102030").unwrap(),
            background: Color::parse("FFFFF0").unwrap(),
        };
        let document = draw(&code, &style);
        let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\" height=\"300\" \
                    viewBox=\"0 0 29 29\" shape-rendering=\"crispEdges\">\
                    <path fill=\"#fffff0\" d=\"M0 0h29v29H0z\"/>\
                    <path fill=\"#102030\" d=\"M4 4h7v1h-7z";
        assert!(document.starts_with(head), "{document}");
        // The second row of the first finder pattern: its two edges.
        assert!(document.contains("M4 5h1v1h-1zM10 5h1v1h-1z"), "{document}");
        assert!(document.ends_with("z\"/></svg>\n"), "{document}");
    }
}
