//! Dots in rows: one row per cell, one dot per phase, a common axis. For amounts that span decades, as bytes between sites do.

use super::super::axis::Axis;
use super::super::quantity::Unit;
use super::super::svg::{Anchor, Area, Svg, WIDTH};
use super::frame;

/// Height of a row.
const ROW: f64 = 22.0;
/// Room for the rows' names.
const NAMES: f64 = 230.0;

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Colour, name and value of its dots.
    pub dots: Vec<(usize, String, f64)>,
}

/// Draws the rows; `below` names the amount.
pub fn draw(title: &str, rows: &[Row], unit: Unit, below: &str) -> Svg {
    let top = 34.0;
    let height = rows.len() as f64 * ROW;
    let mut svg = Svg::new(title, top + height + 44.0);
    let area = Area { left: NAMES, top, width: WIDTH - NAMES - 70.0, height };
    let axis = Axis::fit(rows.iter().flat_map(|row| row.dots.iter().map(|dot| dot.2)), unit);
    let mut known: Vec<(usize, String)> = Vec::new();
    for (slot, name, _) in rows.iter().flat_map(|row| &row.dots) {
        if !known.iter().any(|(_, other)| other == name) {
            known.push((*slot, name.clone()));
        }
    }
    frame::names(&mut svg, 14.0, &known);
    for (value, _) in axis.ticks(6) {
        let x = frame::across(area, &axis, value);
        svg.line((x, area.top), (x, area.bottom()), "grid");
    }
    frame::lower_axis(&mut svg, area, &axis, &[], below);
    for (number, row) in rows.iter().enumerate() {
        let y = top + ROW * (number as f64 + 0.5);
        svg.text((NAMES - 14.0, y + 4.0), Anchor::End, "tick", &row.name);
        let places: Vec<f64> = row.dots.iter().map(|dot| frame::across(area, &axis, dot.2)).collect();
        let left = places.iter().copied().fold(f64::INFINITY, f64::min);
        let right = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if right > left {
            svg.line((left, y), (right, y), "edge");
        }
        for ((slot, name, value), x) in row.dots.iter().zip(&places) {
            svg.group(frame::series(*slot), "");
            svg.disc((*x, y), 5.0, "fill", &format!("{name}: {}", unit.show(*value)));
            svg.end();
        }
    }
    svg
}
