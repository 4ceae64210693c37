//! Access keys as S3 programs expect them: 20 upper-case letters and digits, and a secret of 40 characters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::entropy::{self, NoEntropy};

/// An access key of a user, in the clear.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// The public half: `SK` and 18 letters and digits.
    pub id: String,
    /// The secret: 40 characters.
    pub secret: String,
}

/// Shortest id and secret of an access key that is not drawn here.
const ID_LETTERS: usize = 3;
const SECRET_LETTERS: usize = 8;

/// An access key, or admin token, that would keep nobody out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Weak {
    /// The id of an access key says nothing.
    #[error(
        "the access key is empty; is a variable (SKERRY_ACCESS_KEY) set to nothing? Say one, or leave it and the secret out"
    )]
    NoId,
    /// The secret says nothing.
    #[error(
        "the secret of the access key is empty; is a variable (SKERRY_SECRET_KEY) set to nothing? Say one, or leave both out"
    )]
    NoSecret,
    /// The id is short.
    #[error("an access key has {ID_LETTERS} letters at least")]
    ShortId,
    /// The secret is short.
    #[error("the secret of an access key has {SECRET_LETTERS} letters at least")]
    ShortSecret,
}

impl AccessKey {
    /// Whether it says anything: an empty secret is one that everybody knows.
    pub fn check_said(&self) -> Result<(), Weak> {
        match (self.id.trim().is_empty(), self.secret.trim().is_empty()) {
            (true, _) => Err(Weak::NoId),
            (_, true) => Err(Weak::NoSecret),
            _ => Ok(()),
        }
    }

    /// Whether it is long enough to be made.
    pub fn check_strength(&self) -> Result<(), Weak> {
        self.check_said()?;
        match (self.id.len() < ID_LETTERS, self.secret.len() < SECRET_LETTERS) {
            (true, _) => Err(Weak::ShortId),
            (_, true) => Err(Weak::ShortSecret),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccessKey({})", self.id)
    }
}

/// Draws a new access key: 90 bits of name, 240 bits of secret.
pub fn generate() -> Result<AccessKey, NoEntropy> {
    // Base 32 without the digits that are read as letters: each character takes 5 whole bits, none is favoured.
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let draw = entropy::bytes::<18>()?;
    let letters = draw.iter().filter_map(|byte| LETTERS.get(usize::from(byte & 31)).copied());
    let id = "SK".chars().chain(letters.map(char::from)).collect();
    let secret = STANDARD_NO_PAD.encode(entropy::bytes::<30>()?);
    Ok(AccessKey { id, secret })
}

/// Draws a token for the admin API: 256 bits in URL-safe letters.
pub fn admin_token() -> Result<String, NoEntropy> {
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(entropy::bytes::<32>()?))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_everybody_could_guess_is_no_key() {
        let key = |id: &str, secret: &str| AccessKey { id: id.into(), secret: secret.into() };
        assert_eq!(key("", "").check_said(), Err(Weak::NoId));
        assert_eq!(key("SKFIRST", " ").check_said(), Err(Weak::NoSecret));
        assert_eq!(key("SKFIRST", "short").check_said(), Ok(()), "an older release made such keys");
        assert_eq!(key("SKFIRST", "short").check_strength(), Err(Weak::ShortSecret));
        assert_eq!(key("SK", "long enough").check_strength(), Err(Weak::ShortId));
        assert_eq!(key("SKFIRST", "").check_strength(), Err(Weak::NoSecret));
        assert_eq!(generate().unwrap().check_strength(), Ok(()));
    }

    #[test]
    fn keys_have_the_shape_that_clients_expect_and_differ() {
        let (a, b) = (generate().unwrap(), generate().unwrap());
        assert_ne!(a, b);
        assert_eq!((a.id.len(), a.secret.len()), (20, 40));
        assert!(a.id.starts_with("SK") && a.id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()));
        assert!(!format!("{a:?}").contains(&a.secret));
        assert_eq!(admin_token().unwrap().len(), 43);
    }
}
