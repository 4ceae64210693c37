//! SVG written element by element.
//!
//! Why not a plotting library: `plotters` writes fixed colours into each element; here every colour is a CSS variable, so that one
//! figure serves light and dark, and every mark can carry a `<title>` that a pointer shows.
//! Invariants: text and attributes are escaped; every group that is opened is closed by [`Svg::finish`].

use std::fmt::Write;

/// Width of all figures, in user units; they scale with the page.
pub const WIDTH: f64 = 920.0;

/// The colours and classes of all figures, for pages and for files of one figure.
pub const STYLE: &str = include_str!("figure.css");

/// A drawing in progress.
#[derive(Debug, Clone)]
pub struct Svg {
    body: String,
    height: f64,
    groups: usize,
    title: String,
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

impl Svg {
    /// An empty drawing; `title` is what screen readers say.
    pub fn new(title: &str, height: f64) -> Self {
        Self { body: String::new(), height, groups: 0, title: escape(title) }
    }

    /// Begins a group of classes; a `title` is shown when a pointer rests on it.
    pub fn group(&mut self, class: &str, title: &str) {
        let _ = write!(self.body, "<g class=\"{}\">", escape(class));
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
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A rectangle with an opacity of its fill.
    pub fn rect(&mut self, area: Area, class: &str, opacity: f64) {
        let _ = write!(
            self.body,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"{class}\"",
            area.left,
            area.top,
            area.width.max(0.0),
            area.height.max(0.0)
        );
        if opacity < 1.0 {
            let _ = write!(self.body, " fill-opacity=\"{opacity:.2}\"");
        }
        self.body.push_str("/>\n");
    }

    /// A disc; its title is shown when a pointer rests on it.
    pub fn disc(&mut self, at: (f64, f64), radius: f64, class: &str, title: &str) {
        let _ = write!(
            self.body,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" class=\"{class}\"",
            at.0, at.1
        );
        if title.is_empty() {
            self.body.push_str("/>\n");
        } else {
            self.body.push('>');
            self.title(title);
            self.body.push_str("</circle>\n");
        }
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{:.1}\" y=\"{:.1}\"{anchor} class=\"{class}\">{text}</text>",
            at.0, at.1
        );
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
        for (x, y) in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        self.body.push_str("\"/>\n");
    }

    /// The element, for a page that brings [`STYLE`].
    pub fn finish(self) -> String {
        self.wrap("")
    }

    /// The element with its own style: a file of its own.
    pub fn file(self) -> String {
        self.wrap(&format!("<style>{STYLE}</style>"))
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
        assert_eq!(text.matches("<g ").count(), text.matches("</g>").count());
    }
}
