//! A report as text for a terminal; figures are left to the page.

use super::document::{Block, Document, printable};

/// The text.
pub fn render(document: &Document) -> String {
    let mut text = format!("{}\n{}\n\n", printable(&document.title), printable(&document.lead));
    blocks(&mut text, &document.blocks);
    text
}

fn blocks(text: &mut String, blocks: &[Block]) {
    for block in blocks {
        let piece = match block {
            Block::Heading(heading) => {
                format!("{}\n{}\n", printable(heading), "─".repeat(heading.chars().count().min(100)))
            }
            Block::Text(words) => format!("{}\n\n", printable(words)),
            Block::Warning(words) => format!("! {}\n", printable(words)),
            Block::List(items) => {
                items.iter().map(|item| format!("  · {}\n", printable(item))).collect::<String>() + "\n"
            }
            Block::Table(table) => format!("{}\n", table.terminal()),
            Block::Figure(_) => String::new(),
            Block::Code(code) => {
                code.lines().map(|line| format!("    {}\n", printable(line))).collect::<String>() + "\n"
            }
            Block::Details(summary, inner) => {
                text.push_str(&format!("{}\n", printable(summary)));
                self::blocks(text, inner);
                String::new()
            }
        };
        text.push_str(&piece);
    }
}
