//! Box plots: one box per category and series, whiskers at 5 % and 95 %, the extremes as dots.
//!
//! Fewer than [`BOX_MIN`] samples are drawn one by one: a box of three is an invention.

use super::super::axis::Axis;
use super::super::quantity::{Unit, count};
use super::super::spread::{Spread, sorted};
use super::super::svg::{Anchor, Area, Svg};
use super::frame;

/// Samples from which on a box is drawn.
const BOX_MIN: usize = 8;
/// Dots beyond the whiskers on each side: the farthest ones.
const DOTS_MAX: usize = 5;

/// Room of one box at most, so that a panel of few does not scatter them.
const LANE_MAX: f64 = 110.0;

/// Samples of one box.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the row of names.
    pub name: String,
    /// Its colour.
    pub slot: usize,
    /// Samples per category; empty where there are none.
    pub samples: Vec<Vec<f64>>,
}

/// One panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What all its boxes have in common.
    pub title: String,
    /// The boxes' categories, from left to right.
    pub categories: Vec<String>,
    /// The series, side by side in each category.
    pub series: Vec<Series>,
}

/// Draws the panels; `below` names what the categories are.
pub fn draw(title: &str, panels: &[Panel], unit: Unit, below: &str) -> Svg {
    let grid = frame::Grid::new(panels.len(), 190.0, 24.0, 4.0);
    let mut svg = Svg::new(title, grid.height);
    let all =
        panels.iter().flat_map(|panel| &panel.series).flat_map(|series| series.samples.iter().flatten());
    let axis = Axis::fit(all.copied(), unit);
    let mut known: Vec<(usize, String)> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !known.iter().any(|(_, name)| *name == series.name) {
            known.push((series.slot, series.name.clone()));
        }
    }
    frame::names(&mut svg, 14.0, &known);
    for (number, (panel, whole)) in panels.iter().zip(&grid.areas).enumerate() {
        let lanes = (panel.categories.len() * panel.series.len()).max(1) as f64;
        let area = &Area { width: whole.width.min(lanes * LANE_MAX), ..*whole };
        frame::head(&mut svg, *area, &panel.title);
        frame::value_axis(&mut svg, *area, &axis, grid.is_first(number));
        categories(&mut svg, *area, panel, &axis, unit);
        svg.text((area.left + area.width / 2.0, area.bottom() + 33.0), Anchor::Middle, "note", below);
    }
    svg
}

fn categories(svg: &mut Svg, area: Area, panel: &Panel, axis: &Axis, unit: Unit) {
    let room = area.width / panel.categories.len().max(1) as f64;
    let lane = (room * 0.8 / panel.series.len().max(1) as f64).min(46.0);
    for (number, category) in panel.categories.iter().enumerate() {
        let middle = area.left + room * (number as f64 + 0.5);
        let class = if room < 60.0 { "tick small" } else { "tick" };
        svg.text((middle, area.bottom() + 17.0), Anchor::Middle, class, category);
        let first = middle - lane * (panel.series.len() as f64 - 1.0) / 2.0;
        for (place, series) in panel.series.iter().enumerate() {
            let Some(samples) = series.samples.get(number).filter(|samples| !samples.is_empty()) else {
                continue;
            };
            let title = tip(&format!("{} · {category}", series.name), samples, unit);
            svg.group(frame::series(series.slot), &title);
            one(svg, (first + lane * place as f64, lane * 0.34), samples, |value| {
                frame::level(area, axis, value)
            });
            svg.end();
        }
    }
}

fn tip(name: &str, samples: &[f64], unit: Unit) -> String {
    Spread::of(samples).map_or_else(String::new, |spread| {
        format!(
            "{name}: median {}, half between {} and {}, 90 % between {} and {}, n = {}",
            unit.show(spread.median),
            unit.show(spread.p25),
            unit.show(spread.p75),
            unit.show(spread.p5),
            unit.show(spread.p95),
            count(spread.count as u64)
        )
    })
}

/// One box around x, of half a width.
fn one(svg: &mut Svg, (x, half): (f64, f64), samples: &[f64], level: impl Fn(f64) -> f64) {
    let ordered = sorted(samples);
    let Some(spread) = Spread::of(&ordered) else { return };
    if ordered.len() < BOX_MIN {
        ordered.iter().for_each(|value| svg.disc((x, level(*value)), 3.0, "dot", ""));
        svg.line((x - half, level(spread.median)), (x + half, level(spread.median)), "median");
        return;
    }
    let (top, bottom) = (level(spread.p75), level(spread.p25));
    svg.line((x, level(spread.p95)), (x, top), "thin");
    svg.line((x, bottom), (x, level(spread.p5)), "thin");
    for end in [spread.p5, spread.p95] {
        svg.line((x - half * 0.5, level(end)), (x + half * 0.5, level(end)), "thin");
    }
    let height = (bottom - top).max(1.0);
    svg.rect(Area { left: x - half, top, width: half * 2.0, height }, "box", 1.0);
    svg.line((x - half, level(spread.median)), (x + half, level(spread.median)), "median");
    let below: Vec<f64> = ordered.iter().copied().filter(|value| *value < spread.p5).collect();
    let above: Vec<f64> = ordered.iter().copied().filter(|value| *value > spread.p95).collect();
    for value in below.iter().take(DOTS_MAX).chain(above.iter().rev().take(DOTS_MAX)) {
        svg.disc((x, level(*value)), 1.8, "dot", "");
    }
}
