//! What is printed: results on standard output, everything else on standard error.
//!
//! With `--json` a result is one document `{"version":1,"kind":…}`; fields are added, never changed. A reader
//! that has gone away (`skerry status | head`) ends the printing and is no failure, unless what is shown once went with it; a
//! disk that is full is one.

use std::borrow::Cow;
use std::io::{Error, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::exit::{Exit, Failure, Outcome};

/// Version of the JSON documents.
pub(crate) const VERSION: u64 = 1;

/// Why the first line of a result that could not be written was not.
static UNWRITTEN: OnceLock<Error> = OnceLock::new();

/// What a terminal is told: whoever may write an object chooses its key, and must not move the cursor by it.
fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Escapes these characters.
fn escaped(text: &str, is_one: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_one) {
        return text.into();
    }
    let show = |c: char| if is_one(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(show).collect::<String>().into()
}

/// Prints a line of a result.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{}", plain(text)).and_then(|()| out.flush()) {
        // The first one tells most.
        let _ = UNWRITTEN.set(error);
    }
}

/// That results were written. A closed pipe is the reader's right.
pub(crate) fn check_written() -> Outcome<()> {
    let error = UNWRITTEN.get().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    error
        .map_or(Ok(()), |error| Err(Failure::failed(format!("could not write what is to be shown: {error}"))))
}

/// That what is shown once was written; else what to do now that it is lost.
pub(crate) fn check_shown(lost: &str) -> Outcome<()> {
    match UNWRITTEN.get() {
        None => Ok(()),
        Some(error) => Err(Failure::failed(format!("could not write what is shown once: {error}; {lost}"))),
    }
}

/// Prints a line beside the result: progress, hints.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(text));
}

/// Prints a result as a JSON document of this kind: the fields of `body`, an object.
pub(crate) fn document(kind: &str, body: &impl Serialize) -> Outcome<()> {
    let body = serde_json::to_value(body).map_err(|error| Failure::failed(format!("JSON: {error}")))?;
    line(&Value::Object(envelope(kind, body)).to_string());
    Ok(())
}

fn envelope(kind: &str, body: Value) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("version".into(), VERSION.into());
    document.insert("kind".into(), kind.into());
    match body {
        Value::Object(fields) => document.extend(fields.into_iter().filter(|(name, _)| name != "version")),
        other => drop(document.insert("value".into(), other)),
    }
    name_site(&mut document);
    document
}

/// In some documents `site` is an id (then its name is `name`), in others a name, and scripts rely on each: `site_name` is its name
/// in all of them.
fn name_site(document: &mut Map<String, Value>) {
    let name = document.get("name").or_else(|| document.get("site")).filter(|name| name.is_string()).cloned();
    if let Some(name) = name.filter(|_| document.get("site").is_some_and(Value::is_string)) {
        document.entry("site_name").or_insert(name);
    }
}

/// Tells why a verb failed.
pub(crate) fn failure(failure: &Failure, json: bool) {
    if json {
        let body = serde_json::json!({
            "exit": failure.exit as u8, "error": failure.exit.word(), "message": failure.message,
        });
        note(&Value::Object(envelope("error", body)).to_string());
    } else {
        note(&format!("skerry: {}", failure.message));
    }
}

/// Asks before what cannot be undone. Without a terminal only `--yes` is a yes.
pub(crate) fn confirm(question: &str, yes: bool) -> Outcome<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::refused(format!("{question} Say --yes to do it.")));
    }
    eprint!("{} [y/N] ", plain(question));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::refused("not done"))
}

/// Says what a dry run would do; true if this is one.
pub(crate) fn dry_run(dry: bool, what: &str, json: bool) -> Outcome<bool> {
    if dry && json {
        document("dry-run", &serde_json::json!({ "would": what }))?;
    } else if dry {
        line(&format!("would {what}"));
    }
    Ok(dry)
}

/// The exit for a result of several sites: all, some or none of them answered.
pub(crate) fn exit_of(answered: usize, asked: usize) -> Exit {
    match answered {
        0 => Exit::Unreachable,
        answered if answered < asked => Exit::Partial,
        _ => Exit::Done,
    }
}

/// Rows as columns of equal width: the first row is the heading. What would break a row is escaped.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let cell = |text: &String| escaped(text, char::is_control).into_owned();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_a_version_and_a_kind_once() {
        let fields = envelope("status", serde_json::json!({ "version": 7, "sites": [] }));
        assert_eq!(Value::Object(fields).to_string(), r#"{"kind":"status","sites":[],"version":1}"#);
        let fields = envelope("list", serde_json::json!([1]));
        assert_eq!(Value::Object(fields).to_string(), r#"{"kind":"list","value":[1],"version":1}"#);
    }

    #[test]
    fn a_site_is_named_alike_in_every_document() {
        let name = |body: Value| envelope("x", body).get("site_name").cloned();
        assert_eq!(name(serde_json::json!({ "site": "0a1b", "name": "oslo" })), Some("oslo".into()));
        assert_eq!(name(serde_json::json!({ "site": "oslo" })), Some("oslo".into()));
        assert_eq!(name(serde_json::json!({ "site": "0a1b", "site_name": "oslo" })), Some("oslo".into()));
        assert_eq!(name(serde_json::json!({ "name": "photos" })), None, "it is no site's");
        assert_eq!(name(serde_json::json!({ "site": { "site": "0a1b" } })), None);
    }

    #[test]
    fn a_key_moves_no_cursor_and_breaks_no_row() {
        let key = "evil\u{1b}[2K\u{9b}1m\rü";
        assert_eq!(plain(key), r"evil\u{1b}[2K\u{9b}1m\rü");
        assert_eq!(plain("two\n\tlines"), "two\n\tlines");
        let rows = [vec!["KEY".into(), "SIZE".into()], vec!["a\nb".into(), "1".into()]];
        assert_eq!(table(&rows), "KEY   SIZE\na\\nb  1");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["SITE".into(), "STATE".into()], vec!["lisbon".into(), "up".into()]];
        assert_eq!(table(&rows), "SITE    STATE\nlisbon  up");
    }

    #[test]
    fn some_answers_are_partial() {
        assert_eq!(exit_of(0, 3), Exit::Unreachable);
        assert_eq!(exit_of(2, 3), Exit::Partial);
        assert_eq!(exit_of(3, 3), Exit::Done);
    }
}
