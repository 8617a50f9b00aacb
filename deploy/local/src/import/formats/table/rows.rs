//! The records of a text, with the numbers of their lines.

use csv::{Reader, ReaderBuilder, StringRecord};

use super::SourceError;

/// The records of a text from some line on.
pub(super) struct Rows<'t> {
    pub(super) text: &'t str,
    pub(super) separator: u8,
    pub(super) reader: Reader<&'t [u8]>,
    /// Number of the lines before the text.
    lines_before: usize,
}

impl<'t> Rows<'t> {
    pub(super) fn new(text: &'t str, separator: char, lines_before: usize) -> Self {
        let separator = u8::try_from(separator).unwrap_or(b',');
        let mut reader = ReaderBuilder::new();
        let reader = reader
            .delimiter(separator)
            .has_headers(false)
            .flexible(true);
        let reader = reader.from_reader(text.as_bytes());
        Self {
            text,
            separator,
            reader,
            lines_before,
        }
    }

    /// Reads a record, with the number of its first line.
    pub(super) fn next(&mut self) -> Result<Option<(usize, StringRecord)>, SourceError> {
        let mut cells = StringRecord::new();
        let has_record = self.reader.read_record(&mut cells);
        let number = self.lines_before + self.line_of(cells.position());
        match has_record {
            Ok(true) => Ok(Some((number, cells))),
            Ok(false) => Ok(None),
            Err(error) => Err(SourceError::line(number, error)),
        }
    }

    /// Returns the number of the line on which the record at a position begins. The reader counts empty lines
    /// before a record to the record.
    fn line_of(&self, position: Option<&csv::Position>) -> usize {
        let Some(position) = position else {
            return 1;
        };
        let rest = self.text.as_bytes().iter().skip(index(position.byte()));
        let breaks = rest.take_while(|byte| matches!(byte, b'\r' | b'\n'));
        index(position.line()) + breaks.filter(|byte| **byte == b'\n').count()
    }
}

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
