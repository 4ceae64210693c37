//! The register of names: who keeps it, and how what it names is named once, though the node that keeps it may be lost in
//! between.
//!
//! Before: `home.rs` with a bucket that has no home or one whose home is lost, `buckets.rs` with a name that shall be nobody
//! else's, the worker that names homes. After: [`skerry_model::bucket::NamingDocument`] on the commit thread, and at a site of
//! three or four nodes [`tenure`], which has it at all holders of the view before anything is named. Invariants: a home
//! document is written only by the register, and there only after the others have heard that it will be; what a former
//! register had begun is carried out before anything else; a wish is judged by all that was named before it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, SiteId, WallTime};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::bucket::{self as model, Known, Naming, NamingDocument, Standing, SystemKey, Turn};
use skerry_model::{Object, Record, space};
use tokio::sync::MutexGuard;

use super::bucket::Declared;
use super::home::{self, Turned};
use super::tenure::{self, Made};
use crate::nodes::{self, Load};
use crate::peers::message::{Request, Response};
use crate::site::{Site, unreadable};

/// How long a client waits for the register.
const ASKED: Duration = Duration::from_secs(5);
/// Homes that are named together: so that they fit into one document.
pub(crate) const TOGETHER: usize = 16;
/// How often something else comes before a wish: the register passes on, what was begun is carried out.
const ROUNDS: u32 = 8;

/// What is asked of the register, judged on the commit thread by all that it has named.
pub(crate) struct Wished<T> {
    /// What is answered once that is done.
    pub(crate) answer: T,
    /// What it is to name; at most [`TOGETHER`].
    pub(crate) namings: Vec<Naming>,
    /// What is said with it.
    pub(crate) documents: Vec<(String, Object)>,
}

/// Judges a wish.
type Wish<T> = dyn Fn(&dyn View, WallTime) -> Outcome<Wished<T>> + Send + Sync;

/// Why nothing was named.
pub(crate) enum Ungiven {
    /// What was asked for cannot be, or the store failed.
    Refused(ServiceError),
    /// This node does not keep the register, or cannot now.
    Not(String),
    /// It was begun, and may be carried out by whoever keeps the register next.
    Doubt(String),
}

impl Ungiven {
    /// In the words of S3.
    pub(crate) fn into_error(self) -> ServiceError {
        match self {
            Self::Refused(error) => error,
            Self::Not(why) => ServiceError::new(ErrorKind::HomeUnreachable, why),
            Self::Doubt(why) => {
                let message = format!(
                    "the register of names has begun it, and not all live nodes of its site have heard of that ({why}): it may \
                     be done in a moment; look before trying again"
                );
                ServiceError::new(ErrorKind::HomeUnreachable, message)
            }
        }
    }
}

impl From<ServiceError> for Ungiven {
    fn from(error: ServiceError) -> Self {
        Self::Refused(error)
    }
}

/// Who keeps the register as far as is known here: if that is a node of this site that is gone, who takes it over.
pub(crate) fn keeper<'a>(site: &'a Arc<Site>) -> BoxFuture<'a, Outcome<Option<SiteId>>> {
    Box::pin(async move {
        let (of, system) = (site.clone(), site.system);
        if !tenure::keeps(site) {
            return site.read(move |view| model::register(view, system).map_err(unreadable)).await;
        }
        let look = move |view: &dyn View| {
            let known = Known::load(view, system, system).map_err(unreadable)?;
            Ok(known.map(|known| match known.turn(&of.within(system)) {
                Turn::Elsewhere(other) => other,
                _ => of.id,
            }))
        };
        site.look(look).await
    })
}

/// Asks who keeps the register; why there is no answer.
pub(crate) fn ask<'a>(
    site: &'a Arc<Site>,
    keeper: SiteId,
    request: &'a Request,
) -> BoxFuture<'a, Result<Response, String>> {
    Box::pin(async move {
        let asked = tokio::time::timeout(ASKED, site.peers.call(keeper, request));
        let answer = match tenure::is_fellow(site, keeper) {
            false => asked.await,
            true => tokio::select! {
                biased;
                answer = asked => answer,
                () = tenure::leaves(site, site.system, keeper) => {
                    return Err("the other nodes of its site go on without it, and one of them takes its place".into());
                }
            },
        };
        let answer = answer.map_err(|_| "it does not answer".to_owned())?;
        answer.map(|answer| answer.response).map_err(|error| error.to_string())
    })
}

/// Names the homes of buckets that are known here, or from what was `heard`; how many.
pub(crate) async fn name(
    site: &Arc<Site>,
    buckets: Vec<BucketId>,
    heard: Vec<Record>,
) -> Result<usize, Ungiven> {
    let (system, me) = (site.system, site.id);
    let wish = move |view: &dyn View, _: WallTime| {
        let mut namings = Vec::new();
        for bucket in &buckets {
            let first = model::first_home(view, system, *bucket, me).map_err(home::refused_home)?;
            namings.extend(first.map(|home| Naming { home, claim: None }));
        }
        Ok(Wished { answer: namings.len(), namings, documents: Vec::new() })
    };
    give(site, ("", heard), Arc::new(wish)).await
}

/// What came of one try.
enum Round<T> {
    /// It is done.
    Given(T),
    /// Something that a former register had begun came first.
    Again,
    /// It is not this node's, or not now.
    Not(Turn),
    /// Nobody keeps the register, as far as is known here; or somebody else does.
    Unknown(String),
    /// The other nodes are to hear of it first.
    Said(Made, Option<T>),
}

/// Has the register, if this node keeps it, do what is wished, after keeping these records of the system bucket.
pub(crate) async fn give<T: Send + 'static>(
    site: &Arc<Site>,
    (writer, heard): (&str, Vec<Record>),
    wish: Arc<Wish<T>>,
) -> Result<T, Ungiven> {
    let is_kept = tenure::keeps(site);
    let mut turn = mine(site, is_kept).await?;
    for _ in 0..ROUNDS {
        let (of, wish) = (site.clone(), wish.clone());
        let round = move |view: &dyn View, wall: WallTime| match is_kept {
            true => together(view, &of, &*wish, wall),
            false => alone(view, &of, &*wish, wall),
        };
        match site.declare_after(writer, heard.clone(), round).await? {
            Round::Given(answer) => return Ok(answer),
            Round::Again => {}
            Round::Not(why) => {
                // Those who wait for a lease wait for it side by side.
                drop(turn.take());
                step(site, why).await?;
                turn = mine(site, is_kept).await?;
            }
            Round::Unknown(why) => return Err(Ungiven::Not(why)),
            Round::Said(made, answer) => {
                carried_out(site, writer, made).await?;
                if let Some(answer) = answer {
                    return Ok(answer);
                }
            }
        }
    }
    Err(Ungiven::Not("the register of names passed on several times meanwhile; try again".into()))
}

/// The turn to name, where several nodes keep the register; who waits longer than a client does is told so.
async fn mine(site: &Site, is_kept: bool) -> Result<Option<MutexGuard<'_, ()>>, Ungiven> {
    if !is_kept {
        return Ok(None);
    }
    let turn = tokio::time::timeout(ASKED, site.nodes.naming()).await;
    turn.map(Some).map_err(|_| Ungiven::Not("it is naming others still; try again".into()))
}

fn declared(documents: Vec<(String, Object)>) -> Option<Declared> {
    (!documents.is_empty()).then_some(Declared { documents, join: None, ends: Vec::new() })
}

fn nobody<T>() -> Round<T> {
    Round::Unknown("which site keeps the register of names has not been heard here yet".into())
}

/// On the commit thread of a node that decides alone: it names in the commit in which it judges.
fn alone<T>(
    view: &dyn View,
    site: &Site,
    wish: &Wish<T>,
    wall: WallTime,
) -> Outcome<(Round<T>, Option<Declared>)> {
    let system = site.system;
    let epoch = match model::standing(view, system, system, site.id).map_err(unreadable)? {
        Standing::Decides(epoch) => epoch,
        Standing::Elsewhere(other) => return Ok((Round::Not(Turn::Elsewhere(other)), None)),
        Standing::Behind(_) => return Ok((Round::Not(Turn::Behind), None)),
        Standing::Unnamed => return Ok((nobody(), None)),
    };
    let resumed = match model::resumed(view, system, epoch).map_err(unreadable)? {
        Ok(resumed) => resumed,
        Err(later) => return Ok((Round::Unknown(later.to_string()), None)),
    };
    let begun = resumed.iter().flat_map(|said| &said.namings);
    let mut documents = written(view, system, begun, wall)?;
    let has_begun = !documents.is_empty();
    documents.extend(resumed.as_ref().map(|said| said.written(wall)));
    if has_begun {
        return Ok((Round::Again, declared(documents)));
    }
    let wished = wish(view, wall)?;
    if wished.namings.is_empty() && wished.documents.is_empty() {
        return Ok((Round::Given(wished.answer), None));
    }
    documents.extend(wished.documents);
    documents.extend(written(view, system, &wished.namings, wall)?);
    Ok((Round::Given(wished.answer), declared(documents)))
}

fn written<'a>(
    view: &dyn View,
    system: BucketId,
    namings: impl IntoIterator<Item = &'a Naming>,
    wall: WallTime,
) -> Outcome<Vec<(String, Object)>> {
    let mut documents = Vec::new();
    for naming in namings {
        documents.extend(naming.documents(view, system, wall).map_err(unreadable)?);
    }
    Ok(documents)
}

/// On the commit thread of one of several nodes: what is to be named is said; nothing is named yet.
fn together<T>(
    view: &dyn View,
    site: &Site,
    wish: &Wish<T>,
    wall: WallTime,
) -> Outcome<(Round<T>, Option<Declared>)> {
    let system = site.system;
    if Known::load(view, system, system).map_err(unreadable)?.is_none() {
        return Ok((nobody(), None));
    }
    let made = match tenure::turn(view, site, system)? {
        Turned::Decides { within: Some(made), .. } => made,
        Turned::Decides { within: None, .. } => return Ok((Round::Not(Turn::Unready), None)),
        Turned::Not(turn) => return Ok((Round::Not(turn), None)),
    };
    let begun = match carried(view, site, made)? {
        Ok(begun) => begun,
        Err(later) => return Ok((Round::Unknown(later.to_string()), None)),
    };
    let again = |begun: NamingDocument| Ok((Round::Said(made, None), declared(vec![begun.written(wall)])));
    if has_unwritten(view, system, &begun)? {
        return again(begun);
    }
    let wished = wish(view, wall)?;
    if wished.namings.is_empty() && wished.documents.is_empty() {
        return Ok((Round::Given(wished.answer), None));
    }
    let mut wanted = begun.clone();
    wanted.namings.extend(wished.namings);
    // What the other nodes have not heard yet of what was named takes the room.
    if !begun.namings.is_empty() && !wanted.fits() {
        return again(begun);
    }
    let mut documents = wished.documents;
    documents.push(wanted.written(wall));
    Ok((Round::Said(made, Some(wished.answer)), declared(documents)))
}

fn has_unwritten(view: &dyn View, system: BucketId, said: &NamingDocument) -> Outcome<bool> {
    for naming in &said.namings {
        if !naming.is_written(view, system).map_err(unreadable)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What was begun and is not known to be at all holders of the view.
fn carried(view: &dyn View, site: &Site, made: Made) -> Outcome<Result<NamingDocument, model::Later>> {
    let system = site.system;
    let said = model::namings(view, system).map_err(unreadable)?;
    let is_kept = |dot: Dot| site.nodes.has_settled(made.view, system, dot);
    let mut done = Vec::new();
    for naming in said.iter().flat_map(|said| &said.namings) {
        if naming.is_kept(view, system, &is_kept).map_err(unreadable)? {
            done.push(naming.clone());
        }
    }
    Ok(NamingDocument::carried(said, made.epoch, |naming| done.contains(naming)))
}

/// What must be done before this node can name anything.
fn step<'a>(site: &'a Arc<Site>, turn: Turn) -> BoxFuture<'a, Result<(), Ungiven>> {
    Box::pin(async move {
        let name = |id| site.peers.roster.name(id);
        Err(Ungiven::Not(match turn {
        Turn::Elsewhere(other) => format!("{} keeps the register of names: ask there", name(other)),
        Turn::Behind => {
            "the register of names moved to this site, which has not yet all that the former one had named; try again when it \
             has arrived"
                .into()
        }
        Turn::Unopened(home) => format!(
            "{0} keeps the register of names: it is gone, and had not said to the other nodes of its site that they have what it \
             named; bring it back, or replace it (skerry bucket home --register --to SITE --destroyed {0})",
            name(home)
        ),
        turn => {
            let stepped = tenure::step(site, site.system, turn).await;
            return stepped.map_err(|error| Ungiven::Not(error.message().to_owned()));
        }
    }))
    })
}

/// What was said is at all holders of the view, and this node keeps the register still: then it is carried out.
fn carried_out<'a>(site: &'a Arc<Site>, writer: &'a str, made: Made) -> BoxFuture<'a, Result<(), Ungiven>> {
    Box::pin(async move {
        let system = site.system;
        let said = said(site).await?;
        tenure::reached(site, (system, made), load(system, &said)).await.map_err(Ungiven::Doubt)?;
        let of = site.clone();
        let carry_out = move |view: &dyn View, wall| {
            let said = model::namings(view, system).map_err(unreadable)?;
            // Who hung for long leaves it to whoever keeps the register by now: what that one named may be deleted again.
            let decides = matches!(tenure::turn(view, &of, system)?, Turned::Decides { epoch, .. } if epoch == made.epoch);
            let Some(said) = said.filter(|said| decides && said.epoch == made.epoch) else {
                return Ok((None, None));
            };
            let keys: Vec<String> = said.namings.iter().flat_map(Naming::keys).collect();
            Ok((Some(keys), declared(written(view, system, &said.namings, wall)?)))
        };
        let Some(keys) = site.declare(writer, carry_out).await? else {
            return Err(Ungiven::Doubt("another node takes its place".into()));
        };
        let mut documents = heads(site, keys).await?;
        documents.retain(|head| !site.nodes.has_settled(made.view, system, head.dot));
        // What is named is named, whoever has heard of it: it stays begun, and is told them with the next one.
        match nodes::settle(site, load(system, &documents), Some(made.view)).await {
            Ok(()) => {
                let dots: Vec<Dot> = documents.iter().map(|head| head.dot).collect();
                site.nodes.remember_settled(made.view, system, &dots, false);
            }
            Err(error) => tracing::debug!(%error, "not all nodes of the site have heard yet what was named"),
        }
        Ok(())
    })
}

/// What is about to be named, and before it what its documents have no room for: whoever carries it out could not say that again.
async fn said(site: &Arc<Site>) -> Outcome<Vec<Record>> {
    let system = site.system;
    let read = move |view: &dyn View| {
        let heads = space::heads(view, system, &SystemKey::Namings.to_string()).map_err(unreadable)?;
        let mut records = Vec::new();
        for head in &heads {
            let said = model::document::<NamingDocument>(head).map_err(unreadable)?;
            for Naming { home, .. } in said.into_iter().flat_map(|said| said.namings) {
                records
                    .extend(model::seen_blocks(view, system, home.bucket, &[home.seen]).map_err(unreadable)?);
            }
        }
        records.extend(heads);
        Ok(records)
    };
    site.look(read).await
}

async fn heads(site: &Arc<Site>, keys: Vec<String>) -> Outcome<Vec<Record>> {
    let system = site.system;
    let read = move |view: &dyn View| {
        let mut found = Vec::new();
        for key in &keys {
            found.extend(space::heads(view, system, key).map_err(unreadable)?);
        }
        Ok(found)
    };
    site.look(read).await
}

fn load(system: BucketId, records: &[Record]) -> Load {
    Load::Records(system, records.iter().map(|record| record.encode().into()).collect())
}
