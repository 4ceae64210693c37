//! Access keys, from this site's own copy of their records: works while cut off.

use std::sync::Arc;

use async_trait::async_trait;
use skerry_gateway::service::{Credential, CredentialService, Outcome, Principal};
use skerry_model::policy;

use super::bucket::{refused_access, unknown_key};
use crate::credential_keys;
use crate::site::Site;

/// Access keys of a site.
pub(crate) struct Credentials(pub(crate) Arc<Site>);

/// What a sealed secret is about: it opens for no other key.
pub(crate) fn about(access_key: &str) -> String {
    format!("access key {access_key}")
}

#[async_trait]
impl CredentialService for Credentials {
    async fn credential(&self, access_key: &str) -> Outcome<Credential> {
        let key = self.0.access_key(access_key).await?.ok_or_else(unknown_key)?;
        policy::authenticates(&key, self.0.id, self.0.clock.wall())
            .map_err(|denied| refused_access(&denied))?;
        let opened = self.0.credentials.ring.open(&about(access_key), &key.secret).ok();
        let Some(secret) = opened.and_then(|secret| String::from_utf8(secret).ok()) else {
            return Err(credential_keys::unopened(access_key));
        };
        // A site of an older release may have made such a record, and all sites have it: whoever asks knows that secret.
        if access_key.trim().is_empty() || secret.trim().is_empty() {
            return Err(unknown_key());
        }
        let principal = Principal { access_key: access_key.into(), owner: key.owner };
        Ok(Credential { secret, principal })
    }
}
