//! A report as Markdown; its figures are files beside it.

use std::fmt::Write;

use super::document::{Block, Document, Table};

/// Where the figures' files lie, relative to the report.
pub const PLOTS: &str = "plots";

/// The text of `report.md`.
pub fn render(document: &Document) -> String {
    text(document, true)
}

/// The same where the figures are in `report.html` only: their captions are left out with them.
pub fn render_without_figures(document: &Document) -> String {
    text(document, false)
}

fn text(document: &Document, with_figures: bool) -> String {
    let mut text = format!("# {}\n\n{}\n\n", escape(&document.title), escape(&document.lead));
    if !with_figures {
        text.push_str("The figures are in report.html, a page that needs nothing else.\n\n");
    }
    blocks(&mut text, &document.blocks, with_figures);
    text
}

fn is_figures(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| matches!(block, Block::Figure(_) | Block::Text(_)))
}

fn blocks(text: &mut String, blocks: &[Block], with_figures: bool) {
    for block in blocks {
        let _ = match block {
            Block::Figure(_) if !with_figures => Ok(()),
            Block::Details(_, inner) if !with_figures && is_figures(inner) => Ok(()),
            Block::Heading(heading) => write!(text, "## {}\n\n", escape(heading)),
            Block::Text(words) => write!(text, "{}\n\n", escape(words)),
            Block::Warning(words) => write!(text, "> **Note:** {}\n\n", escape(words)),
            Block::List(items) => {
                let items: String = items.iter().map(|item| format!("- {}\n", escape(item))).collect();
                writeln!(text, "{items}")
            }
            Block::Table(rows) => writeln!(text, "{}", table(rows)),
            Block::Figure(figure) => {
                let caption = escape(&figure.caption);
                write!(text, "![{}]({PLOTS}/{}.svg)\n\n*{caption}*\n\n", escape(&figure.name), figure.name)
            }
            Block::Code(code) => write!(text, "{}\n\n", fence(code)),
            Block::Details(summary, inner) => {
                let _ = write!(text, "<details><summary>{}</summary>\n\n", escape(summary));
                self::blocks(text, inner, with_figures);
                write!(text, "</details>\n\n")
            }
        };
    }
}

/// A table of pipes.
pub fn table(table: &Table) -> String {
    let line =
        |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut text = line(&mut table.head.iter().map(|cell| escape(cell)));
    let align = |column: usize| if column < table.words { "---" } else { "---:" };
    text.push_str(&line(&mut (0..table.head.len()).map(|column| align(column).to_owned())));
    for row in &table.rows {
        text.push_str(&line(&mut row.iter().map(|cell| escape(cell))));
    }
    text
}

/// A fence longer than any within.
fn fence(code: &str) -> String {
    let longest = code.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest.max(2) + 1);
    format!("{ticks}\n{}\n{ticks}", code.trim_end())
}

/// Text that is no markup, in one line.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '|' | '*' | '`' | '[' | ']' | '\\' | '_' => {
                safe.push('\\');
                safe.push(letter);
            }
            control if control.is_control() => safe.push(' '),
            plain => safe.push(plain),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_no_markup() {
        assert_eq!(escape("a|b\n<i>[x](y)"), "a\\|b &lt;i&gt;\\[x\\](y)");
        let mut rows = Table::new(1, &["a", "b"]);
        rows.rows.push(vec!["x | y".into(), "1".into()]);
        assert_eq!(table(&rows), "| a | b |\n| --- | ---: |\n| x \\| y | 1 |\n");
        assert_eq!(fence("a ``` b"), "````\na ``` b\n````");
    }
}
