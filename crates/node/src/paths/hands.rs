//! Chunks that come for another site while that asks again and again how far they are.
//!
//! Before: `scope.rs` and `through.rs`, which must answer within seconds, however slow the link is that a chunk comes over. After:
//! `source.rs` and `peers`, which fetch it. Invariants: what is on its way goes on when the question that began it was answered,
//! and the next one takes it over; one fetch at a time for each chunk; what came waits in memory for the next
//! question, with its room, for a minute (`Waits::next`), or a moment where others wait for that room, and then goes: who
//! asked may have gone for good, and a site would hold nothing for anybody meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::{BucketId, ChunkId};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use tokio::sync::watch;

use crate::bulk::Bulk;
use crate::site::Site;

/// How long what came waits for the next question though somebody wants its room: who still waits asks again at once.
const MOMENT: Duration = Duration::from_secs(2);

/// Which chunk of whose bucket.
type Key = (BucketId, ChunkId);

/// How a fetch ended, once it has.
type Ending = Option<Outcome<Option<Bytes>>>;

/// What is on its way.
#[derive(Default)]
pub(crate) struct Hands(Mutex<BTreeMap<Key, watch::Receiver<Ending>>>);

impl Hands {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, watch::Receiver<Ending>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a fetch came to within this time, be it one that an earlier question began; none if it goes on.
    pub(super) async fn fetched(
        site: &Arc<Site>,
        key: Key,
        within: Duration,
        (fetch, room): (impl Future<Output = Outcome<Option<Bytes>>> + Send + 'static, &Bulk),
    ) -> Option<Outcome<Option<Bytes>>> {
        let mut ending = {
            let mut hands = site.hands.lock();
            hands.entry(key).or_insert_with(|| begin(site, key, (fetch, room.clone()))).clone()
        };
        let ended = match tokio::time::timeout(within, ending.wait_for(Option::is_some)).await {
            Err(_) => return None,
            Ok(Ok(ended)) => ended.clone(),
            Ok(Err(_)) => None,
        };
        let mut hands = site.hands.lock();
        // Another fetch may have begun under its name: what came is given up after a while.
        if hands.get(&key).is_some_and(|other| other.same_channel(&ending)) {
            hands.remove(&key);
        }
        drop(hands);
        let gone = || Err(ServiceError::new(ErrorKind::Internal, "a fetch was broken off"));
        Some(ended.unwrap_or_else(gone))
    }
}

fn begin(
    site: &Arc<Site>,
    key: Key,
    (fetch, room): (impl Future<Output = Outcome<Option<Bytes>>> + Send + 'static, Bulk),
) -> watch::Receiver<Ending> {
    let (tell, ending) = watch::channel(None);
    let next = site.peers.waits().next;
    // What waits for the next question keeps no site from ending.
    let site = Arc::downgrade(site);
    drop(tokio::spawn(async move {
        let ended = fetch.await;
        let is_there = matches!(ended, Ok(Some(_)));
        tell.send_replace(Some(ended));
        if is_there {
            let wanted = async {
                tokio::time::timeout(MOMENT, std::future::pending::<()>()).await.ok();
                room.wanted().await;
            };
            // Until somebody took it.
            let unasked = async {
                tokio::select! {
                    () = tell.closed() => {}
                    () = wanted => {}
                }
            };
            tokio::time::timeout(next, unasked).await.ok();
        }
        // Else the next question finds how it ended long ago. Who waits has heard it.
        let Some(site) = site.upgrade() else { return };
        let mut hands = site.hands.lock();
        if hands.get(&key).is_some_and(|other| other.same_channel(&tell.subscribe())) {
            hands.remove(&key);
        }
    }));
    ending
}
