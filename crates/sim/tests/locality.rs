//! The first byte is there within K·d and 10 ms where landmarks are asked at once, 1.5·K·d and 10 ms in waves.

use skerry_sim::locality::measure;

#[test]
fn the_first_byte_comes_within_the_bound() {
    for (levels, at_once) in [(2, false), (2, true), (3, false), (3, true)] {
        let found = measure(levels, at_once, 5);
        assert!(found.failed.is_empty(), "K = {levels}, at once {at_once}: {:?}", found.failed);
        assert!(found.finds.len() > 40, "K = {levels}: {} questions", found.finds.len());
        let share = |find: &skerry_sim::world::finds::Find| {
            let took = find.took.unwrap_or_default().as_secs_f64();
            took / find.nearest.as_secs_f64()
        };
        let mut shares: Vec<f64> = found.finds.iter().map(share).collect();
        shares.sort_by(f64::total_cmp);
        let gifts: u32 = found.finds.iter().map(|find| find.gifts).sum();
        println!(
            "K = {levels}, at once {at_once}: {} questions, first byte after {:.2} d p50, {:.2} d at most; {:.2} gifts each",
            shares.len(),
            shares[shares.len() / 2],
            shares[shares.len() - 1],
            f64::from(gifts) / shares.len() as f64,
        );
        assert!(found.finds.iter().any(|find| find.k == levels && find.gifts > 0));
    }
}
