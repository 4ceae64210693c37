//! The way of the design for 10,000 sites: bunches of landmarks, computed for all sites by the code that draws them, searches
//! walked over the bunches as `crates/sim/examples/areas` does, and one real landmark filled until it holds what the busiest must.
//!
//! Why not ten thousand machines: each has a view of all others, 10⁸ entries together. `crates/sim/tests/areas` shows that machines
//! take exactly the times that are computed from the bunches.
//!
//! Counted: questions, answers, publications by their fields. Not counted here: liveness and coordinates, which are the production machine's.

use std::collections::BTreeMap;
use std::time::Duration;

use skerry_base::{BucketId, Instant};
use skerry_federation::areas::bunch::Bunch;
use skerry_federation::areas::level::{self, Draw};
use skerry_federation::areas::{Entry, Landmark};

use super::bill::{self, Bill, System, Traffic};
use super::sea::{Sea, mix, number, site_id};
use super::world::Find;
use super::{CARRIER, Setting};
use crate::areas::landmark::term;
use crate::areas::{Areas, Config, Input, Membership, Message, Publish};

/// Searches that are walked.
const WALKS: u64 = 20_000;
/// Kind, ticket, bucket, coordinate, number of exceptions.
const ASK: u64 = 4 + 8 + 16 + 28 + 1;
/// Kind, ticket, bucket, asker.
const PASS_ON: u64 = 4 + 8 + 16 + 16;
/// Kind, ticket, bucket, what is said; a holder's id beside it now and then.
const ANSWER: u64 = 4 + 8 + 16 + 1;
/// Kind, ticket.
const CANCEL: u64 = 4 + 8;
/// Kind, ticket, life, digest, whether to forget; 25 bytes for each bucket beside.
const PUBLISH: u64 = 4 + 8 + 8 + 8 + 1;
/// Kind, ticket, life, digest.
const PUBLISHED: u64 = 4 + 8 + 8 + 8;
/// Of all chance of the federation.
const SEED: [u8; 32] = [3; 32];

struct Near {
    site: usize,
    micros: u64,
}

struct Bunches {
    of: Vec<Vec<Near>>,
    /// How many sites tell each.
    told: Vec<u64>,
}

impl Bunches {
    fn new(sea: &Sea) -> Self {
        let n = sea.len();
        let k = level::levels(n, 1);
        let levels = level::assign((0..n).map(|site| Draw::of(&SEED, site_id(site), 1)), k);
        let levels: Vec<u8> = (0..n).map(|site| levels.get(&site_id(site)).copied().unwrap_or(0)).collect();
        let mut told = vec![0; n];
        let mut of = Vec::with_capacity(n);
        for site in 0..n {
            let all: Vec<Landmark> = (0..n)
                .map(|other| Landmark {
                    distance: sea.rtt(site, other),
                    site: site_id(other),
                    level: levels[other],
                })
                .collect();
            let bunch = Bunch::of(k, all.iter().copied());
            let near = |landmark: &Landmark| Near {
                site: number(landmark.site),
                micros: landmark.distance.as_micros() as u64,
            };
            let bunch: Vec<Near> = bunch.landmarks.iter().map(near).collect();
            bunch.iter().for_each(|near| told[near.site] += 1);
            of.push(bunch);
        }
        Self { of, told }
    }
}

/// Bytes and messages of each site over all walks.
struct Loads {
    bytes: Vec<u64>,
    messages: Vec<u64>,
}

impl Loads {
    fn send(&mut self, from: usize, to: usize, bytes: u64) {
        if from != to {
            self.bytes[from] += bytes;
            self.messages[from] += 1;
        }
    }

    fn traffic(&self, per_second: f64) -> Traffic {
        let n = self.bytes.len().max(1) as f64;
        let with = |site: usize| self.bytes[site] + self.messages[site] * CARRIER;
        let most = |of: &dyn Fn(usize) -> u64| (0..self.bytes.len()).map(of).max().unwrap_or(0) as f64;
        let sum = |of: &dyn Fn(usize) -> u64| (0..self.bytes.len()).map(of).sum::<u64>() as f64;
        Traffic {
            mean: sum(&|site| self.bytes[site]) / n * per_second,
            most: most(&|site| self.bytes[site]) * per_second,
            carried: sum(&with) / n * per_second,
            carried_most: most(&with) * per_second,
        }
    }
}

/// One search in waves by a site for what a maker and its partner hold.
fn walk(sea: &Sea, bunches: &Bunches, (site, maker): (usize, usize), loads: &mut Loads) -> Find {
    let holders = [maker, sea.partner(maker)];
    let mut told: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    for holder in holders {
        for near in &bunches.of[holder] {
            told.entry(near.site).or_default().push((holder, near.micros));
        }
    }
    // Microseconds, holder, hops; the wait is half of the distance of the landmark.
    let mut best = (u64::MAX, maker, 0);
    for near in &bunches.of[site] {
        for (holder, onward) in told.get(&near.site).into_iter().flatten() {
            let way = near.micros + onward + sea.micros(*holder, site);
            let hops = 1 + u32::from(near.site != site) + u32::from(*onward > 0);
            best = best.min(((near.micros + way) / 2, *holder, hops));
        }
    }
    let (took, holder, hops) = best;
    for near in bunches.of[site].iter().filter(|near| near.micros / 2 <= took) {
        loads.send(site, near.site, ASK);
        loads.send(near.site, site, ANSWER + 16);
        for (holder, _) in told.get(&near.site).into_iter().flatten() {
            loads.send(near.site, *holder, PASS_ON);
            loads.send(*holder, site, ANSWER);
        }
        loads.send(site, near.site, CANCEL);
    }
    let took = took + sea.micros(site, holder);
    let nearest = holders.map(|holder| sea.micros(site, holder)).into_iter().min().unwrap_or(1);
    let stretch = took as f64 / nearest.max(1) as f64;
    Find { hops, took: Duration::from_micros(took), stretch }
}

/// What each site sends in an hour because sites went and came back: to its bunch a digest, then all; an answer for each.
fn churn(bunches: &Bunches, rate: f64) -> Traffic {
    let returns = rate / 3600.0;
    let tell = PUBLISH * 2 + 2 * 25;
    let sent = |site: usize| {
        let (bunch, told) = (bunches.of[site].len() as u64, bunches.told[site]);
        (bunch * tell + told * 2 * PUBLISHED, bunch * 2 + told * 2)
    };
    let (bytes, messages) = (0..bunches.of.len()).map(sent).unzip();
    Loads { bytes, messages }.traffic(returns)
}

/// The busiest landmark as a machine: all sites known and measured, and told by as many as tell it.
fn landmark(sea: &Sea, bunches: &Bunches) -> Areas {
    let n = sea.len();
    let me = (0..n).max_by_key(|site| (bunches.told[*site], *site)).unwrap_or(0);
    let (site, now) = (site_id(me), Instant(1));
    let config = Config { site, weight: 1, seed: SEED, life: 1, k: level::levels(n, 1) };
    let mut machine = Areas::new(config, now);
    let mut out = Vec::new();
    for other in (0..n).filter(|other| *other != me) {
        let site = site_id(other);
        machine.handle(Input::Come(Entry { site, weight: 1, coordinate: None }), now, &mut out);
        machine.handle(Input::Measured(site, sea.rtt(me, other)), now, &mut out);
        out.clear();
    }
    machine.handle(Input::Tick, now.after(Duration::from_secs(2)), &mut out);
    for other in (0..n).filter(|other| *other != me && bunches.of[*other].iter().any(|near| near.site == me))
    {
        let buckets = [other, sea.partner_of(other)].map(|maker| BucketId(site_id(maker).0));
        let changes: Vec<Membership> = buckets
            .iter()
            .zip(1..)
            .map(|(bucket, version)| Membership { bucket: *bucket, version, member: true })
            .collect();
        let digest = buckets.iter().fold(0u64, |sum, bucket| sum.wrapping_add(term(*bucket)));
        let publish = Publish { ticket: 1, life: 1, changes, digest, withdraw: false };
        let input = Input::Message(site_id(other), Message::Publish(publish));
        machine.handle(input, now.after(Duration::from_secs(3)), &mut out);
        out.clear();
    }
    machine
}

/// The figures that bunches have; `resident` is that of the busiest landmark.
pub fn measure(setting: Setting, resident: &dyn Fn() -> u64) -> Bill {
    let n = setting.sites;
    let sea = Sea::new(n, setting.seed);
    let bunches = Bunches::new(&sea);
    let before = resident();
    let machine = landmark(&sea, &bunches);
    let grown = resident().saturating_sub(before);
    let entries = machine.table().entries();
    let mut loads = Loads { bytes: vec![0; n], messages: vec![0; n] };
    let mut finds = Vec::new();
    for turn in 0..WALKS {
        let [site, maker] = [0, 1].map(|side| (mix(setting.seed + 50, turn, side) % n as u64) as usize);
        if site != maker && site != sea.partner(maker) {
            finds.push(walk(&sea, &bunches, (site, maker), &mut loads));
        }
    }
    // So many walks are made in so many seconds of load.
    let seconds = finds.len() as f64 / (setting.finds * n as f64 / 3600.0);
    let load = loads.traffic(1.0 / seconds.max(1e-9));
    let entry = 16 + 8 + 1 + 16 + 16;
    Bill {
        system: System::Areas,
        setting,
        traffic: [Traffic::default(), churn(&bunches, setting.churn), load, Traffic::default()],
        finding: [bill::finding(&finds, 0), bill::Finding::default()],
        healed: [None, None],
        resident: grown,
        counted: Some([0, (entries * entry) as u64]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_keep_the_bound_of_landmarks_and_the_busiest_holds_what_it_is_told() {
        let setting = Setting::of(300);
        let sea = Sea::new(300, 1);
        let bunches = Bunches::new(&sea);
        let k = u64::from(level::levels(300, 1));
        let mut loads = Loads { bytes: vec![0; 300], messages: vec![0; 300] };
        for turn in 0..500 {
            let (site, maker) = ((mix(4, turn, 0) % 300) as usize, (mix(4, turn, 1) % 300) as usize);
            if site != maker && site != sea.partner(maker) {
                let find = walk(&sea, &bunches, (site, maker), &mut loads);
                // 1.5·K·d to be found in waves, and the round trip to a holder that is no farther than that.
                assert!(find.stretch <= 3.0 * k as f64, "{find:?}");
                assert!(find.stretch >= 1.0);
            }
        }
        let machine = landmark(&sea, &bunches);
        let most = bunches.told.iter().max().copied().unwrap_or(0);
        // It tells itself nothing.
        assert_eq!(machine.table().entries() as u64, 2 * (most - 1));
        let bill = measure(setting, &|| 0);
        assert!(bill.traffic[2].most > bill.traffic[2].mean && bill.finding[0].hops <= 3.0);
    }
}
