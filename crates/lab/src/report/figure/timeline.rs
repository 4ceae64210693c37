//! Every operation of a phase over time, what failed, and what was done to the network meanwhile.
//!
//! Invariants: failures are never thinned away silently; a cut is a band from its first to its last moment, with its name.

use super::super::axis::Axis;
use super::super::quantity::{Unit, count, seconds};
use super::super::svg::{Anchor, Area, Svg, WIDTH};
use super::frame;

/// Dots drawn of operations that succeeded; more are thinned evenly and the caption says so.
const DOTS_MAX: usize = 500;
/// Marks of failures, thinned likewise.
const FAILURES_MAX: usize = 150;
/// Bins of the rate.
const BINS: usize = 60;

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When it began, seconds since the phase did.
    pub at: f64,
    /// How long it took, seconds.
    pub took: f64,
    /// Its colour.
    pub slot: usize,
    /// Why it failed; empty if it did not.
    pub failure: String,
}

/// A time during which something was different.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Its first moment.
    pub from: f64,
    /// Its last moment; none if it lasted to the end.
    pub to: Option<f64>,
    /// What was different.
    pub name: String,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Which phase.
    pub title: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// Its operations.
    pub marks: Vec<Mark>,
    /// Names of the colours.
    pub names: Vec<(usize, String)>,
    /// What was done to the network.
    pub bands: Vec<Band>,
}

/// Draws one phase: times above, a rail of failures, the rate of answers below.
pub fn draw(timeline: &Timeline) -> Svg {
    let mut svg = Svg::new(&timeline.title, 400.0);
    let times = Area { left: 62.0, top: 66.0, width: WIDTH - 82.0, height: 170.0 };
    let rail = Area { top: times.bottom() + 10.0, height: 16.0, ..times };
    let rates = Area { top: rail.bottom() + 16.0, height: 64.0, ..times };
    let last = timeline.marks.iter().map(|mark| mark.at).fold(timeline.seconds, f64::max);
    let x = Axis::exact(0.0, last, Unit::Seconds);
    frame::names(&mut svg, 14.0, &timeline.names);
    svg.text((WIDTH - 20.0, 14.0), Anchor::End, "note", "each dot one operation, at its start");
    bands(&mut svg, timeline, &x, times, rates.bottom());
    let y = Axis::fit(
        timeline.marks.iter().filter(|mark| mark.failure.is_empty()).map(|mark| mark.took),
        Unit::Seconds,
    );
    frame::value_axis(&mut svg, times, &y, true);
    dots(&mut svg, timeline, &x, (times, &y));
    failures(&mut svg, timeline, &x, rail);
    rate(&mut svg, timeline, &x, rates);
    svg
}

fn bands(svg: &mut Svg, timeline: &Timeline, x: &Axis, area: Area, bottom: f64) {
    let mut free = [f64::NEG_INFINITY; 2];
    for band in &timeline.bands {
        let left = frame::across(area, x, band.from);
        let right = band.to.map_or(area.right(), |to| frame::across(area, x, to));
        let until = band.to.map_or_else(|| "to the end".to_owned(), |to| format!("to {}", seconds(to)));
        svg.group("", &format!("{}: from {} {until}", band.name, seconds(band.from)));
        if right - left > 1.5 {
            svg.rect(
                Area { left, top: area.top, width: right - left, height: bottom - area.top },
                "cut",
                1.0,
            );
        }
        svg.line((left, area.top - 5.0), (left, bottom), "cutline");
        let row = usize::from(left < free[0]);
        let room = band.name.chars().count() as f64 * 6.6 + 12.0;
        let start = left.min(area.right() - room).max(area.left);
        svg.text((start + 3.0, area.top - 9.0 - 15.0 * row as f64), Anchor::Start, "head small", &band.name);
        if let Some(free) = free.get_mut(row) {
            *free = start + room;
        }
        svg.end();
    }
}

fn dots(svg: &mut Svg, timeline: &Timeline, x: &Axis, (area, y): (Area, &Axis)) {
    let done: Vec<&Mark> = timeline.marks.iter().filter(|mark| mark.failure.is_empty()).collect();
    let every = done.len().div_ceil(DOTS_MAX).max(1);
    for mark in done.iter().step_by(every) {
        svg.group(frame::series(mark.slot), "");
        svg.disc((frame::across(area, x, mark.at), frame::level(area, y, mark.took)), 2.3, "dot", "");
        svg.end();
    }
    if every > 1 {
        let note = format!("one of {every} drawn ({} operations)", count(done.len() as u64));
        svg.text((area.right(), area.bottom() - 6.0), Anchor::End, "note halo", &note);
    }
}

fn failures(svg: &mut Svg, timeline: &Timeline, x: &Axis, area: Area) {
    let failed: Vec<&Mark> = timeline.marks.iter().filter(|mark| !mark.failure.is_empty()).collect();
    svg.text((area.left - 8.0, area.top + 12.0), Anchor::End, "tick", "failed");
    svg.line((area.left, area.bottom()), (area.right(), area.bottom()), "grid");
    let every = failed.len().div_ceil(FAILURES_MAX).max(1);
    for mark in failed.iter().step_by(every) {
        let at = frame::across(area, x, mark.at);
        svg.group("", &format!("{} after {}: {}", seconds(mark.at), seconds(mark.took), mark.failure));
        svg.line((at - 3.0, area.top + 4.0), (at + 3.0, area.top + 12.0), "bad");
        svg.line((at - 3.0, area.top + 12.0), (at + 3.0, area.top + 4.0), "bad");
        svg.end();
    }
    let text = match (failed.len() as u64, every) {
        (0, _) => "none".to_owned(),
        (all, 1) => count(all),
        (all, _) => format!("{}, one of {every} drawn", count(all)),
    };
    svg.text((area.right(), area.top + 12.0), Anchor::End, "tick halo", &text);
}

/// Answers per second, and failures per second on top of them.
fn rate(svg: &mut Svg, timeline: &Timeline, x: &Axis, area: Area) {
    let end = timeline.marks.iter().map(|mark| mark.at + mark.took).fold(timeline.seconds, f64::max);
    let wide = (end / BINS as f64).max(1e-9);
    let mut bins = [(0_u64, 0_u64); BINS];
    for mark in &timeline.marks {
        let bin = ((mark.at + mark.took) / wide) as usize;
        if let Some((done, failed)) = bins.get_mut(bin.min(BINS - 1)) {
            *if mark.failure.is_empty() { done } else { failed } += 1;
        }
    }
    let highest = bins.iter().map(|(done, failed)| (done + failed) as f64 / wide).fold(0.0, f64::max);
    let y = Axis::exact(0.0, highest, Unit::PerSecond);
    frame::value_axis(svg, area, &y, true);
    for (number, (done, failed)) in bins.iter().enumerate() {
        let left = frame::across(area, x, number as f64 * wide);
        let width = (frame::across(area, x, (number + 1) as f64 * wide) - left - 1.0).max(0.5);
        let top = frame::level(area, &y, *done as f64 / wide);
        svg.group("s5", &format!("from {}: {done} answered, {failed} failed", seconds(number as f64 * wide)));
        svg.rect(Area { left, top, width, height: area.bottom() - top }, "fill", 0.55);
        let over = frame::level(area, &y, (done + failed) as f64 / wide);
        svg.rect(Area { left, top: over, width, height: top - over }, "badfill", 1.0);
        svg.end();
    }
    frame::lower_axis(svg, area, x, &[], "seconds since the phase began; below: operations ended per second");
}
