//! What the power may take and what it must leave.

use super::*;

fn contents(image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; image.len() as usize];
    image.read(0, &mut bytes);
    bytes
}

/// A file with 2,048 synced ones and, over them and beyond, 8,192 unsynced twos.
fn written() -> File {
    let mut file = File::default();
    file.write(0, &[1; 2048]);
    file.sync();
    file.write(0, &[2; 8192]);
    file
}

#[test]
fn what_was_synced_survives_every_loss() {
    for seed in 0..50 {
        let mut draw = Draw::from_seed(seed);
        let mut file = File::default();
        file.write(0, &[1; 2048]);
        file.sync();
        file.write(2048, &[2; 4096]);
        file.lose_power(Loss::draw(&mut draw), 512, &mut draw);
        assert_eq!(contents(file.current())[..2048], [1; 2048]);
        assert!(file.is_clean());
    }
}

#[test]
fn all_or_nothing() {
    let mut draw = Draw::from_seed(1);
    let mut file = written();
    file.lose_power(Loss::All, 512, &mut draw);
    assert_eq!(contents(file.current()), [1; 2048]);
    let mut file = written();
    file.lose_power(Loss::Nothing, 512, &mut draw);
    assert_eq!(contents(file.current()), [2; 8192]);
}

#[test]
fn writes_are_torn_at_sectors_in_any_subset() {
    for sector in [512, 4096] {
        let mut seen_hole = false;
        for seed in 0..60 {
            let mut draw = Draw::from_seed(seed);
            let mut file = written();
            file.lose_power(Loss::Scattered, sector, &mut draw);
            let bytes = contents(file.current());
            let whole = bytes.chunks(sector as usize).map(|sector| {
                assert!(sector.chunks(512).all(|part| part.iter().all(|byte| *byte == part[0])));
                sector[0]
            });
            let values: Vec<u8> = whole.collect();
            seen_hole |= values.windows(2).any(|pair| pair[0] < 2 && pair[1] == 2);
        }
        assert!(seen_hole, "a later sector without an earlier one at {sector}");
    }
}

#[test]
fn a_sector_may_hold_any_moment_but_nothing_else() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let mut draw = Draw::from_seed(seed);
        let mut file = File::default();
        file.write(0, &[1; 512]);
        file.sync();
        file.write(0, &[2; 512]);
        file.write(0, &[3; 512]);
        file.lose_power(Loss::Scattered, 512, &mut draw);
        seen.insert(contents(file.current())[0]);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_cut_file_does_not_come_back_longer() {
    for seed in 0..60 {
        let mut draw = Draw::from_seed(seed);
        let mut file = written();
        file.sync();
        file.set_len(100);
        file.sync();
        file.write(100, &[3; 50]);
        file.lose_power(Loss::draw(&mut draw), 512, &mut draw);
        let bytes = contents(file.current());
        assert!(bytes.len() == 100 || bytes.len() == 150);
        assert!(bytes[100..].iter().all(|byte| *byte == 0 || *byte == 3));
    }
}
