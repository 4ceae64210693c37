//! Traffic from site to site as a heat map with its numbers, and the sums at its edges.
//!
//! Invariants: one unit for a whole matrix, so that its numbers compare, one colour scale for all of a figure; what stays inside a site is grey and takes no part in the
//! colours; colour follows the logarithm, because traffic spans decades.

use super::super::quantity::{bytes, digits};
use super::super::svg::{Anchor, Area, Svg, WIDTH};

/// Room for names at the left.
const NAMES: f64 = 96.0;
/// Room for names on top.
const TOP: f64 = 46.0;

/// A matrix of bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// What it shows.
    pub title: String,
    /// Names of rows and columns.
    pub names: Vec<String>,
    /// `bytes[from][to]`.
    pub bytes: Vec<Vec<f64>>,
}

impl Matrix {
    fn at(&self, from: usize, to: usize) -> f64 {
        self.bytes.get(from).and_then(|row| row.get(to)).copied().unwrap_or(0.0)
    }

    /// Bytes between different sites.
    pub fn between(&self) -> f64 {
        (0..self.names.len()).map(|from| self.sent(from)).sum()
    }

    /// The most that one site sends to one other.
    fn most(&self) -> f64 {
        let sites = self.names.len();
        let pairs = (0..sites).flat_map(|from| (0..sites).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).map(|(from, to)| self.at(from, to)).fold(0.0, f64::max)
    }

    /// Bytes a site sends to others.
    pub fn sent(&self, from: usize) -> f64 {
        (0..self.names.len()).filter(|to| *to != from).map(|to| self.at(from, to)).sum()
    }

    /// Bytes a site receives from others.
    pub fn received(&self, to: usize) -> f64 {
        (0..self.names.len()).filter(|from| *from != to).map(|from| self.at(from, to)).sum()
    }
}

/// The unit that fits a number.
fn unit(most: f64) -> (f64, &'static str) {
    match most {
        size if size >= 1e9 => (1e9, "GB"),
        size if size >= 1e6 => (1e6, "MB"),
        size if size >= 1e3 => (1e3, "kB"),
        _ => (1.0, "B"),
    }
}

/// A cell's number: two digits after the point at most, never a 0 for what is not nothing.
fn shown(value: f64) -> String {
    match value {
        0.0 => "·".into(),
        small if small < 0.005 => "<.01".into(),
        small if small < 0.995 => format!("{small:.2}").trim_start_matches('0').to_owned(),
        other => digits(other),
    }
}

/// Draws matrices side by side while they fit, else below each other.
pub fn draw(title: &str, matrices: &[Matrix]) -> Svg {
    let sites = matrices.iter().map(|matrix| matrix.names.len()).max().unwrap_or(1).max(1);
    let columns = if sites <= 7 && matrices.len() > 1 { 2 } else { 1 };
    let width = WIDTH / columns as f64;
    let cell = ((width - NAMES - 16.0) / (sites as f64 + 1.3)).min(62.0);
    let tall = cell.min(34.0);
    let height = TOP + 26.0 + tall * (sites as f64 + 1.2) + 18.0;
    let rows = matrices.len().div_ceil(columns);
    let mut svg = Svg::new(title, height * rows as f64);
    let most = matrices.iter().map(Matrix::most).fold(0.0, f64::max);
    for (number, matrix) in matrices.iter().enumerate() {
        let origin = ((number % columns) as f64 * width, (number / columns) as f64 * height);
        let (divisor, name) = unit(matrix.most());
        let sheet = Sheet { origin, cell, tall, divisor, unit: name, most };
        sheet.draw(&mut svg, matrix);
    }
    svg
}

/// How one matrix lies.
struct Sheet {
    origin: (f64, f64),
    cell: f64,
    tall: f64,
    divisor: f64,
    unit: &'static str,
    most: f64,
}

impl Sheet {
    fn draw(&self, svg: &mut Svg, matrix: &Matrix) {
        let (x, y) = self.origin;
        let title = format!("{} — {}, row sends to column", matrix.title, self.unit);
        svg.text((x + 4.0, y + 14.0), Anchor::Start, "head", &title);
        let sites = matrix.names.len();
        for (number, name) in matrix.names.iter().enumerate() {
            let name = short(name, 13);
            let (column, row) =
                (self.left(number) + self.cell / 2.0, self.top(number) + self.tall / 2.0 + 4.0);
            let room = (self.cell / 6.4) as usize;
            let end = name.rsplit('-').next().unwrap_or(&name);
            let fits = if name.chars().count() > room { short(end, room) } else { name.clone() };
            svg.text((column, y + TOP - 6.0 + 10.0), Anchor::Middle, "tick small", &fits);
            svg.text((x + NAMES - 8.0, row), Anchor::End, "tick", &name);
        }
        for (from, name) in matrix.names.iter().enumerate() {
            svg.group("", &format!("{name} sends {}", bytes(matrix.sent(from))));
            for to in 0..sites {
                self.cell(svg, matrix, from, to);
            }
            self.sum(svg, (sites, from), matrix.sent(from));
            svg.end();
        }
        for to in 0..sites {
            self.sum(svg, (to, sites), matrix.received(to));
        }
        let edge = (self.left(sites) + self.cell * 0.7, y + TOP + 4.0);
        svg.text(edge, Anchor::Middle, "tick small", "sent");
        svg.text((x + NAMES - 8.0, self.top(sites) + self.tall / 2.0 + 8.0), Anchor::End, "tick", "received");
    }

    fn left(&self, column: usize) -> f64 {
        self.origin.0 + NAMES + column as f64 * self.cell
    }

    fn top(&self, row: usize) -> f64 {
        self.origin.1 + TOP + 10.0 + row as f64 * self.tall
    }

    fn cell(&self, svg: &mut Svg, matrix: &Matrix, from: usize, to: usize) {
        let raw = matrix.at(from, to);
        let value = raw / self.divisor;
        let area = Area {
            left: self.left(to) + 1.0,
            top: self.top(from) + 1.0,
            width: self.cell - 2.0,
            height: self.tall - 2.0,
        };
        let depth = if from == to { 0.0 } else { self.depth(raw) };
        if from == to {
            svg.rect(area, "own", 1.0);
        } else {
            svg.rect(area, "cell", 0.04 + 0.9 * depth);
        }
        let class = if depth > 0.5 { "small on" } else { "small" };
        let middle = (area.left + area.width / 2.0, area.top + area.height / 2.0 + 4.0);
        let text = if from == to { bytes(raw).replace(' ', "") } else { shown(value) };
        svg.text(middle, Anchor::Middle, if text.len() > 5 { "tiny" } else { class }, &text);
    }

    /// 0 for nothing, 1 for the most; three decades in between.
    fn depth(&self, value: f64) -> f64 {
        if value <= 0.0 || self.most <= 0.0 {
            0.0
        } else {
            (1.0 + (value / self.most).log10() / 3.0).clamp(0.02, 1.0)
        }
    }

    fn sum(&self, svg: &mut Svg, (column, row): (usize, usize), raw: f64) {
        let down = if row > column { 4.0 } else { 0.0 };
        let along = if column > row { self.cell * 0.2 } else { 0.0 };
        let at = (self.left(column) + self.cell / 2.0 + along, self.top(row) + self.tall / 2.0 + 4.0 + down);
        svg.text(at, Anchor::Middle, "tick small", &shown(raw / self.divisor));
    }
}

/// At most so many letters.
fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most.max(2) {
        return name.to_owned();
    }
    let tail: String = name
        .chars()
        .rev()
        .take(most.max(2).saturating_sub(1))
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    format!("…{tail}")
}
