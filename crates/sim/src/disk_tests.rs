//! The disk keeps the promises that `storage::Disk` lists, and no more.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_storage::Disk;

use super::*;
use skerry_scenario::draw::Ppm;

fn disk(seed: u64) -> SimDisk {
    SimDisk::new(Manner::default(), Draw::from_seed(seed))
}

fn read(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![9; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_synced_with_its_name_is_there_after_every_loss() {
    for seed in 0..40 {
        let disk = disk(seed);
        let file = disk.create("journal/1", 8192).unwrap();
        file.write_at(0, &[b"ab", b"cd"]).unwrap();
        file.sync().unwrap();
        disk.sync_dir("journal").unwrap();
        file.write_at(4, &[b"lost"]).unwrap();
        disk.lose_power();
        let bytes = read(&disk, "journal/1");
        assert_eq!((bytes.len(), &bytes[..4]), (8192, &b"abcd"[..]));
        assert!(file.sync().is_err(), "a handle of an earlier life works");
    }
}

#[test]
fn a_name_or_a_removal_that_was_not_synced_may_go_either_way() {
    let (mut created, mut removed) = ([false; 2], [false; 2]);
    for seed in 0..40 {
        let disk = disk(seed);
        disk.create("a", 10).unwrap().sync().unwrap();
        disk.sync_dir("").unwrap();
        disk.remove("a").unwrap();
        disk.create("b", 10).unwrap().sync().unwrap();
        disk.lose_power();
        let names = disk.list("").unwrap();
        assert_ne!(names, ["a", "b"], "the later change without the earlier");
        removed[usize::from(names.contains(&"a".into()))] = true;
        created[usize::from(names.contains(&"b".into()))] = true;
    }
    assert_eq!((created, removed), ([true; 2], [true; 2]));
}

#[test]
fn a_removed_file_is_read_by_those_who_have_it_open() {
    let disk = disk(1);
    let file = disk.create("a", 0).unwrap();
    file.write_at(0, &[b"still"]).unwrap();
    disk.remove("a").unwrap();
    disk.sync_dir("").unwrap();
    let mut bytes = [0; 5];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 5);
    assert_eq!(&bytes, b"still");
    assert!(disk.open("a").is_err());
}

#[test]
fn the_fuse_stops_the_machine_at_any_call() {
    let disk = disk(1);
    let file = disk.create("a", 0).unwrap();
    disk.set_fuse(1);
    file.write_at(0, &[b"x"]).unwrap();
    assert!(!disk.is_dead());
    assert!(file.sync().is_err());
    assert!(disk.is_dead() && disk.list("").is_err());
    disk.lose_power();
    assert!(disk.list("").is_ok());
}

#[test]
fn a_process_that_dies_loses_nothing_and_syncs_nothing() {
    let disk = disk(1);
    let file = disk.create("a", 0).unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[b"seen"]).unwrap();
    disk.lose_process();
    assert_eq!(read(&disk, "a"), b"seen");
    disk.restore(&disk.snapshot());
    assert_eq!(read(&disk, "a"), b"");
}

#[test]
fn a_full_disk_refuses_and_takes_again_what_was_freed() {
    let disk = disk(1);
    disk.set_capacity(Some(16_384));
    let file = disk.create("a", 12_288).unwrap();
    assert_eq!(disk.create("b", 8192).err().unwrap().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.list("").unwrap(), ["a"]);
    file.write_at(0, &[&[1; 12_288]]).unwrap();
    assert_eq!(file.write_at(12_288, &[&[1; 8192]]).unwrap_err().kind(), ErrorKind::StorageFull);
    file.punch(0, 8192).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 12_288);
    disk.create("b", 8192).unwrap();
}

#[test]
fn one_store_at_a_time() {
    let disk = disk(1);
    let held = disk.lock().unwrap();
    assert_eq!(disk.lock().err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(held);
    let _held = disk.lock().unwrap();
    disk.lose_process();
    assert!(disk.lock().is_ok());
}

#[test]
fn folders_are_renamed_whole() {
    let disk = disk(1);
    disk.create("index/1", 0).unwrap();
    disk.create("index/2", 0).unwrap();
    disk.rename("index", "index-old").unwrap();
    assert_eq!(disk.list("index-old").unwrap(), ["1", "2"]);
    assert!(disk.list("index").unwrap().is_empty());
}

#[test]
fn rot_flips_one_durable_bit() {
    let disk = disk(1);
    let file = disk.create("payload/1", 0).unwrap();
    file.write_at(0, &[&[0; 4096]]).unwrap();
    file.sync().unwrap();
    disk.sync_dir("payload").unwrap();
    assert_eq!(disk.rot("journal"), None);
    let (name, at) = disk.rot("payload").unwrap();
    let bytes = read(&disk, &name);
    assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_ne!(bytes[at as usize], 0);
}

#[test]
fn a_lying_disk_loses_what_it_said_was_synced() {
    let lost = (0..40).any(|seed| {
        let disk = disk(seed);
        let file = disk.create("a", 0).unwrap();
        disk.sync_dir("").unwrap();
        disk.set_lying(true);
        file.write_at(0, &[b"x"]).unwrap();
        file.sync().unwrap();
        disk.lose_power();
        read(&disk, "a").is_empty()
    });
    assert!(lost);
}

#[test]
fn a_failing_sync_says_so() {
    let manner = Manner { sync_fails: Ppm::ALWAYS, ..Manner::default() };
    let disk = SimDisk::new(manner, Draw::from_seed(1));
    let file = disk.create("a", 0).unwrap();
    assert!(file.sync().is_err());
    assert!(disk.take_busy() > Duration::ZERO);
}

/// As kernels have it: told once, and shown on as if it were well.
#[test]
fn what_a_failed_sync_dropped_is_seen_until_it_is_released_and_never_becomes_durable() {
    let disk = disk(1);
    let file = disk.create("a", 0).unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[b"old"]).unwrap();
    file.sync().unwrap();
    file.write_at(0, &[b"new"]).unwrap();
    disk.set_sync_fails(Ppm::ALWAYS);
    assert!(disk.fails_syncs() && file.sync().is_err());
    disk.set_sync_fails(Ppm::NEVER);
    file.write_at(3, &[b"er"]).unwrap();
    file.sync().unwrap();
    assert_eq!(read(&disk, "a"), b"newer");
    file.release(0, 5);
    assert_eq!(read(&disk, "a"), b"older");
    disk.lose_power();
    assert_eq!(read(&disk, "a"), b"older");
}
