//! A code as a PNG file: a palette of two colours, one bit for each pixel.

use png::{BitDepth, ColorType, Compression, Encoder, Filter};

use super::{QrCode, QrStyle};

/// Draws the code with `scale` pixels for each module, in the middle of the image.
pub(super) fn draw(code: &QrCode, style: &QrStyle, scale: u16) -> Vec<u8> {
    let mut file = Vec::new();
    let size = u32::from(style.size);
    let mut encoder = Encoder::new(&mut file, size, size);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::One);
    encoder.set_palette([style.background.rgb(), style.color.rgb()].concat());
    encoder.set_compression(Compression::Fast);
    // Each row equals the one above it, but for the first row of a module.
    encoder.set_filter(Filter::Up);
    let written = encoder
        .write_header()
        .and_then(|mut file| file.write_image_data(&pixels(code, style.size, scale)));
    written.expect("writing to memory never fails");
    file
}

/// Returns the rows of pixels: eight in each byte, the leftmost in the highest bit. The largest image
/// has 2 MiB.
fn pixels(code: &QrCode, size: u16, scale: u16) -> Vec<u8> {
    let code_size = code.modules() * scale;
    let before = (size - code_size) / 2;
    let after = size - code_size - before;
    let light = pixel_row(size, |_| false);
    let mut rows = light.repeat(before.into());
    for row in 0..code.modules() {
        let is_dark = |pixel: u16| {
            let inside = pixel.checked_sub(before).filter(|it| *it < code_size);
            inside.is_some_and(|pixel| code.is_dark(pixel / scale, row))
        };
        rows.extend(pixel_row(size, is_dark).repeat(scale.into()));
    }
    rows.extend(light.repeat(after.into()));
    rows
}

fn pixel_row(size: u16, is_dark: impl Fn(u16) -> bool) -> Vec<u8> {
    let mut row = vec![0; usize::from(size.div_ceil(8))];
    for pixel in (0..size).filter(|pixel| is_dark(*pixel)) {
        row[usize::from(pixel / 8)] |= 0x80 >> (pixel % 8);
    }
    row
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use png::{Decoder, Transformations};

    use crate::qr_code::{Color, ErrorCorrection, SIZE_MAX};

    use super::*;

    fn style(size: u16) -> QrStyle {
        QrStyle {
            size,
            margin: 2,
            color: Color::BLACK,
            background: Color::parse("fafafa").unwrap(),
        }
    }

    /// Returns red, green and blue of each pixel.
    fn decoded(file: &[u8]) -> Vec<[u8; 3]> {
        let mut decoder = Decoder::new(Cursor::new(file));
        decoder.set_transformations(Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let pixels = pixels.as_chunks().0;
        pixels.to_vec()
    }

    #[test]
    fn pixels_are_the_modules_in_the_middle() {
        let code = QrCode::of("https://sho.rt/spring", ErrorCorrection::Medium).unwrap();
        for size in [64, 65, 71, 300, SIZE_MAX] {
            let file = code.to_png(&style(size)).unwrap();
            let scale = size / (code.modules() + 4);
            let before = (size - code.modules() * scale) / 2;
            let module = |pixel: u16| pixel.checked_sub(before).map_or(u16::MAX, |it| it / scale);
            let color = |is_dark| if is_dark { [0; 3] } else { [250; 3] };
            let expected = (0..size)
                .flat_map(|y| (0..size).map(move |x| (module(x), module(y))))
                .map(|(column, row)| color(code.is_dark(column, row)));
            assert!(decoded(&file).into_iter().eq(expected), "{size}");
        }
    }

    #[test]
    fn largest_image_is_a_small_file() {
        let code = QrCode::of(&"x".repeat(79), ErrorCorrection::High).unwrap();
        let file = code.to_png(&style(SIZE_MAX)).unwrap();
        assert!(file.len() < 64 * 1024, "{}", file.len());
    }
}
