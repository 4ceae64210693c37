//! How many copies a bucket wants now, where, and who counts: its settings, met with the sites there are.
//!
//! Before: the claim of the bucket, the roster with the areas of its sites, losses and duties. After: `workers/copies.rs`,
//! which has others hold what is lacking, `workers/trim.rs`, which lets go, [`super::look`], which counts. Invariants: of an
//! area no more is placed than it has sites that take something, and what it lacks for that is said; an area without sites
//! asks for nothing and nobody moves there; nodes of one site are one place.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::SiteId;
use skerry_federation::Together;
use skerry_federation::placement::Demand;
use skerry_gateway::service::AreaCopies;
use skerry_model::bucket::{BucketConfig, is_area_name};

use super::Count;
use crate::paths::bucket::Bucket;
use crate::site::Site;

/// What decides whether a version of a bucket has enough holders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rules {
    /// At how many sites each is to be, and of which areas; never more than there are.
    pub(crate) demand: Demand,
    /// The same for who lets go: it waits for nobody who does not follow the bucket. Who sees to the copies asks such a one,
    /// and says until then that they are needed.
    pub(crate) at_hand: Demand,
    /// At how many places each is to be, whether or not there are so many.
    pub(crate) wished: usize,
    /// What is asked of areas, whether or not they have the sites for it.
    pub(crate) needs: Vec<AreaNeed>,
    /// The bucket says of areas what this release does not understand: nothing is let go of.
    pub(crate) is_unread: bool,
    /// Sites that count no more.
    pub(crate) lost: BTreeSet<SiteId>,
    /// All sites that may hold copies, lost ones among them.
    pub(crate) sites: BTreeSet<SiteId>,
}

impl Rules {
    /// At how many sites each version is to be, wherever they are.
    pub(crate) const fn copies(&self) -> usize {
        self.demand.all()
    }

    /// Whether what is at one place only is at risk: more are wanted. Whether there is another place for them does not matter: where
    /// there is none, because the last was expelled or none ever joined, a fire here takes everything.
    pub(crate) const fn endangers(&self) -> bool {
        self.wished > 1
    }

    /// Whether what a site holds is to go, because the bucket lives in an area that it is not in.
    pub(crate) fn moves_from(&self, site: SiteId) -> bool {
        self.demand.moves() && !self.demand.areas().iter().any(|area| area.sites.contains(&site))
    }
}

/// What is asked of an area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AreaNeed {
    /// Its name.
    pub(crate) area: String,
    /// How many copies.
    pub(crate) wanted: usize,
    /// How many of its sites may hold one, and take it.
    pub(crate) there: usize,
    /// Whether anything is asked of it: it has sites that count.
    pub(crate) is_asked: bool,
}

impl AreaNeed {
    /// Whether it has too few sites.
    pub(crate) const fn is_short(&self) -> bool {
        self.there < self.wanted
    }
}

/// Who could hold copies.
struct There<'a> {
    areas: BTreeMap<String, BTreeSet<SiteId>>,
    all: usize,
    lost: &'a BTreeSet<SiteId>,
    /// Those that take nothing of the bucket, whatever they hold.
    refusing: &'a BTreeSet<SiteId>,
    /// Those that take nothing for now.
    frozen: &'a BTreeSet<SiteId>,
    together: &'a Together,
}

impl There<'_> {
    /// Who is asked for nothing: where somebody takes nothing, those that are lost do not stand in for it.
    fn closed(&self) -> BTreeSet<SiteId> {
        let closed: BTreeSet<SiteId> = self.refusing.union(self.frozen).copied().collect();
        if closed.is_empty() { closed } else { closed.union(self.lost).copied().collect() }
    }
}

/// How many copies a bucket wants of which area: of those that it names, also where it lives, and of each that has sites if it
/// wants some in each.
pub(crate) fn of_areas(
    config: &BucketConfig,
    there: &BTreeMap<String, BTreeSet<SiteId>>,
) -> BTreeMap<String, usize> {
    let wish = config.area_wish().unwrap_or_default();
    let lives = config.lives_in().filter(|area| is_area_name(area));
    let mut named: BTreeSet<&str> = wish.areas.keys().map(String::as_str).chain(lives).collect();
    if wish.each > 0 {
        named.extend(there.keys().map(String::as_str));
    }
    let wanted = |area: &str| match lives == Some(area) {
        true => wish.of(area).max(config.copies_in_all()),
        false => wish.of(area),
    };
    named.into_iter().map(|area| (area.to_owned(), usize::from(wanted(area)))).collect()
}

/// What a bucket wants of those that are there.
fn demand(config: &BucketConfig, there: &There<'_>) -> (Demand, Vec<AreaNeed>) {
    let all = usize::from(config.copies_in_all()).min(there.all);
    let (mut demand, mut needs) = (Demand::anywhere(all), Vec::new());
    for (area, wanted) in of_areas(config, &there.areas) {
        let sites = there.areas.get(&area).cloned().unwrap_or_default();
        let counts = sites.difference(there.lost).copied();
        let takes = counts.clone().filter(|site| !there.refusing.contains(site));
        let (count, taking) = (there.together.count(counts), there.together.count(takes));
        demand = demand.and_in(wanted.min(count), sites);
        let is_asked = wanted.min(count) > 0;
        needs.push(AreaNeed { area, wanted, there: taking, is_asked });
    }
    demand = demand.closed(&there.closed());
    let lives = config.lives_in();
    let moves = lives.is_some_and(|area| needs.iter().any(|need| need.area == area && need.there > 0));
    (if moves { demand.moving() } else { demand }, needs)
}

/// How many copies a bucket wants now, and who counts.
pub(crate) fn rules(site: &Site, bucket: &Bucket) -> Rules {
    Ground::of(site).rules(site, bucket)
}

/// What the rules of all buckets have in common: for whoever looks at many of them.
pub(crate) struct Ground {
    lost: BTreeSet<SiteId>,
    frozen: BTreeSet<SiteId>,
    together: Together,
    /// Of buckets that may lie anywhere.
    anywhere: Standing,
}

impl Ground {
    /// As it is now.
    pub(crate) fn of(site: &Site) -> Self {
        let together = site.peers.roster.together();
        let anywhere = Standing::among(site, |_| true, &together);
        Self { lost: site.copies.uncounted(), frozen: site.duties.frozen(), together, anywhere }
    }

    /// The rules of one of them.
    pub(crate) fn rules(&self, site: &Site, bucket: &Bucket) -> Rules {
        let standing = match bucket.config.residency.is_empty() {
            true => self.anywhere.clone(),
            false => Standing::of(site, bucket, &self.together),
        };
        on(site, bucket, (self, standing))
    }
}

fn on(site: &Site, bucket: &Bucket, (ground, standing): (&Ground, Standing)) -> Rules {
    let (Ground { lost, frozen, together, .. }, Standing { sites, areas }) = (ground, standing);
    // The nodes of one site burn together: it counts once, wherever in it a copy lies.
    let all = together.count(sites.difference(lost).copied());
    let refusing = site.copies.refusing(bucket.id);
    let there = There { areas, all, lost, refusing: &refusing, frozen, together };
    let (demand, needs) = demand(&bucket.config, &there);
    let strangers = site.copies.away(bucket.id);
    let at_hand = match strangers.is_empty() {
        true => demand.clone(),
        false => demand
            .clone()
            .closed(&there.closed().into_iter().chain(strangers).chain(lost.iter().copied()).collect()),
    };
    let wished =
        needs.iter().map(|need| need.wanted).sum::<usize>().max(usize::from(bucket.config.copies_in_all()));
    Rules { demand, at_hand, wished, needs, is_unread: bucket.config.is_unread(), lost: lost.clone(), sites }
}

/// Whether this site knows of another one that counts.
pub(crate) fn has_others(site: &Site) -> bool {
    let (roster, lost) = (&site.peers.roster, site.copies.uncounted());
    let together = roster.together();
    roster.all().into_keys().any(|other| !lost.contains(&other) && together.of(other) != together.of(site.id))
}

/// Which sites may hold copies of a bucket, lost ones among them, and in which areas they are.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) sites: BTreeSet<SiteId>,
    pub(crate) areas: BTreeMap<String, BTreeSet<SiteId>>,
}

impl Standing {
    pub(crate) fn of(site: &Site, bucket: &Bucket, together: &Together) -> Self {
        Self::among(site, |other| bucket.may_lie_at(other), together)
    }

    fn among(site: &Site, may: impl Fn(SiteId) -> bool, together: &Together) -> Self {
        let known = site.peers.roster.all();
        let all = known.keys().copied().chain([site.id]);
        let sites: BTreeSet<SiteId> = all.filter(|other| may(*other)).collect();
        let said = known.into_iter().filter(|(other, _)| sites.contains(other));
        let areas = areas(said.map(|(other, found)| (other, found.area)), together);
        Self { sites, areas }
    }
}

/// The area that this site is in.
pub(crate) fn own_area(site: &Site, together: &Together) -> Option<String> {
    let said = site.peers.roster.all().into_iter().map(|(other, found)| (other, found.area));
    let mut all = areas(said, together).into_iter();
    all.find(|(_, sites)| sites.contains(&site.id)).map(|(area, _)| area)
}

/// Which sites are in which area. The nodes of a site stand in one place, whatever is said of each: where its first node is
/// said to be, or the first of them of which anything is said.
fn areas(
    said: impl Iterator<Item = (SiteId, String)>,
    together: &Together,
) -> BTreeMap<String, BTreeSet<SiteId>> {
    let said: BTreeMap<SiteId, String> = said.collect();
    let mut places: BTreeMap<SiteId, &str> = BTreeMap::new();
    for (site, area) in said.iter().filter(|(_, area)| !area.is_empty()) {
        places.entry(together.of(*site)).or_insert(area);
    }
    // Its first node has the last word, also if it says that it is in none.
    places.extend(
        said.iter()
            .filter(|(site, _)| together.of(**site) == **site)
            .map(|(site, area)| (*site, area.as_str())),
    );
    let mut areas: BTreeMap<String, BTreeSet<SiteId>> = BTreeMap::new();
    for site in said.keys() {
        if let Some(area) = places.get(&together.of(*site)).filter(|area| !area.is_empty()) {
            areas.entry((*area).to_owned()).or_default().insert(*site);
        }
    }
    areas
}

/// What areas have of a bucket, for people.
pub(crate) fn shown(rules: &Rules, count: &Count) -> Vec<AreaCopies> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let lacking = count.lacking.iter().copied().chain(std::iter::repeat(super::Lacking::default()));
    let all = rules.needs.iter().zip(lacking).map(|(need, lacking)| AreaCopies {
        bucket: String::new(),
        area: need.area.clone(),
        copies: number(need.wanted),
        sites: number(need.there),
        lacking_versions: lacking.versions,
        lacking_bytes: lacking.bytes,
    });
    all.collect()
}

/// Those of all buckets that lack something.
pub(crate) fn lacking(counted: &BTreeMap<String, (Rules, Count)>) -> Vec<AreaCopies> {
    let of = |(bucket, (rules, count)): (&String, &(Rules, Count))| -> Vec<AreaCopies> {
        let all = shown(rules, count).into_iter();
        let lacks = |area: &AreaCopies| area.lacking_versions > 0 || area.sites < area.copies;
        all.filter(lacks).map(|area| AreaCopies { bucket: bucket.clone(), ..area }).collect()
    };
    counted.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_model::bucket::AreaWish;

    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    /// Oslo has 1, 2 and 3, of which 2 and 3 are nodes of one site; bergen has 5; 9 is in no area.
    fn asked(copies: &str, lives_in: &str, lost: &[u8]) -> (Demand, Vec<(String, usize, usize)>) {
        met(&config(copies, lives_in), lost)
    }

    fn config(copies: &str, lives_in: &str) -> BucketConfig {
        let mut config = BucketConfig::default();
        let (all, wish) = AreaWish::parse(copies).unwrap();
        config.set_copies(all, &wish);
        config.set_lives_in(lives_in);
        config
    }

    /// While 2 and 3 take nothing: for now, or of the bucket.
    fn closed(refuse: bool) -> (Demand, Vec<AreaNeed>) {
        let (none, some): (BTreeSet<SiteId>, BTreeSet<SiteId>) = (BTreeSet::new(), [2, 3].map(site).into());
        let lost = [site(1)].into();
        let (refusing, frozen) = if refuse { (&some, &none) } else { (&none, &some) };
        let together = Together::default();
        let areas = [("oslo".to_owned(), oslo())].into();
        let there = There { areas, all: 4, lost: &lost, refusing, frozen, together: &together };
        demand(&config("3 in oslo", ""), &there)
    }

    #[test]
    fn who_takes_nothing_is_none_of_the_sites_of_an_area() {
        let (refused, needs) = closed(true);
        assert!(needs[0].is_short() && needs[0].there == 0, "{needs:?}");
        let (frozen, needs) = closed(false);
        assert_eq!(needs[0].there, 2, "it is there, and may hold some already");
        for demand in [refused, frozen] {
            let lack = |holders: &[u8]| {
                let holders = holders.iter().copied().map(site).collect();
                demand.lack(&holders, &Together::default()).areas
            };
            assert_eq!((lack(&[9]), lack(&[2, 9])), (vec![0], vec![0]));
        }
    }

    fn met(config: &BucketConfig, lost: &[u8]) -> (Demand, Vec<(String, usize, usize)>) {
        let areas = [("oslo", vec![1, 2, 3]), ("bergen", vec![5])];
        let areas = areas.map(|(name, sites)| (name.to_owned(), sites.into_iter().map(site).collect()));
        let lost = lost.iter().copied().map(site).collect();
        let together = [(site(3), site(2))].into_iter().collect();
        let none = BTreeSet::new();
        let there = There {
            areas: areas.into(),
            all: 4,
            lost: &lost,
            refusing: &none,
            frozen: &none,
            together: &together,
        };
        let (demand, needs) = demand(config, &there);
        (demand, needs.into_iter().map(|need| (need.area, need.wanted, need.there)).collect())
    }

    fn oslo() -> BTreeSet<SiteId> {
        [1, 2, 3].map(site).into()
    }

    #[test]
    fn an_area_is_asked_for_what_it_has_sites_for() {
        let need = |area: &str, wanted, there| (area.to_owned(), wanted, there);
        assert_eq!(asked("2", "", &[]), (Demand::anywhere(2), vec![]));
        let two = Demand::anywhere(2).and_in(2, oslo());
        assert_eq!(asked("2 in oslo", "", &[]), (two.clone(), vec![need("oslo", 2, 2)]));
        let each = Demand::anywhere(2).and_in(1, [site(5)].into()).and_in(2, oslo());
        let needs = vec![need("bergen", 2, 1), need("oslo", 2, 2)];
        assert_eq!(asked("2 in each area", "", &[]), (each, needs), "who is in no area is in none of each");
        let one = Demand::anywhere(2).and_in(1, oslo());
        assert_eq!(asked("2 in oslo", "", &[1]), (one, vec![need("oslo", 2, 1)]));
        assert_eq!(asked("2 in ship", "", &[]), (Demand::anywhere(2), vec![need("ship", 2, 0)]));
    }

    #[test]
    fn a_release_before_lowers_no_number_below_an_area_s() {
        let mut config = config("2 in oslo", "");
        config.copies = 1;
        assert_eq!(met(&config, &[]), asked("2 in oslo", "", &[]));
        let cut_off = met(&config, &[1, 2, 3]).0;
        assert_eq!(cut_off, Demand::anywhere(2), "somebody else holds it meanwhile");
    }

    #[test]
    fn the_nodes_of_a_site_are_in_one_area() {
        let together: Together = [(site(3), site(2)), (site(5), site(4))].into_iter().collect();
        let found = |said: &[(u8, &str)]| -> Vec<(String, Vec<u8>)> {
            let said = said.iter().map(|(of, area)| (site(*of), (*area).to_owned()));
            let numbers = |sites: BTreeSet<SiteId>| sites.iter().map(|site| site.0[0]).collect();
            areas(said, &together).into_iter().map(|(area, sites)| (area, numbers(sites))).collect()
        };
        let oslo = |sites: &[u8]| vec![("oslo".to_owned(), sites.to_vec())];
        assert_eq!(found(&[(1, "oslo"), (2, "oslo"), (3, "")]), oslo(&[1, 2, 3]));
        assert_eq!(found(&[(2, "oslo"), (3, "bergen")]), oslo(&[2, 3]), "as the first of them");
        assert_eq!(found(&[(1, "oslo"), (2, ""), (3, "bergen")]), oslo(&[1]), "also when that is in none");
        assert_eq!(found(&[(5, "oslo")]), oslo(&[5]), "its first node is no more");
    }

    #[test]
    fn where_a_later_release_has_it_live_nobody_moves() {
        assert_eq!(asked("2", "oslo bergen", &[]), (Demand::anywhere(2), vec![]));
    }

    #[test]
    fn a_bucket_moves_to_where_there_are_sites() {
        let moves = Demand::anywhere(2).and_in(2, oslo()).moving();
        assert_eq!(asked("2", "oslo", &[]).0, moves);
        assert_eq!(asked("2, 1 in oslo", "oslo", &[]).0, moves, "all of them live there");
        assert_eq!(asked("2", "ship", &[]).0, Demand::anywhere(2), "nobody is there yet");
        assert!(!asked("2, 1 in oslo", "ship", &[]).0.moves());
    }
}
