//! Credential keys at work: makes one where what is sealed must not open at sites that are gone, tells them to sites that belong,
//! and asks for those that others made.
//!
//! What is decided is decided by [`skerry_model::bucket::CredentialKeys`]; their file is `trust/ring.rs`. Invariants: a key is on
//! this site's disk before anybody hears of it, and its document is said again wherever the records lack it; its bytes leave the
//! site only as an answer to a member, over a link of which both ends are proven; a request of a client reads no documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{CredentialKeyId, SiteId};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::bucket::{
    self as model, CredentialDocument, CredentialKeys, KeyDocument, Sealer, SiteDocument, SiteState,
};

use crate::admin::WRITER;
use crate::paths::bucket::Declared;
use crate::paths::credentials::about;
use crate::paths::{declared, refusal};
use crate::peers::message::Response;
use crate::roster_watch;
use crate::site::{Site, unreadable};
use crate::trust::{CredentialRing, LaterKey, PublicKey, SealingKey, TrustError, ring};

mod asking;
mod exposed;

pub(crate) use exposed::{exposed, exposed_to};

/// Keys in one question: where more are missing each question is for others of them.
const TOGETHER: usize = 64;
/// How often it is seen who is linked while a key is missing, and what is known after something has changed: once in so many
/// times what a look took, but not sooner and not later than these.
const SHARE: u32 = 100;
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Keys that are made for one secret: another site may go meanwhile.
const MADE: usize = 4;
/// Names of gone sites that are shown of one access key.
const NAMES: usize = 16;

/// The credential keys of a site.
pub(crate) struct Keys {
    pub(crate) ring: CredentialRing,
    /// Who makes one has found none that seals.
    making: tokio::sync::Mutex<()>,
    /// Wakes who counts.
    told: tokio::sync::Notify,
    /// Documents of which the signature was seen to be right, or wrong.
    signed: Mutex<BTreeMap<CredentialKeyId, bool>>,
    /// Access keys that work and whose credential key is missing here; those that sites that are gone may know.
    counts: [AtomicUsize; 2],
}

impl Keys {
    pub(crate) fn new(ring: CredentialRing) -> Self {
        let (making, told) = (Default::default(), Default::default());
        Self { ring, making, told, signed: Mutex::default(), counts: Default::default() }
    }

    /// How many access keys that work are sealed with a key that is missing here, and how many sites that are gone may know, as
    /// it was seen last.
    pub(crate) fn counts(&self) -> [usize; 2] {
        [0, 1].map(|at| self.counts[at].load(Ordering::Relaxed))
    }

    fn is_signed(
        &self,
        root: &PublicKey,
        makers: &BTreeMap<SiteId, SiteDocument>,
        said: &CredentialDocument,
    ) -> bool {
        let seen = || self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        let id = said.id();
        if let Some(is_right) = seen().get(&id) {
            return *is_right;
        }
        // Whoever is not heard of yet may have made it.
        let maker = makers.get(&said.at).and_then(|maker| roster_watch::admitted(root, said.at, maker, None));
        let Some(maker) = maker else { return false };
        let is_right = ring::is_signed(said, &maker);
        seen().insert(id, is_right);
        is_right
    }
}

/// What records and the own file say of credential keys, and who is gone.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) keys: CredentialKeys,
    /// What only the own file says.
    unsaid: Vec<CredentialDocument>,
    gone: BTreeSet<SiteId>,
    names: BTreeMap<SiteId, String>,
}

impl Known {
    fn load(site: &Site, view: &dyn View) -> Outcome<Self> {
        let all: BTreeMap<_, _> = model::sites(view, site.system).map_err(unreadable)?.into_iter().collect();
        let gone = all.iter().filter(|(_, said)| said.state != SiteState::Member);
        let names: BTreeMap<_, _> = gone.map(|(id, said)| (*id, said.name.clone())).collect();
        let mut is_signed =
            |said: &CredentialDocument| site.credentials.is_signed(&site.own.root, &all, said);
        let mut keys = CredentialKeys::load(view, site.system, &mut is_signed).map_err(unreadable)?;
        let mut unsaid = site.credentials.ring.said();
        unsaid.retain(|said| keys.get(said.id()).is_none());
        unsaid.iter().for_each(|said| keys.hear(said.clone()));
        Ok(Self { keys, unsaid, gone: names.keys().copied().collect(), names })
    }

    /// Keys that were heard of and are not here, the latest first.
    fn missing(&self, site: &Site) -> Vec<CredentialDocument> {
        let missing = self.keys.latest_first().filter(|id| !site.credentials.ring.has(*id));
        missing.filter_map(|id| self.keys.get(id).cloned()).collect()
    }

    /// What a secret is sealed with; none if that is not known here.
    fn sealer(&self, site: &Site, id: &str, key: &KeyDocument) -> Option<Sealer> {
        let sealer = self.keys.of(&key.secret);
        let opens = || site.credentials.ring.open(&about(id), &key.secret).is_ok();
        Some(sealer).filter(|sealer| *sealer != Sealer::First || opens())
    }

    /// Names of the sites that are gone and may know what was sealed so: some of them, where these are many.
    fn names(&self, sealer: Sealer) -> Vec<String> {
        let known_to = self.keys.known_to(sealer, &self.gone);
        let mut names: Vec<String> =
            known_to.iter().take(NAMES).filter_map(|gone| self.names.get(gone).cloned()).collect();
        if known_to.len() > NAMES {
            names.push(format!("{} more", known_to.len() - NAMES));
        }
        names
    }
}

/// The same.
pub(crate) async fn known(site: &Arc<Site>) -> Outcome<Known> {
    let reader = site.clone();
    site.read(move |view| Known::load(&reader, view)).await
}

/// Seals a secret so that no site opens it of which it is known here that it is gone.
pub(crate) async fn seal(site: &Arc<Site>, about: &str, secret: &[u8]) -> Outcome<Vec<u8>> {
    let sealer = sealer(site).await?;
    site.credentials.ring.seal(sealer, about, secret).map_err(failed)
}

/// What to seal with. Sites that are gone may have all that is here: then a new key is made.
pub(crate) async fn sealer(site: &Arc<Site>) -> Outcome<Sealer> {
    let _turn = site.credentials.making.lock().await;
    for _ in 0..MADE {
        let known = known(site).await?;
        // What it makes reaches nobody, and it has each of its keys itself.
        if known.gone.contains(&site.id) {
            return Ok(Sealer::First);
        }
        let Some(sealer) = known.keys.sealer(|id| site.credentials.ring.has(id), &known.gone) else {
            make(site, &known).await?;
            continue;
        };
        let unsaid = known.unsaid.into_iter().filter(|said| sealer == Sealer::Later(said.id()));
        say(site, unsaid.collect()).await?;
        return Ok(sealer);
    }
    Err(ServiceError::new(ErrorKind::Internal, "sites go faster than credential keys are made: try again"))
}

async fn make(site: &Arc<Site>, known: &Known) -> Outcome<()> {
    let key = SealingKey::generate().map_err(|error| failed(error.into()))?;
    let latest = site.credentials.ring.said().iter().map(|said| said.made).max();
    let by = (site.clock.wall(), site.id);
    let said = site.credentials.ring.sign(CredentialDocument::of(key.as_bytes(), &known.gone, by, latest));
    keep(site, vec![LaterKey { key, said: said.clone() }]).await?;
    if !site.credentials.ring.has(said.id()) {
        let message = "this site keeps as many credential keys as it can: expel sites elsewhere";
        return Err(ServiceError::new(ErrorKind::Internal, message));
    }
    tracing::info!(key = %said.id(), "a credential key was made that sites which are gone do not have");
    say(site, vec![said]).await
}

/// Writes documents of keys.
async fn say(site: &Arc<Site>, said: Vec<CredentialDocument>) -> Outcome<()> {
    for said in said {
        let (place, object) = said.stored();
        let decide = move |_: &dyn View, _| Ok(((), Some(Declared::document(place, object))));
        let ((), reached) = declared::declare(site, WRITER, decide).await?;
        if let Err(why) = reached {
            tracing::info!(why, "the other nodes of the site hear of a credential key in a moment");
        }
    }
    Ok(())
}

async fn keep(site: &Arc<Site>, keys: Vec<LaterKey>) -> Outcome<()> {
    let kept = site.clone();
    let add = move || kept.credentials.ring.add(keys);
    tokio::task::spawn_blocking(add).await.map_err(refusal::task)?.map_err(failed)
}

fn failed(error: TrustError) -> ServiceError {
    tracing::error!(%error, "a credential key could not be made, kept or used");
    let kind = match error {
        TrustError::Full(_) => ErrorKind::StorageFull,
        _ => ErrorKind::Internal,
    };
    ServiceError::new(kind, error.to_string())
}

/// A secret that was sealed with a key that is not here, or is damaged: whoever asks cannot tell, and may ask again.
pub(crate) fn unopened(access_key: &str) -> ServiceError {
    tracing::warn!(
        access_key,
        "the secret of an access key does not open: its credential key was not told yet, or it is damaged"
    );
    ServiceError::new(
        ErrorKind::Unavailable,
        "the secret of this access key does not open at this site, which has not been told the credential key that it was sealed \
         with: it asks the sites that it is linked with; try again (if it goes on: make another access key)",
    )
}

/// Answers another site.
pub(crate) async fn tell(site: &Arc<Site>, asker: SiteId, wanted: Vec<CredentialKeyId>) -> Outcome<Response> {
    let reader = site.clone();
    let read = move |view: &dyn View| {
        let known = Known::load(&reader, view)?;
        let belongs = !known.gone.contains(&asker);
        let told = wanted.into_iter().take(TOGETHER);
        let told = told.filter(|id| belongs && known.keys.may_tell(*id, asker));
        Ok(Response::CredentialKeys(told.filter_map(|id| reader.credentials.ring.get(id)).collect()))
    };
    site.read(read).await
}

/// Asks for what is missing, says again what nobody says, and counts what sites that are gone may know; until the server stops.
pub(crate) async fn work(site: Arc<Site>) {
    tokio::join!(asking::fetch(&site), exposed::count(&site));
}

/// The rest after a look that took so long.
fn pause(took: Duration) -> Duration {
    (took * SHARE).clamp(LOOK.0, LOOK.1)
}
