//! Conditional operations: clients at all sites race for a few keys of the buckets that they claim, cut off or not.
//!
//! An operation is decided at the bucket's home, which the asker looks up among its own records; the way there is
//! immediate, as in `fetches`, because what is tested is who decides. The register names homes and homes hand over
//! meanwhile. No key of a race is ever written without a condition, so whoever expected the same state of it twice
//! and won twice has found two homes, or one that forgets. One more key is written with and without conditions, and
//! deleted: there it is judged what goes before what.

use std::collections::BTreeSet;
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, NodeId, Origin, SiteId, Vector};
use skerry_model::Entry;
use skerry_model::bucket::{self, Resolved, Standing, SystemKey};
use skerry_model::object::Object;
use skerry_model::record::HomeDecision;
use skerry_model::space;
use skerry_model::write::{Ask, Conditions, EtagTest};

use super::claims::Claim;
use super::clients::{Carried, Client, Wish};
use super::{Bucket, World};
use crate::checkers::races::Expected;
use crate::histories::{Act, Answered};
use crate::history::Place;
use crate::site::{Answer, Asked, Desk, lock};
use crate::trace::Who;
use skerry_scenario::draw::{Draw, Ppm};
use skerry_storage::StorageError;

/// Keys that are raced for in each bucket.
const KEYS: u64 = 2;
/// The key that is written without conditions as well; with histories, whose judge knows nothing of that, it is none.
const BOTH: &str = "race-and-write";
/// Lives of which nothing is left: more than a document has room for.
const LIVES: u64 = 180;
/// Bytes of what racers write.
const BODY_BYTES: usize = 24;

/// The home's mark and the conditions of a write, decided on the commit thread.
pub(super) fn terms(
    view: &dyn View,
    (wish, system, me, two_homes): (&Wish, BucketId, SiteId, bool),
    desk: &mut Desk,
) -> Result<(Option<HomeDecision>, Conditions), String> {
    let Some(expected) = &wish.race else { return Ok((None, Conditions::default())) };
    let standing = bucket::standing(view, system, wish.bucket.id, me).map_err(|error| error.to_string())?;
    let epoch = match standing {
        Standing::Decides(epoch) => epoch,
        // The canary: what a claim says is taken for a home.
        Standing::Unnamed if two_homes => bucket::FIRST_EPOCH,
        other => return Err(format!("may not decide: {other:?}")),
    };
    let conditions = match expected {
        Some(etag) => {
            Conditions { if_match: Some(EtagTest::OneOf(vec![etag.clone()])), ..Conditions::default() }
        }
        None => Conditions { if_none_match: Some(EtagTest::Any), ..Conditions::default() },
    };
    let n = desk.clock.stamp(desk.wall, None).0;
    Ok((Some(HomeDecision { epoch, n }), conditions))
}

impl World {
    /// The next race of a client.
    pub(super) fn race_next(&mut self, (site, client): (usize, usize), mut state: Client) {
        let named = self.named_at(site);
        let waits = match state.draw.pick(&named) {
            Some(found) if state.draw.chance(Ppm::percent(75)) => {
                self.race((site, client), found, &mut state.draw)
            }
            _ => self.claim((site, client), &mut state.draw),
        };
        state.waits = waits;
        if let Some(place) = self.clients.get_mut(site).and_then(|clients| clients.get_mut(client)) {
            *place = state;
        }
        if !waits {
            self.client_tries_later(site, client);
        }
        self.mourn(site, false);
    }

    /// Whoever can be asked by a site just now.
    fn asked(&self, site: usize, other: SiteId) -> Option<usize> {
        let other = self.sites.iter().position(|place| place.id == other)?;
        let open = other == site || (self.net.open(site, other) && self.net.open(other, site));
        (open && self.running(other).is_some()).then_some(other)
    }

    fn race(&mut self, (site, client): (usize, usize), found: &Resolved, draw: &mut Draw) -> bool {
        let id = found.claim.bucket;
        let Some(running) = self.running(site) else { return false };
        if !running.members.contains(&id) {
            self.come_to_a_bucket(site, id, draw);
            return false;
        }
        let both = !self.environment.histories && draw.chance(Ppm::percent(40));
        let key = if both { BOTH.into() } else { format!("race-{}", draw.below(KEYS)) };
        if both && draw.chance(Ppm::percent(40)) {
            let bucket = Bucket { id, versioning: found.claim.config.versioning };
            let body = draw.bytes(BODY_BYTES);
            self.count("writes beside races");
            let asked = Asked { client: Some(client), ..Asked::default() };
            return self.put(site, asked, bucket, (key, body));
        }
        let current = space::current(&running.store.view(), id, &key).ok().flatten();
        let expected = current.and_then(|record| record.object().map(|object| object.etag.clone()));
        let claimed = self.environment.canary.is_some().then_some(found.claim.site);
        let Some(home) = found.home.as_ref().map(|home| home.site).or(claimed) else {
            self.count("races without a home");
            return self.ask_register(site, id);
        };
        let Some(home) = self.asked(site, home) else {
            self.count("races cut off");
            return false;
        };
        if !self.running(home).is_some_and(|running| running.members.contains(&id)) {
            self.submit_join(home, id);
            return false;
        }
        let bucket = Bucket { id, versioning: found.claim.config.versioning };
        let client = (home == site).then_some(client);
        if both && expected.is_some() && draw.chance(Ppm::percent(50)) {
            return self.race_to_delete((site, home, client), bucket, (key, expected));
        }
        if self.environment.histories {
            match draw.weighted(&[5, 2, 3]) {
                1 if expected.is_some() => {
                    return self.race_to_delete((site, home, client), bucket, (key, expected));
                }
                2 => {
                    self.read_at_home(site, home, id, &key);
                    return false;
                }
                _ => {}
            }
        }
        self.tell(Who::Site(site), format_args!("races for {key} of {id} from {expected:?} at {home}"));
        self.decide_race((site, home, client), bucket, (key, expected), draw)
    }

    /// A delete of what the client knows, and of nothing else.
    fn race_to_delete(
        &mut self,
        (asker, site, client): (usize, usize, Option<usize>),
        bucket: Bucket,
        (key, expected): (String, Expected),
    ) -> bool {
        self.tell(Who::Site(asker), format_args!("races to delete {key} of {} from {expected:?}", bucket.id));
        self.count("deletes raced");
        let operation = self.operation_begins(asker, (bucket.id, &key), Act::Delete, expected.clone());
        let asked = Asked { client, scope: 0, operation };
        let (ask, race, said, small, pins) = (Ask::Delete, Some(expected), None, None, Vec::new());
        let wish = Wish { site, asked, bucket, key, ask, claim: None, race, said, small, pins };
        self.submit_race(wish)
    }

    /// What cannot even be asked leaves no operation behind.
    fn submit_race(&mut self, wish: Wish) -> bool {
        let asked = wish.asked;
        let submitted = self.submit_write(wish);
        if let Some(operation) = asked.operation.filter(|_| !submitted) {
            self.operation_answered(operation, Answered::Refused);
        }
        submitted && asked.client.is_some()
    }

    fn decide_race(
        &mut self,
        (asker, site, client): (usize, usize, Option<usize>),
        bucket: Bucket,
        (key, expected): (String, Expected),
        draw: &mut Draw,
    ) -> bool {
        let now = self.queue.now();
        let Some(modified) = self.sites.get(site).map(|place| place.wall.read(now)) else { return false };
        let Ok(carried) = self.carry(site, bucket.id, draw.bytes(BODY_BYTES)) else { return false };
        let Carried { said, chunks, small, pins } = carried;
        let etag = said.hash.to_string();
        let act = Act::Put(etag.clone());
        let operation = self.operation_begins(asker, (bucket.id, &key), act, expected.clone());
        let object = Object { size: said.length, etag, chunks, modified, ..Object::default() };
        let (ask, race, said) = (Ask::Put(Box::new(object)), Some(expected), Some(said));
        self.count("races");
        let asked = Asked { client, scope: 0, operation };
        let wish = Wish { site, asked, bucket, key, ask, claim: None, race, said, small, pins };
        self.submit_race(wish)
    }

    /// Asks the register to name a home; the client tries again later.
    fn ask_register(&mut self, site: usize, id: BucketId) -> bool {
        let Some(running) = self.running(site) else { return false };
        let register = bucket::register(&running.store.view(), self.system).ok().flatten();
        if let Some(register) = register.and_then(|register| self.asked(site, register)) {
            self.submit_claim((register, None), Claim::NameHome(id));
        }
        false
    }

    /// The worker of a site: enters itself, keeps the register if it is the first, hands homes over now and then.
    pub(super) fn tend_homes(&mut self, site: usize) {
        let Some(running) = self.running(site) else { return };
        let Some(me) = self.sites.get(site).map(|place| place.id) else { return };
        let view = running.store.view();
        let key = SystemKey::Site(me).to_string();
        let entered = space::current(&view, self.system, &key).is_ok_and(|found| found.is_some());
        let register = bucket::register(&view, self.system).ok().flatten();
        let unnamed = bucket::unnamed(&view, self.system, me).unwrap_or_default();
        drop(view);
        let mine = |found: &Resolved| found.home.as_ref().is_some_and(|home| home.site == me);
        let mut homes: Vec<Resolved> = self.named_at(site);
        homes.retain(mine);
        let by_blocks =
            homes.iter().filter(|found| found.home.as_ref().is_some_and(|home| !home.seen.is_whole()));
        (0..by_blocks.count()).for_each(|_| self.count("looks at homes that wait for blocks"));
        let homes: Vec<BucketId> = homes.into_iter().map(|found| found.claim.bucket).collect();
        if !entered {
            self.submit_claim((site, None), Claim::Enter { joined: site as u64 });
        }
        if register.is_none() && site == 0 {
            self.submit_claim((site, None), Claim::Register);
        }
        for bucket in unnamed {
            self.count("homes named");
            self.submit_claim((site, None), Claim::NameHome(bucket));
        }
        for bucket in homes {
            self.age(site, bucket);
            let to = self.draw.below(self.sites.len() as u64) as usize;
            let moves = self.draw.chance(Ppm::percent(30)) && to != site;
            if let Some(to) = self.sites.get(to).map(|place| place.id).filter(|_| moves) {
                self.count("homes moved");
                self.say_before(site, (bucket, to));
                self.submit_claim((site, None), Claim::HandOver(bucket, to));
            }
        }
    }

    /// What a home has seen is written before it is handed over, as far as that document has no room for it.
    fn say_before(&mut self, site: usize, of: (BucketId, SiteId)) {
        let Some((running, place)) = self.running(site).zip(self.sites.get(site)) else { return };
        let wall = place.wall.read(self.queue.now());
        let by = (place.id, &BTreeSet::new());
        let named = bucket::hand_over(&running.store.view(), self.system, of, by, wall);
        for (key, object) in named.ok().flatten().map(|named| named.blocks).unwrap_or_default() {
            self.count("blocks written");
            self.submit_claim((site, None), Claim::Block(key, Box::new(object)));
        }
    }

    /// Lives of nodes wrote into the bucket long ago, and nothing of that is left but that a home has seen it.
    fn age(&mut self, site: usize, bucket: BucketId) {
        let has_many = self.environment.many_lives;
        let Some(running) = self.running(site).filter(|_| has_many) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let old = move |life: u64| {
            let origin = Origin { node: NodeId(bucket.0), incarnation: life };
            (origin, 1 + life % 9)
        };
        let upto: Vector = (0..LIVES).map(old).collect();
        if space::vector(&store.view(), bucket).is_ok_and(|vector| vector.includes(&upto)) {
            return;
        }
        self.count("buckets of many lives");
        let entry = skerry_storage::Entry::new(Entry::Vector { bucket, upto }.encode());
        store.submit::<(), StorageError>(
            move |_| Ok(((), vec![entry])),
            move |_| lock(&desk).answers.push(Answer::Kept),
        );
        self.plan_pump(site);
    }

    /// A conditional operation was answered.
    pub(super) fn count_win(&mut self, site: usize, place: &Place, dot: Dot) {
        let raced = lock(&self.raced).get(&(place.clone(), dot)).cloned();
        let Some(expected) = raced else { return };
        self.count("races won");
        // With deletes there is no object again and again.
        if expected.is_none() && (self.environment.histories || place.1 == BOTH) {
            return;
        }
        let history = lock(&self.history);
        let is_lost = |dot| history.write(place.0, dot).is_some_and(|write| write.excuse.set_back);
        let twice = self.races.won(site, (place, &expected, dot), is_lost);
        drop(history);
        twice.into_iter().for_each(|violation| self.violated(violation));
    }
}
