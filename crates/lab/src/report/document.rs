//! A report as blocks, written once and rendered as Markdown, HTML and terminal text.
//!
//! Invariants: text in blocks is plain; each renderer escapes it for its own format, so that no label of a file can become markup.

use super::svg::Svg;

/// A report.
#[derive(Debug, Default)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// One line below the title.
    pub lead: String,
    /// What it says.
    pub blocks: Vec<Block>,
}

/// One piece of a report.
#[derive(Debug)]
pub enum Block {
    /// A heading of the second level.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Something that must not be overlooked.
    Warning(String),
    /// A list.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
    /// Commands or files, verbatim.
    Code(String),
    /// What most readers skip.
    Details(String, Vec<Self>),
}

/// A drawing with its caption.
#[derive(Debug)]
pub struct Figure {
    /// Name of its file, without the ending.
    pub name: String,
    /// What one sees and how it was drawn.
    pub caption: String,
    /// The drawing.
    pub svg: Svg,
}

/// A table; every row has as many cells as the head.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Table {
    /// Heads of the columns.
    pub head: Vec<String>,
    /// The leading columns that hold words; the others hold numbers and are set to the right.
    pub words: usize,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(words: usize, head: &[&str]) -> Self {
        Self { head: head.iter().map(|name| (*name).to_owned()).collect(), words, rows: Vec::new() }
    }

    /// Leaves out the columns in which no row says anything.
    pub fn without_empty_columns(mut self) -> Self {
        let says =
            |column: usize| self.rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
        let kept: Vec<bool> =
            (0..self.head.len()).map(|column| self.rows.is_empty() || says(column)).collect();
        let keep = |row: &mut Vec<String>| {
            let mut flags = kept.iter();
            row.retain(|_| flags.next().copied().unwrap_or(false));
        };
        self.words = kept.iter().take(self.words).filter(|kept| **kept).count();
        keep(&mut self.head);
        self.rows.iter_mut().for_each(keep);
        self
    }

    /// Aligned columns for a terminal.
    pub fn terminal(&self) -> String {
        let wide = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain(self.head.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(wide).collect();
        let mut text = String::new();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let space = " ".repeat(width - cell.chars().count().min(*width));
                let (before, after) =
                    if column < self.words { ("", space.as_str()) } else { (space.as_str(), "") };
                line.push_str(&format!("{before}{}{after}  ", printable(cell)));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Text without control characters: a label must not steer a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_silent_ones_go() {
        let mut table = Table::new(1, &["cell", "empty", "median"]);
        table.rows.push(vec!["a\u{1b}[31m".into(), String::new(), "1 s".into()]);
        table.rows.push(vec!["longer name".into(), String::new(), "100 ms".into()]);
        let table = table.without_empty_columns();
        assert_eq!(table.head, ["cell", "median"]);
        assert_eq!(table.terminal(), "cell         median\na [31m          1 s\nlonger name  100 ms\n");
    }
}
