//! Colours as six hexadecimal digits, and their contrast by WCAG 2.

use std::fmt;

/// Smallest contrast of the two colours of a code: that of text that people can read (WCAG 2.2, 1.4.3).
pub const CONTRAST_MIN: f64 = 4.5;

/// Number of hexadecimal digits of a colour.
const DIGITS: usize = 6;

/// Colour in sRGB: red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color([u8; 3]);

impl Color {
    /// Black.
    pub const BLACK: Self = Self([0; 3]);
    /// White.
    pub const WHITE: Self = Self([255; 3]);

    /// Parses six hexadecimal digits of any letter case, without `#`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u32::from_str_radix(text, 16).ok())??;
        let [_, red, green, blue] = number.to_be_bytes();
        Some(Self([red, green, blue]))
    }

    /// Returns red, green and blue.
    pub const fn rgb(self) -> [u8; 3] {
        self.0
    }

    /// Returns the contrast ratio of two colours (WCAG 2.2), from 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let [one, other] = [self, other].map(Self::relative_luminance);
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Returns the relative luminance (WCAG 2.2), from 0 for black to 1 for white.
    fn relative_luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

/// Returns the linear value of a channel of sRGB.
fn linear(channel: u8) -> f64 {
    let value = f64::from(channel) / 255.0;
    if value <= 0.040_45 {
        value / 12.92
    } else {
        ((value + 0.055) / 1.055).powf(2.4)
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn color(text: &str) -> Color {
        Color::parse(text).unwrap()
    }

    #[test]
    fn color_is_six_hexadecimal_digits() {
        assert_eq!(color("0a1B2c").rgb(), [10, 27, 44]);
        assert_eq!(color("0A1B2C").to_string(), "0a1b2c");
        for text in [
            "",
            "fff",
            "#ffffff",
            "fffffff",
            "+fffff",
            "-12345",
            "fffffg",
            " fffff",
            "ffff\u{e9}",
        ] {
            assert_eq!(Color::parse(text), None, "{text}");
        }
    }

    #[test]
    fn contrast_equals_published_ratios() {
        assert!((Color::BLACK.contrast(Color::WHITE) - 21.0).abs() < 1e-9);
        assert!((Color::BLACK.contrast(Color::BLACK) - 1.0).abs() < 1e-9);
        // The lightest grey that people can read on white, and the next one.
        for (grey, ratio) in [("767676", 4.54), ("777777", 4.48), ("ff0000", 4.0)] {
            let contrast = Color::WHITE.contrast(color(grey));
            assert!((contrast - ratio).abs() < 0.01, "{grey}: {contrast}");
            assert!((contrast - color(grey).contrast(Color::WHITE)).abs() < 1e-9);
        }
    }
}
