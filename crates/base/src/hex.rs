//! Bytes as lower-case hexadecimal digits and back.
//!
//! Why here: identities, names of chunks, ETags, signatures and fixtures are all written so.
//!
//! Invariants: what is written reads back; both cases are read; any other digit or length is refused.

use crate::id::InvalidId;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two digits for each byte. Not by `format!`: ETags are written for every key of a listing.
pub fn text(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The digits of `bytes` in `text`, which has twice their length. Not by `write!`: identities are printed for every write
/// that is answered.
pub fn write<'t>(bytes: &[u8], text: &'t mut [u8]) -> &'t str {
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    core::str::from_utf8(text).unwrap_or_default()
}

/// Reads `N` bytes from `2 * N` digits.
pub fn parse<const N: usize>(text: &str) -> Result<[u8; N], InvalidId> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return Err(InvalidId);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| (digit as char).to_digit(16).ok_or(InvalidId);
        if let [high, low] = pair {
            *byte = (value(*high)? * 16 + value(*low)?) as u8;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_written_and_reads_back() {
        for byte in 0..=u8::MAX {
            let (said, mut room) = (text(&[byte, !byte]), [0; 4]);
            assert_eq!(said, format!("{byte:02x}{:02x}", !byte));
            assert_eq!(write(&[byte, !byte], &mut room), said);
            assert_eq!(parse(&said), Ok([byte, !byte]));
            assert_eq!(parse(&said.to_uppercase()), Ok([byte, !byte]));
        }
        assert_eq!((text(&[]), parse("")), (String::new(), Ok([])));
    }

    #[test]
    fn other_lengths_and_digits_are_refused() {
        for wrong in ["", "1", "123", "12345", "12 4", "+123", "0x12", "é12", "gg00"] {
            assert_eq!(parse::<2>(wrong), Err(InvalidId), "{wrong}");
        }
    }
}
