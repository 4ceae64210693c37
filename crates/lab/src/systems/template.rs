//! Placeholders in system files: `{address}` of the host at hand, `{first.address}`, `{all.address}`, `{env:NAME}`.
//!
//! | form | stands for |
//! |---|---|
//! | `{name}` | a value of the host at hand, of the run, of the file's settings or programs |
//! | `{first.name}` | the same of the first host |
//! | `{all.name}`, `{others.name}` | of all hosts, of all but the one at hand, with commas between |
//! | `{env:NAME}`, `{env:NAME\|else}` | a variable of the environment |
//! | `{each}` or `{others}` in front | the argument or line once for every host, or for all but the one at hand |
//! | `{{`, `}}` | a brace |
//!
//! Invariant: a name is checked when the file is read; at a start only what a step captures can be missing.

use std::collections::BTreeMap;
use std::fmt;

/// Reads a variable of the environment.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    spread: Spread,
    pieces: Vec<Piece>,
}

/// How often a template is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// For the host at hand.
    Once,
    /// For every host.
    Each,
    /// For every host but the one at hand.
    Others,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(String),
}

/// A placeholder that means nothing; the text says which and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Template {
    /// Reads a template; variables of the environment are filled in at once.
    pub(super) fn parse(text: &str, environment: Environment<'_>) -> Result<Self, Unknown> {
        let (spread, mut rest) = spread(text);
        let mut pieces = Vec::new();
        let mut plain = String::new();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if from.starts_with("{{") || from.starts_with("}}") {
                plain.push_str(from.get(..1).unwrap_or_default());
                rest = from.get(2..).unwrap_or_default();
                continue;
            }
            let inner = from.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let Some((name, after)) = inner else {
                return Err(Unknown(format!(
                    "a brace without its other half in {text:?}; write {{{{ or }}}}"
                )));
            };
            match name.strip_prefix("env:") {
                Some(variable) => plain.push_str(&of_environment(variable, environment)?),
                None => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Value(name.to_owned()));
                }
            }
            rest = after;
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self { spread, pieces })
    }

    /// The names it asks for, without `first.`, `all.` and `others.`.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(name) => Some(plain(name)),
            Piece::Text(_) => None,
        })
    }
}

fn spread(text: &str) -> (Spread, &str) {
    if let Some(rest) = text.strip_prefix("{each}") {
        (Spread::Each, rest)
    } else if let Some(rest) = text.strip_prefix("{others}") {
        (Spread::Others, rest)
    } else {
        (Spread::Once, text)
    }
}

fn plain(name: &str) -> &str {
    let reaches = ["first.", "all.", "others."];
    reaches.iter().find_map(|reach| name.strip_prefix(reach)).unwrap_or(name)
}

fn of_environment(variable: &str, environment: Environment<'_>) -> Result<String, Unknown> {
    let (name, otherwise) = match variable.split_once('|') {
        Some((name, otherwise)) => (name, Some(otherwise)),
        None => (variable, None),
    };
    let value = environment(name).filter(|value| !value.is_empty());
    value
        .or_else(|| otherwise.map(str::to_owned))
        .ok_or_else(|| Unknown(format!("the environment variable {name} is not set and has no default here")))
}

/// What placeholders stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    /// The same for all hosts.
    pub(super) shared: BTreeMap<String, String>,
    /// What differs, in the order of the hosts.
    pub(super) hosts: Vec<BTreeMap<String, String>>,
}

impl Values {
    /// The value of a name at a host.
    pub(super) fn get(&self, host: usize, name: &str) -> Option<String> {
        if let Some(name) = name.strip_prefix("first.") {
            return self.own(0, name);
        }
        let (name, but) = match name.strip_prefix("others.") {
            Some(name) => (name, Some(host)),
            None => match name.strip_prefix("all.") {
                Some(name) => (name, None),
                None => return self.own(host, name),
            },
        };
        let wanted = (0..self.hosts.len()).filter(|host| Some(*host) != but);
        let values: Option<Vec<String>> = wanted.map(|host| self.own(host, name)).collect();
        values.map(|values| values.join(","))
    }

    fn own(&self, host: usize, name: &str) -> Option<String> {
        let own = self.hosts.get(host)?;
        own.get(name).or_else(|| self.shared.get(name)).cloned()
    }

    /// Fills in a template for a host: one text, or as many as it is spread over.
    pub(super) fn fill(&self, template: &Template, host: usize) -> Result<Vec<String>, Unknown> {
        let hosts = match template.spread {
            Spread::Once => return Ok(vec![self.fill_at(template, host)?]),
            Spread::Each => (0..self.hosts.len()).collect::<Vec<_>>(),
            Spread::Others => (0..self.hosts.len()).filter(|other| *other != host).collect(),
        };
        hosts.into_iter().map(|host| self.fill_at(template, host)).collect()
    }

    /// Fills in a template that is to give one text.
    pub(super) fn fill_one(&self, template: &Template, host: usize) -> Result<String, Unknown> {
        Ok(self.fill(template, host)?.join(" "))
    }

    /// Fills in several one after the other, as the arguments of a command or the lines of a file.
    pub(super) fn fill_all(&self, templates: &[Template], host: usize) -> Result<Vec<String>, Unknown> {
        let mut all = Vec::new();
        for template in templates {
            all.append(&mut self.fill(template, host)?);
        }
        Ok(all)
    }

    fn fill_at(&self, template: &Template, host: usize) -> Result<String, Unknown> {
        let mut text = String::new();
        for piece in &template.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Value(name) => {
                    let value = self.get(host, name);
                    let missing = || Unknown(format!("{{{name}}} has no value here"));
                    text.push_str(&value.ok_or_else(missing)?);
                }
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    fn three() -> Values {
        let hosts = (1..=3).map(|n| BTreeMap::from([("address".into(), format!("10.0.0.{n}"))]));
        Values { shared: BTreeMap::from([("port".into(), "9000".into())]), hosts: hosts.collect() }
    }

    fn filled(text: &str, host: usize) -> Vec<String> {
        three().fill(&Template::parse(text, &nothing).unwrap(), host).unwrap()
    }

    #[test]
    fn values_come_from_the_host_the_first_or_all() {
        assert_eq!(filled("http://{address}:{port}/", 1), ["http://10.0.0.2:9000/"]);
        assert_eq!(filled("{first.address} {all.address}", 2), ["10.0.0.1 10.0.0.1,10.0.0.2,10.0.0.3"]);
        assert_eq!(filled("{others.address}", 0), ["10.0.0.2,10.0.0.3"]);
        assert_eq!(filled("plain", 0), ["plain"]);
    }

    #[test]
    fn a_spread_argument_is_repeated() {
        assert_eq!(
            filled("{each}http://{address}/d", 0),
            ["http://10.0.0.1/d", "http://10.0.0.2/d", "http://10.0.0.3/d"]
        );
        assert_eq!(filled("{others}{address}", 1), ["10.0.0.1", "10.0.0.3"]);
    }

    #[test]
    fn doubled_braces_are_braces() {
        assert_eq!(filled("{{\"a\": {{{port}}}}}", 0), ["{\"a\": {9000}}"]);
        assert!(Template::parse("{open", &nothing).unwrap_err().0.contains("{open"));
        assert!(Template::parse("close}", &nothing).is_err());
    }

    #[test]
    fn the_environment_is_read_with_a_default_or_refused_by_name() {
        let set = |name: &str| (name == "MINIO").then(|| "/opt/minio".to_owned());
        let program = Template::parse("{env:MINIO}", &set).unwrap();
        assert_eq!(three().fill_one(&program, 0).unwrap(), "/opt/minio");
        let program = Template::parse("{env:MINIO|minio}", &nothing).unwrap();
        assert_eq!(three().fill_one(&program, 0).unwrap(), "minio");
        assert!(Template::parse("{env:MINIO}", &nothing).unwrap_err().0.contains("MINIO is not set"));
    }

    #[test]
    fn a_missing_value_is_named() {
        let template = Template::parse("{token}", &nothing).unwrap();
        assert_eq!(template.names().collect::<Vec<_>>(), ["token"]);
        assert!(three().fill(&template, 0).unwrap_err().0.contains("{token}"));
    }
}
