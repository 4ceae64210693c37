//! What an acknowledgement scope asks for of sites, as this one knows them now.
//!
//! Before: `scope.rs`, before anything is written and again whenever a site has answered. After: the machine
//! `federation::scope`. Why beside the rules of copies (`copies/wanted.rs`): those ask for no more than there are sites, so
//! that copies can be made; a write that is answered for more than there is would be answered for nothing. What a bucket
//! wants of which area is computed there for both. Invariants: `durable` is met where neither AT RISK nor
//! `skerry_area_lacking_bytes` would count the version; `area` asks nobody outside of the area that this site is in; who is
//! lost or about to go counts for neither, and the nodes of a site once.

use std::collections::BTreeSet;

use skerry_base::SiteId;
use skerry_federation::Together;
use skerry_federation::placement::{AreaDemand, Demand};
use skerry_federation::scope::{Goal, Reach};
use skerry_model::bucket::AREA_PLACES;
use skerry_model::record::Scope;

use super::bucket::Bucket;
use crate::copies::wanted::{Standing, of_areas, own_area};
use crate::site::Site;

/// What a write waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    pub(crate) goal: Goal,
    /// What the areas of the goal are called, in its order.
    areas: Vec<String>,
    /// Why it cannot be, whoever answers.
    pub(crate) impossible: Option<String>,
}

/// Where it is asked for.
#[derive(Clone, Copy)]
struct Here<'a> {
    site: &'a Site,
    bucket: &'a Bucket,
    together: &'a Together,
    uncounted: &'a BTreeSet<SiteId>,
}

impl Here<'_> {
    /// How many places of these count.
    fn counted(&self, sites: &BTreeSet<SiteId>) -> usize {
        self.together.count(sites.difference(self.uncounted).copied())
    }
}

impl Target {
    /// Of a scope of this bucket, at this site.
    pub(crate) fn of(site: &Site, bucket: &Bucket, scope: Scope) -> Self {
        let together = site.peers.roster.together();
        let mut uncounted = site.copies.uncounted();
        // Whether others have heard it or not.
        uncounted.extend(site.duties.own().leaves().then_some(site.id));
        let here = Here { site, bucket, together: &together, uncounted: &uncounted };
        let mut target = match scope {
            Scope::Node | Scope::Site => Self::anywhere(1),
            Scope::Sites(count) => Self::sites(site, usize::from(count)),
            Scope::Area => Self::area(&here),
            Scope::Durable => Self::durable(&here),
        };
        if matches!(scope, Scope::Area | Scope::Durable) && bucket.config.is_unread() {
            let why = "what the bucket wants of areas was said by a later release and is not understood here";
            target.impossible = Some(why.into());
        }
        (target.goal.together, target.goal.uncounted) = (together, uncounted);
        target
    }

    fn anywhere(places: usize) -> Self {
        Self { goal: Goal::anywhere(places), ..Self::default() }
    }

    fn sites(site: &Site, count: usize) -> Self {
        let there = site.peers.roster.sites_beside(site.id) + 1;
        let impossible = (count > there).then(|| format!("the federation has {there} sites"));
        Self { impossible, ..Self::anywhere(count) }
    }

    /// As many places of the own area as the bucket wants copies there; where it wants none, one more than a fire takes.
    fn area(here: &Here<'_>) -> Self {
        let Here { site, bucket, together, .. } = *here;
        let Some(area) = own_area(site, together) else {
            let impossible = format!(
                "{} is in no area: set `site.area` in its configuration, or say `skerry site area {} AREA`",
                site.called(),
                site.called()
            );
            let demand = Demand::anywhere(0).and_in(1, BTreeSet::new());
            let goal = Goal { demand, ..Goal::default() };
            return Self { goal, areas: vec!["no area".into()], impossible: Some(impossible) };
        };
        let standing = Standing::of(site, bucket, together);
        let there = standing.areas.get(&area).cloned().unwrap_or_default();
        let wished = of_areas(&bucket.config, &standing.areas).get(&area).copied();
        let wanted = wished.filter(|copies| *copies > 0).unwrap_or(usize::from(AREA_PLACES));
        let count = here.counted(&there);
        let impossible = (count < wanted).then(|| {
            format!(
                "{area} has {} that may hold it, and {wanted} are asked for there: add sites to it, ask for another scope, or \
                 say with `--copies '{} in {area}'` that so many are enough there",
                sites(count),
                count.max(1)
            )
        });
        let demand = Demand::anywhere(0).and_in(wanted, there);
        Self { goal: Goal { demand, ..Goal::default() }, areas: vec![area], impossible }
    }

    /// As the bucket wants copies, be there so many sites or not.
    fn durable(here: &Here<'_>) -> Self {
        let Here { site, bucket, together, .. } = *here;
        let Standing { sites: may, areas } = Standing::of(site, bucket, together);
        let all = usize::from(bucket.config.copies_in_all());
        let (mut demand, mut names) = (Demand::anywhere(all), Vec::new());
        let mut lacks = Vec::new();
        for (area, wanted) in of_areas(&bucket.config, &areas).into_iter().filter(|(_, wanted)| *wanted > 0) {
            let there = areas.get(&area).cloned().unwrap_or_default();
            let count = here.counted(&there);
            if count < wanted {
                lacks.push(format!("{wanted} copies in {area}, where {} may hold it", sites(count)));
            }
            demand = demand.and_in(wanted, there);
            names.push(area);
        }
        let count = here.counted(&may);
        if count < all {
            lacks.insert(0, format!("{all} copies, and {} may hold it", sites(count)));
        }
        let impossible = (!lacks.is_empty()).then(|| format!("the bucket wants {}", lacks.join("; ")));
        Self { goal: Goal { demand, ..Goal::default() }, areas: names, impossible }
    }

    /// At how many places it is to be.
    pub(crate) fn places(&self) -> u16 {
        u16::try_from(self.goal.demand.places()).unwrap_or(u16::MAX)
    }

    /// Whether one place is enough, and this site is it.
    pub(crate) fn is_met_at(&self, site: SiteId) -> bool {
        let counts = !self.goal.uncounted.contains(&site) && self.impossible.is_none();
        counts && self.goal.demand.is_met(&[site].into(), &self.goal.together)
    }

    /// What a write lacks, for people: of which areas, and who of them cannot be asked.
    pub(crate) fn lacking(&self, site: &Site, reach: &Reach) -> String {
        let lack = reach.lack();
        let areas = self.areas.iter().zip(self.goal.demand.areas()).zip(&lack.areas);
        let mut lacks: Vec<String> = areas
            .filter(|(_, lack)| **lack > 0)
            .map(|((name, area), lack)| {
                let known = format!("{lack} of {} in {name}", area.copies);
                match unlinked(site, area, reach) {
                    names if names.is_empty() => known,
                    names => format!("{known} (no link to {})", names.join(", ")),
                }
            })
            .collect();
        if lacks.is_empty() {
            lacks.push(format!("{} of {} in all", lack.all, self.goal.demand.all()));
        }
        lacks.join(" and ")
    }
}

fn sites(count: usize) -> String {
    if count == 1 { "1 site".into() } else { format!("{count} sites") }
}

/// Who of an area does not hold it and cannot be asked.
fn unlinked(site: &Site, area: &AreaDemand, reach: &Reach) -> Vec<String> {
    let held: BTreeSet<SiteId> = reach.held_at().collect();
    let is_away = |other: &&SiteId| **other != site.id && !held.contains(other) && !site.linked(**other);
    area.sites.iter().filter(is_away).map(|other| site.peers.roster.name(*other)).collect()
}
