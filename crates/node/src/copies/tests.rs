//! What is at risk as it is counted, and what a count stands for.

use std::sync::Arc;

use super::*;

#[test]
fn of_a_forgotten_bucket_nothing_is_known() {
    let (bucket, three) = (BucketId([9; 16]), SiteId([3; 16]));
    let copies = Copies::resume(SiteId([1; 16]), Book::default());
    copies.set_away(bucket, BTreeSet::new(), [three].into());
    assert!(copies.follows(bucket, three) && !copies.follows(bucket, SiteId([2; 16])));
    let dot = Dot { origin: Origin { node: skerry_base::NodeId([3; 16]), incarnation: 1 }, seq: 1 };
    copies.held(bucket, dot, [three]);
    assert_eq!(copies.beside(&BTreeSet::new()), [bucket].into());
    assert_eq!(copies.beside(&[bucket].into()), BTreeSet::new());
    copies.forget(bucket);
    assert_eq!(copies.beside(&BTreeSet::new()), BTreeSet::new());
    assert!(!copies.follows(bucket, three));
}

#[test]
fn a_look_that_began_before_a_doubt_covers_nothing() {
    let (me, bucket) = (SiteId([1; 16]), BucketId([9; 16]));
    let copies = Copies::resume(me, Book::default());
    let (three, two) = (Rules { lost: [me].into(), ..Rules::default() }, Rules::default());
    let origin = Origin { node: skerry_base::NodeId([3; 16]), incarnation: 1 };
    let upto: Vector = [(origin, 7)].into_iter().collect();
    let cover = |doubts| copies.set_covered((bucket, &three), upto.clone(), BTreeSet::new(), doubts);
    // While it goes on something is let go of under other rules, of which nothing is covered yet.
    let doubts = copies.doubts(bucket);
    copies.forget_former(bucket, &two);
    assert!(!cover(doubts));
    assert_eq!(copies.covered(bucket, &three), Vector::new());
    // The next one stands, also while more is let go of under the same rules, until they are others.
    let doubts = copies.doubts(bucket);
    assert!(cover(doubts));
    copies.forget_former(bucket, &three);
    assert!(cover(doubts));
    copies.forget_former(bucket, &two);
    assert!(!cover(doubts));
    assert_eq!(copies.covered(bucket, &three), Vector::new());
}

#[test]
fn a_count_stands_while_nothing_changes_and_one_that_took_long_for_a_while() {
    let (of, other) = ((1, Vector::new(), Rules::default()), (2, Vector::new(), Rules::default()));
    let at = |seconds: u64| Instant(seconds * 1_000_000_000);
    let some = Count { unprotected: 1, ..Count::default() };
    let counted = |took| Counted { of: of.clone(), found: some.clone(), begun: at(100), took };
    let (quick, slow) = (counted(Duration::from_millis(5)), counted(Duration::from_secs(2)));
    let well = Counted { found: Count::default(), ..counted(Duration::from_secs(2)) };
    assert!(well.stands(&of, at(101)) && !well.stands(&other, at(101)), "what came since may be at risk");
    assert!(quick.stands(&of, at(150)) && !quick.stands(&of, at(160)), "disks are found damaged, too");
    assert!(!quick.stands(&other, at(101)));
    assert!(slow.stands(&other, at(139)) && !slow.stands(&other, at(140)));
    let lost = Rules { lost: [SiteId([2; 16])].into(), ..Rules::default() };
    assert!(!slow.stands(&(2, Vector::new(), lost), at(101)), "by other rules");
}

#[test]
fn what_a_site_says_that_leaves_meanwhile_makes_it_no_holder() {
    let (site, bucket) = (SiteId([2; 16]), BucketId([9; 16]));
    let copies = Arc::new(Copies::resume(SiteId([1; 16]), Book::default()));
    let origin = Origin { node: skerry_base::NodeId([2; 16]), incarnation: 1 };
    let dot = Dot { origin, seq: 1 };
    let held = || Spans::between(&Vector::new(), &Vector::from_iter([(origin, 1)]), &[]);
    let holds = || copies.with(|machine| machine.holders(bucket, dot).count());
    let question = || copies.asking(bucket, surplus::Question::Holdings(site));
    let asking = question();
    copies.left(bucket, site);
    assert!(!copies.said(bucket, site, origin, held(), true) && holds() == 0);
    let again = question();
    drop(asking);
    assert!(!copies.said(bucket, site, origin, held(), true), "which of the two it answers is not known");
    drop(again);
    let _asking = question();
    assert!(copies.said(bucket, site, origin, held(), true) && holds() == 1, "it is back");
    copies.left(bucket, SiteId([3; 16]));
    assert!(copies.said(bucket, site, origin, held(), true));
}

/// The rules hear of it, and with them the machine: nothing is counted in between with those who held something before.
#[test]
fn who_is_lost_or_goes_counts_no_more_from_that_moment_on() {
    let (one, two, bucket) = (SiteId([2; 16]), SiteId([3; 16]), BucketId([9; 16]));
    let copies = Copies::resume(SiteId([1; 16]), Book::default());
    let origin = Origin { node: skerry_base::NodeId([3; 16]), incarnation: 1 };
    let dot = Dot { origin, seq: 1 };
    copies.held(bucket, dot, [one, two]);
    let holders = || copies.with(|machine| machine.holders(bucket, dot).collect::<Vec<_>>());
    let changes = |act: &dyn Fn()| {
        let before = copies.changes();
        act();
        copies.changes() - before
    };
    let expel = |sites: &[SiteId]| {
        let loss = |site: &SiteId| {
            let loss =
                Loss { name: String::new(), since: None, is_lost: true, is_gone: true, knows_disk: true };
            (*site, loss)
        };
        copies.set_losses(sites.iter().map(loss).collect());
    };
    assert_eq!(holders(), [one, two]);
    assert_eq!(changes(&|| expel(&[one])), 1);
    assert_eq!((holders(), changes(&|| expel(&[one]))), (vec![two], 0));
    assert!(copies.set_leaving([two].into()) && holders().is_empty() && !copies.set_leaving([two].into()));
    // A look that began before does not bring them back.
    copies.tell_sites(Vec::new(), Instant(0));
    assert!(holders().is_empty());
    assert!(copies.set_leaving(BTreeSet::new()) && holders() == [two]);
    let before = copies.changes();
    copies.set_together(Together::default());
    assert_eq!(copies.changes(), before);
}
