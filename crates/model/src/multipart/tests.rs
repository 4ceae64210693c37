//! What uploads and parts become.

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

const MIN: u64 = skerry_base::limits::PART_BYTES_MIN;

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
