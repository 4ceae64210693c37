//! Keys of the tables.
//!
//! Every table of a bucket begins with the bucket's 16 bytes. An object's key follows escaped and terminated:
//! a zero byte becomes `00 ff` and `00 00` ends it, so that bytes sort as S3 sorts keys, `a` before `a\0`
//! before `ab`, and the escaped form of a prefix is a prefix of the escaped form.

use skerry_base::{BucketId, Dot, Hlc, Origin};

use super::rows::version::Named;
use crate::multipart::UploadId;

/// Region of the versions that live.
pub(crate) const ALIVE: u8 = 0;
/// Region of what is only remembered: erases, notes, spent versions.
pub(crate) const REMEMBERED: u8 = 1;

/// The bucket and an open prefix of object keys.
pub(crate) fn prefix(bucket: BucketId, prefix: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + prefix.len() + 4);
    bytes.extend_from_slice(&bucket.0);
    for &byte in prefix.as_bytes() {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(0xff);
        }
    }
    bytes
}

/// The bucket and a whole object key.
pub(crate) fn object(bucket: BucketId, key: &str) -> Vec<u8> {
    let mut bytes = prefix(bucket, key);
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

/// The object key of a table key, and what follows it.
pub(crate) fn split_object(bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut rest = bytes.get(16..)?;
    let mut key = Vec::with_capacity(rest.len());
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        if byte != 0 {
            key.push(byte);
            continue;
        }
        let (&mark, tail) = rest.split_first()?;
        rest = tail;
        match mark {
            0 => return Some((String::from_utf8(key).ok()?, rest)),
            0xff => key.push(0),
            _ => return None,
        }
    }
}

/// A region of a key's records.
pub(crate) fn region(bucket: BucketId, key: &str, region: u8) -> Vec<u8> {
    let mut bytes = object(bucket, key);
    bytes.push(region);
    bytes
}

/// One record: newest first within its region.
pub(crate) fn version(bucket: BucketId, key: &str, at: u8, clock: Hlc, dot: Dot) -> Vec<u8> {
    let mut bytes = region(bucket, key, at);
    bytes.extend_from_slice(&(!clock.0).to_be_bytes());
    bytes.extend(dot.to_bytes().iter().map(|byte| !byte));
    bytes
}

/// What a key of [`version`] says, whatever its region.
pub(crate) fn split_version(bytes: &[u8]) -> Option<Named> {
    let bucket = BucketId(*bytes.first_chunk()?);
    let (key, rest) = split_object(bytes)?;
    let (clock, dot) = rest.get(1..)?.split_first_chunk::<8>()?;
    let dot: &[u8; 32] = dot.try_into().ok()?;
    let dot = Dot::from_bytes(&dot.map(|byte| !byte));
    Some(Named { bucket, key, clock: Hlc(!u64::from_be_bytes(*clock)), dot })
}

/// A live dot.
pub(crate) fn dot(bucket: BucketId, dot: Dot) -> Vec<u8> {
    let mut bytes = dots(bucket);
    bytes.extend_from_slice(&dot.to_bytes());
    bytes
}

/// All live dots of a bucket.
pub(crate) fn dots(bucket: BucketId) -> Vec<u8> {
    [&bucket.0[..], &[0]].concat()
}

/// The dot at the end of a key of [`dot`].
pub(crate) fn split_dot(bytes: &[u8]) -> Option<Dot> {
    Some(Dot::from_bytes(bytes.last_chunk::<32>()?))
}

/// All erases of a bucket, by target.
pub(crate) fn erases(bucket: BucketId) -> Vec<u8> {
    [&bucket.0[..], &[1]].concat()
}

/// All erases of one version.
pub(crate) fn erases_of(bucket: BucketId, target: Dot) -> Vec<u8> {
    [&erases(bucket)[..], &target.to_bytes()].concat()
}

/// One erase of one version.
pub(crate) fn erase(bucket: BucketId, target: Dot, erase: Dot) -> Vec<u8> {
    [&erases_of(bucket, target)[..], &erase.to_bytes()].concat()
}

/// Target and erase at the end of a key of [`erase`].
pub(crate) fn split_erase(bytes: &[u8]) -> Option<(Dot, Dot)> {
    let (rest, erase) = bytes.split_last_chunk::<32>()?;
    Some((Dot::from_bytes(rest.last_chunk::<32>()?), Dot::from_bytes(erase)))
}

/// An origin's entry of the bucket's vector.
pub(crate) fn vector(bucket: BucketId, origin: Origin) -> Vec<u8> {
    [&bucket.0[..], &origin.to_bytes()].concat()
}

/// The origin at the end of a key of [`vector`].
pub(crate) fn split_origin(bytes: &[u8]) -> Option<Origin> {
    Some(Origin::from_bytes(bytes.last_chunk::<24>()?))
}

/// The sums of a bucket.
pub(crate) fn sums(bucket: BucketId) -> Vec<u8> {
    [&bucket.0[..], &[0]].concat()
}

/// All fingerprint blocks of a bucket.
pub(crate) fn blocks(bucket: BucketId) -> Vec<u8> {
    [&bucket.0[..], &[1]].concat()
}

/// The fingerprint of one block of an origin's dots.
pub(crate) fn block(bucket: BucketId, origin: Origin, block: u64) -> Vec<u8> {
    [&blocks(bucket)[..], &origin.to_bytes(), &block.to_be_bytes()].concat()
}

/// The origin and block at the end of a key of [`block`].
pub(crate) fn split_block(bytes: &[u8]) -> Option<(Origin, u64)> {
    let (rest, block) = bytes.split_last_chunk::<8>()?;
    Some((Origin::from_bytes(rest.last_chunk::<24>()?), u64::from_be_bytes(*block)))
}

/// An upload: by key, then by id.
pub(crate) fn upload(bucket: BucketId, key: &str, id: UploadId) -> Vec<u8> {
    let mut bytes = object(bucket, key);
    bytes.extend_from_slice(&id.to_bytes());
    bytes
}

/// All parts of an upload.
pub(crate) fn parts(bucket: BucketId, id: UploadId) -> Vec<u8> {
    [&bucket.0[..], &id.to_bytes()].concat()
}

/// One part.
pub(crate) fn part(bucket: BucketId, id: UploadId, number: u32) -> Vec<u8> {
    [&parts(bucket, id)[..], &number.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;
    use skerry_base::NodeId;

    use super::*;

    const BUCKET: BucketId = BucketId([7; 16]);

    proptest! {
        #[test]
        fn keys_sort_as_s3_sorts_them(a in "[\0a\u{1}é\u{10ffff}]{0,5}", b in "[\0a\u{1}é\u{10ffff}]{0,5}") {
            prop_assert_eq!(a.as_bytes().cmp(b.as_bytes()), object(BUCKET, &a).cmp(&object(BUCKET, &b)));
            prop_assert_eq!(b.starts_with(&a), object(BUCKET, &b).starts_with(&prefix(BUCKET, &a)));
            let tail = region(BUCKET, &a, 9);
            prop_assert_eq!(split_object(&tail).unwrap(), (a, &[9u8][..]));
        }

        #[test]
        fn newest_first(a in any::<(u64, u64)>(), b in any::<(u64, u64)>()) {
            let of = |(clock, seq): (u64, u64)| {
                let origin = Origin { node: NodeId([1; 16]), incarnation: seq / 2 };
                version(BUCKET, "k", ALIVE, Hlc(clock), Dot { origin, seq })
            };
            let order = |(clock, seq): (u64, u64)| (clock, seq / 2, seq);
            prop_assert_eq!(order(b).cmp(&order(a)), of(a).cmp(&of(b)));
            let named = split_version(&of(a)).unwrap();
            prop_assert_eq!((named.clock.0, named.dot.seq, &named.key[..]), (a.0, a.1, "k"));
        }
    }

    #[test]
    fn no_object_key_in_what_is_none() {
        assert_eq!(split_object(b"short"), None);
        assert_eq!(split_object(&prefix(BUCKET, "open")), None);
        assert_eq!(split_object(&[&BUCKET.0[..], &[0, 3]].concat()), None);
    }
}
