//! Commands that pages name, held against the tree: tests, journeys, scenarios, verbs, examples.
//!
//! Only what can be looked up without building is judged: that a command names something that is there. What it comes
//! to, the tests say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source;

/// What commands can name.
#[derive(Default)]
pub(crate) struct Tree {
    /// Test functions and test programs (`--test`) of each package.
    tests: BTreeMap<String, BTreeSet<String>>,
    programs: BTreeSet<(String, String)>,
    examples: BTreeSet<(String, String)>,
    scenarios: BTreeSet<String>,
    journeys: BTreeSet<String>,
    anomalies: BTreeSet<String>,
    /// Verbs by program: `xtask`, `skerry-sim`, `skerry-lab`.
    verbs: BTreeMap<&'static str, BTreeSet<String>>,
    /// The words of each verb of `skerry`.
    cli: Vec<Vec<String>>,
}

impl Tree {
    /// Looks at the checkout.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let text =
            |name: &str| std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
        let mut tree = Self::default();
        for source in source::all()? {
            tree.add_source(&source.path, &source.raw);
        }
        let scenarios = std::fs::read_dir(root.join("crates/lab/scenarios"));
        for entry in scenarios.map_err(|error| format!("crates/lab/scenarios: {error}"))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            tree.scenarios.extend(name.strip_suffix(".toml").map(str::to_owned));
        }
        tree.journeys = quoted_keys(&text("journeys/run.py")?);
        tree.anomalies = quoted_keys(&text("journeys/anomalies.py")?);
        tree.verbs.insert("xtask", arms(&text("xtask/src/main.rs")?));
        tree.verbs.insert("skerry-sim", variants(&text("crates/sim/src/main.rs")?));
        tree.verbs.insert("skerry-lab", variants(&text("crates/lab/src/main.rs")?));
        tree.cli = headings(&text("docs/cli.md")?);
        Ok(tree)
    }

    fn add_source(&mut self, path: &str, raw: &str) {
        let parts: Vec<&str> = path.split('/').collect();
        let package = match parts.as_slice() {
            ["crates", room, ..] => format!("skerry-{room}"),
            [top, ..] => (*top).to_owned(),
            [] => return,
        };
        if let ["crates", _, folder @ ("tests" | "examples"), name, ..] = parts.as_slice() {
            let named = (package.clone(), name.trim_end_matches(".rs").to_owned());
            if *folder == "tests" {
                self.programs.insert(named)
            } else {
                self.examples.insert(named)
            };
        }
        self.tests.entry(package).or_default().extend(tests(raw));
    }

    /// Whether what a command names is there; none if it is no command.
    pub(crate) fn judge(&self, command: &str) -> Option<Result<(), String>> {
        let words: Vec<&str> = command.split_whitespace().collect();
        Some(match words.as_slice() {
            ["cargo", "test", rest @ ..] => self.test(rest),
            ["cargo", "xtask", "journeys", names @ ..] => {
                names.iter().try_for_each(|name| known(&self.journeys, name, "journey"))
            }
            ["cargo", "xtask", verb, ..] => self.verb("xtask", verb),
            ["cargo", "run", rest @ ..] => self.program(rest),
            ["skerry-lab", "run", scenario, ..] => known(&self.scenarios, scenario, "scenario"),
            ["skerry-lab", verb, ..] => self.verb("skerry-lab", verb),
            ["python3", "journeys/anomalies.py", names @ ..] => {
                names.iter().try_for_each(|name| known(&self.anomalies, name, "anomaly"))
            }
            ["skerry", first, rest @ ..] => self.skerry(first, rest),
            ["cargo" | "python3", ..] => Err(format!("`{command}` is no command that the gate knows")),
            _ => return None,
        })
    }

    /// `cargo test -p PACKAGE [--test PROGRAM] [-- NAME]`
    fn test(&self, rest: &[&str]) -> Result<(), String> {
        let package = after(rest, "-p").ok_or("say -p PACKAGE")?;
        let tests = self.tests.get(package).ok_or_else(|| format!("no package {package}"))?;
        let program = after(rest, "--test");
        if let Some(program) = program {
            let named = (package.to_owned(), program.to_owned());
            if !self.programs.contains(&named) {
                return Err(format!("no test program {program} in {package}"));
            }
        }
        let values = [Some(package), program];
        let name = rest.iter().filter(|word| !word.starts_with('-') && !values.contains(&Some(**word)));
        let names: Vec<&str> = name.filter_map(|name| name.rsplit("::").next()).collect();
        if names.is_empty() && program.is_none() {
            return Err("say which test".into());
        }
        names.iter().try_for_each(|name| known(tests, name, "test"))
    }

    /// `cargo run [--release] -p PACKAGE [--example NAME] [-- VERB …]`
    fn program(&self, rest: &[&str]) -> Result<(), String> {
        let package = after(rest, "-p").ok_or("say -p PACKAGE")?;
        if let Some(example) = after(rest, "--example") {
            let named = (package.to_owned(), example.to_owned());
            let missing = || format!("no example {example} in {package}");
            return if self.examples.contains(&named) { Ok(()) } else { Err(missing()) };
        }
        self.verb(package, after(rest, "--").ok_or("say -- VERB")?)
    }

    fn verb(&self, program: &str, verb: &str) -> Result<(), String> {
        let verbs = self.verbs.get(program).ok_or_else(|| format!("no program {program}"))?;
        known(verbs, verb, program)
    }

    /// The words of a verb are the first of the command.
    fn skerry(&self, first: &str, rest: &[&str]) -> Result<(), String> {
        let begins =
            |verb: &Vec<String>| verb.iter().eq(std::iter::once(&first).chain(rest).take(verb.len()));
        let found = self.cli.iter().any(|verb| !verb.is_empty() && begins(verb));
        if found { Ok(()) } else { Err(format!("no verb `skerry {first}` in docs/cli.md")) }
    }

    /// A small one for tests.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        Self {
            tests: BTreeMap::from([("skerry-node".to_owned(), set(&["bodies_come_back"]))]),
            programs: BTreeSet::from([("skerry-node".to_owned(), "swarm".to_owned())]),
            scenarios: set(&["F-S1"]),
            journeys: set(&["crash"]),
            verbs: BTreeMap::from([("skerry-sim", set(&["swarm"]))]),
            cli: vec![vec!["status".into()], vec!["link".into(), "cut".into()]],
            ..Self::default()
        }
    }
}

fn known(names: &BTreeSet<String>, name: &str, kind: &str) -> Result<(), String> {
    if names.contains(name) { Ok(()) } else { Err(format!("no {kind} {name} in the tree")) }
}

/// The word behind a flag.
fn after<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied()
}

/// Functions below a test attribute.
fn tests(raw: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut expects = false;
    for line in raw.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            expects = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| expects) {
            found.insert(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
            expects = false;
        }
    }
    found
}

/// `"name": …` and `table["name"]`, as the scripts name what they can do.
fn quoted_keys(text: &str) -> BTreeSet<String> {
    let key = |line: &str| {
        let rest = line.strip_prefix("table[").unwrap_or(line).strip_prefix('"')?;
        let (name, after) = rest.split_once('"')?;
        (after.starts_with(':') || after.starts_with(']')).then(|| name.to_owned())
    };
    text.lines().map(str::trim).filter_map(key).collect()
}

/// `"name" => …`
fn arms(text: &str) -> BTreeSet<String> {
    let arm = |line: &str| {
        let (name, after) = line.trim().strip_prefix('"')?.split_once('"')?;
        after.trim_start().starts_with("=>").then(|| name.to_owned())
    };
    text.lines().filter_map(arm).collect()
}

/// The variants of `enum Verb`, as clap names them.
fn variants(text: &str) -> BTreeSet<String> {
    let body = text.split_once("enum Verb {").map_or("", |(_, rest)| rest);
    let body = body.split_once("\n}").map_or("", |(body, _)| body);
    let variant = |line: &str| {
        let name = line.strip_prefix("    ")?.split(['(', ' ', ',']).next()?;
        name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| name.to_lowercase())
    };
    body.lines().filter_map(variant).collect()
}

/// The words of ``### `skerry link cut <SITE>` ``: `link`, `cut`.
fn headings(page: &str) -> Vec<Vec<String>> {
    let verbs = page.lines().filter_map(|line| line.strip_prefix("### `skerry ")?.strip_suffix('`'));
    let words = |verb: &str| {
        verb.split(' ').take_while(|word| !word.starts_with(['<', '['])).map(str::to_owned).collect()
    };
    verbs.map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(command: &str) -> Option<bool> {
        Tree::example().judge(command).map(|judged| judged.is_ok())
    }

    #[test]
    fn what_is_there_is_known() {
        for command in [
            "cargo test -p skerry-node --test swarm",
            "cargo test -p skerry-node -- one_site::bodies_come_back",
            "cargo xtask journeys crash",
            "cargo run --release -p skerry-sim -- swarm --seeds 10",
            "skerry-lab run F-S1 --scale small",
            "skerry link cut SITE",
            "skerry status",
        ] {
            assert_eq!(judged(command), Some(true), "{command}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_and_what_is_no_command_passed_over() {
        for command in [
            "cargo test -p skerry-node",
            "cargo test -p skerry-node --test storm",
            "cargo build",
            "cargo run -p skerry-sim -- dance",
            "cargo xtask dance",
            "skerry link",
        ] {
            assert_eq!(judged(command), Some(false), "{command}");
        }
        for word in ["x-skerry-scope: sites=2", "skerry", "skerry_conflicts"] {
            assert_eq!(judged(word), None, "{word}");
        }
    }

    #[test]
    fn names_are_found_in_sources_scripts_and_pages() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let raw = "#[test]\nfn one() {}\nfn none() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore = \"slow\"]\nasync fn two() {}";
        assert_eq!(tests(raw), set(&["one", "two"]));
        let script = "    \"aws1\": lambda demo\n    table[\"aws2\"] = lambda\n  \"neither\"";
        assert_eq!(quoted_keys(script), set(&["aws1", "aws2"]));
        assert_eq!(arms("        \"gate\" => x\n \"other\""), set(&["gate"]));
        assert_eq!(
            variants("enum Verb {\n    /// A\n    Swarm {\n        Seeds: u8,\n    },\n    Try(Try),\n}\n"),
            set(&["swarm", "try"])
        );
        assert_eq!(
            headings("### `skerry link cut <SITE>`\n### `skerry server [DIR]`"),
            [vec!["link", "cut"], vec!["server"]]
        );
    }
}
