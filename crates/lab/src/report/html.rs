//! A report as one HTML file: no script, nothing loaded from elsewhere, light and dark.

use std::fmt::Write;

use super::document::{Block, Document, Table};
use super::svg::{escape, sheet};

/// Colours and measures of the page; those of the figures are in [`sheet`].
const PAGE: &str = include_str!("page.css");

/// The text of `report.html`.
pub fn render(document: &Document) -> String {
    let mut body = String::new();
    blocks(&mut body, &document.blocks);
    let (title, lead) = (escape(&document.title), escape(&document.lead));
    let style = PAGE.lines().collect::<String>() + &sheet();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{title}</title>\n<style>{style}</style></head>\n<body><main>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{lead}</p>\n{body}</main></body></html>\n"
    )
}

fn blocks(text: &mut String, blocks: &[Block]) {
    for block in blocks {
        let _ = match block {
            Block::Heading(heading) => writeln!(text, "<h2>{}</h2>", escape(heading)),
            Block::Text(words) => writeln!(text, "<p>{}</p>", escape(words)),
            Block::Warning(words) => writeln!(text, "<p class=\"warning\">{}</p>", escape(words)),
            Block::List(items) => {
                let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
                writeln!(text, "<ul>{items}</ul>")
            }
            Block::Table(rows) => writeln!(text, "{}", table(rows)),
            Block::Figure(figure) => {
                let (svg, caption) = (figure.svg.clone().finish(), escape(&figure.caption));
                writeln!(text, "<figure>{svg}<figcaption>{caption}</figcaption></figure>")
            }
            Block::Code(code) => writeln!(text, "<pre><code>{}</code></pre>", escape(code)),
            Block::Details(summary, inner) => {
                let _ = write!(text, "<details><summary>{}</summary>", escape(summary));
                self::blocks(text, inner);
                writeln!(text, "</details>")
            }
        };
    }
}

fn table(table: &Table) -> String {
    let class = |column: usize| if column < table.words { "" } else { " class=\"number\"" };
    let cells = |tag: &str, row: &[String]| {
        let cell =
            |(column, cell): (usize, &String)| format!("<{tag}{}>{}</{tag}>", class(column), escape(cell));
        row.iter().enumerate().map(cell).collect::<String>()
    };
    let rows: String = table.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{}</tr></thead>\n<tbody>{rows}</tbody></table></div>",
        cells("th", &table.head)
    )
}
