//! A picture of latencies: for each series the share of operations that were as fast, over time on a logarithmic axis.
//!
//! Why by hand: it is lines and words in one SVG; a library of charts is larger than the load generator.

use std::fmt::Write;

use crate::sample::Sample;
use crate::summary::percentile;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Points of a curve: more are not seen.
const POINTS: usize = 200;
/// Told apart also by those who do not see all colours (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

/// The picture of these samples, a series for each phase and operation. Failures and the warm-up are not in it.
pub fn svg<'a>(title: &str, samples: impl IntoIterator<Item = &'a Sample>) -> String {
    let series = series(samples);
    let all = || series.iter().flat_map(|(_, values)| [values.first(), values.last()]).flatten().copied();
    let low = decade(all().min().unwrap_or(1_000_000).max(1), false);
    let high = decade(all().max().unwrap_or(1_000_000_000).max(1), true).max(low + 1);
    let mut page = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
        escape(title)
    );
    axes(&mut page, low, high);
    for (place, (name, values)) in series.iter().enumerate() {
        let colour = COLOURS.get(place % COLOURS.len()).copied().unwrap_or("black");
        curve(&mut page, values, colour, (low, high));
        let (x, y) = (LEFT + 12.0, TOP + 16.0 + 16.0 * place as f64);
        let name = escape(&format!("{name} ({} operations)", values.len()));
        line(&mut page, format_args!("<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>"));
    }
    page.push_str("</svg>\n");
    page
}

/// Sorted latencies of each phase and operation, in the order in which they come.
fn series<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<(String, Vec<u64>)> {
    let mut series: Vec<(String, Vec<u64>)> = Vec::new();
    for sample in samples.into_iter().filter(|sample| !sample.warm_up && sample.failure.is_empty()) {
        let name = format!("{}: {}", sample.phase, sample.operation);
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(sample.total_ns),
            None => series.push((name, vec![sample.total_ns])),
        }
    }
    series.iter_mut().for_each(|(_, values)| values.sort_unstable());
    series
}

/// The power of ten of nanoseconds below or above a value.
fn decade(nanos: u64, above: bool) -> u32 {
    let below = nanos.ilog10();
    below + u32::from(above && nanos > 10_u64.pow(below))
}

fn across(nanos: f64, (low, high): (u32, u32)) -> f64 {
    let share = (nanos.max(1.0).log10() - f64::from(low)) / f64::from(high - low);
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

fn down(share: f64) -> f64 {
    TOP + (1.0 - share) * (HEIGHT - TOP - BOTTOM)
}

fn axes(page: &mut String, low: u32, high: u32) {
    for power in low..=high {
        let x = across(10_f64.powi(power as i32), (low, high));
        let (top, bottom) = (down(1.0), down(0.0));
        let name = [
            "1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s",
            "100 s",
        ];
        let name = name.get(power as usize).copied().unwrap_or("1000 s");
        line(page, format_args!("<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#ddd\"/>"));
        line(
            page,
            format_args!("<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", bottom + 18.0),
        );
    }
    for percent in [0, 25, 50, 75, 90, 99] {
        let y = down(f64::from(percent) / 100.0);
        line(page, format_args!("<path d=\"M{LEFT} {y:.1}H{}\" stroke=\"#ddd\"/>", WIDTH - RIGHT));
        let x = LEFT - 6.0;
        line(
            page,
            format_args!("<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>", y + 4.0),
        );
    }
    let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0);
    line(
        page,
        format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">latency; share of operations as fast</text>"
        ),
    );
}

fn curve(page: &mut String, values: &[u64], colour: &str, range: (u32, u32)) {
    let points = (0..=POINTS).map(|step| {
        let share = step as f64 / POINTS as f64;
        format!("{:.1},{:.1}", across(percentile(values, share) as f64, range), down(share))
    });
    let points = points.collect::<Vec<_>>().join(" ");
    line(
        page,
        format_args!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"),
    );
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{text}");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::target::Operation;

    fn sample(total_ns: u64, operation: Operation, failure: &str) -> Sample {
        Sample {
            phase: "a<b".into(),
            trial: 1,
            client: 0,
            worker: 0,
            warm_up: false,
            operation,
            bucket: "b".into(),
            key: "k".into(),
            bytes: 1,
            start_ns: 0,
            wait_ns: 0,
            connect_ns: 0,
            first_byte_ns: 0,
            total_ns,
            failure: failure.into(),
        }
    }

    #[test]
    fn each_series_has_its_curve_within_the_frame() {
        let samples: Vec<Sample> = (1..=1000)
            .flat_map(|n| [sample(n * 1_000_000, Operation::Get, ""), sample(n * 3_000, Operation::Put, "")])
            .chain([sample(1, Operation::Get, "timeout")])
            .collect();
        let page = svg("x & y", &samples);
        assert_eq!(page.matches("<polyline").count(), 2);
        assert!(page.contains("a&lt;b: get (1000 operations)") && page.contains("x &amp; y"));
        let points = page.split("points=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for pair in points.flat_map(|list| list.split(' ')) {
            let (x, y) = pair.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y), "{pair}");
        }
        // The median of the slower series is half a second.
        let median = across(500e6, (3, 9));
        assert!(page.contains(&format!("{median:.1},{:.1}", down(0.5))));
    }

    #[test]
    fn nothing_measured_is_an_empty_frame() {
        assert!(svg("nothing", &[]).ends_with("</svg>\n"));
    }
}
