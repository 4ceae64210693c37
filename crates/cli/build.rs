//! Tells the binary which commit it is built from: `SKERRY_COMMIT` if that is set, else what the checkout says.
//!
//! Git is not asked, so that it need not be there; a tarball has no checkout, and the commit is unknown. Builds for development
//! do not look: each commit would have them built anew.

use std::path::{Path, PathBuf};

/// Digits that tell commits apart.
const DIGITS: usize = 12;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=SKERRY_COMMIT");
    let said = std::env::var("SKERRY_COMMIT").ok().filter(|said| !said.trim().is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = said.or_else(|| if is_release { of_checkout() } else { None }).unwrap_or_default();
    let is_plain = commit.trim().chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
    let commit = if is_plain { commit.trim() } else { "" };
    println!("cargo:rustc-env=SKERRY_BUILT_FROM={commit}");
}

/// The commit that is checked out; what is read is watched, and nothing that is not there.
fn of_checkout() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = directory(&root.join(".git"))?;
    let head = watched(&own.join("HEAD"))?;
    // A branch may move from a loose file to a packed one and back: each such step is written here.
    watched(&own.join("logs/HEAD"));
    let Some(branch) = head.strip_prefix("ref: ") else { return short(&head) };
    let common = std::fs::read_to_string(own.join("commondir")).ok();
    let common = common.map_or_else(|| own.clone(), |path| own.join(path.trim()));
    if let Some(found) = watched(&common.join(branch)) {
        return short(&found);
    }
    let packed = watched(&common.join("packed-refs"))?;
    let line = packed.lines().find(|line| line.split_whitespace().nth(1) == Some(branch))?;
    short(line)
}

/// Where a checkout keeps what is its own: `.git`, or what a file of that name points to.
fn directory(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_path_buf());
    }
    let file = std::fs::read_to_string(git).ok()?;
    let path = file.trim().strip_prefix("gitdir: ")?;
    Some(git.parent()?.join(path))
}

fn watched(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}

fn short(commit: &str) -> Option<String> {
    let is_commit = commit.chars().take(DIGITS).filter(char::is_ascii_hexdigit).count() == DIGITS;
    is_commit.then(|| commit.chars().take(DIGITS).collect())
}
