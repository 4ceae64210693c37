//! The door: lets strangers in who hold an invitation, and stores their site record before they are told.

use std::sync::Arc;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::limits::MESSAGE_BYTES;
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{
    self as model, NodeEntry, SiteDocument, SiteState, SystemKey, document_object, sites,
};
use skerry_model::space;

use crate::net::Stream;
use crate::paths::bucket::Declared;
use crate::site::{Site, unreadable};
use crate::telemetry::seldom::Seldom;
use crate::trust::invite::InviteBook;
use crate::trust::join::{self, Admitted, JoinError};
use crate::trust::{PublicKey, SignedSeat, SiteStatement, SiteTrust};

/// How many bytes of records a joining site is told: what a message may have, and room for what else is said.
const TOLD_BYTES: usize = MESSAGE_BYTES - (64 << 10);
/// What a record takes beside its bytes.
const LENGTH_BYTES: usize = 5;

/// What is needed to let sites in.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) trust: Arc<SiteTrust>,
    pub(crate) invites: Arc<InviteBook>,
    /// Strangers that were not let in lately, as far as that was said.
    pub(crate) turned_away: Arc<Seldom>,
}

impl Door {
    /// Serves a stranger's stream.
    pub(crate) async fn open(&self, site: &Arc<Site>, key: PublicKey, stream: Stream) {
        let now = site.clock.wall();
        // Who asks again because the answer was lost has the name already.
        let roster = &site.peers.roster;
        let taken =
            |name: &str| roster.all().into_values().any(|known| known.name == name && known.key != key);
        match join::receive(stream, key, &self.trust, (&self.invites, &taken), now).await {
            Err(error) if self.turned_away.is_due(key.node(), site.clock.now()) => {
                tracing::warn!(%key, %error, "a stranger was not let in");
            }
            Err(error) => tracing::debug!(%key, %error, "a stranger was not let in again"),
            Ok(admitted) => {
                let name = admitted.statement.name.clone();
                match self.admit(site, admitted).await {
                    Ok(()) => tracing::info!(site = name, "a site joined the federation"),
                    Err(error) => tracing::warn!(site = name, %error, "a site was admitted but not told"),
                }
            }
        }
    }

    async fn admit(&self, site: &Arc<Site>, admitted: Admitted) -> Result<(), JoinError> {
        let (statement, addresses) = (admitted.statement.clone(), admitted.addresses.clone());
        // Whoever belongs already asks again because the answer was lost.
        let known = site.peers.roster.node(statement.site).is_some();
        if let Some(reason) = site.peers.roster.full().filter(|_| !known) {
            tracing::warn!(site = statement.name, reason, "a site with an invitation was not let in");
            return admitted.refuse(&reason).await;
        }
        let seat = admitted.seat.as_ref().map(SignedSeat::encode);
        let admissions = [admitted.admission.encode()].into_iter().chain(seat).map(Bytes::from).collect();
        match self.record(site, statement, admissions, addresses).await {
            Ok(Some(roster)) => admitted.welcome(roster).await,
            Ok(None) => admitted.refuse("this site was expelled from the federation, or replaced").await,
            Err(error) => {
                tracing::error!(%error, "the record of a new site was not stored");
                admitted.refuse("the inviting site could not store the new site's record").await
            }
        }
    }

    async fn record(
        &self,
        site: &Arc<Site>,
        statement: SiteStatement,
        admissions: Vec<Bytes>,
        addresses: Vec<String>,
    ) -> Outcome<Option<Vec<Vec<u8>>>> {
        let document = SiteDocument {
            name: statement.name.clone(),
            nodes: vec![NodeEntry { node: statement.node(), key: statement.node.0, addresses }],
            admissions,
            state: SiteState::Member,
            joined: statement.admitted,
        };
        declare(site, "", statement.site, document).await?;
        let (system, about, me) = (site.system, statement.site, site.id);
        let roster = move |view: &dyn View| {
            // Its token is good for it until it expires: not once it belongs no more.
            let known = model::site(view, system, about).map_err(unreadable)?;
            match known.is_some_and(|known| known.state == SiteState::Member) {
                true => roster(view, system, me).map(Some),
                false => Ok(None),
            }
        };
        site.read(roster).await
    }
}

/// Writes a site's document, unless it says the same already; `writer` is who asked for it.
pub(crate) async fn declare(
    site: &Arc<Site>,
    writer: &str,
    about: SiteId,
    document: SiteDocument,
) -> Outcome<()> {
    let (system, key) = (site.system, SystemKey::Site(about).to_string());
    let decide = move |view: &dyn View, wall| {
        let known = sites(view, system).map_err(unreadable)?;
        // Whoever was expelled does not say of itself that it was not.
        // Whose place was taken stays so, also for one who had not heard.
        let stays = |said: &SiteDocument| {
            let expels = document.state == SiteState::Expelled;
            *said == document
                || (said.state != SiteState::Member && document.state == SiteState::Member)
                || (matches!(said.state, SiteState::Replaced(_)) && expels)
        };
        if known.iter().any(|(known, said)| *known == about && stays(said)) {
            return Ok(((), None));
        }
        Ok(((), Some(Declared::document(key, document_object(&document, wall)))))
    };
    site.declare(writer, decide).await
}

/// The records of sites for one that joins, as many as go into one message: this one's first, then of those that belong. What is
/// left out (of a thousand sites with many long addresses each) it hears in the feed of the system bucket, as all that changes.
pub(crate) fn roster(view: &dyn View, system: BucketId, me: SiteId) -> Outcome<Vec<Vec<u8>>> {
    let mut sites: Vec<_> = sites(view, system).map_err(unreadable)?.into_iter().collect();
    sites.sort_by_key(|(site, document)| (*site != me, document.state != SiteState::Member));
    let (mut records, mut bytes) = (Vec::new(), 0);
    for (site, _) in sites {
        let key = SystemKey::Site(site).to_string();
        if let Some(record) = space::current(view, system, &key).map_err(unreadable)? {
            let record = record.encode();
            bytes += record.len() + LENGTH_BYTES;
            if bytes > TOLD_BYTES {
                break;
            }
            records.push(record);
        }
    }
    Ok(records)
}
