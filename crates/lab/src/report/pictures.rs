//! Which figures a result deserves, and their captions.
//!
//! Invariants: each figure says in its caption what a mark is; what is left out for room is said there too.

use super::axis::DECADE_SPAN;
use super::document::Figure;
use super::figure::{boxes, curve, dots, map, matrix, timeline};
use super::plane;
use super::quantity::{Unit, digits, factor, leading_number};
use super::readings::{Book, Group, PhaseReading, Reading, parameter};
use super::spread::{Spread, quantile, sorted};

/// Panels of one figure; the table has the rest.
const PANELS_MAX: usize = 12;
/// Panels of figures that need the operations one by one.
const DETAIL_PANELS_MAX: usize = 6;
/// Rows of the figure of bytes.
const ROWS_MAX: usize = 40;
/// Operations of a run from which on their order is worth a curve.
const ORDERED_MIN: usize = 20;
/// Points of a drawn distribution.
const POINTS: usize = 160;
/// Single runs drawn behind an ordered curve.
const RUNS_MAX: usize = 12;
/// Timelines of one report.
const TIMELINES_MAX: usize = 6;
/// Sites of the largest matrix whose numbers can be read.
const MATRIX_MAX: usize = 24;

/// All figures but timelines and further matrices, in the order of the report.
pub fn all(book: &Book<'_>) -> Vec<Figure> {
    let figures = [
        over_axis(book),
        boxed(book),
        ordered(book),
        distributions(book),
        crossing(book),
        matrices(book),
        sites(book),
    ];
    figures.into_iter().flatten().collect()
}

fn shown<T>(things: &mut Vec<T>, most: usize, what: &str) -> String {
    let all = things.len();
    things.truncate(most);
    if all > most { format!(" {most} of {all} {what} are drawn; the table has all.") } else { String::new() }
}

/// Names of the axis' values and where they lie: at their number, or one after the other if they are no numbers.
fn places(book: &Book<'_>) -> (Vec<(f64, String)>, Unit) {
    let Some(axis) = &book.axis else { return (Vec::new(), Unit::Plain) };
    let mut labels: Vec<String> = Vec::new();
    let points = book.readings.iter().filter(|reading| !book.is_sum(reading.cell));
    for label in points.filter_map(|reading| reading.cell.labels.get(axis)) {
        if !labels.contains(label) {
            labels.push(label.clone());
        }
    }
    let plain = labels.iter().all(|label| label.parse::<f64>().is_ok());
    let sized = axis == "size" && labels.iter().all(|label| leading_number(label).is_some());
    let place = |(number, label): (usize, String)| {
        let value = if plain || sized { leading_number(&label) } else { None };
        (value.unwrap_or(number as f64 + 1.0), label)
    };
    let mut places: Vec<(f64, String)> = labels.into_iter().enumerate().map(place).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    (places, if sized { Unit::Bytes } else { Unit::Plain })
}

/// Medians over the swept parameter.
fn over_axis(book: &Book<'_>) -> Option<Figure> {
    let (marks, x) = places(book);
    if marks.len() < 2 {
        return None;
    }
    let name = book.axis.as_deref().unwrap_or("");
    let mut groups: Vec<Group<'_, '_>> =
        book.groups().into_iter().filter(|group| group.readings.len() > 1).collect();
    let note = shown(&mut groups, PANELS_MAX, "panels");
    let panel = |group: &Group<'_, '_>| curve::Panel {
        title: group.title.clone(),
        lines: book
            .phases
            .iter()
            .enumerate()
            .filter_map(|(slot, phase)| line(group, (slot, phase), name, &marks))
            .collect(),
    };
    let panels: Vec<curve::Panel> =
        groups.iter().map(panel).filter(|panel| !panel.lines.is_empty()).collect();
    if panels.is_empty() {
        return None;
    }
    let below = parameter(name);
    let axes = curve::Axes {
        x,
        below: below.clone(),
        marks,
        counts: x != Unit::Bytes,
        y: Unit::Seconds,
        range: None,
    };
    let caption = format!(
        "Time per operation over {below}: median, with the middle half of all operations as a band.{note}"
    );
    Some(Figure {
        name: "over-parameter".into(),
        caption,
        svg: curve::draw("medians over the parameter", &panels, &axes),
    })
}

fn line(
    group: &Group<'_, '_>,
    (slot, phase): (usize, &str),
    axis: &str,
    marks: &[(f64, String)],
) -> Option<curve::Line> {
    let mut line = curve::Line { name: phase.to_owned(), slot, marked: true, ..curve::Line::default() };
    for reading in &group.readings {
        let (Some(found), Some(label)) = (reading.phase(phase), reading.cell.labels.get(axis)) else {
            continue;
        };
        let Some((x, _)) = marks.iter().find(|(_, known)| known == label) else { continue };
        match Spread::of(&found.times()) {
            Some(spread) => {
                line.points.push((*x, spread.median));
                line.band.push((spread.p25, spread.p75));
            }
            None if found.phase.summary.count > 0 => {
                line.points.push((*x, found.phase.summary.p50));
                line.band.push((found.phase.summary.p50, found.phase.summary.p50));
            }
            None => {}
        }
    }
    (!line.points.is_empty()).then_some(line)
}

/// Boxes per phase.
fn boxed(book: &Book<'_>) -> Option<Figure> {
    let axis = book.axis.as_deref().unwrap_or("");
    let (marks, _) = places(book);
    let mut groups = book.groups();
    let note = shown(&mut groups, PANELS_MAX, "panels");
    let panel = |group: &Group<'_, '_>| {
        let label = |reading: &&Reading<'_>| reading.cell.labels.get(axis).cloned().unwrap_or_default();
        let series = |(slot, phase): (usize, &String)| boxes::Series {
            name: phase.clone(),
            slot,
            samples: group
                .readings
                .iter()
                .map(|reading| reading.phase(phase).map_or_else(Vec::new, PhaseReading::times))
                .collect(),
        };
        boxes::Panel {
            title: group.title.clone(),
            categories: group.readings.iter().map(label).collect(),
            series: book.phases.iter().enumerate().map(series).collect(),
        }
    };
    let panels: Vec<boxes::Panel> = groups.iter().map(panel).collect();
    if !panels
        .iter()
        .flat_map(|panel| &panel.series)
        .any(|series| series.samples.iter().any(|samples| !samples.is_empty()))
    {
        return None;
    }
    let below = if marks.len() > 1 { parameter(axis) } else { String::new() };
    let caption = format!(
        "Time per operation. Box: middle half and median; whiskers: 5 % and 95 %; dots: the farthest beyond. \
         Fewer than 8 operations are drawn one by one.{note}"
    );
    let svg = boxes::draw("times per operation as boxes", &panels, Unit::Seconds, &below);
    Some(Figure { name: "boxes".into(), caption, svg })
}

/// Cells with enough operations for curves of them, those with most first, then in the order of the book.
fn detailed<'b, 'a>(book: &'b Book<'a>, enough: usize) -> (Vec<&'b Reading<'a>>, String) {
    let longest = |reading: &Reading<'_>| {
        reading.phases.iter().flat_map(|phase| phase.by_run()).map(|run| run.len()).max().unwrap_or(0)
    };
    let mut fit: Vec<(usize, usize, &Reading<'a>)> = Vec::new();
    for (number, reading) in book.readings.iter().enumerate() {
        let length = longest(reading);
        if length >= enough {
            fit.push((length, number, reading));
        }
    }
    fit.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.cmp(&a.1)));
    let note = shown(&mut fit, DETAIL_PANELS_MAX, "cells");
    fit.sort_by_key(|(_, number, _)| *number);
    (fit.into_iter().map(|(_, _, reading)| reading).collect(), note)
}

/// Times of single operations in their order: plateaus, if there are any, are seen here.
fn ordered(book: &Book<'_>) -> Option<Figure> {
    let (cells, note) = detailed(book, ORDERED_MIN);
    let panel = |reading: &&Reading<'_>| curve::Panel {
        title: book.title(reading.cell, true),
        lines: reading.phases.iter().filter_map(ordered_line).collect(),
    };
    let panels: Vec<curve::Panel> = cells.iter().map(panel).filter(|panel| !panel.lines.is_empty()).collect();
    if panels.is_empty() {
        return None;
    }
    let axes = curve::Axes {
        x: Unit::Plain,
        below: "operation of a client, fastest first".into(),
        marks: Vec::new(),
        counts: true,
        y: Unit::Seconds,
        range: None,
    };
    let caption = format!(
        "Times of each client's operations in ascending order: the median over clients and trials as a thick line, single clients thin \
         (at most {RUNS_MAX}). The factor is last over first; steps show that some objects take another path than others.{note}"
    );
    Some(Figure { name: "ordered".into(), caption, svg: curve::draw("ordered times", &panels, &axes) })
}

fn ordered_line(phase: &PhaseReading<'_>) -> Option<curve::Line> {
    let runs: Vec<Vec<f64>> =
        phase.by_run().iter().map(|run| sorted(run)).filter(|run| run.len() >= ORDERED_MIN).collect();
    let longest = runs.iter().map(Vec::len).max()?;
    let at_rank = |rank: usize| {
        let here: Vec<f64> = runs.iter().filter_map(|run| run.get(rank)).copied().collect();
        Some((rank as f64 + 1.0, quantile(&sorted(&here), 0.5)?))
    };
    let points: Vec<(f64, f64)> = evenly(longest).into_iter().filter_map(at_rank).collect();
    let (first, last) = (points.first()?.1, points.last()?.1);
    let name = format!("{} {}", phase.phase.name, factor(last / first.max(1e-9)));
    let thin = |run: &Vec<f64>| {
        evenly(run.len()).into_iter().filter_map(|rank| Some((rank as f64 + 1.0, *run.get(rank)?))).collect()
    };
    let drawn = if runs.len() > 1 { runs.iter().take(RUNS_MAX).map(thin).collect() } else { Vec::new() };
    Some(curve::Line { name, slot: phase.slot, points, runs: drawn, ..curve::Line::default() })
}

/// At most so many ranks, the first and the last among them.
fn evenly(count: usize) -> Vec<usize> {
    if count <= POINTS {
        return (0..count).collect();
    }
    (0..POINTS).map(|point| point * (count - 1) / (POINTS - 1)).collect()
}

/// Cumulative distributions.
fn distributions(book: &Book<'_>) -> Option<Figure> {
    let (cells, note) = detailed(book, ORDERED_MIN);
    let line = |phase: &PhaseReading<'_>| {
        let times = sorted(&phase.times());
        let place = |rank: usize| Some((*times.get(rank)?, (rank as f64 + 1.0) / times.len() as f64));
        let points = evenly(times.len()).into_iter().filter_map(place).collect::<Vec<_>>();
        (points.len() > 1).then(|| curve::Line {
            name: phase.phase.name.clone(),
            slot: phase.slot,
            points,
            ..curve::Line::default()
        })
    };
    let panel = |reading: &&Reading<'_>| curve::Panel {
        title: book.title(reading.cell, true),
        lines: reading.phases.iter().filter_map(line).collect(),
    };
    let panels: Vec<curve::Panel> = cells.iter().map(panel).filter(|panel| !panel.lines.is_empty()).collect();
    if panels.is_empty() {
        return None;
    }
    let axes = curve::Axes {
        x: Unit::Seconds,
        below: "time per operation".into(),
        marks: Vec::new(),
        counts: false,
        y: Unit::Share,
        range: Some((0.0, 1.0)),
    };
    let caption = format!(
        "Share of the operations that took at most so long. The axis is logarithmic if times span more than ×{DECADE_SPAN}.{note}"
    );
    Some(Figure {
        name: "distribution".into(),
        caption,
        svg: curve::draw("cumulative distributions", &panels, &axes),
    })
}

/// Bytes between sites of one trial.
fn per_trial(phase: &PhaseReading<'_>) -> f64 {
    phase.phase.traffic.between_sites() as f64 / phase.phase.trials.len().max(1) as f64
}

/// Bytes between sites, cell by cell.
fn crossing(book: &Book<'_>) -> Option<Figure> {
    let row = |reading: &Reading<'_>| {
        let dot = |phase: &PhaseReading<'_>| (phase.slot, phase.phase.name.clone(), per_trial(phase));
        let dots =
            reading.phases.iter().filter(|phase| phase.phase.traffic.bytes.len() > 1).map(dot).collect();
        dots::Row { name: book.title(reading.cell, true), dots }
    };
    let mut rows: Vec<dots::Row> = book.readings.iter().map(row).filter(|row| !row.dots.is_empty()).collect();
    if rows.len() < 2 {
        return None;
    }
    let note = shown(&mut rows, ROWS_MAX, "cells");
    let caption = format!(
        "Bytes between different sites during each phase, per trial; IP headers and the federation's upkeep are part of them.{note}"
    );
    let svg = dots::draw("bytes between sites", &rows, Unit::Bytes, "bytes between sites");
    Some(Figure { name: "between-sites".into(), caption, svg })
}

/// The matrices of one cell.
pub fn matrices_of(reading: &Reading<'_>) -> Vec<matrix::Matrix> {
    let one = |phase: &PhaseReading<'_>| matrix::Matrix {
        title: phase.phase.name.clone(),
        names: reading.cell.sites.clone(),
        bytes: phase
            .phase
            .traffic
            .bytes
            .iter()
            .map(|row| row.iter().map(|bytes| *bytes as f64).collect())
            .collect(),
    };
    let many = |phase: &&PhaseReading<'_>| (2..=MATRIX_MAX).contains(&phase.phase.traffic.bytes.len());
    reading.phases.iter().filter(many).map(one).collect()
}

/// The matrices of the cell that shows most.
fn matrices(book: &Book<'_>) -> Option<Figure> {
    let reading = book.largest()?;
    let matrices = matrices_of(reading);
    if matrices.is_empty() {
        return None;
    }
    let title = book.title(reading.cell, true);
    let of = if title.is_empty() { String::new() } else { format!(" of the cell {title}") };
    let trials = reading.phases.first().map_or(1, |phase| phase.phase.trials.len());
    let together = if trials > 1 { format!(", {trials} trials together") } else { String::new() };
    let caption = format!(
        "Traffic from site (row) to site (column){of}{together}. Colour follows the logarithm over three decades; what stays within a site, \
         its clients included, is grey with a unit of its own; the sums leave it out."
    );
    Some(Figure {
        name: "traffic".into(),
        caption,
        svg: matrix::draw("traffic from site to site", &matrices),
    })
}

/// The map of the cell that shows most.
fn sites(book: &Book<'_>) -> Option<Figure> {
    let cell = book.largest()?.cell;
    if cell.sites.len() < 2 || cell.rtt_ms.len() != cell.sites.len() {
        return None;
    }
    let (svg, stress) = map::draw("map of the sites", &cell.sites, &cell.rtt_ms);
    let off = digits(stress * 100.0);
    let mut caption = format!(
        "The sites, as far apart as their round-trip times allow in a plane: drawn distances are off by {off} % (root of the mean square)."
    );
    if cell.sites.len() > 5 && !plane::all_equal(&cell.rtt_ms) {
        caption.push_str(" Only the pairs are labelled that join all sites at the least sum.");
    }
    Some(Figure { name: "map".into(), caption, svg })
}

/// One timeline per phase in which something was done to the network or something failed.
pub fn timelines(book: &Book<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for reading in &book.readings {
        for phase in &reading.phases {
            let some = phase.phase.failures > 0 && phase.phase.summary.count > 0;
            let eventful = !phase.phase.events.is_empty() || some;
            if eventful && !phase.operations.is_empty() && figures.len() < TIMELINES_MAX {
                figures.push(one_timeline(book, reading, phase, figures.len()));
            }
        }
    }
    figures
}

fn one_timeline(book: &Book<'_>, reading: &Reading<'_>, phase: &PhaseReading<'_>, number: usize) -> Figure {
    let mark = |operation: &super::readings::Operation| timeline::Mark {
        at: operation.at,
        took: operation.took,
        slot: phase.slot,
        failure: operation.failure.clone(),
    };
    let what = [phase.phase.name.clone(), book.title(reading.cell, true)].join(" ");
    let timeline = timeline::Timeline {
        title: format!("timeline of {what}"),
        seconds: phase.phase.seconds,
        marks: phase.operations.iter().map(mark).collect(),
        names: vec![(phase.slot, what.trim().to_owned())],
        bands: bands(phase),
    };
    let trials = if phase.phase.trials.len() > 1 { " All trials are laid over each other." } else { "" };
    let caption = format!(
        "{}: {} operations, {} failed. Bands: what was done to the network.{trials}",
        what.trim(),
        phase.phase.operations,
        phase.phase.failures
    );
    Figure { name: format!("timeline-{}", number + 1), caption, svg: timeline::draw(&timeline) }
}

/// Pairs what began with what ended it.
fn bands(phase: &PhaseReading<'_>) -> Vec<timeline::Band> {
    let mut bands: Vec<timeline::Band> = Vec::new();
    for event in &phase.phase.events {
        let (verb, rest) = event.what.split_once(' ').unwrap_or((event.what.as_str(), ""));
        let at = event.at_seconds;
        if matches!(verb, "heal" | "start" | "restore") {
            let open = bands.iter_mut().find(|band| {
                band.to.is_none() && band.name.split_once(' ').is_some_and(|(_, of)| of == rest)
            });
            if let Some(band) = open {
                band.to = Some(at);
                continue;
            }
        }
        let lasts = matches!(verb, "cut" | "kill" | "stop" | "link" | "slow");
        bands.push(timeline::Band { from: at, to: (!lasts).then_some(at), name: event.what.clone() });
    }
    bands
}
