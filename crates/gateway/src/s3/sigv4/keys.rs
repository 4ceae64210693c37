//! Signing keys of the day, kept: deriving one costs four times as much as using it.
//!
//! Invariants: a key serves only the secret, day and region that it was derived from, so that a secret that was
//! replaced or a key that was taken away is felt at once; only what verified a signature is kept; bounded.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::SigningKey;

/// Access keys whose signing key is kept; beyond it the memory starts anew.
const KEPT: usize = 256;

/// What a signing key is derived from, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Used<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) date: &'a str,
    pub(crate) region: &'a str,
}

struct Kept {
    secret: String,
    date: String,
    region: String,
    key: SigningKey,
}

impl Kept {
    fn serves(&self, used: Used<'_>) -> bool {
        self.date == used.date && self.region == used.region && self.secret == used.secret
    }
}

/// The last signing key of each access key.
#[derive(Default)]
pub(crate) struct SigningKeys(RwLock<BTreeMap<String, Kept>>);

impl core::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SigningKeys")
    }
}

impl SigningKeys {
    /// The key, kept or derived.
    pub(crate) fn of(&self, used: Used<'_>) -> SigningKey {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match kept.get(used.access_key).filter(|kept| kept.serves(used)) {
            Some(kept) => kept.key.clone(),
            None => SigningKey::derive(used.secret, used.date, used.region, "s3"),
        }
    }

    /// Keeps a key that verified a signature.
    pub(crate) fn keep(&self, used: Used<'_>, key: &SigningKey) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.get(used.access_key).is_some_and(|kept| kept.serves(used)) {
            return;
        }
        drop(known);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        let Used { access_key, secret, date, region } = used;
        let (secret, date, region) = (secret.into(), date.into(), region.into());
        kept.insert(access_key.into(), Kept { secret, date, region, key: key.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_serves_only_what_it_was_derived_from() {
        let keys = SigningKeys::default();
        let used = Used { access_key: "A", secret: "s", date: "20130524", region: "r" };
        let signed = |used: Used<'_>| keys.of(used).sign("text");
        let first = signed(used);
        keys.keep(used, &keys.of(used));
        assert_eq!(signed(used), first);
        for other in
            [Used { secret: "t", ..used }, Used { date: "20130525", ..used }, Used { region: "q", ..used }]
        {
            let derived = SigningKey::derive(other.secret, other.date, other.region, "s3").sign("text");
            assert_eq!(signed(other), derived);
            assert_ne!(derived, first);
        }
    }
}
