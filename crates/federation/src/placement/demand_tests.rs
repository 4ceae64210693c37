//! Whom areas ask for, and whom they let go.

use super::*;

fn site(number: u8) -> SiteId {
    SiteId([number; 16])
}

fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
    numbers.iter().copied().map(site).collect()
}

fn numbers(sites: &BTreeSet<SiteId>) -> Vec<u8> {
    sites.iter().map(|site| site.0[0]).collect()
}

fn apart() -> Together {
    Together::default()
}

/// Two in all, of which so many in oslo (1, 2, 3) and so many in bergen (5, 6).
fn demand(oslo: usize, bergen: usize) -> Demand {
    Demand::anywhere(2).and_in(oslo, sites(&[1, 2, 3])).and_in(bergen, sites(&[5, 6]))
}

#[test]
fn an_area_is_asked_first_and_counts_in_all() {
    let able = [9, 5, 1, 2, 3].map(site);
    let picked =
        |demand: Demand, holders: &[u8]| numbers(&demand.pick(&able, &|_| true, &sites(holders), &apart()));
    assert_eq!(picked(Demand::anywhere(2), &[6]), [9], "the nearest");
    assert_eq!(picked(demand(2, 0), &[6]), [1, 2], "two of oslo, whatever is nearer");
    assert_eq!(picked(demand(2, 0), &[1]), [2]);
    assert_eq!(picked(demand(2, 2), &[9]), [1, 2, 5], "bergen has only one who can");
    assert_eq!(picked(demand(1, 1), &[1, 6]), []);
    assert_eq!(picked(demand(0, 1), &[5]), [9], "the rest is anybody's");
    let cut = [9].map(site);
    assert_eq!(
        numbers(&demand(2, 0).pick(&cut, &|_| true, &sites(&[6]), &apart())),
        [9],
        "meanwhile it is held anywhere"
    );
    assert_eq!(
        numbers(&demand(2, 0).pick(&cut, &|_| true, &sites(&[6, 9]), &apart())),
        [],
        "and no more often than asked"
    );
}

#[test]
fn a_busy_area_is_waited_for() {
    let able = [9, 1, 2, 5].map(site);
    let picked = |demand: Demand, free: &[u8]| {
        let free = sites(free);
        numbers(&demand.pick(&able, &|site| free.contains(&site), &sites(&[6]), &apart()))
    };
    assert_eq!(picked(demand(2, 0), &[9, 5]), [], "what oslo will take nobody else is asked for");
    assert_eq!(picked(demand(2, 0), &[9, 2]), [2]);
    assert_eq!(picked(demand(1, 0), &[9, 2]), [2], "another one of it is free");
    assert_eq!(picked(Demand::anywhere(2), &[5]), [5], "in all it is whoever is free");
    let three = Demand::anywhere(4).and_in(2, sites(&[1, 2, 3]));
    assert_eq!(picked(three, &[5, 9]), [9], "two are oslo's, one is anybody's");
}

#[test]
fn who_takes_nothing_is_waited_for_by_nobody() {
    let open = demand(2, 0);
    let closed = open.clone().closed(&sites(&[2, 3, 9]));
    assert_eq!(open.lack(&sites(&[1, 9]), &apart()).areas, [1]);
    assert!(closed.is_met(&sites(&[1, 9]), &apart()), "nobody else of oslo takes it");
    assert_eq!(numbers(&closed.pick(&[2, 1, 5].map(site), &|_| true, &sites(&[9]), &apart())), [1]);
    assert_eq!(closed.kept(site(9), &sites(&[1, 5, 9]), &apart()), Some(sites(&[1, 9])));
    // What one that is closed holds counts, and is kept.
    assert_eq!(closed.kept(site(9), &sites(&[1, 2, 5, 9]), &apart()), Some(sites(&[1, 2])));
    let nobody = open.closed(&sites(&[1, 2, 3]));
    assert!(nobody.is_met(&sites(&[5, 9]), &apart()) && !nobody.is_met(&sites(&[9]), &apart()));
}

#[test]
fn the_nodes_of_a_site_are_one_place_of_its_area() {
    let together: Together = [(2, 1)].map(|(one, of)| (site(one), site(of))).into_iter().collect();
    let demand = demand(2, 0);
    assert!(!demand.is_met(&sites(&[1, 2, 9]), &together));
    assert_eq!(numbers(&demand.pick(&[2, 3].map(site), &|_| true, &sites(&[1]), &together)), [3]);
    assert!(demand.is_met(&sites(&[2, 3]), &together));
}

#[test]
fn what_an_area_needs_is_kept_and_the_rest_goes() {
    let kept = |demand: &Demand, writer: u8, holders: &[u8]| {
        demand.kept(site(writer), &sites(holders), &apart()).map(|kept| numbers(&kept))
    };
    assert_eq!(
        kept(&Demand::anywhere(2), 5, &[1, 3, 5, 7]),
        Some(vec![5, 7]),
        "the writer and the ring behind it"
    );
    assert_eq!(kept(&Demand::anywhere(2), 4, &[1, 3, 7]), Some(vec![1, 7]));
    assert_eq!(kept(&demand(2, 0), 9, &[1, 2, 3, 5, 9]), Some(vec![1, 2]), "9 wrote it: its own never goes");
    assert_eq!(kept(&demand(1, 0), 9, &[1, 2, 5, 9]), Some(vec![1, 9]));
    assert_eq!(kept(&demand(2, 1), 2, &[1, 2, 3, 5, 6, 9]), Some(vec![2, 3, 5]));
    assert_eq!(kept(&demand(2, 1), 2, &[1, 3, 5, 9]), Some(vec![1, 3, 5]), "the writer's is gone");
    assert_eq!(kept(&demand(2, 1), 2, &[2, 5, 6, 9]), None, "oslo lacks one: nothing goes");
}

#[test]
fn a_bucket_that_moves_leaves_the_writer_behind() {
    let moves = Demand::anywhere(2).and_in(2, sites(&[1, 2, 3])).moving();
    let kept = |holders: &[u8]| moves.kept(site(9), &sites(holders), &apart()).map(|kept| numbers(&kept));
    assert_eq!(kept(&[9, 5]), None, "not before the area has it");
    assert_eq!(kept(&[1, 9]), None);
    assert_eq!(kept(&[1, 2, 9, 5]), Some(vec![1, 2]));
    assert_eq!(kept(&[1, 2, 3, 9]), Some(vec![1, 2]));
    let short = Demand::anywhere(2).and_in(1, sites(&[1])).moving();
    let kept = |holders: &[u8]| short.kept(site(9), &sites(holders), &apart()).map(|kept| numbers(&kept));
    assert_eq!(kept(&[1, 5, 9]), Some(vec![1, 9]), "an area of one site does not hold two");
}

/// Every set of holders, every demand of these sizes: what is kept meets it, and who is not kept may go in any order.
#[test]
fn who_is_not_kept_is_needed_by_nobody() {
    let all = [1, 2, 3, 5, 6, 9];
    for mask in 0u32..64 {
        let holders: BTreeSet<SiteId> =
            (0..6).filter(|bit| mask & (1 << bit) != 0).map(|bit| site(all[bit])).collect();
        for (oslo, bergen, writer) in (0..3).flat_map(|o| (0..3).flat_map(move |b| all.map(|w| (o, b, w)))) {
            let plain = demand(oslo, bergen);
            let closed = plain.clone().moving().closed(&sites(&[2, 3, 5]));
            for demand in [plain.clone(), plain.moving(), closed] {
                let Some(kept) = demand.kept(site(writer), &holders, &apart()) else { continue };
                assert!(demand.is_met(&kept, &apart()), "{demand:?} {holders:?}");
                for one in holders.difference(&kept) {
                    let left = holders.iter().copied().filter(|other| other != one).collect();
                    assert_eq!(demand.kept(site(writer), &left, &apart()).as_ref(), Some(&kept));
                }
            }
        }
    }
}
