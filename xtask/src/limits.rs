//! The table of docs/limits.md, from the constants of crates/base/src/limits.rs and the comments above them.

use crate::run;

const SOURCE: &str = "crates/base/src/limits.rs";
const PAGE: &str = "docs/limits.md";

/// The page with its table as the source says it now; the words around the table stay.
pub(crate) fn file() -> Result<(String, String), String> {
    let read = |path: &str| {
        std::fs::read_to_string(run::root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let page = read(PAGE)?;
    Ok((PAGE.to_owned(), splice(&page, &rows(&read(SOURCE)?)).ok_or(format!("{PAGE} has no table"))?))
}

/// One row for each constant with a comment.
fn rows(source: &str) -> Vec<String> {
    let mut why = String::new();
    let mut rows = Vec::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            why.push_str(text);
        } else if let Some((name, value)) =
            line.strip_prefix("pub const ").and_then(|line| line.split_once(" = "))
        {
            let name = name.split(':').next().unwrap_or_default();
            let value = value.trim_end_matches(';').replace('_', "");
            rows.push(format!("| `{name}` | `{value}` | {} |", std::mem::take(&mut why).trim()));
        } else {
            why.clear();
        }
    }
    rows
}

/// Replaces the rows of the first table.
fn splice(page: &str, rows: &[String]) -> Option<String> {
    let begin = page.find("|---")?;
    let begin = begin + page.get(begin..)?.find('\n')? + 1;
    let end = begin + page.get(begin..)?.find("\n\n")?;
    Some(format!("{}{}{}", page.get(..begin)?, rows.join("\n"), page.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_constant_and_the_words_stay() {
        let source = "//! Head.\n\n/// Why it\n/// is so.\npub const A_B: u32 = 10_000;\nconst C: u8 = 1;\n";
        assert_eq!(rows(source), ["| `A_B` | `10000` | Why it is so. |"]);
        let page = "# T\n\n| a | b |\n|---|---|\n| old | 1 |\n| old | 2 |\n\nAfter.\n\n| x |\n";
        let spliced = splice(page, &["| new |".into()]);
        assert_eq!(spliced.as_deref(), Some("# T\n\n| a | b |\n|---|---|\n| new |\n\nAfter.\n\n| x |\n"));
    }
}
