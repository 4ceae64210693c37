//! What all panels share: where they lie, their axes, names at the ends of lines, the row of names on top.

use super::super::axis::Axis;
use super::super::svg::{Anchor, Area, Svg, WIDTH};

/// Room at the left of a row of panels, for the value axis.
const LEFT: f64 = 62.0;
/// Room between panels, for names at the ends of lines.
const GAP: f64 = 26.0;
/// Room above a panel, for its title.
const HEAD: f64 = 26.0;
/// Room below a panel, for its axis.
const FOOT: f64 = 42.0;

/// Panels in a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Where each panel lies.
    pub areas: Vec<Area>,
    /// Whether a panel is the first of its row.
    columns: usize,
    /// Height of the whole.
    pub height: f64,
}

impl Grid {
    /// So many panels of this height below `top`; `right` is the room each keeps free at its right.
    pub fn new(count: usize, height: f64, top: f64, right: f64) -> Self {
        let columns = match count {
            0 | 1 => 1,
            2 | 4 => 2,
            _ => 3,
        };
        let width = (WIDTH - LEFT - GAP * (columns as f64 - 1.0)) / columns as f64;
        let area = |number: usize| Area {
            left: LEFT + (number % columns) as f64 * (width + GAP),
            top: top + HEAD + (number / columns) as f64 * (height + HEAD + FOOT),
            width: width - right,
            height,
        };
        let rows = count.div_ceil(columns).max(1);
        let areas = (0..count).map(area).collect();
        Self { areas, columns, height: top + rows as f64 * (height + HEAD + FOOT) }
    }

    /// Whether a panel is the first of its row and carries the texts of the value axis.
    pub fn is_first(&self, number: usize) -> bool {
        number.is_multiple_of(self.columns)
    }
}

/// Title of a panel.
pub fn head(svg: &mut Svg, area: Area, title: &str) {
    svg.text((area.left, area.top - 10.0), Anchor::Start, "head", title);
}

/// Where a value of the value axis lies.
pub fn level(area: Area, axis: &Axis, value: f64) -> f64 {
    area.bottom() - axis.place(value) * area.height
}

/// Where a value of the lower axis lies.
pub fn across(area: Area, axis: &Axis, value: f64) -> f64 {
    area.left + axis.place(value) * area.width
}

/// Lines of the value axis, with texts if asked.
pub fn value_axis(svg: &mut Svg, area: Area, axis: &Axis, texts: bool) {
    for (value, text) in axis.ticks((area.height / 45.0) as usize) {
        let y = level(area, axis, value);
        svg.line((area.left, y), (area.right(), y), "grid");
        if texts {
            svg.text((area.left - 8.0, y + 4.0), Anchor::End, "tick", &text);
        }
    }
    svg.line((area.left, area.bottom()), (area.right(), area.bottom()), "base");
}

/// The lower axis with its label; `at` names the values to mark, else the axis chooses.
pub fn lower_axis(svg: &mut Svg, area: Area, axis: &Axis, at: &[(f64, String)], label: &str) {
    let own = axis.ticks((area.width / 50.0) as usize);
    let ticks = if at.is_empty() { &own } else { at };
    let mut free = f64::NEG_INFINITY;
    for (value, text) in ticks {
        let x = across(area, axis, *value);
        let half = text.chars().count() as f64 * 3.3 + 4.0;
        svg.line((x, area.bottom()), (x, area.bottom() + 4.0), "base");
        if x - half >= free {
            svg.text((x, area.bottom() + 17.0), Anchor::Middle, "tick", text);
            free = x + half;
        }
    }
    svg.text((area.left + area.width / 2.0, area.bottom() + 33.0), Anchor::Middle, "note", label);
}

/// A row of names in their colours.
pub fn names(svg: &mut Svg, y: f64, names: &[(usize, String)]) {
    let mut x = LEFT;
    for (slot, name) in names {
        svg.group(series(*slot), "");
        svg.disc((x + 4.0, y - 4.0), 4.5, "fill", "");
        svg.text((x + 13.0, y), Anchor::Start, "name", name);
        svg.end();
        x += 34.0 + name.chars().count() as f64 * 7.0;
    }
}

/// The class of the colour of a series.
pub fn series(slot: usize) -> &'static str {
    ["s0", "s1", "s2", "s3", "s4", "s5"].get(slot % 6).copied().unwrap_or("s5")
}

/// Moves labels apart so that each has `gap` of its own, as little as needed, in the order they were in.
pub fn apart(wanted: &[f64], gap: f64, area: Area) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    let at = |index: usize| wanted.get(index).copied().unwrap_or(0.0);
    order.sort_by(|a, b| at(*a).total_cmp(&at(*b)));
    let mut placed = vec![0.0; wanted.len()];
    let mut free = f64::NEG_INFINITY;
    for index in &order {
        let y = at(*index).max(free);
        if let Some(place) = placed.get_mut(*index) {
            *place = y;
        }
        free = y + gap;
    }
    let over = (free - gap - area.bottom()).max(0.0);
    let mut ceiling = f64::INFINITY;
    for index in order.iter().rev() {
        if let Some(place) = placed.get_mut(*index) {
            *place = if over > 0.0 { place.min(ceiling).min(area.bottom()) } else { *place };
            ceiling = *place - gap;
        }
    }
    placed
}
