//! What this site says of itself: its document in the roster, kept as it should be.
//!
//! Its name is that of the latest admission that an admin signed for it, its addresses are those of its configuration; a
//! further node of a site says by which word of an admin it fills its seat.
//! A rename elsewhere and an own document that was written without knowing of it are concurrent; whoever wins, the site
//! writes it right again as soon as it hears. Invariants: written only if it says something else; a site that belongs no
//! more says nothing of itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::{BucketId, WallTime};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{
    self as model, AreaDocument, NodeEntry, SiteDocument, SiteState, SystemKey, document_object,
};
use skerry_model::object::Object;
use skerry_model::space;

use crate::paths::bucket::Declared;
use crate::site::{Site, unreadable};
use crate::trust::{SignedSeat, SiteStatement, SiteTrust, verify_site_document};

/// Admissions that a document carries: the latest of each name that the site had, the last ones. Nobody else gets these names.
pub(crate) const ADMISSIONS: usize = 8;

/// What a site knows of itself from its own files.
#[derive(Debug, Clone)]
pub(crate) struct OwnSite {
    pub(crate) root: crate::trust::PublicKey,
    statement: SiteStatement,
    admission: Bytes,
    /// Its seat's, at a further node of a site.
    seat: Option<Bytes>,
    /// Where others can dial it.
    pub(crate) addresses: Vec<String>,
    /// The area that its configuration names; empty for none.
    area: String,
}

impl OwnSite {
    pub(crate) fn new(trust: &SiteTrust, addresses: Vec<String>, area: String) -> Self {
        let (root, statement) = (trust.root, trust.statement.clone());
        let seat = trust.seat.as_ref().map(SignedSeat::encode).map(Bytes::from);
        Self { root, statement, admission: Bytes::from(trust.admission.encode()), seat, addresses, area }
    }

    /// The admissions for this site and key that are known, the latest first.
    fn admissions(&self, view: &dyn View, system: BucketId) -> Outcome<Vec<(SiteStatement, Bytes)>> {
        let mut found = vec![(self.statement.clone(), self.admission.clone())];
        let key = SystemKey::Site(self.statement.site).to_string();
        for head in space::heads(view, system, &key).map_err(unreadable)? {
            let document = model::document::<SiteDocument>(&head).map_err(unreadable)?;
            for admission in document.into_iter().flat_map(|document| document.admissions) {
                let Ok(statement) = verify_site_document(&self.root, &admission) else { continue };
                let own = statement.site == self.statement.site && statement.node == self.statement.node;
                if own && !found.iter().any(|(_, known)| *known == admission) {
                    found.push((statement, admission));
                }
            }
        }
        found.sort_by(|(one, a), (other, b)| (other.admitted, b).cmp(&(one.admitted, a)));
        Ok(found)
    }

    /// The document as it should be; none if it is, or if this site belongs no more.
    fn correction(&self, view: &dyn View, system: BucketId) -> Outcome<Option<SiteDocument>> {
        let known = model::site(view, system, self.statement.site).map_err(unreadable)?;
        if known.as_ref().is_some_and(|known| known.state != SiteState::Member) {
            return Ok(None);
        }
        // What another site wrote of this one, such as a rename, may leave the seat out: this node's own file knows it.
        let seat = self.seat.clone();
        let mut admissions = self.admissions(view, system)?;
        let mut names = BTreeSet::new();
        admissions.retain(|(said, _)| names.insert(said.name.clone()));
        admissions.truncate(ADMISSIONS);
        let name =
            admissions.first().map_or_else(|| self.statement.name.clone(), |(said, _)| said.name.clone());
        let wanted = SiteDocument {
            name,
            nodes: vec![NodeEntry {
                node: self.statement.node(),
                key: self.statement.node.0,
                addresses: self.addresses.clone(),
            }],
            admissions: admissions.into_iter().map(|(_, admission)| admission).chain(seat).collect(),
            state: SiteState::Member,
            joined: known.as_ref().map_or(self.statement.admitted, |known| known.joined),
        };
        Ok(Some(wanted).filter(|wanted| known.as_ref() != Some(wanted)))
    }
}

/// Writes the own document if it is not as it should be, and with it the words about this site that stand by themselves.
pub(crate) async fn keep(site: &Arc<Site>) -> Outcome<()> {
    keep_area(site).await?;
    keep_metered(site).await?;
    let (system, own) = (site.system, site.own.clone());
    let key = SystemKey::Site(site.id).to_string();
    let decide = move |view: &dyn View, wall| {
        let wanted = own.correction(view, system)?;
        Ok(wanted.map(|wanted| (key.clone(), document_object(&wanted, wall))))
    };
    say(site, decide).await
}

/// Says whether this site pays for what crosses its link, if that is not what it said last.
pub(crate) async fn keep_metered(site: &Arc<Site>) -> Outcome<()> {
    let (system, id, peers) = (site.system, site.id, site.peers.clone());
    let decide = move |view: &dyn View, wall| {
        model::say_metered(view, system, (id, peers.uplink.is_metered()), wall).map_err(unreadable)
    };
    say(site, decide).await
}

/// Says in which area this site stands by its configuration, until an operator says otherwise.
async fn keep_area(site: &Arc<Site>) -> Outcome<()> {
    let (system, id, area) = (site.system, site.id, site.own.area.clone());
    let decide = move |view: &dyn View, wall| {
        let own = AreaDocument { site: id, epoch: 0, area: area.clone(), said: wall, at: id };
        model::configure_area(view, system, own).map_err(unreadable)
    };
    say(site, decide).await
}

/// Writes the document that `decide` makes, under its key; none if all is said. It is looked at first, so that most calls
/// write nothing, and decided on the commit thread: what arrives a moment before, such as a rename or another budget, must
/// not be overwritten by what was right until then.
async fn say<D>(site: &Arc<Site>, decide: D) -> Outcome<()>
where
    D: Fn(&dyn View, WallTime) -> Outcome<Option<(String, Object)>> + Clone + Send + 'static,
{
    let looked = decide.clone();
    if site.read(move |view| looked(view, WallTime(0))).await?.is_none() {
        return Ok(());
    }
    let declare = move |view: &dyn View, wall| {
        let word = decide(view, wall)?;
        Ok(((), word.map(|(key, object)| Declared::document(key, object))))
    };
    site.declare("", declare).await
}
