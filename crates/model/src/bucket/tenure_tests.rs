//! One heir of an epoch, whoever proposed which and whatever was heard of it.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::{NodeId, Origin, Vector, codec};

use super::*;

const HOME: SiteId = SiteId([1; 16]);
const SECOND: SiteId = SiteId([2; 16]);
const THIRD: SiteId = SiteId([3; 16]);
const FAR: SiteId = SiteId([9; 16]);
const BUCKET: BucketId = BucketId([7; 16]);

fn home(site: SiteId, epoch: u64) -> HomeDocument {
    let (unique, seen, cause) = (false, Seen::default(), HomeCause::Named);
    HomeDocument { bucket: BUCKET, site, epoch, unique, seen, cause }
}

fn said(epoch: u64, view: u64, heir: Option<SiteId>) -> TenureDocument {
    TenureDocument { bucket: BUCKET, site: HOME, epoch, view, seen: Seen::default(), heir }
}

fn known(tenures: &[TenureDocument]) -> Known {
    Known { home: home(HOME, 1), tenures: tenures.to_vec(), is_ready: true, left: None }
}

/// At `me`, in a view in which these are live.
fn at(me: SiteId, view: u64, live: &[SiteId]) -> Within {
    let nodes = BTreeSet::from([HOME, SECOND, THIRD]);
    let live: BTreeSet<SiteId> = live.iter().copied().collect();
    let owner = *live.last().unwrap();
    Within { me, view, reads: true, nodes, live, owner }
}

#[test]
fn a_home_opens_its_tenure_and_then_decides() {
    let here = at(HOME, 5, &[HOME, SECOND, THIRD]);
    assert_eq!(known(&[]).turn(&here), Turn::Open(said(1, 5, None)));
    assert_eq!(known(&[said(1, 4, None)]).turn(&here), Turn::Decide(1));
    // Of another epoch: says nothing of this one.
    assert!(matches!(known(&[said(9, 4, None)]).turn(&here), Turn::Open(_)));
    assert_eq!(known(&[said(1, 4, None)]).turn(&Within { reads: false, ..here.clone() }), Turn::Unready);
    let behind = Known { is_ready: false, ..known(&[said(1, 4, None)]) };
    assert_eq!(behind.turn(&here), Turn::Behind);
    let others = at(SECOND, 5, &[HOME, SECOND, THIRD]);
    assert_eq!(known(&[said(1, 4, None)]).turn(&others), Turn::Elsewhere(HOME));
    let elsewhere = Known { home: home(FAR, 1), ..known(&[]) };
    assert_eq!(elsewhere.turn(&here), Turn::Elsewhere(FAR));
}

#[test]
fn only_the_owner_of_a_view_without_the_home_takes_it_over() {
    let without = [SECOND, THIRD];
    let open = known(&[said(1, 4, None)]);
    assert_eq!(open.turn(&at(THIRD, 6, &without)), Turn::Pass(said(1, 6, Some(THIRD))));
    assert_eq!(open.turn(&at(SECOND, 6, &without)), Turn::Elsewhere(THIRD));
    assert_eq!(open.turn(&Within { reads: false, ..at(THIRD, 6, &without) }), Turn::Unready);
    let behind = Known { is_ready: false, ..open };
    assert_eq!(behind.turn(&at(THIRD, 6, &without)), Turn::Behind);
    // What it decided before the others held it may be nowhere else.
    assert_eq!(known(&[]).turn(&at(THIRD, 6, &without)), Turn::Unopened(HOME));
}

#[test]
fn who_inherited_within_the_site_is_taken_over_without_having_opened() {
    let inherited = Known { home: home(SECOND, 2), ..known(&[said(1, 4, Some(SECOND))]) };
    let nodes = BTreeSet::from([HOME, SECOND, THIRD]);
    assert!(inherited.is_kept_by_its_site(&nodes));
    assert!(!inherited.is_kept_by_its_site(&BTreeSet::from([SECOND, THIRD])), "given by another site");
    let opened = TenureDocument { site: SECOND, ..said(2, 6, Some(THIRD)) };
    assert_eq!(inherited.turn(&at(THIRD, 6, &[HOME, THIRD])), Turn::Pass(opened));
    let other = Known { home: home(SECOND, 2), ..known(&[said(1, 4, Some(THIRD))]) };
    assert_eq!(other.turn(&at(THIRD, 6, &[HOME, THIRD])), Turn::Unopened(SECOND));
}

#[test]
fn an_heir_that_was_proposed_is_proposed_again_whoever_does() {
    let passed = known(&[said(1, 4, None), said(1, 5, Some(FAR)), said(1, 3, Some(SECOND))]);
    // The home itself decides nothing any more.
    let all = [HOME, SECOND, THIRD];
    assert_eq!(passed.turn(&at(HOME, 6, &all)), Turn::Pass(said(1, 6, Some(FAR))));
    assert_eq!(passed.turn(&at(THIRD, 6, &[SECOND, THIRD])), Turn::Pass(said(1, 6, Some(FAR))));
    assert_eq!(passed.give(&at(HOME, 6, &all), SECOND), Turn::Pass(said(1, 6, Some(FAR))));
    let free = known(&[said(1, 4, None)]);
    assert_eq!(free.give(&at(HOME, 6, &all), FAR), Turn::Pass(said(1, 6, Some(FAR))));
    assert_eq!(free.give(&at(SECOND, 6, &all), FAR), Turn::Elsewhere(HOME));
    // What it decided alone is said first.
    assert_eq!(known(&[]).give(&at(HOME, 6, &all), FAR), Turn::Open(said(1, 6, None)));
}

#[test]
fn a_tenure_speaks_for_a_home_document_that_is_not_here_yet() {
    let later = TenureDocument { site: SECOND, ..said(2, 7, Some(FAR)) };
    let known =
        Known::new(Some(home(HOME, 1)), vec![said(1, 6, Some(SECOND)), later.clone()], &Vector::new())
            .unwrap();
    assert_eq!((known.home.site, known.home.epoch), (SECOND, 2));
    let again = TenureDocument { view: 8, ..later };
    assert_eq!(known.turn(&at(HOME, 8, &[HOME, THIRD])), Turn::Elsewhere(THIRD));
    assert_eq!(known.turn(&at(THIRD, 8, &[HOME, THIRD])), Turn::Pass(again), "not the heir of epoch 1");
}

#[test]
fn an_heir_among_the_nodes_waits_for_what_was_decided_alone_only() {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let (alone, all) = (Vector::from_iter([(origin, 3)]), Vector::from_iter([(origin, 300)]));
    let nodes = BTreeSet::from([HOME, SECOND]);
    let passed = |heir| TenureDocument { seen: Seen::of(&alone), ..said(1, 6, Some(heir)) };
    assert_eq!(awaited(&passed(SECOND), &nodes, &all), Seen::of(&alone));
    assert_eq!(awaited(&passed(FAR), &nodes, &all), Seen::of(&all));
}

#[test]
fn a_tenure_speaks_for_a_home_that_no_document_names_here() {
    let known = Known::new(None, vec![said(4, 6, None)], &Vector::new()).unwrap();
    assert_eq!((known.home.site, known.home.epoch), (HOME, 4));
    assert_eq!(Known::new(None, Vec::new(), &Vector::new()), None);
}

#[test]
fn a_home_that_only_joins_the_view_is_taken_over() {
    let open = known(&[said(1, 4, None)]);
    let joining = at(HOME, 6, &[SECOND, THIRD]);
    assert_eq!(open.turn(&joining), Turn::Elsewhere(THIRD));
    assert_eq!(open.turn(&at(THIRD, 6, &[SECOND, THIRD])), Turn::Pass(said(1, 6, Some(THIRD))));
}

#[test]
fn a_home_says_what_it_may_have_decided_alone() {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let own = Vector::from_iter([(origin, 300)]);
    let nodes = BTreeSet::from([HOME, SECOND, THIRD]);
    assert_eq!(known(&[]).opening(&nodes, &own), Seen::of(&own));
    let inherited = Known { home: home(SECOND, 2), ..known(&[said(1, 4, Some(SECOND))]) };
    assert_eq!(inherited.opening(&nodes, &own), Seen::default());
    assert_eq!(inherited.opening(&BTreeSet::from([SECOND]), &own), Seen::of(&own), "given by another site");
}

#[test]
fn nobody_waits_for_what_only_a_home_had_that_is_gone_for_good() {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let left = Seen::of(&Vector::from_iter([(origin, 3)]));
    let opened = TenureDocument { seen: Seen::of(&Vector::from_iter([(origin, 300)])), ..said(1, 4, None) };
    let behind = Known { is_ready: false, ..known(&[opened]) };
    let without = at(THIRD, 6, &[SECOND, THIRD]);
    assert_eq!(behind.turn(&without), Turn::Behind);
    let told = Known { left: Some(left.clone()), ..behind };
    let passed = TenureDocument { seen: left, ..said(1, 6, Some(THIRD)) };
    assert_eq!(told.turn(&without), Turn::Pass(passed.clone()));
    assert_eq!(told.successor(&passed, Seen::default()).unwrap().site, THIRD);
    // It lives, though an operator said otherwise, and decides nothing before it has what it waits for.
    assert_eq!(told.turn(&at(HOME, 6, &[HOME, SECOND, THIRD])), Turn::Behind);
}

#[test]
fn an_heir_is_named_once() {
    let passed = said(1, 6, Some(SECOND));
    let open = known(&[said(1, 4, None)]);
    let next = open.successor(&passed, Seen::default()).unwrap();
    assert_eq!((next.site, next.epoch), (SECOND, 2));
    assert_eq!(open.successor(&said(1, 6, None), Seen::default()), None);
    let later = Known { home: home(THIRD, 2), ..open };
    assert_eq!(later.successor(&passed, Seen::default()), None);
}

/// Whoever wrote such a number: it must not begin again at 0, where all that was fenced off would count.
#[test]
fn nothing_follows_the_last_epoch_there_is() {
    let passed = said(u64::MAX, 4, Some(SECOND));
    let last = Known { home: home(HOME, u64::MAX), ..known(std::slice::from_ref(&passed)) };
    assert_eq!(last.successor(&passed, Seen::default()), None);
    let first = Known { home: home(SECOND, 0), ..known(&[passed]) };
    assert!(
        !first.is_kept_by_its_site(&BTreeSet::from([HOME, SECOND, THIRD])),
        "it was not given by the last"
    );
}

/// Fixtures of version 1 must decode for ever. Never regenerate them.
#[test]
fn the_document_of_a_tenure_is_pinned() {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let seen = Seen::of(&Vector::from_iter([(origin, 300)]));
    let document = TenureDocument { seen, ..said(3, 258, Some(FAR)) };
    let hex = skerry_base::hex::text(&codec::encode(&document));
    assert_eq!(hex, include_str!("fixtures/tenure.v1.hex").trim());
    let (key, object) = document.written(WallTime(1));
    assert_eq!(SystemKey::parse(&key), Some(SystemKey::Tenure(BUCKET)));
    let decoded: TenureDocument = codec::decode(&object.document.unwrap()).unwrap();
    assert_eq!(decoded, document);
}
