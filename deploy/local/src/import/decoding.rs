//! The text of a file, from the encodings that editors and spreadsheets write.

/// Begins of ZIP archives, which spreadsheets are, and of gzip.
const ARCHIVES: [&[u8]; 2] = [b"PK\x03\x04", &[0x1f, 0x8b]];
/// Number of bytes that show if a file is text.
const BEGIN_LENGTH: usize = 1_000;
/// Of this many bytes at the begin, less than one is zero in a text.
const BINARY_SHARE: usize = 10;

/// Text of a file.
#[derive(Debug)]
pub(super) struct FileText {
    pub(super) text: String,
    /// True if U+FFFD stands for bytes that are no UTF-8.
    pub(super) has_replaced_bytes: bool,
}

/// Reason for which the bytes of a file are no text. The remedy is part of the message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotText {
    #[error(
        "line {0} is not UTF-8; save the file as \"CSV UTF-8\", or convert it: iconv -f ENCODING -t UTF-8 FILE > NEW_FILE, \
         with the encoding of the file, such as WINDOWS-1252 or SHIFT_JIS"
    )]
    OtherEncoding(usize),
    #[error(
        "line {0} is not UTF-16, although the file begins with its mark; save the file as UTF-8"
    )]
    BrokenUtf16(usize),
    #[error("the file is a spreadsheet or an archive; export it as \"CSV UTF-8\", or unpack it")]
    Archive,
    #[error("the file is no text: it has many zero bytes; save it as CSV UTF-8, or as JSON")]
    Binary,
}

/// Decodes UTF-8, with or without a mark, and UTF-16 by its mark. Line breaks of old Macs become those of today.
///
/// # Errors
/// Returns the first line that is not of the encoding. In a file that is UTF-8 elsewhere, bytes that are none
/// become U+FFFD, so that their record alone is refused.
pub(super) fn decode(bytes: Vec<u8>) -> Result<FileText, NotText> {
    let (text, has_replaced_bytes) = match bytes.first_chunk::<2>() {
        // The mark of UTF-32 begins like the one of UTF-16.
        _ if bytes.starts_with(&[0xff, 0xfe, 0, 0]) => return Err(NotText::Binary),
        Some([0xff, 0xfe]) => (utf16(&bytes[2..], u16::from_le_bytes)?, false),
        Some([0xfe, 0xff]) => (utf16(&bytes[2..], u16::from_be_bytes)?, false),
        _ if ARCHIVES.iter().any(|begin| bytes.starts_with(begin)) => {
            return Err(NotText::Archive);
        }
        _ if is_binary(&bytes) => return Err(NotText::Binary),
        _ => utf8(bytes)?,
    };
    let has_mac_breaks = text.contains('\r') && !text.contains('\n');
    let text = if has_mac_breaks {
        text.replace('\r', "\n")
    } else {
        text
    };
    Ok(FileText {
        text: without_mark(text),
        has_replaced_bytes,
    })
}

fn without_mark(mut text: String) -> String {
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

fn utf8(bytes: Vec<u8>) -> Result<(String, bool), NotText> {
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok((text, false)),
        Err(error) => error,
    };
    let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
    let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
    let has_utf8 = text.chars().any(|c| !c.is_ascii() && c != '\u{fffd}');
    has_utf8
        .then_some((text, true))
        .ok_or(NotText::OtherEncoding(line))
}

/// Returns true if the begin has many zero bytes, as UTF-16 without its mark and spreadsheets have.
fn is_binary(bytes: &[u8]) -> bool {
    let begin = &bytes[..bytes.len().min(BEGIN_LENGTH)];
    let zeros = begin.split(|byte| *byte == 0).count() - 1;
    zeros * BINARY_SHARE > begin.len()
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    bytes[..offset].split(|byte| *byte == b'\n').count()
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(bytes.len());
    let broken = |text: &String| NotText::BrokenUtf16(line_of(text.as_bytes(), text.len()));
    for character in char::decode_utf16(units.iter().map(|pair| unit(*pair))) {
        text.push(character.map_err(|_| broken(&text))?);
    }
    if rest.is_empty() {
        Ok(text)
    } else {
        Err(broken(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Result<String, NotText> {
        decode(bytes.to_vec()).map(|file| file.text)
    }

    #[test]
    fn utf8_and_utf16_are_known_by_their_marks() {
        let expected = "url\tGr\u{f6}\u{df}e \u{1f34a}\n";
        let units: Vec<u16> = format!("\u{feff}{expected}").encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let marked = format!("\u{feff}{expected}");
        for bytes in [expected.as_bytes(), marked.as_bytes(), &little, &big] {
            assert_eq!(text(bytes).as_deref(), Ok(expected));
        }
        assert_eq!(
            text(&little[..little.len() - 1]),
            Err(NotText::BrokenUtf16(1))
        );
        assert_eq!(text(b"\xff\xfe\x00\xd8a\x00"), Err(NotText::BrokenUtf16(1)));
        assert_eq!(text(&little[2..]), Err(NotText::Binary));
    }

    #[test]
    fn other_encoding_names_line_and_remedy() {
        let error = text(b"url;title\nhttps://e.com;Gr\xf6\xdfe\n").unwrap_err();
        assert_eq!(error, NotText::OtherEncoding(2));
        assert!(error.to_string().contains("CSV UTF-8"), "{error}");
        for begin in [b"PK\x03\x04\x14\x00", b"\x1f\x8b\x08\x00\x00\x00"] {
            assert_eq!(text(begin), Err(NotText::Archive));
        }
        assert_eq!(text(b"\xff\xfe\0\0a\0\0\0"), Err(NotText::Binary));
    }

    #[test]
    fn broken_bytes_in_a_file_of_utf8_are_replaced() {
        let file = decode(b"Gr\xc3\xb6\xc3\x9fe\nGr\xf6e\n".to_vec()).unwrap();
        assert_eq!(file.text, "Gr\u{f6}\u{df}e\nGr\u{fffd}e\n");
        assert!(file.has_replaced_bytes);
    }

    #[test]
    fn line_breaks_of_old_macs_are_line_breaks() {
        assert_eq!(text(b"a\rb\r").as_deref(), Ok("a\nb\n"));
        assert_eq!(text(b"a\r\nb\r\n").as_deref(), Ok("a\r\nb\r\n"));
    }
}
