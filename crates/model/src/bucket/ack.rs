//! How far a bucket's writes are to be durable before they are answered.
//!
//! `area` and `durable` are kept as text among the further settings, beside the nearest scope that releases before know
//! ([`BucketConfig::scope`]): a site of such a release waits for that, wherever the sites are. Invariants: the text names the
//! scope that it stands beside and holds no longer than that, so that what an operator says at a site of a release before
//! wins; what `durable` stands beside follows the copies that are wanted.

use super::BucketConfig;
use crate::record::Scope;

/// Name of the setting among [`BucketConfig::more`].
const ACK: &str = "ack-scope";
/// Of an area, where its bucket asks for nothing in it: what one fire cannot take.
pub const AREA_PLACES: u8 = 2;

/// What releases before are told instead, as a number of sites.
const fn sites(scope: Scope) -> u16 {
    match scope {
        Scope::Sites(count) => count,
        Scope::Site => 1,
        _ => 0,
    }
}

impl BucketConfig {
    /// How far a write is to be durable before it is acknowledged.
    pub fn ack_scope(&self) -> Scope {
        let beside = |text: &str| text.parse() == Ok(sites(self.scope));
        match self.setting(ACK).split_once(' ') {
            Some(("area", text)) if beside(text) => Scope::Area,
            Some(("durable", text)) if beside(text) => Scope::Durable,
            _ => self.scope,
        }
    }

    /// Says how far.
    pub fn set_ack_scope(&mut self, scope: Scope) {
        let (word, count) = match scope {
            Scope::Area => ("area", AREA_PLACES),
            Scope::Durable => ("durable", self.copies_in_all()),
            scope => {
                self.set(ACK, String::new());
                self.scope = scope;
                return;
            }
        };
        self.scope = if count > 1 { Scope::Sites(u16::from(count)) } else { Scope::Site };
        self.set(ACK, format!("{word} {}", sites(self.scope)));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::AreaWish;
    use super::*;

    fn asked(scope: Scope) -> BucketConfig {
        let mut config = BucketConfig { copies: 3, ..BucketConfig::default() };
        config.set_ack_scope(scope);
        config
    }

    #[test]
    fn every_scope_is_read_as_it_was_said() {
        for scope in [Scope::Node, Scope::Site, Scope::Sites(1), Scope::Sites(5), Scope::Area, Scope::Durable]
        {
            assert_eq!(asked(scope).ack_scope(), scope);
        }
        assert_eq!(asked(Scope::Sites(5)).more, []);
        let mut config = asked(Scope::Durable);
        config.set_ack_scope(Scope::Site);
        assert_eq!((config.ack_scope(), config.more), (Scope::Site, vec![]));
    }

    #[test]
    fn a_release_before_waits_for_as_many_sites() {
        assert_eq!(
            (asked(Scope::Area).scope, asked(Scope::Durable).scope),
            (Scope::Sites(2), Scope::Sites(3))
        );
        let mut config = asked(Scope::Durable);
        let (all, wish) = AreaWish::parse("4 in oslo").unwrap();
        config.set_copies(all, &wish);
        assert_eq!((config.scope, config.ack_scope()), (Scope::Sites(4), Scope::Durable));
        config.set_copies(1, &AreaWish::default());
        assert_eq!((config.scope, config.ack_scope()), (Scope::Site, Scope::Durable));
        let mut config = asked(Scope::Area);
        config.set_copies(5, &AreaWish::default());
        assert_eq!((config.scope, config.ack_scope()), (Scope::Sites(2), Scope::Area));
    }

    #[test]
    fn what_is_said_at_a_release_before_holds() {
        let mut config = asked(Scope::Durable);
        config.scope = Scope::Node;
        assert_eq!(config.ack_scope(), Scope::Node);
        // It knows the number of copies only; what is waited for there stays as it was.
        let mut config = asked(Scope::Durable);
        config.copies = 1;
        assert_eq!((config.scope, config.ack_scope()), (Scope::Sites(3), Scope::Durable));
    }

    #[test]
    fn words_of_a_later_release_leave_the_scope_beside_them() {
        let mut config = asked(Scope::Sites(2));
        config.more.push((ACK.into(), "2 in oslo 2".into()));
        assert_eq!(config.ack_scope(), Scope::Sites(2));
    }
}
