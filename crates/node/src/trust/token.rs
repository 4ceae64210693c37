//! Join tokens: everything a new site needs to find and to trust the site that invites it, as one line of text.
//!
//! `skerry1.` and base64url of the encoded token with four bytes of its BLAKE3 hash: a token that lost letters
//! on its way through a chat window is called damaged, not foreign.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use skerry_base::WallTime;
use skerry_base::codec::{self, Versioned};

use super::TrustError;
use super::identity::PublicKey;
use super::invite::invite_key;

const PREFIX: &str = "skerry1.";
const CHECK_BYTES: usize = 4;

/// An invitation as the joining site gets it. Whoever holds it can join once, until it expires.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The federation.
    pub federation: [u8; 16],
    /// Its root key: from now on the joining site believes only what derives from it.
    pub root: PublicKey,
    /// The key that the inviting node must prove.
    pub inviter: PublicKey,
    /// Where to dial it, as `host:port`.
    pub addresses: Vec<String>,
    /// The name that the joining site is to have.
    pub site: String,
    /// Seed of the one-time key that proves the invitation. Secret.
    pub secret: [u8; 32],
    /// When it ends, by the inviter's clock.
    pub expires: WallTime,
}

impl JoinToken {
    /// The public half of its one-time key: which invitation it is, and no secret.
    pub(crate) fn invitation(&self) -> Result<PublicKey, TrustError> {
        Ok(invite_key(&self.secret)?.1)
    }
}

impl Versioned for JoinToken {
    const NAME: &'static str = "join token";
    const VERSION: u8 = 1;
}

/// A text that is not a join token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// It does not start like one.
    #[error("a join token starts with `skerry1.`")]
    Prefix,
    /// It starts like one.
    #[error("the join token is damaged or cut short: {0}")]
    Damaged(String),
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = codec::encode(self);
        let check = blake3::hash(&bytes);
        bytes.extend(check.as_bytes().iter().take(CHECK_BYTES));
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken(for {})", self.site)
    }
}

impl FromStr for JoinToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let damaged = |reason: &dyn fmt::Display| InvalidToken::Damaged(reason.to_string());
        let letters = text.trim().strip_prefix(PREFIX).ok_or(InvalidToken::Prefix)?;
        let bytes = URL_SAFE_NO_PAD.decode(letters).map_err(|error| damaged(&error))?;
        let (body, check) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or_else(|| damaged(&"too short"))?;
        if !blake3::hash(body).as_bytes().starts_with(check) {
            return Err(damaged(&"its check does not fit"));
        }
        codec::decode(body).map_err(|error| damaged(&error))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::trust::Identity;

    #[test]
    fn a_token_comes_back_and_damage_is_named() {
        let key = Identity::generate().unwrap().public();
        let token = JoinToken {
            federation: [3; 16],
            root: key,
            inviter: key,
            addresses: vec!["north.example:7700".into(), "[::1]:7700".into()],
            site: "south".into(),
            secret: [9; 32],
            expires: WallTime(99),
        };
        let text = token.to_string();
        assert!(text.starts_with("skerry1.") && !text.contains(['+', '/', '=', ' ']));
        assert_eq!(format!(" {text}\n").parse::<JoinToken>().unwrap(), token);
        assert_eq!("AKIA".parse::<JoinToken>(), Err(InvalidToken::Prefix));
        for end in PREFIX.len()..text.len() {
            assert!(matches!(text[..end].parse::<JoinToken>(), Err(InvalidToken::Damaged(_))), "{end}");
        }
        assert!(!format!("{token:?}").contains("9, 9"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(skerry1\\.)?\\PC*", bytes: Vec<u8>) {
            proptest::prop_assert!(text.parse::<JoinToken>().is_err());
            // Also with a check that fits.
            let check = blake3::hash(&bytes);
            let whole = [&bytes[..], &check.as_bytes()[..CHECK_BYTES]].concat();
            let _ = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(whole)).parse::<JoinToken>();
        }
    }
}
