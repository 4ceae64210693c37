//! Sites come and go: few levels and memberships change, and old and new views find each other meanwhile.

use core::time::Duration;
use std::collections::BTreeSet;

use proptest::prelude::*;
use skerry_base::Instant;
use skerry_federation::areas::level::{self, Draw};
use skerry_federation::areas::{Entry, View, limits};

use crate::matrix::{Kind, Matrix, mix};
use crate::proof::{self, Looker, id};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// One join moves at most one site over each border between levels.
    #[test]
    fn a_join_changes_few_levels(n in 3u64..300, k in 1u8..5, seed in any::<[u8; 32]>()) {
        let draws = |n: u64| (0..n).map(|site| Draw::of(&seed, id(site as usize), (site % 4) as u8));
        let (before, after) = (level::assign(draws(n), k), level::assign(draws(n + 1), k));
        let turned = (0..n as usize).filter(|site| before.get(&id(*site)) != after.get(&id(*site))).count();
        prop_assert!(turned <= usize::from(k - 1), "{turned} levels changed");
    }

    /// While some sites have seen a join or a leave and others have not, and each tells and asks its old and its new
    /// landmarks, every pair keeps the bound.
    #[test]
    fn old_and_new_views_keep_the_bound(n in 8usize..50, k in 1u8..4, seed in 0u64..1000, joins in any::<bool>()) {
        let matrix = Matrix::new(Kind::Metric, n + 1, seed);
        let all = vec![true; n + 1];
        let mut fewer = all.clone();
        fewer[n] = false;
        let (with, without) = (proof::exact(&matrix, &all, k, seed), proof::exact(&matrix, &fewer, k, seed));
        let (old, new) = if joins { (&without, &with) } else { (&with, &without) };
        let mut mixed = proof::exact(&matrix, &fewer, k, seed);
        for v in 0..n {
            let mut union = old.of[v].clone();
            if mix(seed, v as u64, 5) & 1 == 0 {
                union.extend(new.of[v].iter().filter(|near| old.of[v].iter().all(|had| had.site != near.site)));
            }
            // A landmark that left answers nobody.
            union.retain(|near| near.site != n || joins);
            mixed.of[v] = union;
        }
        for u in 0..n {
            for v in (0..n).filter(|v| *v != u) {
                let find = Looker::new(&matrix, &mixed, u).find(v).unwrap();
                let bound = u64::from(k) * matrix.micros(u, v);
                // Who lost a landmark with the site that left may be late until all have seen it.
                prop_assert!(find.at_once <= bound || !joins, "{}-{}", u, v);
            }
        }
    }
}

/// A hundred sites: one join or leave changes few per cent of the memberships.
#[test]
fn a_join_or_leave_changes_few_memberships() {
    let (n, k, seed) = (100, 2, 3);
    let matrix = Matrix::new(Kind::Metric, n + 1, seed);
    let all = vec![true; n + 1];
    let whole = proof::exact(&matrix, &all, k, seed);
    let entries = whole.of.iter().map(Vec::len).sum::<usize>() as f64;
    let mut sum = 0.0;
    for left in 0..=n {
        let mut there = all.clone();
        there[left] = false;
        let (changes, _) = proof::difference(&whole, &proof::exact(&matrix, &there, k, seed), left);
        sum += changes as f64 / entries;
    }
    let mean = sum / (n + 1) as f64;
    assert!(mean < 0.03, "{:.2} % of memberships change", mean * 100.0);
}

fn seen(matrix: &Matrix, me: usize, sites: impl Iterator<Item = usize>) -> View {
    let mut view = View::new(id(me), 1, [9; 32], 1);
    for site in sites.filter(|site| *site != me) {
        view.come(Entry { site: id(site), weight: 1, coordinate: None }, Instant(0));
        view.measured(id(site), matrix.rtt(me, site), Instant(0));
    }
    view
}

#[test]
fn a_view_gathers_changes_and_lets_go_late() {
    let matrix = Matrix::new(Kind::Metric, 60, 8);
    let me = 1;
    let mut view = seen(&matrix, me, 0..60);
    assert_eq!(view.settle(Instant(0)), None);
    let settled = Instant(0).after(limits::SETTLE);
    assert_eq!(view.next_wake(), Some(settled));
    let turn = view.settle(settled).unwrap();
    assert_eq!(turn.k, 2);
    assert_eq!(view.settle(settled), None);
    let first: BTreeSet<_> = view.bunch().landmarks.iter().map(|landmark| landmark.site).collect();

    // A landmark moves far away: it leaves the bunch, is told and asked for a while, then no more.
    let low = |view: &View, site| view.level(site) == 0 && site != id(me);
    let moving = *first.iter().find(|site| low(&view, **site)).unwrap();
    let later = settled.after(Duration::from_secs(5));
    (0..limits::SAMPLES).for_each(|_| view.measured(moving, Duration::from_secs(2), later));
    let turn = view.settle(later.after(limits::SETTLE)).unwrap();
    assert_eq!(turn.removed, vec![moving]);
    assert!(turn.added.is_empty() && view.bunch().get(moving).is_none());
    assert!(view.landmarks().iter().any(|landmark| landmark.site == moving));
    let end = later.after(limits::SETTLE).after(limits::TRANSITION);
    assert!(view.settle(end).is_some());
    assert!(!view.landmarks().iter().any(|landmark| landmark.site == moving));
}

#[test]
fn jitter_and_small_moves_change_nothing() {
    let matrix = Matrix::new(Kind::Metric, 60, 6);
    let mut view = seen(&matrix, 0, 0..60);
    view.redraw(Instant(0));
    for turn in 0..50u64 {
        for site in 1..60 {
            let jitter = 95 + mix(turn, site, 1) % 10;
            let rtt = Duration::from_micros(matrix.micros(0, site as usize) * jitter / 100);
            view.measured(id(site as usize), rtt, Instant(turn));
        }
    }
    assert_eq!(view.next_wake(), None);
}

#[test]
fn a_site_that_dies_and_returns_is_what_it_was() {
    let matrix = Matrix::new(Kind::Metric, 60, 7);
    let mut view = seen(&matrix, 0, 0..60);
    view.redraw(Instant(0));
    let before = (view.bunch().clone(), view.level(id(8)));
    let top = (1..60).map(id).find(|site| view.level(*site) == 1).unwrap();
    view.gone(top, Instant(1));
    let turn = view.redraw(Instant(1));
    assert!(turn.removed.contains(&top) && turn.levels <= 1);
    assert!(!view.landmarks().iter().any(|landmark| landmark.site == top), "nobody asks the dead");
    view.come(Entry { site: top, weight: 1, coordinate: None }, Instant(2));
    view.redraw(Instant(2));
    assert_eq!((view.bunch().clone(), view.level(id(8))), before);
}

/// Estimates follow this site's own coordinate, and what is measured counts before them.
#[test]
fn a_view_on_estimates_asks_for_what_it_must_measure() {
    let matrix = Matrix::new(Kind::Metric, 60, 8);
    let at = proof::coordinates(&matrix, 400, 8);
    let mut view = View::new(id(1), 1, [9; 32], 1);
    for site in (0..60).filter(|site| *site != 1) {
        view.come(Entry { site: id(site), weight: 1, coordinate: Some(at[site]) }, Instant(0));
    }
    // Eight connections are in use.
    for site in (0..8 * 40).map(|turn| 3 + 7 * (turn % 8)) {
        view.measured(id(site), matrix.rtt(1, site), Instant(0));
    }
    let mut now = Instant(0);
    let mut measured = 0;
    for _ in 0..400 {
        now = view.next_wake().unwrap_or(now).max(now);
        view.settle(now);
        let Some(site) = view.doubtful().first().copied() else { break };
        view.measured(site, matrix.rtt(1, proof::index(site)), now);
        measured += 1;
    }
    assert!(view.doubtful().is_empty() && (5..59).contains(&measured), "{measured} measured");
    // Of those that are surely in the bunch, nearly all were found.
    let mut exact = seen(&matrix, 1, 0..60);
    exact.redraw(now);
    let missing =
        exact.bunch().landmarks.iter().filter(|found| view.bunch().get(found.site).is_none()).count();
    assert!(missing <= 2, "{missing} of {} missing, {measured} measured", exact.bunch().landmarks.len());
}
