//! Numeric character references beyond U+FFFF in the documents of requests.
//!
//! Why here: the reader of XML that we use (s3s 0.14) takes them from U+100000 on only, so an emoji that is written as a
//! number, as by clients that write ASCII, would make the whole document malformed. Invariants: nothing else changes; a
//! document never grows.

use std::borrow::Cow;

/// Digits of a reference that is looked at: leading zeros are allowed, but nobody writes more.
const DIGITS: usize = 12;

/// The document with the characters in the place of such references.
pub(super) fn expanded(document: &[u8]) -> Cow<'_, [u8]> {
    let mut written: Option<Vec<u8>> = None;
    let (mut done, mut at) = (0, 0);
    while let Some(found) = find(document.get(at..).unwrap_or_default()) {
        let start = at + found;
        at = start + 2;
        let Some((character, length)) = read(document.get(at..).unwrap_or_default()) else { continue };
        at += length;
        let written = written.get_or_insert_default();
        written.extend_from_slice(document.get(done..start).unwrap_or_default());
        written.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        done = at;
    }
    match written {
        None => Cow::Borrowed(document),
        Some(mut written) => {
            written.extend_from_slice(document.get(done..).unwrap_or_default());
            Cow::Owned(written)
        }
    }
}

fn find(document: &[u8]) -> Option<usize> {
    document.windows(2).position(|pair| pair == b"&#")
}

/// The character of what follows `&#`, if it lies beyond the first plane, and how long the rest of the reference is.
fn read(text: &[u8]) -> Option<(char, usize)> {
    let end = text.iter().take(DIGITS).position(|&byte| byte == b';')?;
    let text = core::str::from_utf8(text.get(..end)?).ok()?;
    let (digits, radix) = text.strip_prefix('x').map_or((text, 10), |digits| (digits, 16));
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
    (character > '\u{ffff}').then_some((character, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_beyond_the_first_plane_are_expanded() {
        let check = |document: &str, wanted: &str| {
            assert_eq!(String::from_utf8_lossy(&expanded(document.as_bytes())), wanted, "{document}");
        };
        check("<Key>&#128512;.jpg</Key>", "<Key>😀.jpg</Key>");
        check("&#x1F600;&#x1f600;&#0000128512;&#65536;", "😀😀😀\u{10000}");
        check("a&#1114111;", "a\u{10ffff}");
        for kept in [
            "",
            "&",
            "&#",
            "&#;",
            "&#x;",
            "&#38;#128512;",
            "&amp;#128512;",
            "&#60;",
            "&#13;",
            "&#x1;",
            "&#65535;",
            "&#1114112;",
            "&#+128512;",
            "&#x+1F600;",
            "&#X1F600;",
            "&#128512",
            "&#00000000000000128512;",
            "&#55357;",
            "&#99999999999;",
            "&#128512\u{e9};",
        ] {
            check(kept, kept);
        }
        assert!(matches!(expanded(b"<Key>plain &amp; &#233;</Key>"), Cow::Borrowed(_)));
    }
}
