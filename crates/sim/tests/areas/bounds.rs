//! Properties P1–P4 of bunches and the bounds on pairs, for matrices of all kinds.

use proptest::prelude::*;
use skerry_federation::areas::ring;

use crate::matrix::{Kind, Matrix};
use crate::proof::{self, Bunches, Looker};

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Metric,
        Kind::Graph,
        Kind::Random,
        Kind::Testbed,
        Kind::King,
        Kind::PlanetLab,
        Kind::Metered,
    ])
}

fn drawn(kind: Kind, n: usize, k: u8, seed: u64) -> (Matrix, Bunches) {
    let matrix = Matrix::new(kind, n, seed);
    let bunches = proof::exact(&matrix, &vec![true; n], k, seed);
    (matrix, bunches)
}

/// The nearest of level `level` and above, by brute force.
fn nearest(matrix: &Matrix, bunches: &Bunches, v: usize, level: u8) -> Option<u64> {
    (0..matrix.len()).filter(|w| bunches.levels[*w] >= level).map(|w| matrix.micros(v, w)).min()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// P1: an area for all. P4: who is in whose bunch follows from levels and distances alone, so both ends agree.
    #[test]
    fn bunches_are_what_they_are_defined_to_be(kind in kinds(), n in 3usize..60, k in 1u8..5, seed in 0u64..1000) {
        let (matrix, bunches) = drawn(kind, n, k, seed);
        prop_assert!(bunches.levels.contains(&(k - 1)));
        for v in 0..n {
            let told: Vec<usize> = bunches.of[v].iter().map(|near| near.site).collect();
            for w in 0..n {
                let level = bunches.levels[w];
                let next = if level + 1 < k { nearest(&matrix, &bunches, v, level + 1) } else { None };
                let belongs = next.is_none_or(|next| matrix.micros(v, w) < next);
                prop_assert_eq!(told.contains(&w), belongs, "site {} and landmark {}", v, w);
            }
            prop_assert!(bunches.of[v].is_sorted_by_key(|near| near.micros));
        }
    }

    /// P3 and P7: found within K·d at once and 1.5·K·d in waves, in an area of radius below 2·K·d; nothing added.
    #[test]
    fn pairs_of_a_metric_keep_the_bound(
        kind in prop::sample::select(vec![Kind::Metric, Kind::Graph, Kind::Metered]),
        n in 3usize..60,
        k in 1u8..5,
        seed in 0u64..1000,
    ) {
        let (matrix, bunches) = drawn(kind, n, k, seed);
        for (u, v) in pairs(n) {
            let d = matrix.micros(u, v);
            let find = Looker::new(&matrix, &bunches, u).find(v).unwrap();
            prop_assert!(find.at_once <= u64::from(k) * d, "{}-{}: {:?} at {}", u, v, find, d);
            prop_assert!(2 * find.waves <= 3 * u64::from(k) * d, "{}-{}: {:?} at {}", u, v, find, d);
            let radius = ring::radius(find.ring).map_or(0, |radius| radius.as_micros() as u64);
            prop_assert!(radius <= 1000 || radius < 2 * u64::from(k) * d);
        }
    }

    /// With several holders the nearest one counts, if landmarks pass on by the whole way.
    #[test]
    fn several_holders_keep_the_bound(n in 6usize..60, k in 1u8..5, members in 2usize..6, seed in 0u64..1000) {
        let (matrix, bunches) = drawn(Kind::Metric, n, k, seed);
        for u in 0..n {
            let holders: Vec<usize> =
                (0..members as u64).map(|m| (proof_draw(seed, u, m) % n as u64) as usize).filter(|y| *y != u).collect();
            let Some(d) = holders.iter().map(|y| matrix.micros(u, *y)).min() else { continue };
            let exact = |_: usize, y: usize| matrix.micros(y, u);
            let absurd = |w: usize, y: usize| proof_draw(seed, w, y as u64) % 900_000;
            let looker = Looker::new(&matrix, &bunches, u);
            let bound = u64::from(k);
            prop_assert!(looker.several(&holders, exact)[2] <= bound * d);
            // However wrong the coordinates: the nearest is asked as well.
            prop_assert!(looker.several(&holders, absurd)[2] <= (2 * bound - 1) * d);
        }
    }

    /// Where the bound fails the walk names a triangle, and the triangle is violated.
    #[test]
    fn a_broken_bound_has_a_culprit(kind in kinds(), n in 3usize..50, k in 1u8..5, seed in 0u64..1000) {
        let (matrix, bunches) = drawn(kind, n, k, seed);
        for (u, v) in pairs(n) {
            let find = Looker::new(&matrix, &bunches, u).find(v).unwrap();
            let culprit = proof::culprit(&matrix, &bunches, u, v);
            if find.at_once > u64::from(k) * matrix.micros(u, v) {
                let found = culprit.unwrap();
                let way = matrix.micros(found.landmark, found.near) + matrix.micros(found.near, found.far);
                prop_assert_eq!(matrix.micros(found.landmark, found.far), way + found.excess);
                prop_assert!(found.excess > 0 && !kind.is_metric());
            }
        }
    }

    /// Sites that disagree on K share a landmark still.
    #[test]
    fn views_of_different_k_meet(kind in kinds(), n in 3usize..60, seed in 0u64..1000) {
        let views: Vec<Bunches> = (1..=3).map(|k| drawn(kind, n, k, seed).1).collect();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            for (u, v) in pairs(n) {
                let asked = &views[one].of[u];
                prop_assert!(views[other].of[v].iter().any(|near| asked.iter().any(|own| own.site == near.site)));
            }
        }
    }
}

fn proof_draw(seed: u64, one: usize, other: u64) -> u64 {
    crate::matrix::mix(seed + 77, one as u64, other)
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |u| (0..n).filter(move |v| *v != u).map(move |v| (u, v)))
}

/// P2: about K·n^(1/K) landmarks a site, if levels do not depend on places.
#[test]
fn a_site_has_few_landmarks() {
    for (n, k) in [(100, 2), (256, 2), (400, 3)] {
        let (mut sum, mut count) = (0, 0);
        for seed in 0..4 {
            let (_, bunches) = drawn(Kind::Metric, n, k, seed);
            sum += bunches.of.iter().map(Vec::len).sum::<usize>();
            count += n;
        }
        let mean = sum as f64 / f64::from(u32::try_from(count).unwrap());
        let expected = f64::from(k) * (n as f64).powf(1.0 / f64::from(k));
        assert!(mean < 1.15 * expected, "{n} sites: {mean} landmarks, expected {expected}");
    }
}

/// On a line: x at 0, h at 10, landmarks at −10 and 20, further holders at −29 and 29. The holder nearest to either
/// landmark lies beyond it: 29 ms, where K·d is 20. By the whole way it is 20, and exactly 20: the bound is tight.
#[test]
fn passing_on_to_the_nearest_holder_breaks_the_bound() {
    let at = [0i64, 10, -10, 20, -29, 29];
    let far = |a: usize, b: usize| at[a].abs_diff(at[b]);
    let answer =
        |landmark: usize, holder: usize| (far(0, landmark) + far(landmark, holder) + far(holder, 0)) / 2;
    let holders = [1usize, 4, 5];
    let by = |rule: &dyn Fn(usize, usize) -> u64| {
        [2usize, 3]
            .into_iter()
            .map(|landmark| {
                let chosen = holders.into_iter().min_by_key(|holder| rule(landmark, *holder)).unwrap();
                answer(landmark, chosen)
            })
            .min()
            .unwrap()
    };
    assert_eq!(by(&|landmark, holder| far(landmark, holder)), 29);
    assert_eq!(by(&|landmark, holder| far(landmark, holder) + far(holder, 0)), 20);
}
