//! Sites in the plane, as far apart as their round-trip times.

use super::super::plane::{self, Plane};
use super::super::quantity::digits;
use super::super::svg::{Anchor, Area, Svg, WIDTH};

/// Height of the map.
const HEIGHT: f64 = 380.0;
/// Up to so many sites every pair is labelled; beyond, only the pairs that span.
const LABELLED_MAX: usize = 5;
/// Room around the points, for names.
const MARGIN: f64 = 52.0;

/// Draws the map and gives the stress of the embedding: how far the drawn distances are from the true ones.
pub fn draw(title: &str, names: &[String], rtt_ms: &[Vec<f64>]) -> (Svg, f64) {
    let plane = plane::embed(rtt_ms);
    let mut svg = Svg::new(title, HEIGHT);
    let spots = fit(&plane);
    let equal = plane::all_equal(rtt_ms);
    let labelled = labelled(names.len(), rtt_ms, equal);
    for (a, from) in spots.iter().enumerate() {
        for (b, to) in spots.iter().enumerate().skip(a + 1) {
            let class = if labelled.contains(&(a, b)) { "edge" } else { "faint" };
            svg.line(*from, *to, class);
        }
    }
    for (a, b) in &labelled {
        if let (Some(from), Some(to)) = (spots.get(*a), spots.get(*b)) {
            let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0 + 4.0);
            svg.text(middle, Anchor::Middle, "tick halo", &rtt(rtt_ms, *a, *b));
        }
    }
    if equal && names.len() > LABELLED_MAX {
        let every = format!("every pair {}", rtt(rtt_ms, 0, 1));
        svg.text((WIDTH / 2.0, HEIGHT / 2.0 + 4.0), Anchor::Middle, "head halo", &every);
    }
    for (name, (x, y)) in names.iter().zip(&spots) {
        svg.disc((*x, *y), 7.0, "node", name);
        let (dx, dy) = (x - WIDTH / 2.0, y - HEIGHT / 2.0);
        let length = dx.hypot(dy).max(1.0);
        let anchor = match dx / length {
            side if side > 0.4 => Anchor::Start,
            side if side < -0.4 => Anchor::End,
            _ => Anchor::Middle,
        };
        let at = (x + dx / length * 13.0, y + dy / length * 17.0 + 4.0);
        svg.text(at, anchor, "head halo", name);
    }
    (svg, plane.stress)
}

fn labelled(sites: usize, rtt_ms: &[Vec<f64>], equal: bool) -> Vec<(usize, usize)> {
    if sites <= LABELLED_MAX {
        (0..sites).flat_map(|a| (a + 1..sites).map(move |b| (a, b))).collect()
    } else if equal {
        Vec::new()
    } else {
        plane::spanning(rtt_ms)
    }
}

fn rtt(matrix: &[Vec<f64>], a: usize, b: usize) -> String {
    let at = |a: usize, b: usize| matrix.get(a).and_then(|row| row.get(b)).copied().unwrap_or(0.0);
    let (there, back) = (at(a, b), at(b, a));
    if (there - back).abs() < 0.05 {
        format!("{} ms", digits(there))
    } else {
        format!("{}/{} ms", digits(there), digits(back))
    }
}

/// Scales the points to the drawing, one scale for both directions.
fn fit(plane: &Plane) -> Vec<(f64, f64)> {
    let span = |values: &[f64]| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let xs: Vec<f64> = plane.points.iter().map(|point| point.0).collect();
    let ys: Vec<f64> = plane.points.iter().map(|point| point.1).collect();
    let ((left, right), (top, bottom)) = (span(&xs), span(&ys));
    let area = Area { left: 130.0, top: MARGIN, width: WIDTH - 260.0, height: HEIGHT - 2.0 * MARGIN };
    let scale = (area.width / (right - left).max(1e-9)).min(area.height / (bottom - top).max(1e-9)).min(1e6);
    let spot = |(x, y): &(f64, f64)| {
        (WIDTH / 2.0 + (x - (left + right) / 2.0) * scale, HEIGHT / 2.0 + (y - (top + bottom) / 2.0) * scale)
    };
    plane.points.iter().map(spot).collect()
}
