//! Compression of rows that repeat: the zlib format (RFC 1950) around one block of fixed codes of DEFLATE
//! (RFC 1951, 3.2.6).

/// Head of zlib data: DEFLATE with a window of 32 KiB, no dictionary.
const HEAD: [u8; 2] = [0x78, 0x01];
/// Shortest and longest copy of bytes that were written before.
const COPY_MIN: usize = 3;
const COPY_MAX: usize = 258;
/// Symbol at the end of a block.
const END_OF_BLOCK: usize = 256;
/// Symbol of the longest copy.
const LONGEST_COPY: usize = 285;
/// Modulus of the checksum.
const ADLER_MODULUS: u64 = 65_521;

/// Compressed rows.
pub(super) struct ZlibRows {
    bits: BitWriter,
    checksum: Adler32,
}

impl ZlibRows {
    pub(super) fn new() -> Self {
        let mut bits = BitWriter {
            bytes: HEAD.to_vec(),
            ..BitWriter::default()
        };
        // The block is the last one, and has fixed codes.
        bits.write(0b1, 1);
        bits.write(0b01, 2);
        Self {
            bits,
            checksum: Adler32 { sum: 1, sums: 0 },
        }
    }

    /// Appends a row of 2 bytes to 32 KiB the given number of times.
    pub(super) fn push(&mut self, row: &[u8], times: u16) {
        if times == 0 {
            return;
        }
        for run in row.chunk_by(|one, next| one == next) {
            self.bits.write_symbol(run[0].into());
            self.repeat(run, 1, run.len() - 1);
        }
        self.repeat(row, row.len(), row.len() * usize::from(times - 1));
        self.checksum.add(row, times);
    }

    /// Appends `count` bytes that equal the bytes `distance` before them; the last bytes are those of
    /// `repeated`.
    fn repeat(&mut self, repeated: &[u8], distance: usize, mut count: usize) {
        while count >= COPY_MIN {
            let length = count.min(COPY_MAX);
            self.bits.write_copy(distance, length);
            count -= length;
        }
        for byte in &repeated[repeated.len() - count..] {
            self.bits.write_symbol((*byte).into());
        }
    }

    /// Returns the compressed data.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bits.write_symbol(END_OF_BLOCK);
        let mut bytes = self.bits.bytes;
        bytes.extend_from_slice(&self.checksum.value().to_be_bytes());
        bytes
    }
}

/// Bits in the order of DEFLATE: the lowest bit of each byte first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are free.
    free: u32,
}

impl BitWriter {
    /// Writes the lowest bits of a number, the lowest bit first.
    fn write(&mut self, number: usize, count: u32) {
        for place in 0..count {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = u8::BITS;
            }
            let bit = u8::from(number >> place & 1 == 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (u8::BITS - self.free);
            }
            self.free -= 1;
        }
    }

    /// Writes the lowest bits of a code, the highest bit first.
    fn write_code(&mut self, code: usize, count: u32) {
        self.write(code.reverse_bits() >> (usize::BITS - count), count);
    }

    /// Writes a byte, the end of the block, or the symbol of a length.
    fn write_symbol(&mut self, symbol: usize) {
        match symbol {
            0..144 => self.write_code(0x30 + symbol, 8),
            144..256 => self.write_code(0x190 + symbol - 144, 9),
            256..280 => self.write_code(symbol - 256, 7),
            _ => self.write_code(0xC0 + symbol - 280, 8),
        }
    }

    /// Writes a copy of `length` bytes from `distance` before. Lengths and distances grow by powers of two:
    /// four lengths, or two distances, have the same number of further bits.
    fn write_copy(&mut self, distance: usize, length: usize) {
        let above = length - COPY_MIN;
        let further = above.max(4).ilog2() - 2;
        if length == COPY_MAX {
            self.write_symbol(LONGEST_COPY);
        } else {
            self.write_symbol(257 + 4 * further as usize + (above >> further));
            self.write(above, further);
        }
        let above = distance - 1;
        let further = above.max(2).ilog2() - 1;
        self.write_code(2 * further as usize + (above >> further), 5);
        self.write(above, further);
    }
}

/// Checksum of zlib: the sum of all bytes, and the sum of that sum after each byte.
struct Adler32 {
    sum: u64,
    sums: u64,
}

impl Adler32 {
    /// Adds a row the given number of times; reads the row only once.
    fn add(&mut self, row: &[u8], times: u16) {
        let length = row.len() as u64;
        let (mut sum, mut sums) = (0, 0);
        for byte in row {
            sum += u64::from(*byte);
            sums += sum;
        }
        for _ in 0..times {
            self.sums = (self.sums + length * self.sum + sums) % ADLER_MODULUS;
            self.sum = (self.sum + sum) % ADLER_MODULUS;
        }
    }

    fn value(&self) -> u32 {
        u32::try_from(self.sums << 16 | self.sum).expect("both sums are below the modulus")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_restored_by_another_decoder(
            rows in prop::collection::vec((prop::collection::vec(0_u8..3, 2..600), 0_u16..500), 0..8),
            scale in prop::sample::select(vec![1_u8, 85]),
        ) {
            let mut compressed = ZlibRows::new();
            let mut expected = Vec::new();
            for (row, times) in &rows {
                let row: Vec<u8> = row.iter().map(|byte| byte * scale).collect();
                compressed.push(&row, *times);
                expected.extend(row.repeat(usize::from(*times)));
            }
            let compressed = compressed.finish();
            let mut restored = Vec::new();
            ZlibDecoder::new(&compressed[..]).read_to_end(&mut restored).unwrap();
            prop_assert!(restored == expected);
        }
    }
}
