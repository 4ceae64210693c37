//! Gives other sites what their questions, which reached this member by way of landmarks, say that they want.
//!
//! Before: the federation machine ([`skerry_federation::Output::Give`]). After: a stream to the asker, read in `peers/gifts.rs`
//! there. Invariants: what is given is what the same question is answered with when it is asked here (`answer.rs`), under the
//! same budget; so many at once at most, half of them to one site, and to none that takes nothing; what finds no room, or no link,
//! is not given: the asker, who was told that it comes, asks for it.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::BucketId;
use skerry_base::codec;
use skerry_federation::budget::Class;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Mutex, Semaphore, mpsc};

use super::places::Places;
use super::{answer, seek};
use crate::drive::Give;
use crate::net::frame;
use crate::peers::message::{Request, Sought};
use crate::peers::packed::packed;
use crate::peers::{PeerError, carries_records, mark};
use crate::site::Site;
use crate::tasks::Tasks;
use crate::telemetry::Kind;

/// What is given at once, over all sites.
pub(crate) const GIVEN_AT_ONCE: usize = 64;
/// What waits for that; more is left to be asked for.
pub(crate) const WAITING: usize = 256;
/// A site that takes no byte of a chunk for so long, or not the answer before it, is given nothing more.
const STALLED: Duration = Duration::from_secs(30);

/// Gives until the site stops.
pub(crate) async fn work(site: Arc<Site>, tasks: Tasks, asked: Arc<Mutex<mpsc::Receiver<Give>>>) {
    let (mut asked, room) = (asked.lock().await, Arc::new(Semaphore::new(GIVEN_AT_ONCE)));
    let places = Places::of(GIVEN_AT_ONCE);
    while let Some(give) = asked.recv().await {
        let Some(place) = places.take(give.to) else { continue };
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let site = site.clone();
        tasks.spawn(async move {
            let to = give.to;
            if let Err(error) = one(&site, give).await {
                tracing::debug!(%to, %error, "what a site wants was not given");
            }
            drop((permit, place));
        });
    }
}

async fn one(site: &Arc<Site>, give: Give) -> Result<(), PeerError> {
    let sought = of(give.bucket, &give.wanted)?;
    let node = site.peers.roster.node(give.to).ok_or(PeerError::Stranger(give.to))?;
    let most = sought.most.min(seek::most(site.peers.is_paid(give.to)));
    // Under this site's budget, as if it had been asked.
    let question = Request::Read(sought.read.clone());
    let _held = site.peers.uplink.may_ask(node, &question, Class::Read).map_err(PeerError::Metered)?;
    let (response, chunks) = answer::object(site, sought.read, most.into()).await;
    let mut stream = taken(site.peers.net().open(node)).await??;
    stream.rank(Class::Read);
    let word = codec::encode(&Request::Give { token: sought.token });
    taken(frame::write(&mut stream, &mark::marked(Class::Read, &word))).await??;
    let bytes = packed(codec::encode(&response)).await;
    taken(frame::write(&mut stream, &bytes)).await??;
    if carries_records(&response) {
        site.peers.sent(node, Kind::Record, bytes.len());
    }
    for chunk in chunks {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let written = taken(stream.write(rest)).await??;
            rest = rest.get(written..).filter(|_| written > 0).ok_or(PeerError::Silent)?;
        }
        site.peers.sent(node, Kind::Payload, chunk.len());
    }
    Ok(taken(stream.shutdown()).await??)
}

/// What a site is to take within a while.
async fn taken<T>(given: impl Future<Output = T>) -> Result<T, PeerError> {
    tokio::time::timeout(STALLED, given).await.map_err(|_| PeerError::Silent)
}

/// What is wanted, if it makes sense.
fn of(bucket: BucketId, wanted: &[u8]) -> Result<Sought, PeerError> {
    let sought: Sought = codec::decode(wanted)?;
    match sought.read.bucket == bucket {
        true => Ok(sought),
        false => Err(PeerError::Senseless("something of another bucket than was asked for")),
    }
}
