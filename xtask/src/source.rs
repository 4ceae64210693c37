//! Rust sources as the checks see them: a copy in which comments and literals are blank, so that braces and
//! words in it are code. Not a parser; it knows strings, raw strings, characters, lifetimes and comments.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::run;

/// One file.
pub(crate) struct Source {
    /// Relative to the root.
    pub(crate) path: String,
    pub(crate) raw: String,
    /// Same bytes and lines as `raw`; comments and the insides of literals are spaces.
    pub(crate) code: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of `fn`, from 0.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// All sources of the workspace, sorted.
pub(crate) fn all() -> Result<Vec<Source>, String> {
    let root = run::root();
    let mut paths = Vec::new();
    for top in ["crates", "xtask"] {
        collect(&root.join(top), &mut paths)?;
    }
    paths.sort();
    paths.into_iter().map(|path| load(&root, &path)).collect()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" {
            collect(&path, paths)?;
        } else if name.ends_with(".rs") {
            paths.push(path);
        }
    }
    Ok(())
}

fn load(root: &Path, path: &Path) -> Result<Source, String> {
    let raw = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    Ok(Source::new(relative, raw))
}

impl Source {
    pub(crate) fn new(path: String, raw: String) -> Self {
        let code = mask(&raw);
        Self { path, raw, code }
    }

    /// Whether all of the file is tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }

    /// Lines of items under `#[cfg(test)]`.
    pub(crate) fn test_lines(&self) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let mut from = 0;
        while let Some(at) =
            self.code.get(from..).and_then(|rest| rest.find("#[cfg(test)]")).map(|at| at + from)
        {
            let end = item_end(&self.code, at + "#[cfg(test)]".len());
            ranges.push(line_of(&self.code, at)..line_of(&self.code, end) + 1);
            from = end.max(at + 1);
        }
        ranges
    }

    /// Functions with bodies, in order; tests included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        words(&self.code).filter(|&(_, word)| word == "fn").filter_map(|(at, _)| self.function(at)).collect()
    }

    fn function(&self, at: usize) -> Option<Function> {
        let after = at + "fn".len();
        let name: String = self.code.get(after..)?.trim_start().chars().take_while(|&c| is_word(c)).collect();
        let end = item_end(&self.code, after);
        if name.is_empty() || self.code.as_bytes().get(end) != Some(&b'}') {
            return None;
        }
        let line = line_of(&self.code, at);
        Some(Function { name, line, lines: line_of(&self.code, end) - line + 1 })
    }
}

/// Where the item that starts at `from` ends: its `;`, or the brace that closes its body.
fn item_end(code: &str, from: usize) -> usize {
    let (mut round, mut braces) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => round += 1,
            b')' | b']' => round -= 1,
            b'{' => braces += 1,
            b'}' if braces == 1 && round <= 0 => return at,
            b'}' => braces -= 1,
            b';' if braces == 0 && round <= 0 => return at,
            _ => {}
        }
    }
    code.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a masked text with their places.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let base = code.as_ptr() as usize;
    code.split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - base, word))
}

/// The line, from 0, of a place.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// What the scanner is inside of.
enum Inside {
    Code,
    Line,
    Block(u32),
    Text,
    Raw(usize),
    Character,
}

/// Blanks comments and the insides of literals, byte for byte.
fn mask(raw: &str) -> String {
    let bytes = raw.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut inside = Inside::Code;
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let (next, taken, keep) = step(inside, rest, out.last().copied());
        for &byte in rest.iter().take(taken) {
            out.push(if keep || byte == b'\n' { byte } else { b' ' });
        }
        inside = next;
        at += taken;
    }
    String::from_utf8(out).unwrap_or_default()
}

/// One step: the new state, how many bytes it takes and whether they are code.
fn step(inside: Inside, rest: &[u8], before: Option<u8>) -> (Inside, usize, bool) {
    match inside {
        Inside::Code => open(rest, before),
        Inside::Line if rest.starts_with(b"\n") => (Inside::Code, 1, true),
        Inside::Line => (Inside::Line, 1, false),
        Inside::Block(depth) if rest.starts_with(b"/*") => (Inside::Block(depth + 1), 2, false),
        Inside::Block(1) if rest.starts_with(b"*/") => (Inside::Code, 2, false),
        Inside::Block(depth) if rest.starts_with(b"*/") => (Inside::Block(depth - 1), 2, false),
        Inside::Block(depth) => (Inside::Block(depth), 1, false),
        Inside::Text if rest.starts_with(b"\\") => (Inside::Text, 2.min(rest.len()), false),
        Inside::Text if rest.starts_with(b"\"") => (Inside::Code, 1, false),
        Inside::Text => (Inside::Text, 1, false),
        Inside::Raw(hashes) if closes_raw(rest, hashes) => (Inside::Code, 1 + hashes, false),
        Inside::Raw(hashes) => (Inside::Raw(hashes), 1, false),
        Inside::Character if rest.starts_with(b"\\") => (Inside::Character, 2.min(rest.len()), false),
        Inside::Character if rest.starts_with(b"'") => (Inside::Code, 1, false),
        Inside::Character => (Inside::Character, 1, false),
    }
}

/// A step in code: does a comment or a literal open here?
fn open(rest: &[u8], before: Option<u8>) -> (Inside, usize, bool) {
    let in_word = before.is_some_and(|byte| is_word(byte as char));
    match rest {
        [b'/', b'/', ..] => (Inside::Line, 2, false),
        [b'/', b'*', ..] => (Inside::Block(1), 2, false),
        [b'"', ..] => (Inside::Text, 1, false),
        [b'r', tail @ ..] if !in_word => raw(tail, 1),
        [b'b', b'r', tail @ ..] if !in_word => raw(tail, 2),
        [b'\'', b'\\', ..] => (Inside::Character, 1, false),
        [b'\'', tail @ ..] if is_character(tail) => (Inside::Character, 1, false),
        _ => (Inside::Code, 1, true),
    }
}

/// After `r`: hashes and a quote open a raw string; anything else is a word.
fn raw(tail: &[u8], prefix: usize) -> (Inside, usize, bool) {
    let hashes = tail.iter().take_while(|&&byte| byte == b'#').count();
    match tail.get(hashes) {
        Some(b'"') => (Inside::Raw(hashes), prefix + hashes + 1, false),
        _ => (Inside::Code, prefix, true),
    }
}

fn closes_raw(rest: &[u8], hashes: usize) -> bool {
    rest.first() == Some(&b'"')
        && rest.iter().skip(1).take(hashes).filter(|&&byte| byte == b'#').count() == hashes
}

/// After a quote: one character and a quote, or else a lifetime.
fn is_character(tail: &[u8]) -> bool {
    let text = tail.get(..tail.len().min(5)).unwrap_or_default();
    let valid = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut characters = valid.chars();
    characters.next().is_some_and(|c| c != '\n') && characters.next() == Some('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(raw: &str) -> Source {
        Source::new("crates/x/src/a.rs".into(), raw.into())
    }

    #[test]
    fn literals_and_comments_are_blank() {
        let raw = "let a = \"} // \\\" {\"; // { fn\nlet b = r#\"}\"#; let c: &'a str = 'x'; /* { /* } */ { */ let d = '{';";
        let code = mask(raw);
        assert_eq!(code.len(), raw.len());
        assert!(!code.contains('{') && !code.contains('}'));
        assert!(code.contains("&'a str"), "{code}");
        assert!(code.contains("let d ="));
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let found = source("trait T { fn none(&self); }\nfn one() -> [u8; 3] {\n  if x { y }\n}\ntype F = fn(u8);\nfn two() {}")
            .functions();
        let of = |name: &str, line, lines| Function { name: name.into(), line, lines };
        assert_eq!(found, [of("one", 1, 3), of("two", 5, 1)]);
    }

    #[test]
    fn test_modules_are_found() {
        let found =
            source("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n#[cfg(test)]\nmod c;\nfn d() {}")
                .test_lines();
        assert_eq!(found, [1..5, 5..7]);
    }
}
