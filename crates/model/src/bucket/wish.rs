//! How many copies a bucket wants, and where: in all, in every area, in some.
//!
//! Kept in a bucket's settings as text beside the number that releases before know ([`BucketConfig::copies`]): those pass
//! the text on and place that number, wherever it is. Invariants: a wish is written in one way only, so that equal wishes
//! are equal texts; one that this release cannot read is no wish for less: nothing is let go of while it stands.

use core::fmt;
use std::collections::BTreeMap;

use super::BucketConfig;
use super::area::is_area_name;
use crate::record::Scope;

/// Names of the settings among [`BucketConfig::more`].
const IN: &str = "copies-in";
const LIVES: &str = "lives-in";

/// The most copies in all, or of one area.
pub const COPIES_MOST: u8 = 16;
/// The most areas that a wish names.
const AREAS_NAMED: usize = 16;

/// What areas are to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AreaWish {
    /// Copies in each area that has sites; 0: only where it is said.
    pub each: u8,
    /// Copies in these.
    pub areas: BTreeMap<String, u8>,
}

/// Why a text is no wish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not understood: copies are a number from 1 to 16, `N in AREA`, `N in each area`, or several of these with \
     commas between them (`3, 1 in oslo, 1 in bergen`), each area once"
)]
pub struct WishError(String);

impl AreaWish {
    /// Whether nothing is asked of areas.
    pub fn is_none(&self) -> bool {
        self.each == 0 && self.areas.is_empty()
    }

    /// Reads a wish: copies in all, and of areas. In all there are no fewer than an area is to hold.
    pub fn parse(text: &str) -> Result<(u8, Self), WishError> {
        let wrong = || WishError(text.to_owned());
        let (mut all, mut wish) = (None, Self::default());
        for clause in text.split(',') {
            let words: Vec<&str> = clause.split_whitespace().collect();
            let copies = words.first().and_then(|number| number.parse::<u8>().ok());
            let copies = copies.filter(|copies| (1..=COPIES_MOST).contains(copies)).ok_or_else(wrong)?;
            let is_new = match words.get(1..).unwrap_or_default() {
                [] => all.replace(copies).is_none(),
                ["in", "each", "area"] => std::mem::replace(&mut wish.each, copies) == 0,
                ["in", area] if is_area_name(area) => wish.areas.insert((*area).to_owned(), copies).is_none(),
                _ => false,
            };
            if !is_new || wish.areas.len() > AREAS_NAMED {
                return Err(wrong());
            }
        }
        let most = wish.most();
        Ok((all.unwrap_or(most).max(most), wish))
    }

    /// The largest number that is named.
    fn most(&self) -> u8 {
        self.areas.values().copied().chain([self.each]).max().unwrap_or(0)
    }

    /// What the area of this name is to hold.
    pub fn of(&self, area: &str) -> u8 {
        self.areas.get(area).copied().unwrap_or(self.each)
    }
}

/// As it is read; nothing for no wish.
impl fmt::Display for AreaWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = (self.each > 0).then(|| format!("{} in each area", self.each));
        let some = self.areas.iter().map(|(area, copies)| format!("{copies} in {area}"));
        let all: Vec<String> = each.into_iter().chain(some).collect();
        f.write_str(&all.join(", "))
    }
}

impl BucketConfig {
    pub(super) fn setting(&self, name: &str) -> &str {
        let found = self.more.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.more.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.more.push((name.to_owned(), value));
        }
    }

    /// What areas are to hold; none if a later release said it in words that this one does not understand.
    pub fn area_wish(&self) -> Option<AreaWish> {
        match self.setting(IN) {
            "" => Some(AreaWish::default()),
            text => AreaWish::parse(text).ok().map(|(_, wish)| wish),
        }
    }

    /// How many copies are wanted in all: never fewer than of one area, even where a release before changed the number, which
    /// is all that it knows of.
    pub fn copies_in_all(&self) -> u8 {
        self.area_wish().map_or(self.copies, |wish| wish.most().max(self.copies))
    }

    /// Whether a later release said of areas what this one does not understand.
    pub fn is_unread(&self) -> bool {
        self.area_wish().is_none() || self.lives_in().is_some_and(|area| !is_area_name(area))
    }

    /// How many copies are wanted, in words.
    pub fn copies_in_words(&self) -> String {
        let wish = match self.area_wish() {
            Some(wish) => wish.to_string(),
            None => format!("`{}`, which this release does not understand", self.setting(IN)),
        };
        let all = self.copies_in_all();
        if wish.is_empty() { all.to_string() } else { format!("{all}, {wish}") }
    }

    /// Says how many copies are wanted in all, and of areas.
    pub fn set_copies(&mut self, copies: u8, wish: &AreaWish) {
        let scope = self.ack_scope();
        self.copies = copies;
        self.set(IN, wish.to_string());
        if scope == Scope::Durable {
            self.set_ack_scope(scope);
        }
    }

    /// The area that the bucket lives in; none for everywhere.
    pub fn lives_in(&self) -> Option<&str> {
        Some(self.setting(LIVES)).filter(|area| !area.is_empty())
    }

    /// Says where it lives; empty for everywhere.
    pub fn set_lives_in(&mut self, area: &str) {
        self.set(LIVES, area.to_owned());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn parsed(text: &str) -> (u8, String) {
        let (all, wish) = AreaWish::parse(text).unwrap();
        (all, wish.to_string())
    }

    #[test]
    fn a_wish_is_read_and_written_in_one_way() {
        assert_eq!(parsed("2"), (2, String::new()));
        assert_eq!(parsed("2 in oslo"), (2, "2 in oslo".into()));
        assert_eq!(parsed(" 2  in each area "), (2, "2 in each area".into()));
        assert_eq!(parsed("1 in oslo, 3, 2 in bergen"), (3, "2 in bergen, 1 in oslo".into()));
        assert_eq!(parsed("1, 2 in oslo"), (2, "2 in oslo".into()), "two there are two in all");
        assert_eq!(parsed("2 in oslo,1 in each area"), (2, "1 in each area, 2 in oslo".into()));
        for wrong in [
            "",
            "0",
            "17",
            "2 in",
            "2 in Oslo",
            "two",
            "2,3",
            "2 in oslo, 1 in oslo",
            "2 in each",
            "2 oslo",
            "1,",
        ] {
            assert!(AreaWish::parse(wrong).is_err(), "{wrong}");
        }
        let many: Vec<String> = (0..17).map(|number| format!("1 in a{number}")).collect();
        assert!(AreaWish::parse(&many.join(",")).is_err());
    }

    #[test]
    fn an_area_that_is_named_is_not_each() {
        let (_, wish) = AreaWish::parse("1 in each area, 2 in oslo").unwrap();
        assert_eq!((wish.of("oslo"), wish.of("bergen")), (2, 1));
    }

    #[test]
    fn settings_of_a_later_release_are_kept_and_no_wish_for_less() {
        let mut config = BucketConfig { copies: 1, ..BucketConfig::default() };
        assert_eq!((config.area_wish(), config.lives_in()), (Some(AreaWish::default()), None));
        config.more.push(("later".into(), "x".into()));
        config.more.push((IN.into(), "2 in every cellar".into()));
        assert_eq!(config.area_wish(), None);
        assert!(config.copies_in_words().contains("does not understand"));
        let (all, wish) = AreaWish::parse("2 in oslo").unwrap();
        config.set_copies(all, &wish);
        config.set_lives_in("bergen");
        assert_eq!((config.copies, config.area_wish(), config.lives_in()), (2, Some(wish), Some("bergen")));
        assert_eq!(config.copies_in_words(), "2, 2 in oslo");
        assert!(!config.is_unread());
        config.set_lives_in("oslo bergen");
        assert!(config.is_unread(), "two areas: a later release may mean something by that");
        // A release before knows the number only.
        config.copies = 1;
        assert_eq!((config.copies_in_all(), config.copies_in_words().as_str()), (2, "2, 2 in oslo"));
        config.set_copies(1, &AreaWish::default());
        config.set_lives_in("");
        assert_eq!(config.more, [("later".to_owned(), "x".to_owned())]);
        assert_eq!(config.copies_in_words(), "1");
    }
}
