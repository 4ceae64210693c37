//! base, model and federation decide; they have no clock, file, socket, thread or chance of their own.
//!
//! Clippy bans the calls; this refuses the words, so that a type or an import is seen too, and the libraries
//! that would bring them in. Where the wasm32 target is installed the compiler proves it as well.

use super::Findings;
use crate::source::{self, Source};
use crate::{metadata, run};

const PURE: [&str; 3] = ["base", "model", "federation"];

/// What must not appear in the code, tests apart.
const WORDS: &[(&str, &str)] = &[
    ("std::fs", "files belong to storage"),
    ("TcpStream", "sockets belong to node::net and gateway::http"),
    ("TcpListener", "sockets belong to node::net and gateway::http"),
    ("UdpSocket", "sockets belong to node::net and gateway::http"),
    ("ToSocketAddrs", "it asks the name service: node::net"),
    ("std::thread", "threads belong to node and storage"),
    ("std::env", "settings come in as arguments"),
    ("std::process", "processes belong to cli"),
    ("std::io::stdin", "input comes in as arguments"),
    ("SystemTime", "wall time comes in as base::WallTime"),
    ("time::Instant", "time comes in as base::Instant"),
    ("Instant::now", "time comes in as base::Instant"),
    ("HashMap", "its order differs between runs: BTreeMap"),
    ("HashSet", "its order differs between runs: BTreeSet"),
    ("thread_rng", "the seed comes in"),
    ("rand::rng", "the seed comes in"),
    ("rand::random", "the seed comes in"),
    ("OsRng", "the seed comes in"),
    ("getrandom", "the seed comes in"),
    ("tokio", "futures belong to node and gateway"),
    ("async fn", "futures belong to node and gateway"),
];

/// What they may link.
const LIBRARIES: &[&str] =
    &["blake3", "bytes", "serde", "postcard", "thiserror", "foca", "rand", "skerry-base"];

pub(crate) fn check() -> Findings {
    let mut findings = Vec::new();
    let pure = |path: &str| PURE.iter().any(|room| path.starts_with(&format!("crates/{room}/src/")));
    for source in source::all()?.iter().filter(|source| pure(&source.path) && !source.is_test()) {
        scan(source, &mut findings);
    }
    for package in metadata::load()?.iter().filter(|package| package.member) {
        let room = package.name.trim_start_matches("skerry-");
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            if PURE.contains(&room) && !LIBRARIES.contains(&dependency.name.as_str()) {
                findings
                    .push(format!("{room} links {}, which is not among the pure libraries", dependency.name));
            }
        }
    }
    if wasm_installed() {
        findings.extend(wasm());
    } else {
        println!("     note: the wasm32 target is not installed here; the scan stands alone");
    }
    Ok(findings)
}

fn scan(source: &Source, findings: &mut Vec<String>) {
    let tests = source.test_lines();
    for (number, line) in source.code.lines().enumerate() {
        if tests.iter().any(|range| range.contains(&number)) {
            continue;
        }
        for (word, why) in WORDS.iter().filter(|(word, _)| holds(line, word)) {
            findings.push(format!("{}:{}: {word}: {why}", source.path, number + 1));
        }
    }
}

/// Whether the word stands there and goes no further: `rand::rng`, not `rand::rngs`.
fn holds(line: &str, word: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| !line.get(at + word.len()..).is_some_and(goes_on))
}

const TARGET: &str = "wasm32-unknown-unknown";

fn wasm_installed() -> bool {
    let sysroot =
        run::read(std::process::Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    std::path::Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir()
}

fn wasm() -> Vec<String> {
    let mut arguments = vec!["check", "--quiet", "--locked", "--target", TARGET];
    arguments.extend(["-p", "skerry-base", "-p", "skerry-model", "-p", "skerry-federation"]);
    run::show(&mut run::cargo(&arguments)).err().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_for_itself_is_found() {
        let count = |raw: &str| {
            let mut findings = Vec::new();
            scan(&Source::new("crates/model/src/a.rs".into(), raw.into()), &mut findings);
            findings.len()
        };
        assert_eq!(count("use rand::rngs::StdRng; // std::fs\nuse std::net::Ipv4Addr;"), 0);
        assert_eq!(count("let a = rand::rng();\nuse std::fs::File;\nlet b: HashMap<u8, u8>;"), 3);
        assert_eq!(count("#[cfg(test)]\nmod tests {\n    use std::fs::File;\n}"), 0);
    }
}
