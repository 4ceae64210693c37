//! CompleteMultipartUpload decided: which stored parts make the object, or why not.
//!
//! Why here: the node and the memory double must refuse the same completions with the same codes. Pure.

use md5::{Digest, Md5};
use skerry_base::limits;

use super::{
    Checksum, ChecksumKind, ChecksumShape, CompleteUpload, CompletedPart, ErrorKind, Outcome, ServiceError,
};

/// What is known of a stored part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    /// Its number.
    pub number: u32,
    /// Its MD5 in hexadecimal: its ETag.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// Its checksums, that of the upload among them.
    pub checksums: Vec<Checksum>,
}

/// The object that comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The parts that make it, as indices into the stored ones.
    pub parts: Vec<usize>,
    /// `md5-N`.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// Its checksum.
    pub checksum: Checksum,
}

/// Decides a completion against the stored parts (by number, each once). `kind` and `shape` are those that
/// the upload was begun with.
pub fn complete_parts(
    request: &CompleteUpload,
    stored: &[StoredPart],
    kind: ChecksumKind,
    shape: ChecksumShape,
) -> Outcome<Completion> {
    if request.parts.is_empty() {
        return refuse(ErrorKind::MalformedXml, "a completion names at least one part");
    }
    if !request.parts.is_sorted_by(|a, b| a.number < b.number) {
        return refuse(ErrorKind::InvalidPartOrder, "name the parts once each, by ascending number");
    }
    if request.shape.is_some_and(|wanted| wanted != shape) {
        return refuse(ErrorKind::InvalidRequest, "the upload was begun with another x-amz-checksum-type");
    }
    let parts = request.parts.iter().map(|part| find(part, stored)).collect::<Outcome<Vec<_>>>()?;
    let chosen: Vec<&StoredPart> = parts.iter().filter_map(|index| stored.get(*index)).collect();
    let size = checked_size(&chosen, request.size)?;
    let checksum = checked_sum(request, &chosen, kind, shape)?;
    Ok(Completion { parts, etag: multipart_etag(&chosen)?, size, checksum })
}

fn refuse<T>(kind: ErrorKind, message: impl Into<String>) -> Outcome<T> {
    Err(ServiceError::new(kind, message))
}

fn find(part: &CompletedPart, stored: &[StoredPart]) -> Outcome<usize> {
    let number = part.number;
    // Ten thousand parts, each looked for from the first on, would hold up a thread that serves others.
    let found = stored.binary_search_by_key(&number, |one| one.number).ok();
    let Some((index, one)) = found.and_then(|index| Some((index, stored.get(index)?))) else {
        return refuse(ErrorKind::InvalidPart, format!("part {number} was not uploaded; upload it"));
    };
    if one.etag != part.etag {
        return refuse(
            ErrorKind::InvalidPart,
            format!("part {number} has the ETag {} and not {}; upload it again", one.etag, part.etag),
        );
    }
    for (kind, value) in &part.checksums {
        let kept = one.checksums.iter().find(|sum| sum.kind == *kind);
        let Some(kept) = kept else {
            let message = format!(
                "part {number} was uploaded without {0}; upload it with one, or leave it out",
                kind.name()
            );
            return refuse(ErrorKind::InvalidPart, message);
        };
        if kept.value != *value {
            return refuse(
                ErrorKind::InvalidPart,
                format!("part {number} has another {}; upload it again", kind.name()),
            );
        }
    }
    Ok(index)
}

fn checked_size(parts: &[&StoredPart], wanted: Option<u64>) -> Outcome<u64> {
    if let Some((_, before)) = parts.split_last()
        && let Some(small) = before.iter().find(|part| part.size < limits::PART_BYTES_MIN)
    {
        return refuse(
            ErrorKind::EntityTooSmall,
            format!(
                "part {} has {} bytes; all but the last need {}",
                small.number,
                small.size,
                limits::PART_BYTES_MIN
            ),
        );
    }
    let size: u64 = parts.iter().map(|part| part.size).sum();
    if size > limits::OBJECT_BYTES {
        return refuse(
            ErrorKind::EntityTooLarge,
            "the parts make more than 5 TiB; store them as several objects",
        );
    }
    match wanted {
        Some(wanted) if wanted != size => {
            refuse(ErrorKind::InvalidRequest, format!("the parts make {size} bytes and not {wanted}"))
        }
        _ => Ok(size),
    }
}

fn checked_sum(
    request: &CompleteUpload,
    parts: &[&StoredPart],
    kind: ChecksumKind,
    shape: ChecksumShape,
) -> Outcome<Checksum> {
    let value_of =
        |part: &StoredPart| part.checksums.iter().find(|sum| sum.kind == kind).map(|sum| sum.value.clone());
    let values: Vec<(String, u64)> =
        parts.iter().filter_map(|part| Some((value_of(part)?, part.size))).collect();
    let values: Vec<(&str, u64)> = values.iter().map(|(value, size)| (value.as_str(), *size)).collect();
    let sum = (values.len() == parts.len()).then(|| Checksum::of_parts(kind, shape, &values)).flatten();
    let Some(sum) = sum else {
        return refuse(ErrorKind::InvalidPart, format!("a part has no {}; upload it again", kind.name()));
    };
    match &request.checksum {
        Some((wanted, _)) if *wanted != kind => refuse(
            ErrorKind::InvalidRequest,
            format!("the upload was begun with {} and the completion has {}", kind.name(), wanted.name()),
        ),
        Some((_, value)) if *value != sum.value && Some(value.as_str()) != bare(&sum) => {
            refuse(ErrorKind::BadDigest, format!("the {} of the object is {}", kind.name(), sum.value))
        }
        _ => Ok(sum),
    }
}

/// The value of a composite checksum without its count: clients send either.
fn bare(sum: &Checksum) -> Option<&str> {
    sum.value.rsplit_once('-').map(|(value, _)| value)
}

/// MD5 over the parts' MD5s, and their number.
fn multipart_etag(parts: &[&StoredPart]) -> Outcome<String> {
    let etags = parts.iter().map(|part| (part.number, part.etag.as_str()));
    folded(etags).or_else(|number| {
        refuse(ErrorKind::InvalidPart, format!("part {number} has no MD5; upload it again"))
    })
}

/// The same of parts by number; an error names the one whose ETag is no MD5.
fn folded<'a>(parts: impl ExactSizeIterator<Item = (u32, &'a str)>) -> Result<String, u32> {
    let (mut md5, count) = (Md5::new(), parts.len());
    for (number, etag) in parts {
        md5.update(skerry_base::hex::parse::<16>(etag).map_err(|_| number)?);
    }
    Ok(format!("{}-{count}", skerry_base::hex::text(&md5.finalize())))
}

impl CompleteUpload {
    /// The ETag of what it asks for; none if a part's is no MD5.
    pub fn etag(&self) -> Option<String> {
        folded(self.parts.iter().map(|part| (part.number, part.etag.as_str()))).ok()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::service::{Hasher, UploadTarget, WriteCondition};

    const BIG: u64 = limits::PART_BYTES_MIN;

    fn part(number: u32, size: u64) -> StoredPart {
        let mut hasher = Hasher::new(ChecksumKind::Crc64Nvme);
        hasher.update(&[number as u8]);
        let sum =
            Checksum { kind: ChecksumKind::Crc64Nvme, value: hasher.finish(), shape: ChecksumShape::Full };
        StoredPart { number, etag: format!("{number:032x}"), size, checksums: vec![sum] }
    }

    fn request(numbers: &[u32]) -> CompleteUpload {
        let named = |number: &u32| CompletedPart {
            number: *number,
            etag: format!("{number:032x}"),
            checksums: vec![],
        };
        CompleteUpload {
            target: UploadTarget { bucket: "b".into(), key: "k".into(), upload: "u".into() },
            parts: numbers.iter().map(named).collect(),
            checksum: None,
            shape: None,
            size: None,
            condition: WriteCondition::default(),
        }
    }

    fn complete(request: &CompleteUpload, stored: &[StoredPart]) -> Outcome<Completion> {
        complete_parts(request, stored, ChecksumKind::Crc64Nvme, ChecksumShape::Full)
    }

    #[test]
    fn chooses_the_named_parts() {
        let stored = [part(1, BIG), part(2, 7), part(9, BIG), part(10, 3)];
        let done = complete(&request(&[1, 9, 10]), &stored).unwrap();
        assert_eq!(done.parts, [0, 2, 3]);
        assert_eq!(done.size, 2 * BIG + 3);
        assert!(done.etag.ends_with("-3"), "{}", done.etag);
    }

    #[test]
    fn refuses_by_name() {
        let stored = [part(1, BIG), part(2, 7), part(3, 7)];
        let kind = |request: &CompleteUpload| complete(request, &stored).unwrap_err().kind();
        assert_eq!(kind(&request(&[])), ErrorKind::MalformedXml);
        assert_eq!(kind(&request(&[2, 1])), ErrorKind::InvalidPartOrder);
        assert_eq!(kind(&request(&[1, 1])), ErrorKind::InvalidPartOrder);
        assert_eq!(kind(&request(&[1, 4])), ErrorKind::InvalidPart);
        assert_eq!(kind(&request(&[1, 2, 3])), ErrorKind::EntityTooSmall);
        let mut wrong = request(&[1]);
        wrong.parts[0].etag = "x".into();
        assert_eq!(kind(&wrong), ErrorKind::InvalidPart);
        for kind_of in [ChecksumKind::Sha256, ChecksumKind::Crc64Nvme] {
            let mut claimed = request(&[1]);
            claimed.parts[0].checksums = vec![(kind_of, "x".into())];
            assert_eq!(kind(&claimed), ErrorKind::InvalidPart, "{kind_of:?}");
        }
        let sized = CompleteUpload { size: Some(5), ..request(&[1]) };
        assert_eq!(kind(&sized), ErrorKind::InvalidRequest);
        let summed =
            CompleteUpload { checksum: Some((ChecksumKind::Crc64Nvme, "x".into())), ..request(&[1]) };
        assert_eq!(kind(&summed), ErrorKind::BadDigest);
        let other = CompleteUpload { checksum: Some((ChecksumKind::Sha1, "x".into())), ..request(&[1]) };
        assert_eq!(kind(&other), ErrorKind::InvalidRequest);
    }
}
