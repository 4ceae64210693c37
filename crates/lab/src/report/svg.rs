//! SVG written element by element.
//!
//! Why not a plotting library: `plotters` writes fixed colours into each element; here every colour is a CSS variable, so that one
//! figure serves light and dark, and every mark can carry a `<title>` that a pointer shows.
//! Invariants: text and attributes are escaped; every group that is opened is closed by [`Svg::finish`]; numbers are as short as a
//! tenth of a unit allows and lines have no point that nobody could see, because reports are kept.

use std::fmt::Write;

/// Width of all figures, in user units; they scale with the page.
pub const WIDTH: f64 = 920.0;

/// How far a line may be drawn from a point that it should pass, in user units: less than anybody sees.
const UNSEEN: f64 = 0.25;

/// The colours and classes of all figures.
const STYLE: &str = include_str!("figure.css");

/// A drawing in progress.
#[derive(Debug, Clone)]
pub struct Svg {
    body: String,
    height: f64,
    groups: usize,
    title: String,
}

/// The colours and classes of all figures in one line, for pages and for files of one figure.
pub fn sheet() -> String {
    STYLE.lines().collect()
}

/// Where a text is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// At its first letter.
    Start,
    /// In its middle.
    Middle,
    /// At its last letter.
    End,
}

/// A rectangle in user units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Text that is safe between tags and in quoted attributes; control characters that XML forbids become a replacement sign.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(letter),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {
                safe.push('\u{fffd}')
            }
            plain => safe.push(plain),
        }
    }
    safe
}

/// A coordinate, to a tenth.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// The points without those that lie on the way between others, first and last kept (Douglas and Peucker).
fn seen(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = vec![false; points.len()];
    let mut spans = vec![(0, points.len().saturating_sub(1))];
    while let Some((first, last)) = spans.pop() {
        for end in [first, last] {
            if let Some(kept) = kept.get_mut(end) {
                *kept = true;
            }
        }
        let (Some(from), Some(to)) = (points.get(first), points.get(last)) else { continue };
        let between = points.iter().enumerate().take(last).skip(first + 1);
        let away = between.map(|(index, point)| (distance(*point, *from, *to), index));
        if let Some((farthest, index)) = away.max_by(|a, b| a.0.total_cmp(&b.0))
            && farthest > UNSEEN
        {
            spans.extend([(first, index), (index, last)]);
        }
    }
    points.iter().zip(kept).filter(|(_, kept)| *kept).map(|(point, _)| *point).collect()
}

/// From a point to the straight line between two others.
fn distance((x, y): (f64, f64), (ax, ay): (f64, f64), (bx, by): (f64, f64)) -> f64 {
    let (dx, dy) = (bx - ax, by - ay);
    let square = dx * dx + dy * dy;
    let along = if square > 0.0 { (((x - ax) * dx + (y - ay) * dy) / square).clamp(0.0, 1.0) } else { 0.0 };
    (x - ax - along * dx).hypot(y - ay - along * dy)
}

impl Svg {
    /// An empty drawing; `title` is what screen readers say.
    pub fn new(title: &str, height: f64) -> Self {
        Self { body: String::new(), height, groups: 0, title: escape(title) }
    }

    /// Begins a group of classes; a `title` is shown when a pointer rests on it.
    pub fn group(&mut self, class: &str, title: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", escape(class)) };
        let _ = write!(self.body, "<g{class}>");
        self.title(title);
        self.groups += 1;
    }

    /// Ends the innermost group.
    pub fn end(&mut self) {
        if self.groups > 0 {
            self.groups -= 1;
            self.body.push_str("</g>\n");
        }
    }

    fn title(&mut self, title: &str) {
        if !title.is_empty() {
            let _ = write!(self.body, "<title>{}</title>", escape(title));
        }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
        let _ =
            write!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
    }

    /// A rectangle with an opacity of its fill.
    pub fn rect(&mut self, area: Area, class: &str, opacity: f64) {
        let [x, y, width, height] =
            [area.left, area.top, area.width.max(0.0), area.height.max(0.0)].map(short);
        let _ = write!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"{class}\""
        );
        if opacity < 1.0 {
            let _ = write!(self.body, " fill-opacity=\"{opacity:.2}\"");
        }
        self.body.push_str("/>");
    }

    /// A disc; its title is shown when a pointer rests on it.
    pub fn disc(&mut self, at: (f64, f64), radius: f64, class: &str, title: &str) {
        let [x, y, radius] = [at.0, at.1, radius].map(short);
        let _ = write!(self.body, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"{class}\"");
        if title.is_empty() {
            self.body.push_str("/>");
        } else {
            self.body.push('>');
            self.title(title);
            self.body.push_str("</circle>");
        }
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (short(at.0), short(at.1), escape(text));
        let _ = write!(self.body, "<text x=\"{x}\" y=\"{y}\"{anchor} class=\"{class}\">{text}</text>");
    }

    /// A line through points; nothing for fewer than two.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        self.points("polyline", points, class);
    }

    /// A filled outline; nothing for fewer than three.
    pub fn shape(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() >= 3 {
            self.points("polygon", points, class);
        }
    }

    fn points(&mut self, element: &str, points: &[(f64, f64)], class: &str) {
        if points.len() < 2 {
            return;
        }
        let _ = write!(self.body, "<{element} class=\"{class}\" points=\"");
        for (number, (x, y)) in seen(points).into_iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            let _ = write!(self.body, "{space}{},{}", short(x), short(y));
        }
        self.body.push_str("\"/>");
    }

    /// The element, for a page that brings [`sheet`].
    pub fn finish(self) -> String {
        self.wrap("")
    }

    /// The element with its own style: a file of its own.
    pub fn file(self) -> String {
        self.wrap(&format!("<style>{}</style>", sheet()))
    }

    fn wrap(mut self, style: &str) -> String {
        while self.groups > 0 {
            self.end();
        }
        let (title, height) = (&self.title, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             role=\"img\" aria-label=\"{title}\">{style}\n{}</svg>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let mut svg = Svg::new("a\"><script>alert(1)</script>", 10.0);
        svg.group("s0", "</title><script>");
        svg.text((0.0, 0.0), Anchor::End, "label", "<b>&\u{0}'\"");
        let text = svg.finish();
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains('\u{0}'), "{text}");
        assert!(text.contains("&lt;b&gt;&amp;\u{fffd}&#39;&quot;"), "{text}");
    }

    #[test]
    fn open_groups_are_closed() {
        let mut svg = Svg::new("t", 10.0);
        svg.group("a", "");
        svg.group("b", "");
        svg.end();
        let text = svg.file();
        assert_eq!(text.matches("<g").count(), text.matches("</g>").count());
    }

    #[test]
    fn points_on_the_way_between_others_are_left_out_and_corners_stay() {
        let straight: Vec<(f64, f64)> = (0..100).map(|x| (f64::from(x), f64::from(x) * 2.0)).collect();
        assert_eq!(seen(&straight), [(0.0, 0.0), (99.0, 198.0)]);
        let step = [(0.0, 0.0), (5.0, 0.1), (10.0, 0.0), (10.0, 50.0), (20.0, 50.0)];
        assert_eq!(seen(&step), [(0.0, 0.0), (10.0, 0.0), (10.0, 50.0), (20.0, 50.0)]);
        let closed = [(0.0, 0.0), (9.0, 9.0), (0.0, 0.0)];
        assert_eq!(seen(&closed), closed, "a line that returns to its begin");
        assert_eq!([12.0, 12.04, -0.01, 12.35].map(short), ["12", "12", "0", "12.3"]);
    }
}
