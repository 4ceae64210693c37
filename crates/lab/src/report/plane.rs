//! Sites in the plane so that distances come close to round-trip times: classical scaling, then a few rounds of majorisation.
//!
//! Invariants: deterministic (no random start); the stress that is left is given with the points, because most matrices of
//! round-trip times do not lie in a plane and a map must say by how much it lies.

/// Rounds of majorisation: each can only lower the stress; it is flat long before.
const ROUNDS: usize = 300;
/// Rounds of the power method.
const POWERS: usize = 200;

/// Points and how far their distances are from the given ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// One point per row of the matrix, centred, in the unit of the matrix.
    pub points: Vec<(f64, f64)>,
    /// Root of the squared error over the squared distances: 0 is exact.
    pub stress: f64,
}

/// Symmetrised distance: the mean of both directions, as the papers do.
fn between(matrix: &[Vec<f64>], a: usize, b: usize) -> f64 {
    let at =
        |row: usize, column: usize| matrix.get(row).and_then(|row| row.get(column)).copied().unwrap_or(0.0);
    if a == b { 0.0 } else { (at(a, b) + at(b, a)) / 2.0 }
}

/// Embeds a square matrix of distances.
pub fn embed(matrix: &[Vec<f64>]) -> Plane {
    let count = matrix.len();
    let mut points = if all_equal(matrix) { ring(count, between(matrix, 0, 1)) } else { classical(matrix) };
    for _ in 0..ROUNDS {
        points = majorise(matrix, &points);
    }
    let stress = stress(matrix, &points);
    Plane { points, stress }
}

/// Whether every pair is as far apart as any other: then no direction is better than another and a ring is clearest.
pub fn all_equal(matrix: &[Vec<f64>]) -> bool {
    let first = between(matrix, 0, 1);
    let count = matrix.len();
    (0..count).all(|a| (a + 1..count).all(|b| (between(matrix, a, b) - first).abs() <= first * 1e-6))
}

fn ring(count: usize, distance: f64) -> Vec<(f64, f64)> {
    let angle = |number: usize| {
        std::f64::consts::TAU * number as f64 / count.max(1) as f64 - std::f64::consts::FRAC_PI_2
    };
    (0..count).map(|number| (angle(number).cos() * distance, angle(number).sin() * distance)).collect()
}

/// Double centring, then the two largest eigenvectors.
fn classical(matrix: &[Vec<f64>]) -> Vec<(f64, f64)> {
    let count = matrix.len();
    let square = |a, b| between(matrix, a, b).powi(2);
    let row_mean = |a| (0..count).map(|b| square(a, b)).sum::<f64>() / count as f64;
    let means: Vec<f64> = (0..count).map(row_mean).collect();
    let all = means.iter().sum::<f64>() / count.max(1) as f64;
    let mut gram: Vec<Vec<f64>> = Vec::with_capacity(count);
    for (a, mean_a) in means.iter().enumerate() {
        gram.push(
            means
                .iter()
                .enumerate()
                .map(|(b, mean_b)| -0.5 * (square(a, b) - mean_a - mean_b + all))
                .collect(),
        );
    }
    let first = eigen(&gram);
    deflate(&mut gram, &first);
    let second = eigen(&gram);
    let scaled =
        |(value, vector): (f64, Vec<f64>)| vector.into_iter().map(move |part| part * value.max(0.0).sqrt());
    scaled(first).zip(scaled(second)).collect()
}

/// The eigenvector of the largest positive eigenvalue. A shift by the norm keeps negative ones (violated triangles) from winning.
fn eigen(gram: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let shift = gram.iter().map(|row| row.iter().map(|part| part.abs()).sum::<f64>()).fold(0.0, f64::max);
    let mut vector: Vec<f64> = (0..gram.len()).map(|place| 1.0 + (place as f64 * 0.7).sin()).collect();
    for _ in 0..POWERS {
        let product = times(gram, &vector);
        let mut next: Vec<f64> = product.iter().zip(&vector).map(|(part, own)| part + shift * own).collect();
        let length = norm(&next);
        if length <= 0.0 {
            break;
        }
        next.iter_mut().for_each(|part| *part /= length);
        vector = next;
    }
    let value = times(gram, &vector).iter().zip(&vector).map(|(a, b)| a * b).sum();
    (value, vector)
}

fn deflate(gram: &mut [Vec<f64>], (value, vector): &(f64, Vec<f64>)) {
    for (row, a) in gram.iter_mut().zip(vector) {
        for (part, b) in row.iter_mut().zip(vector) {
            *part -= value * a * b;
        }
    }
}

fn times(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|part| part * part).sum::<f64>().sqrt()
}

fn apart(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// One Guttman transform.
fn majorise(matrix: &[Vec<f64>], points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let count = points.len() as f64;
    let mut moved = Vec::with_capacity(points.len());
    for (a, own) in points.iter().enumerate() {
        let mut sum = (0.0, 0.0);
        for (b, other) in points.iter().enumerate().filter(|(b, _)| *b != a) {
            let now = apart(*own, *other);
            let pull = if now > 1e-12 { between(matrix, a, b) / now } else { 0.0 };
            sum.0 += other.0 + pull * (own.0 - other.0);
            sum.1 += other.1 + pull * (own.1 - other.1);
        }
        // The points are centred, so the own point is minus the sum of the others.
        moved.push(((sum.0 + own.0) / count, (sum.1 + own.1) / count));
    }
    moved
}

fn stress(matrix: &[Vec<f64>], points: &[(f64, f64)]) -> f64 {
    let (mut error, mut all) = (0.0, 0.0);
    for (a, own) in points.iter().enumerate() {
        for (b, other) in points.iter().enumerate().skip(a + 1) {
            let wanted = between(matrix, a, b);
            error += (apart(*own, *other) - wanted).powi(2);
            all += wanted * wanted;
        }
    }
    if all > 0.0 { (error / all).sqrt() } else { 0.0 }
}

/// The pairs that join all sites at the least sum: which edges a map of many sites labels.
pub fn spanning(matrix: &[Vec<f64>]) -> Vec<(usize, usize)> {
    let count = matrix.len();
    let mut joined = vec![0_usize];
    let mut edges = Vec::new();
    while joined.len() < count {
        let outside: Vec<usize> = (0..count).filter(|site| !joined.contains(site)).collect();
        let pairs = joined.iter().flat_map(|a| outside.iter().map(move |b| (*a, *b)));
        let near = |x: &(usize, usize), y: &(usize, usize)| {
            between(matrix, x.0, x.1).total_cmp(&between(matrix, y.0, y.1))
        };
        let Some(edge) = pairs.min_by(near) else { break };
        joined.push(edge.1);
        edges.push((edge.0.min(edge.1), edge.0.max(edge.1)));
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distances(points: &[(f64, f64)]) -> Vec<Vec<f64>> {
        points.iter().map(|a| points.iter().map(|b| apart(*a, *b)).collect()).collect()
    }

    #[test]
    fn a_triangle_of_3_4_5_is_exact() {
        let matrix = distances(&[(0.0, 0.0), (3.0, 0.0), (0.0, 4.0)]);
        let plane = embed(&matrix);
        assert!(plane.stress < 1e-6, "{plane:?}");
        let found = distances(&plane.points);
        for (wanted, found) in matrix.concat().iter().zip(found.concat()) {
            assert!((wanted - found).abs() < 1e-4, "{wanted} {found}");
        }
    }

    #[test]
    fn both_directions_count_half() {
        let plane = embed(&[vec![0.0, 10.0], vec![30.0, 0.0]]);
        assert!((apart(plane.points[0], plane.points[1]) - 20.0).abs() < 1e-6, "{plane:?}");
    }

    #[test]
    fn equal_distances_make_a_ring_and_admit_their_stress() {
        let matrix: Vec<Vec<f64>> =
            (0..7).map(|a| (0..7).map(|b| if a == b { 0.0 } else { 100.0 }).collect()).collect();
        let plane = embed(&matrix);
        let radii: Vec<f64> = plane.points.iter().map(|point| apart(*point, (0.0, 0.0))).collect();
        assert!(radii.iter().all(|radius| (radius - radii[0]).abs() < 1e-6), "{radii:?}");
        assert!(plane.stress > 0.2, "{}", plane.stress);
    }

    #[test]
    fn violated_triangles_do_not_break_it() {
        let plane = embed(&[vec![0.0, 10.0, 100.0], vec![10.0, 0.0, 10.0], vec![100.0, 10.0, 0.0]]);
        assert!(plane.points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) && plane.stress > 0.1);
        assert!(embed(&[]).points.is_empty());
        assert_eq!(embed(&[vec![0.0]]).points.len(), 1);
    }

    #[test]
    fn the_nearest_pairs_span() {
        let edges = spanning(&distances(&[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 5.0)]));
        assert_eq!(edges, [(0, 1), (1, 2), (2, 3)]);
    }
}
