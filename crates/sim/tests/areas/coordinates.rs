//! Coordinates find where sites are, in spite of violated triangles and of sites that lie.

use skerry_federation::areas::Coordinate;

use crate::matrix::{Kind, Matrix};
use crate::proof;

fn median_error(matrix: &Matrix, at: &[Coordinate], sites: usize) -> f64 {
    let mut errors = Vec::new();
    for a in 0..sites {
        for b in a + 1..sites {
            let (is, guess) = (matrix.micros(a, b) as f64, at[a].distance(&at[b]).as_micros() as f64);
            errors.push((guess - is).abs() / is);
        }
    }
    errors.sort_unstable_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[test]
fn estimates_are_near_the_truth() {
    for (kind, most) in
        [(Kind::Metric, 0.15), (Kind::Testbed, 0.15), (Kind::PlanetLab, 0.25), (Kind::King, 0.35)]
    {
        let matrix = Matrix::new(kind, 120, 4);
        let error = median_error(&matrix, &proof::coordinates(&matrix, 600, 4), 120);
        assert!(error < most, "{kind:?}: the median estimate is wrong by {error}");
    }
}

#[test]
fn few_liars_do_little_harm() {
    let matrix = Matrix::new(Kind::Metric, 100, 4);
    let mut at = vec![Coordinate::default(); 100];
    // The last five always say that they are far out and sure of it.
    let mut lie = Coordinate::default().to_bytes();
    lie[..4].copy_from_slice(&5000f32.to_le_bytes());
    lie[24..].copy_from_slice(&0.05f32.to_le_bytes());
    let lie = Coordinate::from_bytes(&lie).unwrap();
    for round in 0..600u64 {
        for v in 0..95usize {
            let w = (crate::matrix::mix(3, v as u64, round % 24) % 100) as usize;
            if w != v {
                let other = if w < 95 { at[w] } else { lie };
                at[v].sample(proof::id(w), matrix.rtt(v, w), &other);
            }
        }
    }
    let error = median_error(&matrix, &at, 95);
    assert!(error < 0.6, "the median estimate is wrong by {error}");
}

#[test]
fn who_knows_nothing_says_so() {
    let matrix = Matrix::new(Kind::Metric, 60, 4);
    let (young, old) = (proof::coordinates(&matrix, 2, 4), proof::coordinates(&matrix, 600, 4));
    let mean = |at: &[Coordinate]| at.iter().map(Coordinate::confidence).sum::<f32>() / 60.0;
    assert!(mean(&young) < 0.3 && mean(&old) > 0.6, "{} {}", mean(&young), mean(&old));
}
