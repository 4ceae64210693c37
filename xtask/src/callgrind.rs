//! What a dump of callgrind says: instructions of every function by itself, and with all that it calls.
//!
//! Why not `callgrind_annotate`: of the frames that are on the stack when counting begins it makes one function
//! that did everything. A dump is lines of text: `fn=(7) name` begins a function, `12 345` are 345 instructions of
//! it, and the line after `calls=` is what a call cost, which belongs to the callee.

use std::collections::BTreeMap;

/// The instructions of one dump.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// By function, without what it calls.
    own: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads a dump; lines that mean nothing here are passed over.
    pub(crate) fn read(text: &str) -> Self {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut own: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut current, mut of_call) = ("", false);
        for line in text.lines() {
            if let Some(function) = line.strip_prefix("fn=") {
                current = named(&mut names, function);
            } else if let Some(function) = line.strip_prefix("cfn=") {
                named(&mut names, function);
            } else if line.starts_with("calls=") {
                of_call = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
                if !core::mem::take(&mut of_call) {
                    *own.entry(current).or_default() += cost;
                }
            }
        }
        let mut profile = Self::default();
        for (id, cost) in own {
            let name = names.get(id).copied().unwrap_or("?");
            // Turns of a recursion carry a number.
            let name = name.split_once('\'').map_or(name, |(name, _)| name);
            *profile.own.entry(name.to_owned()).or_default() += cost;
        }
        profile
    }

    /// All instructions.
    pub(crate) fn total(&self) -> u64 {
        self.own.values().sum()
    }

    /// The functions with most instructions of their own.
    pub(crate) fn top(&self, most: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self.own.iter().map(|(name, cost)| (name.as_str(), *cost)).collect();
        all.sort_by_key(|(_, cost)| core::cmp::Reverse(*cost));
        all.truncate(most);
        all
    }

    /// The instructions of each crate, by what its functions do themselves; most first.
    pub(crate) fn parts(&self) -> Vec<(&str, u64)> {
        let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, cost) in &self.own {
            *parts.entry(part(name)).or_default() += cost;
        }
        let mut parts: Vec<(&str, u64)> = parts.into_iter().collect();
        parts.sort_by_key(|(_, cost)| core::cmp::Reverse(*cost));
        parts
    }
}

/// The crate of a function: of a method of a foreign trait, or of what is dropped, that of the type. C has no crates.
fn part(name: &str) -> &str {
    let inner = name.strip_prefix("core::ptr::drop_in_place<").unwrap_or(name);
    let inner = inner.trim_start_matches(|first: char| "<&*[(".contains(first)).trim_start_matches("mut ");
    let inner = inner.trim_start_matches("dyn ").trim_start_matches(|first: char| "<&*[(".contains(first));
    match inner.split_once("::") {
        Some((first, _)) if first.chars().all(|one| one.is_ascii_alphanumeric() || one == '_') => first,
        _ if ["mem", "__mem", "bcmp"].iter().any(|copies| name.starts_with(copies)) => "copying, comparing",
        _ if ["alloc", "free", "malloc"].iter().any(|word| name.contains(word)) => "the allocator",
        _ => "C and assembly",
    }
}

/// `(7) name` says once what 7 stands for, `(7)` means it again.
fn named<'t>(names: &mut BTreeMap<&'t str, &'t str>, text: &'t str) -> &'t str {
    let (id, name) = text.split_once(' ').unwrap_or((text, ""));
    if !name.is_empty() {
        names.insert(id, name);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_counts_for_the_crate_of_its_type() {
        assert_eq!(part("skerry_gateway::http::answer"), "skerry_gateway");
        assert_eq!(part("<hyper::proto::Conn<T> as tokio::io::AsyncRead>::poll_read"), "hyper");
        assert_eq!(part("<&mut tokio::Task as core::future::Future>::poll"), "tokio");
        assert_eq!(part("core::ptr::drop_in_place<skerry_model::Record>"), "skerry_model");
        assert_eq!(part("core::ptr::drop_in_place<[bytes::Bytes]>"), "bytes");
        assert_eq!(part("__memcpy_avx_unaligned_erms"), "copying, comparing");
        assert_eq!(part("_int_malloc"), "the allocator");
        assert_eq!(part("blake3_hash_many_avx2"), "C and assembly");
    }

    #[test]
    fn costs_of_calls_belong_to_the_callee() {
        let text = "events: Ir\nfn=(1) outer\n3 10\ncfn=(2) inner\ncalls=2 7\n4 100\n+1 5\n\nfn=(2)\n7 60\n* 40\n\
                    fn=(3) inner'2\n8 1\ntotals: 116\n";
        let profile = Profile::read(text);
        assert_eq!(profile.total(), 116);
        assert_eq!(profile.top(2), [("inner", 101), ("outer", 15)]);
    }
}
