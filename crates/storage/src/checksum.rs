//! CRC32C (Castagnoli), the checksum of everything in journal and payload segments.

use crc_fast::{CrcAlgorithm, Digest};

/// Over the parts, one after the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    // A CRC32 fits in 32 bits.
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_castagnoli() {
        assert_eq!(super::crc32c(&[b"1234", b"56789"]), 0xe306_9283);
    }
}
