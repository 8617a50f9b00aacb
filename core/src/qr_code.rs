//! QR codes (ISO/IEC 18004) of short addresses, drawn as SVG or PNG. No I/O.

mod color;
mod png;
mod svg;

use qrcodegen::QrCodeEcc;

pub use color::{CONTRAST_MIN, Color};

/// Smallest width and height of an image, in pixels.
pub const SIZE_MIN: u16 = 64;
/// Largest width and height of an image, in pixels.
pub const SIZE_MAX: u16 = 4_096;
/// Largest margin, in modules.
pub const MARGIN_MAX: u8 = 16;

crate::named_enum! {
    /// Share of a code that may be damaged, at least.
    pub enum ErrorCorrection {
        /// About 7 %.
        Low = "L",
        /// About 15 %.
        Medium = "M",
        /// About 25 %.
        Quartile = "Q",
        /// About 30 %.
        High = "H",
    }
}

impl ErrorCorrection {
    const fn level(self) -> QrCodeEcc {
        match self {
            Self::Low => QrCodeEcc::Low,
            Self::Medium => QrCodeEcc::Medium,
            Self::Quartile => QrCodeEcc::Quartile,
            Self::High => QrCodeEcc::High,
        }
    }
}

/// Size and colours of an image of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QrStyle {
    /// Width and height, in pixels.
    pub size: u16,
    /// Quiet zone around the code, in modules.
    pub margin: u8,
    /// Colour of the dark modules.
    pub color: Color,
    /// Colour of the light modules and of the margin.
    pub background: Color,
}

/// Reason why a text has no QR code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is too long for a QR code")]
pub struct TextTooLong;

/// Reason why an image of a code cannot be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a module needs at least one pixel: {size_min} in all")]
pub struct SizeTooSmall {
    /// Smallest width and height of this code with this margin, in pixels.
    pub size_min: u16,
}

/// QR code: a square of dark and light modules.
pub struct QrCode(qrcodegen::QrCode);

impl QrCode {
    /// Returns the smallest code of a text. The level of error correction is raised where that does
    /// not make the code larger.
    ///
    /// # Errors
    /// Returns [`TextTooLong`] if no code has room for the text.
    pub fn of(text: &str, error_correction: ErrorCorrection) -> Result<Self, TextTooLong> {
        let code = qrcodegen::QrCode::encode_text(text, error_correction.level());
        code.map(Self).map_err(|_| TextTooLong)
    }

    /// Returns the number of modules of one side, from 21 to 177.
    pub fn modules(&self) -> u16 {
        u16::try_from(self.0.size()).expect("a side has at most 177 modules")
    }

    /// Returns true if the module is dark. Modules outside of the code are light.
    pub fn is_dark(&self, column: u16, row: u16) -> bool {
        self.0.get_module(column.into(), row.into())
    }

    /// Draws the code as an SVG document.
    ///
    /// # Errors
    /// Returns [`SizeTooSmall`] if a module would be smaller than a pixel.
    pub fn to_svg(&self, style: &QrStyle) -> Result<String, SizeTooSmall> {
        self.pixels_per_module(style)?;
        Ok(svg::draw(self, style))
    }

    /// Draws the code as a PNG file with one bit for each pixel. All modules have the same size, in
    /// whole pixels; the remaining pixels widen the margin.
    ///
    /// # Errors
    /// Returns [`SizeTooSmall`] if a module would be smaller than a pixel.
    pub fn to_png(&self, style: &QrStyle) -> Result<Vec<u8>, SizeTooSmall> {
        let scale = self.pixels_per_module(style)?;
        Ok(png::draw(self, style, scale))
    }

    fn pixels_per_module(&self, style: &QrStyle) -> Result<u16, SizeTooSmall> {
        let size_min = self.modules_with_margin(style);
        match style.size / size_min {
            0 => Err(SizeTooSmall { size_min }),
            scale => Ok(scale),
        }
    }

    fn modules_with_margin(&self, style: &QrStyle) -> u16 {
        self.modules() + 2 * u16::from(style.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_name_the_levels() {
        let letters = ErrorCorrection::ALL.iter().map(|level| level.name());
        assert_eq!(letters.collect::<String>(), "LMQH");
        assert_eq!(
            ErrorCorrection::of_name("Q"),
            Some(ErrorCorrection::Quartile)
        );
        for text in ["", "q", "LM", "low"] {
            assert_eq!(ErrorCorrection::of_name(text), None, "{text}");
        }
    }

    #[test]
    fn module_has_at_least_one_pixel() {
        let code = QrCode::of("https://sho.rt/spring", ErrorCorrection::High).unwrap();
        assert_eq!(code.modules(), 29);
        let mut style = QrStyle {
            size: 60,
            margin: 16,
            color: Color::BLACK,
            background: Color::WHITE,
        };
        let refused = SizeTooSmall { size_min: 61 };
        assert_eq!(code.to_svg(&style), Err(refused));
        assert_eq!(code.to_png(&style), Err(refused));
        style.size = 61;
        assert!(code.to_svg(&style).is_ok() && code.to_png(&style).is_ok());
    }

    #[test]
    fn text_beyond_the_largest_code_is_refused() {
        let code = |length| QrCode::of(&"x".repeat(length), ErrorCorrection::High);
        assert_eq!(code(1_273).unwrap().modules(), 177);
        assert_eq!(code(1_274).err(), Some(TextTooLong));
    }
}
