//! Curves over a parameter, with the spread as a band; ordered times of single objects; cumulative distributions.
//!
//! One shape serves the three: lines with an optional band, single runs as thin lines behind, a name at each line's end.

use super::super::axis::Axis;
use super::super::quantity::Unit;
use super::super::svg::{Anchor, Area, Svg};
use super::frame;

/// Room per letter of a name at the right of a panel.
const LETTER: f64 = 7.4;

/// One line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// What stands at its end.
    pub name: String,
    /// Its colour.
    pub slot: usize,
    /// Points of the line.
    pub points: Vec<(f64, f64)>,
    /// Lower and upper edge at the same places; may be empty.
    pub band: Vec<(f64, f64)>,
    /// Single runs, drawn thin behind.
    pub runs: Vec<Vec<(f64, f64)>>,
    /// Whether the points are marked: they were measured, what lies between was not.
    pub marked: bool,
}

/// One panel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// What all its lines have in common.
    pub title: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// How the axes are called and kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    /// Unit of the lower axis.
    pub x: Unit,
    /// Its label.
    pub below: String,
    /// Places to mark on it; empty if it may choose.
    pub marks: Vec<(f64, String)>,
    /// Whether the lower axis counts: it is then linear, from the first to the last.
    pub counts: bool,
    /// Unit of the value axis.
    pub y: Unit,
    /// Its fixed range; none if it follows the values.
    pub range: Option<(f64, f64)>,
}

/// Draws the panels.
pub fn draw(title: &str, panels: &[Panel], axes: &Axes) -> Svg {
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    let longest = lines().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let grid = frame::Grid::new(panels.len(), 190.0, 0.0, 8.0 + (longest as f64 * LETTER).min(150.0));
    let mut svg = Svg::new(title, grid.height);
    let points = || lines().flat_map(|line| line.points.iter().chain(line.runs.iter().flatten()));
    let last = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let fitted = Axis::fit(points().map(|(x, _)| *x), axes.x);
    let x = if axes.counts { Axis::exact(0.0, last, axes.x) } else { fitted };
    let edges = lines().flat_map(|line| line.band.iter().flat_map(|(low, high)| [*low, *high]));
    let fitted = Axis::fit(points().map(|(_, y)| *y).chain(edges), axes.y);
    let y = axes.range.map_or(fitted, |(low, high)| Axis::exact(low, high, axes.y));
    for (number, (panel, area)) in panels.iter().zip(&grid.areas).enumerate() {
        frame::head(&mut svg, *area, &panel.title);
        frame::value_axis(&mut svg, *area, &y, grid.is_first(number));
        frame::lower_axis(&mut svg, *area, &x, &axes.marks, &axes.below);
        let place = |(px, py): (f64, f64)| (frame::across(*area, &x, px), frame::level(*area, &y, py));
        panel.lines.iter().for_each(|line| one(&mut svg, line, place));
        label(&mut svg, *area, panel, place);
    }
    svg
}

fn one(svg: &mut Svg, line: &Line, place: impl Fn((f64, f64)) -> (f64, f64)) {
    svg.group(frame::series(line.slot), &line.name);
    let edge = |high: bool| {
        let at = line.points.iter().zip(&line.band);
        at.map(move |((x, _), (low, top))| (*x, if high { *top } else { *low })).collect::<Vec<_>>()
    };
    let outline: Vec<(f64, f64)> =
        edge(true).into_iter().chain(edge(false).into_iter().rev()).map(&place).collect();
    svg.shape(&outline, "band");
    for run in &line.runs {
        svg.group("run", "");
        svg.path(&run.iter().copied().map(&place).collect::<Vec<_>>(), "thin");
        svg.end();
    }
    let points: Vec<(f64, f64)> = line.points.iter().copied().map(&place).collect();
    svg.path(&points, "line");
    if line.marked {
        points.iter().for_each(|point| svg.disc(*point, 3.2, "fill", ""));
    }
    svg.end();
}

/// Names at the ends of the lines, moved apart.
fn label(svg: &mut Svg, area: Area, panel: &Panel, place: impl Fn((f64, f64)) -> (f64, f64)) {
    let ends: Vec<(f64, f64)> =
        panel.lines.iter().map(|line| line.points.last().copied().map_or((0.0, 0.0), &place)).collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, y)| *y + 4.0).collect();
    let placed = frame::apart(&wanted, 14.0, Area { height: area.height + 4.0, ..area });
    for ((line, y), (x, _)) in panel.lines.iter().zip(placed).zip(&ends) {
        svg.group(frame::series(line.slot), "");
        svg.text((x.min(area.right()) + 7.0, y), Anchor::Start, "name halo", &line.name);
        svg.end();
    }
}
