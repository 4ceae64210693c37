//! Small rules of the style: file headers, names, imports, leftovers.

use super::Findings;
use crate::source::{self, Source};

/// Names of modules that take homeless code.
const HOMELESS: [&str; 6] = ["utils", "util", "helpers", "common", "misc", "manager"];

pub(crate) fn check() -> Findings {
    Ok(source::all()?.iter().flat_map(findings).collect())
}

fn findings(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    if !source.raw.starts_with("//!") {
        found.push(format!(
            "{}: does not open with `//!`: what it is, why here, what always holds",
            source.path
        ));
    }
    if HOMELESS.iter().any(|name| source.path.split(['/', '.']).any(|part| part == *name)) {
        found.push(format!("{}: name the trade, not the drawer", source.path));
    }
    let tests = source.test_lines();
    for (number, (code, raw)) in source.code.lines().zip(source.raw.lines()).enumerate() {
        let in_test = source.is_test() || tests.iter().any(|range| range.contains(&number));
        for what in line(code, raw, in_test) {
            found.push(format!("{}:{}: {what}", source.path, number + 1));
        }
    }
    found
}

fn line(code: &str, raw: &str, in_test: bool) -> Vec<&'static str> {
    let mut found = Vec::new();
    let code = code.trim();
    let import = code.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    if import.starts_with("use ") && import.contains('*') && !(in_test && is_test_import(import)) {
        found.push("a glob import hides where names come from");
    }
    if code.contains("#[allow(") || code.contains("#![allow(") {
        found.push("say #[expect(…, reason = \"…\")]: it reports when it is no longer needed");
    }
    if code.contains("#[ignore]") {
        found.push("an ignored test says why: #[ignore = \"…\"]");
    }
    if leftovers().iter().any(|word| has_word(raw, word)) {
        found.push("a leftover: do it, or write an issue");
    }
    if ["---", "===", "***"].iter().any(|rule| raw.trim_start().starts_with(&format!("// {rule}"))) {
        found.push("a banner: a section that needs one wants a file");
    }
    found
}

/// `super::*` in a test module, and the preludes made to be taken whole.
fn is_test_import(import: &str) -> bool {
    import == "use super::*;" || import == "use proptest::prelude::*;"
}

/// Put together here so that this file is not one.
fn leftovers() -> [String; 4] {
    [format!("FIX{}", "ME"), format!("TO{}", "DO"), format!("X{}", "XX"), format!("HA{}", "CK")]
}

fn has_word(line: &str, word: &str) -> bool {
    let comment = line.find("//").and_then(|at| line.get(at..)).unwrap_or_default();
    comment.split(|c: char| !c.is_alphanumeric()).any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(raw: &str) -> usize {
        findings(&Source::new("crates/x/src/a.rs".into(), format!("//! A file.\n{raw}\n"))).len()
    }

    #[test]
    fn rules_find_what_they_name() {
        assert_eq!(count("use a::b;"), 0);
        assert_eq!(count("use a::*;"), 1);
        assert_eq!(count("pub(crate) use a::{b, c::*};"), 1);
        assert_eq!(count("#[cfg(test)]\nmod tests {\n    use super::*;\n}"), 0);
        assert_eq!(count(&format!("let a = 1; // {}: later", leftovers()[0])), 1);
        assert_eq!(count("#[allow(dead_code)]\nfn a() {}"), 1);
        assert_eq!(count("#[test]\n#[ignore]\nfn a() {}"), 1);
        assert_eq!(findings(&Source::new("crates/x/src/util.rs".into(), "fn a() {}".into())).len(), 2);
    }
}
