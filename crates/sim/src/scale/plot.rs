//! One figure over the number of sites as SVG, both axes logarithmic. A small writer of its own: the one of the laboratory is in a room
//! above this one.

use std::fmt::Write;

/// One system in a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// (sites, value), in order of sites.
    pub points: Vec<(f64, f64)>,
    /// Computed or carried on by the law rather than measured: a dashed line.
    pub dashed: bool,
}

/// A line across the figure that is not to be exceeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Where.
    pub value: f64,
    /// What it is.
    pub name: &'static str,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 570.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 370.0;
/// Told apart in black and white by their order at the right edge, and by most who do not see all colours.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"];

struct Axis {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let low = if low == f64::MAX { 0 } else { low.log10().floor() as i32 };
        let high = if high == f64::MIN { 1 } else { high.log10().ceil() as i32 };
        Self { low, high: high.max(low + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-12).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = (f64, String)> {
        (self.low..=self.high).map(|power| (10f64.powi(power), decade(power)))
    }
}

fn decade(power: i32) -> String {
    match power {
        0..3 => 10i64.pow(power as u32).to_string(),
        3..6 => format!("{} k", 10i64.pow(power as u32 - 3)),
        6..9 => format!("{} M", 10i64.pow(power as u32 - 6)),
        9..12 => format!("{} G", 10i64.pow(power as u32 - 9)),
        _ => format!("1e{power}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The whole file.
pub fn draw(title: &str, unit: &str, series: &[Series], goal: Option<Goal>) -> String {
    let points = || series.iter().flat_map(|series| series.points.iter());
    let x = Axis::over(points().map(|(n, _)| *n), LEFT, RIGHT);
    let values = points().map(|(_, value)| *value).chain(goal.map(|goal| goal.value));
    let y = Axis::over(values, BOTTOM, TOP);
    let mut body = String::new();
    grid(&mut body, &x, &y);
    if let Some(goal) = goal {
        let (at, name) = (y.at(goal.value), escape(goal.name));
        let _ = writeln!(
            body,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"goal\"/>\n<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            LEFT + 4.0,
            at - 4.0
        );
    }
    let ends = ends(series, &y);
    for (index, (series, end)) in series.iter().zip(ends).enumerate() {
        curve(&mut body, series, COLOURS[index % COLOURS.len()], (&x, &y, end));
    }
    let (title, unit) = (escape(title), escape(unit));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>text{{font:12px sans-serif;fill:#333}}.grid{{stroke:#ddd}}.goal{{stroke:#c00;stroke-dasharray:2 4}}polyline{{fill:none;stroke-width:2}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"20\" style=\"font-weight:bold\">{title}, {unit}</text>\n\
         <text x=\"{RIGHT}\" y=\"405\" text-anchor=\"end\">sites</text>\n{body}</svg>\n"
    )
}

fn grid(body: &mut String, x: &Axis, y: &Axis) {
    for (value, name) in x.decades() {
        let at = x.at(value);
        let _ = writeln!(
            body,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\" class=\"grid\"/>\
             <text x=\"{at:.1}\" y=\"388\" text-anchor=\"middle\">{name}</text>"
        );
    }
    for (value, name) in y.decades() {
        let at = y.at(value);
        let _ = writeln!(
            body,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"grid\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
}

/// Where the names stand at the right edge: at the ends of their lines, but apart.
fn ends(series: &[Series], y: &Axis) -> Vec<f64> {
    let mut wanted: Vec<(f64, usize)> = series
        .iter()
        .enumerate()
        .map(|(index, series)| (series.points.last().map_or(BOTTOM, |(_, value)| y.at(*value)), index))
        .collect();
    wanted.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut ends, mut next) = (vec![0.0; series.len()], TOP);
    for (at, index) in wanted {
        ends[index] = at.max(next);
        next = ends[index] + 15.0;
    }
    ends
}

fn curve(body: &mut String, series: &Series, colour: &str, (x, y, end): (&Axis, &Axis, f64)) {
    let places: Vec<(f64, f64)> = series.points.iter().map(|(n, value)| (x.at(*n), y.at(*value))).collect();
    let dash = if series.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    let _ = write!(body, "<polyline stroke=\"{colour}\"{dash} points=\"");
    places.iter().for_each(|(x, y)| {
        let _ = write!(body, "{x:.1},{y:.1} ");
    });
    body.push_str("\"/>\n");
    for ((x, y), (n, value)) in places.iter().zip(&series.points) {
        let _ = writeln!(
            body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {n} sites, {}</title></circle>",
            escape(&series.name),
            super::fit::short(*value)
        );
    }
    let _ = writeln!(
        body,
        "<text x=\"{:.1}\" y=\"{:.1}\" style=\"fill:{colour}\">{}</text>",
        RIGHT + 8.0,
        end + 4.0,
        escape(&series.name)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stand_where_they_belong_and_text_stays_text() {
        let line = |name: &str, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            points: points.to_vec(),
            dashed: false,
        };
        let series =
            [line("a<b", &[(10.0, 1.0), (1000.0, 100.0)]), line("c", &[(10.0, 1.0), (1000.0, 100.0)])];
        let goal = Goal { value: 10.0, name: "1 kB/s & no more" };
        let text = draw("t\"", "B/s", &series, Some(goal));
        // The corners, and the goal in the middle of two decades.
        assert!(text.contains("points=\"70.0,370.0 570.0,40.0 \""), "{text}");
        assert!(text.contains("y1=\"205.0\" y2=\"205.0\" class=\"goal\""), "{text}");
        assert!(text.contains("a&lt;b") && text.contains("1 kB/s &amp; no more") && !text.contains("a<b"));
        // Two names at one place are moved apart.
        assert!(text.contains("y=\"44.0\"") && text.contains("y=\"59.0\""), "{text}");
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let text = draw("t", "u", &[Series { name: "a".into(), points: vec![], dashed: true }], None);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n") && !text.contains("NaN"), "{text}");
    }
}
