//! Before a home is given to another site that says that it has all of the bucket.
//!
//! An heir decides nothing before it has what the former home had. Given away to one that is behind, a home decides nothing
//! at all for as long as that takes; and for good if the machine that gave it away burns meanwhile. So it stays where it is,
//! and decides, until the heir has said so. Before: `home.rs`, by command and for a site that is emptied. After: the home is
//! given away, with what came since as the rest that is waited for. Invariants: nothing is given by what is remembered of the
//! heir; a node of the same site is not asked, for it has what the site acknowledged.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, Vector};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::bucket as model;
use skerry_model::space;

use super::tenure;
use crate::copies::handover::SAY;
use crate::peers::message::{Request, Response};
use crate::site::{Site, unreadable};

/// How long it is waited for, where it comes nearer.
const WAIT: Duration = Duration::from_secs(5);
/// How often it is asked.
const LOOK: Duration = Duration::from_millis(250);

/// What an heir says of a bucket.
enum Said {
    /// It has all.
    All,
    /// So many records are missing at least.
    Lacks(u64),
    /// It takes records still.
    Joins,
    /// It does not follow it.
    Nothing,
    /// It does not answer.
    Silent,
}

/// Waits a moment for the heir to have all of the bucket; refuses if it has not.
pub(super) async fn wait_for_all(site: &Arc<Site>, bucket: BucketId, to: SiteId) -> Outcome<()> {
    let system = site.system;
    let read = move |view: &dyn View| {
        let home = model::home(view, system, bucket).map_err(unreadable)?;
        Ok((home.map(|home| home.site), space::vector(view, bucket).map_err(unreadable)?))
    };
    let (home, goal) = site.read(read).await?;
    let is_ours = home.is_some_and(|home| home == site.id || tenure::is_fellow(site, home));
    // Whoever may not give it is told so by what comes after.
    if !is_ours || to == site.id || tenure::is_fellow(site, to) || !site.peers.roster.all().contains_key(&to)
    {
        return Ok(());
    }
    let until = site.clock.now().after(WAIT);
    let (mut follows, mut looks) = (false, tokio::time::interval(LOOK));
    loop {
        looks.tick().await;
        let said = ask(site, bucket, to, &goal).await;
        let is_late = site.clock.now() >= until;
        match said {
            Said::All => return Ok(()),
            Said::Silent => return Err(refused(site, to, &said)),
            Said::Nothing if !follows => {
                follow(site, bucket, to).await?;
                follows = true;
            }
            said if is_late => return Err(refused(site, to, &said)),
            _ => {}
        }
    }
}

async fn ask(site: &Site, bucket: BucketId, to: SiteId, goal: &Vector) -> Said {
    let request = Request::Size { bucket };
    let Ok(Ok(answer)) = tokio::time::timeout(SAY, site.peers.call(to, &request)).await else {
        return Said::Silent;
    };
    match answer.response {
        Response::Size { vector, .. } => {
            let missing = |(origin, seq): (_, u64)| seq.saturating_sub(vector.get(origin));
            match goal.above(&vector).map(missing).fold(0, u64::saturating_add) {
                0 => Said::All,
                lacks => Said::Lacks(lacks),
            }
        }
        Response::Joining => Said::Joins,
        Response::NotMember => Said::Nothing,
        _ => Said::Silent,
    }
}

/// A site that decides about a bucket has its records.
async fn follow(site: &Site, bucket: BucketId, to: SiteId) -> Outcome<()> {
    let request = Request::Follow { bucket };
    let answer = tokio::time::timeout(SAY, site.peers.call(to, &request)).await;
    match answer.map(|answer| answer.map(|answer| answer.response)) {
        Ok(Ok(Response::Done)) => Ok(()),
        Ok(Ok(Response::Refused { message, .. })) => {
            let name = site.peers.roster.name(to);
            Err(stays(format!("{name} does not follow the bucket, and will not ({message})")))
        }
        _ => Err(refused(site, to, &Said::Silent)),
    }
}

fn refused(site: &Site, to: SiteId, said: &Said) -> ServiceError {
    let name = site.peers.roster.name(to);
    stays(match said {
        Said::Lacks(records) => {
            format!(
                "{name} has not all of the bucket yet: {records} records are missing there, or word of them"
            )
        }
        Said::Joins | Said::Nothing | Said::All => {
            format!("{name} is still taking the records of the bucket")
        }
        Said::Silent => format!("{name} does not say whether it has all of the bucket"),
    })
}

fn stays(why: String) -> ServiceError {
    let message = format!("{why}; the home stays where it is, and decides; try again in a moment");
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}
