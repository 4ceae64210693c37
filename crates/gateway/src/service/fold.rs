//! How a range scan over keys becomes a page with common prefixes.
//!
//! Why here: the node scans an index and the memory double a map, and both must agree on prefix, delimiter
//! and where a page goes on. Pure: keys come in, what to do with them comes out.

/// What to do with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fold {
    /// Its entries go on the page ([`Folder::taken`] after each but the first of a key).
    Take,
    /// This common prefix goes on the page; go on scanning at `seek`, nothing below the prefix is needed.
    Prefix {
        /// The entry.
        name: String,
        /// The least key that is not below it; `None` if there is none.
        seek: Option<String>,
    },
    /// Nothing of it; go on scanning at `seek` (or at the next key if it is the same).
    Skip {
        /// Where to go on; `None` if nothing can follow.
        seek: Option<String>,
    },
    /// The page is full and this key would have been on the next: answer `more`.
    Full,
    /// Past the prefix: answer `more = false`.
    End,
}

/// Folds keys, offered in byte order, into a page.
#[derive(Debug, Clone)]
pub struct Folder {
    prefix: String,
    delimiter: Option<String>,
    after: String,
    include_after: bool,
    left: usize,
}

impl Folder {
    /// For a page of at most `limit` entries after the name `after`.
    pub fn new(prefix: &str, delimiter: Option<&str>, after: &str, limit: usize) -> Self {
        Self {
            prefix: prefix.into(),
            delimiter: delimiter.filter(|text| !text.is_empty()).map(Into::into),
            after: after.into(),
            include_after: false,
            left: limit,
        }
    }

    /// Also offers the key `after` itself: for lists of versions or uploads that go on within a key.
    #[must_use]
    pub fn including_after(mut self) -> Self {
        self.include_after = true;
        self
    }

    /// The least key worth scanning (inclusive).
    pub fn seek(&self) -> &str {
        self.prefix.as_str().max(self.after.as_str())
    }

    /// One more entry of the same key (a version, an upload); false if the page is full.
    pub fn taken(&mut self) -> bool {
        let room = self.left > 0;
        self.left = self.left.saturating_sub(1);
        room
    }

    /// What to do with the next key of the scan.
    pub fn offer(&mut self, key: &str) -> Fold {
        let Some(rest) = key.strip_prefix(&self.prefix) else {
            let seek = (key < self.prefix.as_str()).then(|| self.prefix.clone());
            return if seek.is_some() { Fold::Skip { seek } } else { Fold::End };
        };
        match self.common(key, rest) {
            Some(name) => self.offer_prefix(key, name),
            None if key < self.after.as_str() || (key == self.after && !self.include_after) => {
                Fold::Skip { seek: Some(self.after.clone()) }
            }
            None if self.taken() => Fold::Take,
            None => Fold::Full,
        }
    }

    fn common(&self, key: &str, rest: &str) -> Option<String> {
        let delimiter = self.delimiter.as_deref()?;
        let end = self.prefix.len() + rest.find(delimiter)? + delimiter.len();
        key.get(..end).map(Into::into)
    }

    /// A page that goes on after a common prefix is past all below it; one that goes on after a key below it is not.
    fn offer_prefix(&mut self, key: &str, name: String) -> Fold {
        let seek = successor(&name);
        if name == self.after {
            Fold::Skip { seek }
        } else if key <= self.after.as_str() {
            Fold::Skip { seek: Some(self.after.clone()) }
        } else if self.taken() {
            // Whoever scans on below it is told to go on behind it.
            self.after.clone_from(&name);
            Fold::Prefix { name, seek }
        } else {
            Fold::Full
        }
    }
}

/// The least text greater than every text that begins with `prefix`; `None` if there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page over these keys by brute force through the folder.
    fn page(keys: &[&str], mut folder: Folder) -> (Vec<String>, bool) {
        let mut keys: Vec<&str> = keys.to_vec();
        keys.sort();
        let mut seek = folder.seek().to_owned();
        let mut entries = Vec::new();
        for key in keys {
            if key < seek.as_str() {
                continue;
            }
            match folder.offer(key) {
                Fold::Take => entries.push(key.to_owned()),
                Fold::Prefix { name, seek: next } => {
                    entries.push(name);
                    seek = next.unwrap_or_else(|| "\u{10ffff}".repeat(300));
                }
                Fold::Skip { seek: next } => seek = next.unwrap_or_else(|| "\u{10ffff}".repeat(300)),
                Fold::Full => return (entries, true),
                Fold::End => break,
            }
        }
        (entries, false)
    }

    const KEYS: &[&str] = &["a", "a/", "a/b", "a/c", "a0", "b/x", "b/y/z", "é/1", "é/2", "\u{10ffff}/1"];

    #[test]
    fn folds_by_delimiter_in_byte_order() {
        let (entries, more) = page(KEYS, Folder::new("", Some("/"), "", 1000));
        assert_eq!(entries, ["a", "a/", "a0", "b/", "é/", "\u{10ffff}/"]);
        assert!(!more);
        assert_eq!(page(KEYS, Folder::new("a/", Some("/"), "", 1000)).0, ["a/", "a/b", "a/c"]);
        assert_eq!(page(KEYS, Folder::new("b", Some("/"), "", 1000)).0, ["b/"]);
        assert_eq!(page(KEYS, Folder::new("", None, "", 1000)).0, KEYS);
    }

    #[test]
    fn pages_of_any_size_join_to_the_whole() {
        for delimiter in [None, Some("/"), Some("/y")] {
            for prefix in ["", "a", "b/", "é"] {
                let whole = page(KEYS, Folder::new(prefix, delimiter, "", 1000)).0;
                for limit in 1..5 {
                    let mut joined: Vec<String> = Vec::new();
                    loop {
                        let after = joined.last().cloned().unwrap_or_default();
                        let (entries, more) = page(KEYS, Folder::new(prefix, delimiter, &after, limit));
                        joined.extend(entries);
                        if !more {
                            break;
                        }
                    }
                    assert_eq!(joined, whole, "{delimiter:?} {prefix:?} {limit}");
                }
            }
        }
    }

    #[test]
    fn a_prefix_comes_once_and_stands_for_what_is_behind_the_mark() {
        // Offered key by key, as by who does not seek.
        let mut folder = Folder::new("", Some("/"), "", 3);
        let offered = ["a/1", "a/2", "b", "c/1", "c/2", "d"].map(|key| folder.offer(key));
        assert!(matches!(&offered[0], Fold::Prefix { name, .. } if name == "a/"));
        assert!(matches!(&offered[1], Fold::Skip { .. }), "{:?}", offered[1]);
        assert_eq!(offered[2], Fold::Take);
        assert!(matches!(&offered[3], Fold::Prefix { .. }) && matches!(&offered[4], Fold::Skip { .. }));
        assert_eq!(offered[5], Fold::Full);
        let after = |mark: &str| page(KEYS, Folder::new("a", Some("/"), mark, 1000)).0;
        assert_eq!(after("a/b"), ["a/", "a0"], "a/c is behind the mark");
        assert_eq!(after("a/c"), ["a0"]);
        assert_eq!(after("a/"), ["a0"], "all of the prefix was on an earlier page");
    }

    #[test]
    fn an_empty_page_says_whether_there_is_more() {
        assert_eq!(page(KEYS, Folder::new("", None, "", 0)), (vec![], true));
        assert_eq!(page(KEYS, Folder::new("zz", None, "", 0)), (vec![], false));
    }

    #[test]
    fn the_successor_skips_surrogates_and_carries() {
        assert_eq!(successor("a/"), Some("a0".into()));
        assert_eq!(successor("\u{d7ff}"), Some("\u{e000}".into()));
        assert_eq!(successor("a\u{10ffff}"), Some("b".into()));
        assert_eq!(successor("\u{10ffff}"), None);
    }
}
