//! The rules of completing an upload.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn part(number: u32, size: u64) -> Part {
    Part {
        bucket: BucketId([1; 16]),
        upload: UploadId { site: SiteId([2; 16]), draw: [3; 16] },
        number,
        size,
        md5: [number as u8; 16],
        chunks: Vec::new(),
        checksums: Vec::new(),
        modified: WallTime(0),
    }
}

fn claims(numbers: &[u32]) -> Vec<Claimed> {
    let claim = |&number: &u32| Claimed { number, etag: format!("{number:02x}").repeat(16) };
    numbers.iter().map(claim).collect()
}

const MIN: u64 = limits::PART_BYTES_MIN;

#[test]
fn chooses_what_is_claimed() {
    let stored = [part(1, MIN), part(3, MIN), part(7, MIN), part(9, 1)];
    let chosen = choose(&claims(&[1, 7, 9]), &stored).unwrap();
    assert_eq!(chosen.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 7, 9]);
    assert!(choose(&claims(&[9]), &stored).is_ok(), "a single small part is the last");
    let mut upper = claims(&[10]);
    upper[0].etag = "0A".repeat(16);
    assert!(choose(&upper, &[part(10, 1)]).is_ok(), "ETags in upper case");
}

#[test]
fn refuses_by_the_name_s3_has() {
    let stored = [part(1, MIN), part(2, MIN - 1), part(3, MIN)];
    let refused = |numbers: &[u32]| choose(&claims(numbers), &stored).unwrap_err();
    assert_eq!(refused(&[]), CompleteError::Empty);
    assert_eq!(refused(&[3, 1]), CompleteError::Order(1));
    assert_eq!(refused(&[1, 1]), CompleteError::Order(1));
    assert_eq!(refused(&[1, 4]), CompleteError::Part(4));
    let small = CompleteError::TooSmall { number: 2, size: MIN - 1, least: MIN };
    assert_eq!(refused(&[1, 2, 3]), small);
    let mut wrong = claims(&[1]);
    wrong[0].etag = "00".repeat(16);
    assert_eq!(choose(&wrong, &stored).unwrap_err(), CompleteError::Part(1));
    let huge = [part(1, limits::OBJECT_BYTES), part(2, 1)];
    assert_eq!(choose(&claims(&[1, 2]), &huge), Err(CompleteError::TooLarge(limits::OBJECT_BYTES + 1)));
}

#[test]
fn the_etag_hashes_the_parts_digests() {
    let parts = [part(1, MIN), part(2, 1)];
    let hashed = etag(&parts.iter().collect::<Vec<_>>(), |bytes| {
        assert_eq!(bytes, [[1; 16], [2; 16]].concat());
        [0xab; 16]
    });
    assert_eq!(hashed, format!("{}-2", "ab".repeat(16)));
}

#[test]
fn part_sizes_are_listed_while_they_are_few() {
    let upload = Upload {
        id: UploadId { site: SiteId([2; 16]), draw: [3; 16] },
        bucket: BucketId([1; 16]),
        key: "k".into(),
        started: WallTime(0),
        writer: "w".into(),
        headers: Headers::default(),
        user_metadata: vec![("a".into(), "b".into())],
        tags: Vec::new(),
        checksum: None,
    };
    let few: Vec<Part> = (1..=64).map(|number| part(number, MIN)).collect();
    let made = object(&upload, &few.iter().collect::<Vec<_>>(), "e".into(), WallTime(5));
    assert_eq!((made.size, made.part_count, made.parts.len()), (64 * MIN, 64, 64));
    assert_eq!(made.user_metadata, upload.user_metadata);
    let many: Vec<Part> = (1..=65).map(|number| part(number, MIN)).collect();
    let made = object(&upload, &many.iter().collect::<Vec<_>>(), "e".into(), WallTime(5));
    assert_eq!((made.part_count, made.parts.len()), (65, 0));
}

#[test]
fn upload_ids_print_and_parse() {
    let id = UploadId { site: SiteId([2; 16]), draw: [3; 16] };
    assert_eq!(id.to_string().parse::<UploadId>().unwrap(), id);
    assert_eq!(id.to_string().len(), 64);
    assert_eq!("../etc".parse::<UploadId>(), Err(InvalidId));
}
