//! Whom to ask for payload that is not here: who is near before who is far.
//!
//! Before: `source.rs`, which misses a chunk. After: `peers`. Who wrote a version mostly has it, but may be far; a fellow node or a
//! member next door that has read it has it too, and nobody is told of evictable copies. So those who are much nearer are
//! asked whether they have the body's first missing chunk, all at once, once a body.
//! Invariants: that question costs a reader a tenth of the round trip that it may spare, and where somebody hangs a fifth of
//! it or [`PATIENCE`], however many are asked; who fails to give a chunk is not asked first for the next one.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use skerry_base::{BucketId, ChunkId, SiteId};
use tokio::sync::OnceCell;

use super::lost;
use crate::site::Site;

/// Sites asked at once whether they have what no known holder has, or only a far one; of the former all are asked, in rounds.
const BESIDES: usize = 16;
/// How many times as far as who is asked beforehand the one is whom that may spare.
const TIMES: u32 = 10;
/// What fellows are waited for at least: a round trip within a site, on a busy machine. Too little costs a body that a fellow has
/// its way from far, too much a reader whose fellow hangs so long, until that one is left out.
const PATIENCE: Duration = Duration::from_millis(100);

/// Where the chunks of a body may be.
pub(super) struct Nearby {
    domain: BucketId,
    /// Where the payload was written first, and the bucket's home.
    first: [SiteId; 2],
    /// Set once who is near was asked for the first chunk that was missing.
    looked: OnceCell<()>,
    /// Who came out of that, or gave the last chunk: it has the next one, too, more likely than anybody.
    likely: Mutex<Option<SiteId>>,
}

/// A site that could be asked before a far one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Neighbour {
    site: SiteId,
    is_fellow: bool,
    rtt: Option<Duration>,
}

impl Nearby {
    pub(super) fn new(domain: BucketId, written: SiteId, home: SiteId) -> Self {
        Self { domain, first: [written, home], looked: OnceCell::new(), likely: Mutex::new(None) }
    }

    /// Who may have what is not here: where it was written, then the members nearest first, then the home;
    /// those with a link before the others. Just after a start this waits until one of them has a link.
    pub(super) async fn holders(&self, site: &Arc<Site>) -> Vec<SiteId> {
        loop {
            let holders = self.known(site).await;
            let linked = holders.is_empty() || holders.iter().any(|holder| site.linked(*holder));
            if linked || !site.waits_for_links().await {
                return holders;
            }
        }
    }

    async fn known(&self, site: &Arc<Site>) -> Vec<SiteId> {
        let (bucket, [written, home]) = (self.domain, self.first);
        let members = site.drive.ask(move |machine, _| machine.members(bucket)).await.unwrap_or_default();
        let mut holders: Vec<SiteId> = Vec::new();
        for holder in [written].into_iter().chain(members).chain([home]) {
            if holder != site.id && !holders.contains(&holder) {
                holders.push(holder);
            }
        }
        holders.sort_by_key(|holder| !site.linked(*holder));
        holders
    }

    /// Whom to ask before anybody else: who gave the last chunk; at first who is near and says that it has this one, else the
    /// first of the holders.
    pub(super) async fn likely(&self, site: &Arc<Site>, chunk: ChunkId) -> Option<SiteId> {
        let look = || async { *self.known_likely() = self.look(site, chunk).await };
        self.looked.get_or_init(look).await;
        *self.known_likely()
    }

    /// A site gave a chunk.
    pub(super) fn gave(&self, site: SiteId) {
        *self.known_likely() = Some(site);
    }

    /// A site did not give the chunk that it was asked for first: the next one is asked for in the usual order.
    pub(super) fn failed(&self, site: SiteId) {
        let mut likely = self.known_likely();
        *likely = likely.filter(|known| *known != site);
    }

    fn known_likely(&self) -> MutexGuard<'_, Option<SiteId>> {
        self.likely.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, site: &Arc<Site>, chunk: ChunkId) -> Option<SiteId> {
        let holders = self.holders(site).await;
        let fellows = site.peers.roster.others(site.id);
        let neighbour = |other: &SiteId| Neighbour {
            site: *other,
            is_fellow: fellows.contains(other),
            rtt: site.peers.roster.node(*other).and_then(|node| site.peers.net().rtt(node)),
        };
        // Fellows also where they are no members: they have what their own clients read.
        let besides = fellows.iter().filter(|fellow| !holders.contains(fellow));
        let linked = holders.iter().chain(besides).filter(|holder| site.linked(**holder));
        let linked: Vec<Neighbour> = linked.map(neighbour).collect();
        let (first, others) = linked.split_first()?;
        let asked = before(*first, others);
        let patience = (first.rtt.unwrap_or_default() * 2 / TIMES).max(PATIENCE);
        let near = tokio::time::timeout(patience, first_with(site, self.domain, chunk, asked)).await;
        near.ok().flatten().or(Some(first.site))
    }

    /// Of these the sites that say that they have it.
    pub(super) async fn having(&self, site: &Arc<Site>, chunk: ChunkId, others: Vec<SiteId>) -> Vec<SiteId> {
        let (domain, wanted) = (self.domain, [chunk]);
        let wanted = &wanted;
        let asked = others.into_iter().map(|other| async move {
            let has = lost::has(site, other, domain, wanted).await;
            has.is_some_and(|has| !has.is_empty()).then_some(other)
        });
        futures::future::join_all(asked).await.into_iter().flatten().collect()
    }
}

/// Everybody who is linked and was not asked, in rounds of which each is twice as large as the one before: a body is told as
/// out of reach when no one has it, and not because its holder was not among the first.
pub(super) fn rounds(linked: impl IntoIterator<Item = SiteId>, asked: &[SiteId]) -> Vec<Vec<SiteId>> {
    let mut rest: Vec<SiteId> = linked.into_iter().filter(|other| !asked.contains(other)).collect();
    let (mut rounds, mut size) = (Vec::new(), BESIDES);
    while !rest.is_empty() {
        let later = rest.split_off(size.min(rest.len()));
        rounds.push(std::mem::replace(&mut rest, later));
        size *= 2;
    }
    rounds
}

/// Who is asked before the first of the holders: fellows unless it is one itself, and who is much nearer.
fn before(first: Neighbour, others: &[Neighbour]) -> Vec<SiteId> {
    if first.is_fellow {
        return Vec::new();
    }
    let spares = |near: Duration| first.rtt.is_some_and(|far| near < far && near * TIMES <= far);
    let is_worth = |other: &&Neighbour| other.is_fellow || other.rtt.is_some_and(spares);
    let mut asked: Vec<&Neighbour> = others.iter().filter(is_worth).collect();
    asked.sort_by_key(|other| (Reverse(other.is_fellow), other.rtt));
    asked.into_iter().map(|other| other.site).take(BESIDES).collect()
}

/// The first of these who says that it has the chunk.
async fn first_with(
    site: &Arc<Site>,
    domain: BucketId,
    chunk: ChunkId,
    asked: Vec<SiteId>,
) -> Option<SiteId> {
    let wanted = &[chunk];
    let ask = |other| async move { (other, lost::has(site, other, domain, wanted).await) };
    let mut words: FuturesUnordered<_> = asked.into_iter().map(ask).collect();
    while let Some((other, has)) = words.next().await {
        if has.is_some_and(|has| !has.is_empty()) {
            return Some(other);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(site: u8, rtt_ms: u64) -> Neighbour {
        let rtt = Some(Duration::from_millis(rtt_ms));
        Neighbour { site: SiteId([site; 16]), is_fellow: false, rtt }
    }

    fn fellow(site: u8) -> Neighbour {
        Neighbour { is_fellow: true, ..at(site, 1) }
    }

    fn asked(first: Neighbour, others: &[Neighbour]) -> Vec<u8> {
        before(first, others).into_iter().map(|site| site.0[0]).collect()
    }

    #[test]
    fn only_who_is_much_nearer_is_asked_before_the_first_holder() {
        assert_eq!(asked(at(1, 100), &[at(2, 10), at(3, 11), at(4, 2), at(5, 300)]), [4, 2]);
        assert_eq!(asked(at(1, 0), &[at(2, 0), at(3, 5)]), [] as [u8; 0]);
        let unmeasured = Neighbour { rtt: None, ..at(1, 0) };
        assert_eq!(asked(unmeasured, &[at(2, 1)]), [] as [u8; 0]);
        assert_eq!(asked(at(1, 100), &[unmeasured]), [] as [u8; 0]);
    }

    #[test]
    fn fellows_are_asked_before_anybody_at_another_site_and_not_before_each_other() {
        assert_eq!(asked(at(1, 2), &[at(2, 1), fellow(3)]), [3]);
        assert_eq!(asked(fellow(1), &[fellow(2), at(3, 0)]), [] as [u8; 0]);
    }

    #[test]
    fn whoever_is_linked_is_asked_once_before_a_body_is_told_as_out_of_reach() {
        let site = |number: u16| SiteId([&number.to_be_bytes()[..], &[0; 14]].concat().try_into().unwrap());
        let all: Vec<SiteId> = (0..1000).map(site).collect();
        let asked = [site(3), site(999)];
        let rounds = rounds(all.clone(), &asked);
        assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [16, 32, 64, 128, 256, 502]);
        let mut came = rounds.concat();
        came.extend(asked);
        came.sort_unstable();
        assert_eq!(came, all);
        assert!(super::rounds([site(3)], &asked).is_empty());
    }

    #[test]
    fn no_more_are_asked_than_a_federation_of_thousands_can_bear() {
        let crowd: Vec<Neighbour> = (2..=100).map(|site| at(site, 1)).collect();
        assert_eq!(asked(at(1, 100), &crowd).len(), BESIDES);
    }
}
