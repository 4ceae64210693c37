//! Who is trusted and why: keys, the federation's root, admission of sites, join tokens, sealed secrets.
//!
//! Why here: `model` says what a site document holds, this folder says whether to believe it.
//!
//! Invariants: the root key is on no site; what is not signed by the chain root → admin → statement is
//! refused, whoever sent it; secrets never appear in `Debug` or in logs.

pub mod entropy;
pub mod identity;

pub use identity::{Identity, InvalidKey, PublicKey, Signature};
