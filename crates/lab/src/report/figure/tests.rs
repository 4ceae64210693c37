//! Figures are well-formed whatever they are given: nothing, one value, zeros, hostile names.

use super::super::quantity::Unit;
use super::super::svg::{Area, Svg};
use super::super::tests::well_formed;
use super::{boxes, curve, dots, frame, map, matrix, timeline};

const HOSTILE: &str = "a&b<script>\"'\u{1}";

fn checked(svg: Svg) -> String {
    let text = svg.file();
    well_formed(&text);
    assert!(!text.contains("NaN") && !text.contains("inf"), "a coordinate is no number: {text}");
    assert!(!text.contains("<script"), "{text}");
    text
}

#[test]
fn boxes_of_many_few_and_none() {
    let series = |slot, samples| boxes::Series { name: HOSTILE.into(), slot, samples };
    let many: Vec<f64> = (1..200).map(|value| f64::from(value) / 100.0).collect();
    let panel = boxes::Panel {
        title: HOSTILE.into(),
        categories: vec!["1".into(), HOSTILE.into()],
        series: vec![series(0, vec![many, vec![]]), series(1, vec![vec![0.5, 0.6], vec![0.0]])],
    };
    let text = checked(boxes::draw("boxes", &[panel.clone(), panel], Unit::Seconds, "sites"));
    assert_eq!(text.matches("class=\"box\"").count(), 2, "one box per panel: two samples are no box");
    checked(boxes::draw("none", &[], Unit::Seconds, ""));
}

#[test]
fn curves_of_one_point_and_of_none() {
    let axes = curve::Axes {
        x: Unit::Plain,
        below: HOSTILE.into(),
        marks: vec![(1.0, HOSTILE.into())],
        counts: false,
        y: Unit::Seconds,
        range: None,
    };
    let line = curve::Line {
        name: HOSTILE.into(),
        points: vec![(1.0, 0.0)],
        band: vec![(0.0, 0.0)],
        marked: true,
        ..Default::default()
    };
    let panel = curve::Panel { title: HOSTILE.into(), lines: vec![line, curve::Line::default()] };
    checked(curve::draw("one", &[panel], &axes));
}

#[test]
fn names_at_the_ends_do_not_cover_each_other() {
    let area = Area { left: 0.0, top: 0.0, width: 10.0, height: 100.0 };
    let placed = frame::apart(&[99.0, 98.0, 97.0, 10.0], 14.0, area);
    let mut order = placed.clone();
    order.sort_by(f64::total_cmp);
    assert!(order.windows(2).all(|pair| pair[1] - pair[0] >= 13.9), "{placed:?}");
    assert!(order.iter().all(|y| *y <= 100.0), "{placed:?}");
    assert!(placed[2] < placed[1] && placed[1] < placed[0], "their order stays: {placed:?}");
}

#[test]
fn matrices_show_sums_without_what_stays() {
    let matrix = matrix::Matrix {
        title: HOSTILE.into(),
        names: vec![HOSTILE.into(), "site-2".into()],
        bytes: vec![vec![9e9, 2e6], vec![4e6, 1e9]],
    };
    assert_eq!((matrix.between(), matrix.sent(0), matrix.received(0)), (6e6, 2e6, 4e6));
    let text = checked(matrix::draw("traffic", &[matrix]));
    assert!(text.contains("site-2 sends 4 MB") && text.contains(">4</text>"), "{text}");
    checked(matrix::draw("none", &[]));
}

#[test]
fn a_map_of_one_site_and_of_many() {
    let names = |count: usize| (0..count).map(|number| format!("{HOSTILE}{number}")).collect::<Vec<_>>();
    let all = |count: usize| {
        (0..count)
            .map(|a| (0..count).map(|b| if a == b { 0.0 } else { 100.0 }).collect())
            .collect::<Vec<Vec<f64>>>()
    };
    checked(map::draw("one", &names(1), &all(1)).0);
    let (svg, stress) = map::draw("many", &names(11), &all(11));
    assert!(checked(svg).contains("every pair 100 ms") && stress > 0.1);
}

#[test]
fn a_cut_is_a_band_and_failures_are_marks() {
    let mark = |at: f64, failure: &str| timeline::Mark { at, took: 0.1, slot: 0, failure: failure.into() };
    let band = |from, to| timeline::Band { from, to, name: "cut site-2".into() };
    let drawn = timeline::Timeline {
        title: HOSTILE.into(),
        seconds: 10.0,
        marks: vec![mark(1.0, ""), mark(4.0, HOSTILE), mark(5.0, "timeout")],
        names: vec![(0, HOSTILE.into())],
        bands: vec![band(3.0, Some(6.0)), band(8.0, None)],
    };
    let text = checked(timeline::draw(&drawn));
    assert_eq!(text.matches("class=\"cut\"").count(), 2);
    assert_eq!(text.matches("class=\"bad\"").count(), 4, "two strokes per failure");
    assert!(text.contains("from 3 s to 6 s") && text.contains("from 8 s to the end"), "{text}");
    checked(timeline::draw(&timeline::Timeline::default()));
}

#[test]
fn rows_of_dots() {
    let row = |value: f64| dots::Row {
        name: HOSTILE.into(),
        dots: vec![(0, "write".into(), value), (1, HOSTILE.into(), 0.0)],
    };
    checked(dots::draw("dots", &[row(0.0), row(5e6)], Unit::Bytes, "bytes"));
    checked(dots::draw("none", &[], Unit::Bytes, "bytes"));
}
