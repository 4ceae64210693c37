//! The one place where randomness enters: the operating system's, through ring.
//!
//! Pure rooms get their seeds from here; nothing else in the node draws by itself.

use std::sync::LazyLock;

use ring::rand::{SecureRandom, SystemRandom};

static SYSTEM: LazyLock<SystemRandom> = LazyLock::new(SystemRandom::new);

/// The system gave no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no randomness")]
pub struct NoEntropy;

/// The source, for libraries that draw themselves.
pub(super) fn source() -> &'static SystemRandom {
    &SYSTEM
}

/// `N` random bytes: keys, secrets, identities, seeds.
pub fn bytes<const N: usize>() -> Result<[u8; N], NoEntropy> {
    let mut bytes = [0; N];
    SYSTEM.fill(&mut bytes).map_err(|_| NoEntropy)?;
    Ok(bytes)
}

/// A random number: incarnations, seeds of the pure machines.
pub fn number() -> Result<u64, NoEntropy> {
    bytes().map(u64::from_be_bytes)
}

/// A random share between 0 and 1 for jitter; a half when there is no randomness, since jitter protects
/// nothing but the load.
pub fn share() -> f64 {
    number().map_or(0.5, |number| (number >> 11) as f64 / (1_u64 << 53) as f64)
}
