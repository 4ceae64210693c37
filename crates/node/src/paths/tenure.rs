//! Homes among the nodes of a site of three or four: decisions that outlive the node that made them, and how a home passes
//! to another node when its own is gone.
//!
//! Before: `write.rs` with a condition, `home.rs` with a move, the worker that follows the view. After:
//! [`skerry_model::bucket::Known`] on the commit thread says what this node may do; [`crate::nodes::settle`] has what was
//! said or decided at all holders of the view that it was said in. Invariants: nothing is answered as decided, and nothing
//! as refused for what is there, that the holders of the view do not have; an heir is named only after its proposal was at
//! all of them; each step is begun anew by whoever is responsible later, so that a kill between two of them loses nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use skerry_base::kv::View;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, SiteId, WallTime};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::bucket::{
    self as model, Blocks, DecisionsAhead, HomeDocument, HomeRefusal, Known, SiteState, SystemKey,
    TenureDocument, Turn, Within,
};
use skerry_model::{Record, space};

use super::bucket::{Bucket, Declared};
use super::home::Turned;
use super::write::Written;
use super::{heard, home, within};
use crate::nodes::{self, Load, Unsettled};
use crate::site::{Site, unreadable};

/// How long a decision waits for a lease: what a view that changes takes, mostly.
const LEASED: Duration = Duration::from_millis(1500);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// How many steps a home may take before something is decided: opened, passed on by whoever was the heir, passed on to this
/// node, opened here.
pub(crate) const STEPS: u32 = 8;

/// Whether the nodes of this site keep homes among them, and the register of names, if it is one of them.
pub(crate) fn keeps(site: &Site) -> bool {
    site.nodes.keep_homes()
}

/// When a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    /// In this epoch of the home.
    pub(crate) epoch: u64,
    /// In this view of the site.
    pub(crate) view: u64,
}

/// Who decides about a bucket, as far as is known here: its home, or who takes it over.
pub(crate) fn whose<'a>(site: &'a Arc<Site>, bucket: &'a Bucket) -> BoxFuture<'a, Outcome<SiteId>> {
    Box::pin(async move {
        if !keeps(site) {
            return Ok(bucket.home);
        }
        let (of, id) = (site.clone(), bucket.id);
        let turn =
            site.look(move |view| Ok(known(view, &of, id)?.map(|known| known.turn(&of.within(id))))).await?;
        Ok(match turn {
            None => bucket.home,
            Some(Turn::Elsewhere(other)) => other,
            Some(_) => site.id,
        })
    })
}

/// Who is to be the next home, if that is proposed.
pub(crate) async fn heir(site: &Arc<Site>, bucket: BucketId) -> Outcome<Option<SiteId>> {
    let of = site.clone();
    site.read(move |view| Ok(known(view, &of, bucket)?.and_then(|known| known.tenure()?.heir))).await
}

fn known(view: &dyn View, site: &Site, bucket: BucketId) -> Outcome<Option<Known>> {
    Known::load(view, site.system, bucket).map_err(unreadable)
}

/// What this node may do about a condition, on the commit thread.
pub(crate) fn turn(view: &dyn View, site: &Site, bucket: BucketId) -> Outcome<Turned> {
    let Some(known) = known(view, site, bucket)? else {
        let message = "the bucket has no home yet that could decide a condition";
        return Err(ServiceError::new(ErrorKind::HomeNotNamed, message));
    };
    let within = site.within(bucket);
    Ok(match known.turn(&within) {
        Turn::Decide(epoch) => Turned::Decides { epoch, within: Some(Made { epoch, view: within.view }) },
        other => Turned::Not(other),
    })
}

/// Refuses while a node of the site says that it does not keep the bucket: what would be decided could not be the site's.
pub(crate) fn check(site: &Site, bucket: &Bucket) -> Outcome<()> {
    if !keeps(site) {
        return Ok(());
    }
    let may_not = site.holding_members().into_iter().find(|node| !bucket.may_lie_at(*node));
    let away = |node: SiteId| format!("{} may not lie at {}", bucket.name, site.peers.roster.name(node));
    let why = may_not.map(away).or_else(|| site.nodes.unkept(bucket.id, site.clock.now()));
    if let Some(why) = why {
        return Err(unkept(&why));
    }
    nodes::hindrance(site).map_or(Ok(()), |why| Err(hindered(&why)))
}

fn hindered(why: &str) -> ServiceError {
    let message = format!(
        "a condition is decided only if a majority of the site's nodes can hold what is decided, so that one of them can be \
         lost ({why}); make room or take a node into service again, or write without the condition"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

fn unkept(why: &str) -> ServiceError {
    let message = format!(
        "a condition in this bucket is decided only if all live nodes of the site keep it, so that one of them can be lost \
         ({why}); have them all follow it, or write without the condition"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// Does what must be done before this node can decide; refuses if it cannot be.
pub(crate) fn step<'a>(site: &'a Arc<Site>, bucket: BucketId, turn: Turn) -> BoxFuture<'a, Outcome<()>> {
    Box::pin(async move {
        match turn {
            Turn::Decide(_) => Ok(()),
            Turn::Open(_) => open(site, bucket).await,
            Turn::Pass(_) => pass(site, "", bucket, None).await.map(drop),
            Turn::Unready => leased(site, bucket).await,
            other => Err(refused(site, &other)),
        }
    })
}

/// Why a turn is none, in the words of S3.
fn refused(site: &Site, turn: &Turn) -> ServiceError {
    let message = match turn {
        Turn::Elsewhere(_) => "the bucket's home has just moved to another site; try again".into(),
        Turn::Behind => "the bucket's home moved to this node, which has not yet all that the former home decided; try again \
                         when it has arrived"
            .into(),
        Turn::Unopened(home) => {
            let name = site.peers.roster.name(*home);
            format!(
                "only {name}, the bucket's home, can decide this condition: it is gone, and had not said to the other nodes of \
                 its site that they have what it decided; bring it back, or replace it (skerry bucket home NAME --to SITE \
                 --destroyed {name})"
            )
        }
        _ => "this node of the site does not read the bucket for it now (no majority of its nodes agrees on who counts, or \
              this one does not keep the bucket); try again"
            .into(),
    };
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// Waits a moment for this node to read for the site.
async fn leased(site: &Arc<Site>, bucket: BucketId) -> Outcome<()> {
    let mut turning = site.nodes.turning();
    let waits = async {
        while !site.within(bucket).reads {
            tokio::time::timeout(LOOK, turning.changed()).await.ok();
        }
    };
    tokio::time::timeout(LEASED, waits).await.map_err(|_| refused(site, &Turn::Unready))
}

/// The home says that its decisions are made at all nodes from now on, with what it has so far.
pub(crate) async fn open(site: &Arc<Site>, bucket: BucketId) -> Outcome<()> {
    let of = site.clone();
    let decide = move |view: &dyn View, wall| {
        let opened = model::open(view, of.system, bucket, (&of.within(bucket), wall)).map_err(unreadable)?;
        Ok(match opened {
            Some((opened, blocks)) => (Some(opened.clone()), Some(declared(&opened, blocks, wall))),
            None => (None, None),
        })
    };
    let Some(opened) = site.declare("", decide).await? else { return Ok(()) };
    // Who hears of it now can take over what is decided next; if not, the feeds tell them in a moment.
    if let Err(error) = settle_said(site, &opened).await {
        tracing::debug!(%bucket, %error, "not all nodes of the site have heard yet that a home is kept among them");
    }
    Ok(())
}

fn declared(said: &TenureDocument, blocks: Blocks, wall: WallTime) -> Declared {
    let documents = blocks.into_iter().chain([said.written(wall)]).collect();
    Declared { documents, join: None, ends: Vec::new() }
}

/// What became of a home that was to be passed on.
enum Passed {
    /// To this one.
    To(SiteId),
    /// It is not this node's, or not now.
    Not(Turn),
}

/// Has an heir proposed at all holders of the view, and then named: `to`, unless another one was proposed before.
fn pass<'a>(
    site: &'a Arc<Site>,
    writer: &'a str,
    bucket: BucketId,
    to: Option<SiteId>,
) -> BoxFuture<'a, Outcome<Passed>> {
    Box::pin(async move {
        let _turn = site.nodes.pass().await;
        hear_what_others_have(site, bucket).await?;
        let of = site.clone();
        let found = site.bucket_of(bucket).await?;
        if let Some((to, found)) = to.zip(found).filter(|(to, found)| !found.may_lie_at(*to)) {
            let message =
                format!("{} may not lie at {}: it can be no home", found.name, site.peers.roster.name(to));
            return Err(ServiceError::refused(message));
        }
        let propose = move |view: &dyn View, wall| {
            let Some(known) = known(view, &of, bucket)? else {
                return Err(home::refused_home(HomeRefusal::NoBucket));
            };
            if let Some(to) = to {
                let member = model::site(view, of.system, to).map_err(unreadable)?;
                if member.is_none_or(|member| member.state != SiteState::Member) {
                    return Err(home::refused_home(HomeRefusal::NoSite));
                }
            }
            let within = of.within(bucket);
            if to.is_some_and(|to| within.nodes.contains(&to) && !within.live.contains(&to) && to != of.id) {
                let message = "that node is not live in the view of the site now: it could not decide";
                return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
            }
            Ok(match to.map_or_else(|| known.turn(&within), |to| known.give(&within, to)) {
                Turn::Pass(said) => {
                    if known.tenure().is_none_or(|tenure| tenure.heir.is_none()) {
                        // Once it is proposed nobody else can be: so it must be possible to name it.
                        model::name_heir(view, of.system, &said, (&within, wall))
                            .map_err(unreadable)?
                            .map_err(ahead)?;
                    }
                    let (said, blocks) = said.fitted(view, of.system, wall).map_err(unreadable)?;
                    let declared = declared(&said, blocks, wall);
                    (Ok(said), Some(declared))
                }
                other => (Err(other), None),
            })
        };
        let said = match site.declare(writer, propose).await? {
            Ok(said) => said,
            Err(turn) => return Ok(Passed::Not(turn)),
        };
        settle_said(site, &said).await?;
        let named = name(site, writer, said.clone()).await?;
        if let Some(named) = named {
            tell(site, &said, &named);
        }
        Ok(said.heir.map_or(Passed::Not(Turn::Behind), Passed::To))
    })
}

/// Of a home that is gone for good, what it had from others is theirs: all that they have is here when this returns.
async fn hear_what_others_have(site: &Arc<Site>, bucket: BucketId) -> Outcome<()> {
    let of = site.clone();
    let spared = move |view: &dyn View| Ok(known(view, &of, bucket)?.and_then(|known| known.spares(of.id)));
    let Some(gone) = site.look(spared).await? else { return Ok(()) };
    let heard = home::heard_of(site, bucket, gone).await?;
    heard::seen(site, bucket, &heard).await
}

fn tell(site: &Site, said: &TenureDocument, named: &HomeDocument) {
    let name = |id| site.peers.roster.name(id);
    let (bucket, epoch) = (named.bucket, named.epoch);
    let (from, to) = (name(said.site), name(named.site));
    if bucket == site.system {
        tracing::warn!(from, to, epoch, "the register of names passed on");
        return;
    }
    tracing::warn!(%bucket, from, to, epoch, "the home of a bucket passed on");
    if named.site == site.id {
        site.nodes.took_over();
    }
}

/// Names the heir of what all holders of one view have.
async fn name(site: &Arc<Site>, writer: &str, said: TenureDocument) -> Outcome<Option<HomeDocument>> {
    let of = site.clone();
    let decide = move |view: &dyn View, wall| {
        let within = of.within(said.bucket);
        let named = model::name_heir(view, of.system, &said, (&within, wall)).map_err(unreadable)?;
        let named = named.map_err(ahead)?;
        let document = named.as_ref().map(|named| named.document.clone());
        Ok((document, named.map(Declared::from)))
    };
    site.declare(writer, decide).await
}

fn ahead(error: DecisionsAhead) -> ServiceError {
    let message = format!("the home cannot be given to another site yet: {error}; try again when it is back");
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// Has what was said of a tenure at all holders of the view that it was said in.
async fn settle_said(site: &Arc<Site>, wanted: &TenureDocument) -> Outcome<()> {
    let heads = said(site, wanted.bucket).await?;
    let mut is_there = false;
    let key = SystemKey::Tenure(wanted.bucket).to_string();
    for head in heads.iter().filter(|head| head.key == key) {
        is_there |= model::document::<TenureDocument>(head).map_err(unreadable)?.as_ref() == Some(wanted);
    }
    if !is_there {
        return Err(not_passed("something else was said of it meanwhile"));
    }
    let load = Load::Records(site.system, heads.iter().map(encoded).collect());
    nodes::settle(site, load, Some(wanted.view)).await.map_err(|why| not_passed(&why.to_string()))
}

fn not_passed(why: &str) -> ServiceError {
    let message =
        format!("the nodes of the site have not agreed on the bucket's next home yet ({why}); try again");
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// An operator, or a node that is being emptied, gives a home to another.
pub(crate) async fn give(site: &Arc<Site>, writer: &str, bucket: BucketId, to: SiteId) -> Outcome<()> {
    for _ in 0..STEPS {
        let home = site.read({
            let system = site.system;
            move |view| model::home(view, system, bucket).map_err(unreadable)
        });
        if home.await?.is_some_and(|home| home.site == to) {
            return Ok(());
        }
        match pass(site, writer, bucket, Some(to)).await? {
            Passed::To(heir) if heir == to => return Ok(()),
            Passed::To(heir) => {
                let name = site.peers.roster.name(heir);
                let message =
                    format!("the home was on its way to {name} already, and is there now: ask there");
                return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
            }
            Passed::Not(Turn::Elsewhere(other)) => {
                let message = format!("only {} may do that: ask there", site.peers.roster.name(other));
                return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
            }
            Passed::Not(turn) => step(site, bucket, turn).await?,
        }
    }
    Err(not_passed("it passed on several times meanwhile"))
}

/// A decision is answered once all holders of the view in which it was made have it; with its body, if that is small.
pub(crate) async fn decided(site: &Arc<Site>, bucket: &Bucket, written: &Written, made: Made) -> Outcome<()> {
    let (Written::Record(record), view) = (written, made.view) else { return Ok(()) };
    if site.nodes.has_settled(view, bucket.id, record.dot) {
        return Ok(());
    }
    let is_small = record.object().is_none_or(|object| object.size <= JOURNAL_BODY_BYTES as u64);
    let whole = match is_small {
        true => within::version(site, bucket, record).await?.ok(),
        false => None,
    };
    let is_whole = whole.is_some();
    let load = whole.map_or_else(|| Load::Records(bucket.id, vec![record.encode().into()]), Load::Version);
    settle(site, (bucket.id, made), load).await?;
    site.nodes.remember_settled(view, bucket.id, &[record.dot], is_whole);
    Ok(())
}

/// What this node decided before is answered once more as it was the first time: when all holders of the view have it.
pub(crate) fn again<'a>(
    site: &'a Arc<Site>,
    bucket: &'a Bucket,
    written: &'a Written,
) -> BoxFuture<'a, Outcome<()>> {
    Box::pin(async move {
        let Written::Record(record) = written else { return Ok(()) };
        let is_own = record.home.is_some() && record.dot.origin.node == site.stamps.origin.node;
        // Where it was settled once the home may have passed on since.
        let is_settled = site.nodes.has_settled_whole(bucket.id, record.dot);
        if !is_own || is_settled || !keeps(site) {
            return Ok(());
        }
        for _ in 0..STEPS {
            let (of, id) = (site.clone(), bucket.id);
            match site.commit(id, (), move |view| Ok((turn(view, &of, id)?, Vec::new()))).await? {
                Turned::Decides { within: Some(made), .. } => {
                    return decided(site, bucket, written, made).await;
                }
                Turned::Decides { within: None, .. } => return Ok(()),
                Turned::Not(turn) => step(site, id, turn).await?,
            }
        }
        Err(doubt("the home has passed on meanwhile"))
    })
}

/// What a refusal rests on is the site's before it is answered; with its body, if that is small and here: else who is asked
/// would know of a version that it cannot read, while its writer's own question to hold it is still on its way.
pub(crate) async fn rests(
    site: &Arc<Site>,
    bucket: &Bucket,
    made: Made,
    records: Vec<Record>,
) -> Outcome<()> {
    let (view, id) = (made.view, bucket.id);
    let mut bare = Vec::new();
    for record in records.into_iter().filter(|record| !site.nodes.has_settled(view, id, record.dot)) {
        let Some(hold) = within::small(site, bucket, &record).await? else {
            bare.push(record);
            continue;
        };
        settle(site, (id, made), Load::Version(hold)).await?;
        site.nodes.remember_settled(view, id, &[record.dot], true);
    }
    if bare.is_empty() {
        return Ok(());
    }
    let load = Load::Records(id, bare.iter().map(|record| record.encode().into()).collect());
    settle(site, (id, made), load).await?;
    let dots: Vec<_> = bare.iter().map(|record| record.dot).collect();
    site.nodes.remember_settled(view, id, &dots, false);
    Ok(())
}

async fn settle(site: &Arc<Site>, of: (BucketId, Made), load: Load) -> Outcome<()> {
    reached(site, of, load).await.map_err(|why| doubt(&why))
}

/// Returns once all holders of the view have what was decided in it, and this node is the home still; or why not.
pub(crate) fn reached<'a>(
    site: &'a Arc<Site>,
    (bucket, made): (BucketId, Made),
    load: Load,
) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        let (settled, said) =
            tokio::join!(nodes::settle(site, load, Some(made.view)), say(site, bucket, made.view));
        if let Err(Unsettled::Never(why)) = &settled {
            site.nodes.remember_unkept((made.view, bucket), site.clock.now(), why.clone());
        }
        settled.and(said).map_err(|why| why.to_string())?;
        match is_still(site, bucket, made.epoch).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the home has passed on meanwhile".into()),
            Err(error) => Err(error.message().to_owned()),
        }
    })
}

fn doubt(why: &str) -> ServiceError {
    let message = format!(
        "it may have been decided, and is not at all live nodes of the site ({why}): read the object before trying again"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// Whether this node still decides in the epoch that it decided in: as long as no heir is proposed here none has gone to
/// the others, so that what they have by now they had before; an heir that is one of them might have decided without.
async fn is_still(site: &Arc<Site>, bucket: BucketId, epoch: u64) -> Outcome<bool> {
    let of = site.clone();
    let look = move |view: &dyn View| {
        let Some(known) = known(view, &of, bucket)? else { return Ok(false) };
        let is_mine = known.home.site == of.id && known.home.epoch == epoch;
        Ok(is_mine && known.tenure().is_none_or(|tenure| tenure.heir.is_none()))
    };
    site.look(look).await
}

/// Before the first decision of a view is answered all its holders know the home and its tenure: they could take it over.
async fn say(site: &Arc<Site>, bucket: BucketId, view: u64) -> Result<(), Unsettled> {
    if site.nodes.has_said(view, bucket) {
        return Ok(());
    }
    let heads = said(site, bucket).await.map_err(|error| Unsettled::Late(error.to_string()))?;
    nodes::settle(site, Load::Records(site.system, heads.iter().map(encoded).collect()), Some(view)).await?;
    site.nodes.remember_said(view, bucket);
    Ok(())
}

fn encoded(record: &Record) -> bytes::Bytes {
    record.encode().into()
}

/// All that is known here of a home and its tenure, and before it what they have no room for.
async fn said(site: &Arc<Site>, bucket: BucketId) -> Outcome<Vec<Record>> {
    let system = site.system;
    let heads = move |view: &dyn View| {
        let (mut heads, mut seen) = (Vec::new(), Vec::new());
        for head in space::heads(view, system, &SystemKey::Tenure(bucket).to_string()).map_err(unreadable)? {
            let said = model::document::<TenureDocument>(&head).map_err(unreadable)?;
            seen.extend(said.map(|said| said.seen));
            heads.push(head);
        }
        for head in space::heads(view, system, &SystemKey::Home(bucket).to_string()).map_err(unreadable)? {
            let named = model::document::<HomeDocument>(&head).map_err(unreadable)?;
            seen.extend(named.map(|named| named.seen));
            heads.push(head);
        }
        let mut records = model::seen_blocks(view, system, bucket, &seen).map_err(unreadable)?;
        records.append(&mut heads);
        Ok(records)
    };
    site.look(heads).await
}

/// A fellow that this node asked has decided: with what this node wrote it is at all holders of the view, body and all if
/// that is small.
pub(crate) fn heard_decided(site: &Site, by: SiteId, record: &Record) {
    let is_small = record.object().is_none_or(|object| object.size <= JOURNAL_BODY_BYTES as u64);
    let is_ours = record.site == site.id && keeps(site);
    if let Some(view) = site.nodes.epoch()
        && is_small
        && is_ours
        && is_fellow(site, by)
    {
        site.nodes.remember_settled(view, record.bucket, &[record.dot], true);
    }
}

/// Whether a member is another node of this site, which keeps homes among its nodes.
pub(crate) fn is_fellow(site: &Site, member: SiteId) -> bool {
    site.nodes.keep_homes() && site.peers.roster.others(site.id).contains(&member)
}

/// Returns when the view goes on without a fellow that was in it: its answer would be worth nothing.
pub(crate) async fn leaves(site: &Arc<Site>, bucket: BucketId, member: SiteId) {
    let mut turning = site.nodes.turning();
    let is_there = |within: &Within| within.live.contains(&member);
    let was_there = is_there(&site.within(bucket));
    while was_there && is_there(&site.within(bucket)) {
        if turning.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    if !was_there {
        std::future::pending::<()>().await;
    }
}

/// What this node has to do about the homes of its site now: in which order does not matter.
pub(crate) async fn due(site: &Arc<Site>) -> Outcome<Due> {
    let (of, fellows) = (site.clone(), site.peers.roster.others(site.id));
    site.read(move |view| {
        let mut due = Due::default();
        // The register first: without it no new bucket has a home.
        if let Some(known) = known(view, &of, of.system)? {
            due.takes(of.system, known.turn(&of.within(of.system)));
        }
        for found in model::list_buckets(view, of.system, None).map_err(unreadable)? {
            let (bucket, residency) = (found.claim.bucket, &found.claim.config.residency);
            // Where one of the nodes may not keep what is decided nothing can be, and nobody could take the home over.
            let is_kept = residency.is_empty() || fellows.iter().all(|fellow| residency.contains(fellow));
            let Some(known) = known(view, &of, bucket)? else { continue };
            match known.turn(&of.within(bucket)) {
                Turn::Open(_) if !is_kept => {}
                turn => due.takes(bucket, turn),
            }
        }
        Ok(due)
    })
    .await
}

/// See [`due`].
#[derive(Default)]
pub(crate) struct Due {
    /// By bucket.
    pub(crate) steps: Vec<(BucketId, Turn)>,
    /// Whether something waits for a lease, or for records that are on their way.
    pub(crate) waits: bool,
}

impl Due {
    fn takes(&mut self, bucket: BucketId, turn: Turn) {
        match turn {
            Turn::Open(_) | Turn::Pass(_) => self.steps.push((bucket, turn)),
            Turn::Unready | Turn::Behind => self.waits = true,
            Turn::Decide(_) | Turn::Elsewhere(_) | Turn::Unopened(_) => {}
        }
    }
}
