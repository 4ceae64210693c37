//! The ETag of a body that was put in one piece is its MD5 in 32 digits: half as many bytes.

use skerry_base::hex;

/// The MD5, if it is one as the gateway writes it.
pub(super) fn md5(etag: &str) -> Option<[u8; 16]> {
    let is_lower = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    etag.bytes().all(is_lower).then(|| hex::parse(etag).ok()).flatten()
}

/// Reads back [`md5`].
pub(super) fn of_md5(md5: [u8; 16]) -> String {
    hex::write(&md5, &mut [0; 32]).to_owned()
}
