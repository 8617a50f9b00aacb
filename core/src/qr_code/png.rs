//! A code as a PNG file: a palette of two colours, one bit for each pixel.
//!
//! A row of modules is as many equal rows of pixels as a module has pixels. Each is written once, and then
//! copied within the compressed data, so that time and memory do not grow with the pixels of an image.

mod zlib;

use self::zlib::ZlibRows;
use super::{QrCode, QrStyle};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
const BIT_DEPTH: u8 = 1;
const COLOR_TYPE_PALETTE: u8 = 3;
/// Byte before each row of pixels: the row is not filtered.
const NO_FILTER: u8 = 0;

/// Draws the code with `scale` pixels for each module, in the middle of the image.
pub(super) fn draw(code: &QrCode, style: &QrStyle, scale: u16) -> Vec<u8> {
    let size = u32::from(style.size);
    let [width, height] = [size.to_be_bytes(); 2];
    let header = [
        &width[..],
        &height,
        &[BIT_DEPTH, COLOR_TYPE_PALETTE, 0, 0, 0],
    ];
    let palette = [style.background.rgb(), style.color.rgb()];
    let mut file = SIGNATURE.to_vec();
    write_chunk(&mut file, *b"IHDR", &header.concat());
    write_chunk(&mut file, *b"PLTE", &palette.concat());
    write_chunk(&mut file, *b"IDAT", &pixels(code, style.size, scale));
    write_chunk(&mut file, *b"IEND", &[]);
    file
}

/// Returns the rows of pixels, compressed.
fn pixels(code: &QrCode, size: u16, scale: u16) -> Vec<u8> {
    let code_size = code.modules() * scale;
    let before = (size - code_size) / 2;
    let after = size - code_size - before;
    let light = pixel_row(size, |_| false);
    let mut rows = ZlibRows::new();
    rows.push(&light, before);
    for row in 0..code.modules() {
        let is_dark = |pixel: u16| {
            let inside = pixel.checked_sub(before).filter(|it| *it < code_size);
            inside.is_some_and(|pixel| code.is_dark(pixel / scale, row))
        };
        rows.push(&pixel_row(size, is_dark), scale);
    }
    rows.push(&light, after);
    rows.finish()
}

/// Returns a row of pixels: the filter, then eight pixels in each byte, the leftmost in the highest bit.
fn pixel_row(size: u16, is_dark: impl Fn(u16) -> bool) -> Vec<u8> {
    let mut row = vec![0; 1 + usize::from(size.div_ceil(8))];
    row[0] = NO_FILTER;
    for pixel in (0..size).filter(|pixel| is_dark(*pixel)) {
        row[1 + usize::from(pixel / 8)] |= 0x80 >> (pixel % 8);
    }
    row
}

fn write_chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).expect("an image is small");
    file.extend_from_slice(&length.to_be_bytes());
    let begin = file.len();
    file.extend_from_slice(&kind);
    file.extend_from_slice(data);
    let checksum = crc32fast::hash(&file[begin..]);
    file.extend_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;

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

    /// Returns kind and data of each chunk.
    fn chunks(file: &[u8]) -> Vec<(&[u8], &[u8])> {
        let mut rest = file.strip_prefix(&SIGNATURE).unwrap();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk().unwrap();
            let length = u32::from_be_bytes(*length) as usize;
            let (checked, after) = after.split_at(4 + length);
            let (checksum, after) = after.split_first_chunk().unwrap();
            assert_eq!(crc32fast::hash(checked), u32::from_be_bytes(*checksum));
            chunks.push(checked.split_at(4));
            rest = after;
        }
        chunks
    }

    fn inflated(data: &[u8]) -> Vec<u8> {
        let mut pixels = Vec::new();
        ZlibDecoder::new(data).read_to_end(&mut pixels).unwrap();
        pixels
    }

    #[test]
    fn pixels_are_the_modules_in_the_middle() {
        let code = QrCode::of("https://sho.rt/spring", ErrorCorrection::Medium).unwrap();
        for size in [64, 65, 71, 300, SIZE_MAX] {
            let file = code.to_png(&style(size)).unwrap();
            let chunks = chunks(&file);
            let kinds = chunks.iter().map(|(kind, _)| *kind);
            assert!(kinds.eq([&b"IHDR"[..], b"PLTE", b"IDAT", b"IEND"]));
            assert_eq!(chunks[0].1[2..4], size.to_be_bytes());
            assert_eq!(chunks[0].1[8..], [1, 3, 0, 0, 0]);
            assert_eq!(chunks[1].1, [250, 250, 250, 0, 0, 0]);
            let scale = size / (code.modules() + 4);
            let before = (size - code.modules() * scale) / 2;
            let module = |pixel: u16| pixel.checked_sub(before).map_or(u16::MAX, |it| it / scale);
            let expected =
                (0..size).flat_map(|y| pixel_row(size, |x| code.is_dark(module(x), module(y))));
            assert!(inflated(chunks[2].1).into_iter().eq(expected), "{size}");
        }
    }

    #[test]
    fn largest_image_is_a_small_file() {
        let code = QrCode::of(&"x".repeat(79), ErrorCorrection::High).unwrap();
        let file = code.to_png(&style(SIZE_MAX)).unwrap();
        assert!(file.len() < 64 * 1024, "{}", file.len());
    }
}
