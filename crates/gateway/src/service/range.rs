//! Byte ranges and part numbers: which bytes of an object are meant.

use core::ops::Range;

use super::{ErrorKind, Outcome, ServiceError};

/// A `Range` header of one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// `bytes=first-last`, both included; `last` may lie behind the end.
    Between {
        /// First byte.
        first: u64,
        /// Last byte.
        last: u64,
    },
    /// `bytes=first-`.
    From(u64),
    /// `bytes=-length`: the last bytes.
    Last(u64),
}

impl ByteRange {
    /// Reads a `Range` header. `None` for what S3 ignores: another unit, several ranges, nonsense.
    pub fn parse(header: &str) -> Option<Self> {
        let (first, last) = header.trim().strip_prefix("bytes=")?.split_once('-')?;
        // More digits than a number has are behind the end of everything.
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
        };
        match (first.trim(), last.trim()) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(Self::From),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between { first, last })
            }
        }
    }

    /// The bytes meant in an object of this size; `InvalidRange` if there is none.
    pub fn select(self, size: u64) -> Outcome<Selection> {
        let (start, end) = match self {
            Self::Between { first, last } => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Last(length) => (size.saturating_sub(length), size),
        };
        if start >= end {
            return Err(ServiceError::new(
                ErrorKind::InvalidRange,
                format!("the object has {size} bytes and none of them is in the range; ask for others"),
            )
            .with_header("content-range", format!("bytes */{size}")));
        }
        Ok(Selection { bytes: start..end, size, partial: true, parts: None })
    }
}

/// The bytes that a read answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Which bytes.
    pub bytes: Range<u64>,
    /// Size of the whole object.
    pub size: u64,
    /// Whether to answer 206 with `Content-Range`.
    pub partial: bool,
    /// `x-amz-mp-parts-count`, when a part was asked for.
    pub parts: Option<u32>,
}

impl Selection {
    /// The whole object.
    pub const fn whole(size: u64) -> Self {
        Self { bytes: 0..size, size, partial: false, parts: None }
    }

    /// One part: an object that was put whole is its own part 1.
    pub fn part(number: u32, parts: &[u64], size: u64) -> Outcome<Self> {
        let whole = [size];
        let sizes = if parts.is_empty() { &whole[..] } else { parts };
        let index = (number as usize).wrapping_sub(1);
        let Some(length) = sizes.get(index) else {
            return Err(ServiceError::new(
                ErrorKind::InvalidPartNumber,
                format!("the object has {} parts; ask for one of them", sizes.len()),
            )
            .with_header("content-range", format!("bytes */{size}")));
        };
        let start = sizes.iter().take(index).sum::<u64>();
        let count = (!parts.is_empty()).then_some(parts.len() as u32);
        // An empty part has no first byte that Content-Range could name.
        Ok(Self { bytes: start..start + length, size, partial: *length > 0, parts: count })
    }

    /// How many bytes.
    pub const fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// The `Content-Range` header of a partial answer.
    pub fn content_range(&self) -> Option<String> {
        let last = self.bytes.end.checked_sub(1)?;
        self.partial.then(|| format!("bytes {}-{}/{}", self.bytes.start, last, self.size))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn ranges_parse_as_http_has_them() {
        assert_eq!(ByteRange::parse("bytes=0-9"), Some(ByteRange::Between { first: 0, last: 9 }));
        assert_eq!(ByteRange::parse("bytes=5-"), Some(ByteRange::From(5)));
        assert_eq!(ByteRange::parse("bytes=-5"), Some(ByteRange::Last(5)));
        let (far, max) = ("99999999999999999999", u64::MAX);
        let parse = |text: &str| ByteRange::parse(&text.replace("FAR", far));
        assert_eq!(parse("bytes=0-FAR"), Some(ByteRange::Between { first: 0, last: max }));
        assert_eq!(parse("bytes=FAR-"), Some(ByteRange::From(max)));
        assert_eq!(parse("bytes=-FAR"), Some(ByteRange::Last(max)));
        for ignored in ["bytes=", "bytes=-", "bytes=9-0", "lines=0-1", "bytes=0-1,3-4", "bytes=+1-2"] {
            assert_eq!(ByteRange::parse(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn a_range_is_cut_to_the_object() {
        let bytes = |range: ByteRange, size| range.select(size).map(|selection| selection.bytes);
        assert_eq!(bytes(ByteRange::Between { first: 2, last: 99 }, 10).unwrap(), 2..10);
        assert_eq!(bytes(ByteRange::Between { first: 0, last: u64::MAX }, 10).unwrap(), 0..10);
        assert_eq!(bytes(ByteRange::Last(3), 10).unwrap(), 7..10);
        assert_eq!(bytes(ByteRange::Last(30), 10).unwrap(), 0..10);
        for (range, size) in [(ByteRange::From(10), 10), (ByteRange::Last(0), 10), (ByteRange::Last(5), 0)] {
            let refused = range.select(size).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidRange);
            assert_eq!(refused.headers(), [("content-range", format!("bytes */{size}"))]);
        }
    }

    #[test]
    fn parts_are_found_by_number() {
        let second = Selection::part(2, &[5, 7], 12).unwrap();
        assert_eq!((second.bytes.clone(), second.parts), (5..12, Some(2)));
        assert_eq!(second.content_range().unwrap(), "bytes 5-11/12");
        let empty = Selection::part(3, &[5, 7, 0], 12).unwrap();
        assert_eq!((empty.bytes.clone(), empty.partial, empty.content_range()), (12..12, false, None));
        assert_eq!(Selection::part(1, &[], 9).unwrap().bytes, 0..9);
        assert_eq!(Selection::part(2, &[], 9).unwrap_err().kind(), ErrorKind::InvalidPartNumber);
        assert_eq!(Selection::part(0, &[5], 5).unwrap_err().kind(), ErrorKind::InvalidPartNumber);
    }
}
