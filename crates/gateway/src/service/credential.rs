//! Access keys: what signature V4 needs to know of one.

use async_trait::async_trait;

use super::{Outcome, Principal};

/// A key that may sign.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The secret; never printed.
    pub secret: String,
    /// Whom it stands for.
    pub principal: Principal,
}

impl core::fmt::Debug for Credential {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Credential").field("principal", &self.principal).finish_non_exhaustive()
    }
}

/// Looks up access keys; answers from the site itself, without a message to another one.
#[async_trait]
pub trait CredentialService: Send + Sync + 'static {
    /// The credential of this access key. Unknown and disabled keys are `InvalidAccessKeyId`.
    async fn credential(&self, access_key: &str) -> Outcome<Credential>;
}
