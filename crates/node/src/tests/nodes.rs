//! Two nodes of one site: what is written through one is listed and read through the other, and they count as one site
//! wherever copies are counted.

use std::collections::BTreeSet;

use skerry_base::SiteId;
use skerry_federation::site_view::Seat;
use skerry_gateway::service::{
    AddressRequest, ErrorKind, ExpelRequest, LossRequest, PutOutcome, RenameRequest, RequestContext,
    SeatRequest,
};

use super::world::{TestSite, TestWorld, context};
use crate::nodes::offer;

/// Waits until a node holds a lease of a view in which exactly these seats are live.
pub(super) async fn leased(node: &TestSite, live: &[u32]) {
    node.until("it holds a lease", || async {
        let nodes = node.services().admin.status().await.unwrap().nodes.unwrap();
        let found: Vec<u32> = nodes.nodes.iter().filter(|of| of.role == "live").map(|of| of.seat).collect();
        nodes.standing == "leased" && found == live
    })
    .await;
}

fn who_fills(node: &TestSite, site: SiteId, seat: usize) -> Option<SiteId> {
    node.site().peers.roster.turn(site, Seat::new(seat).unwrap()).map(|(member, _)| member)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_are_one_site_as_far_as_it_goes() {
    let world = TestWorld::of_nodes(2, 0).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    for node in [one, two] {
        node.until("both hold a lease", || async {
            let nodes = node.services().admin.status().await.unwrap().nodes.unwrap();
            nodes.standing == "leased" && nodes.nodes.iter().all(|of| of.role == "live")
        })
        .await;
    }
    one.create_bucket("photos").await.unwrap();
    let asks = RequestContext { scope: Some("node".into()), ..context() };
    let put = one.put_in(&asks, "photos", "a", "body").await.unwrap();
    assert_eq!(put.receipt.scope.as_deref(), Some("node"), "of two nodes one has it");
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    two.until("it follows what the other one follows", || async { two.site().is_complete(id) }).await;
    two.until("the key is listed", || async { two.list("photos").await.unwrap() == ["a"] }).await;
    assert_eq!(two.get("photos", "a").await.unwrap(), "body");
    // Two nodes burn together: there is no second site that could hold a copy.
    let asks = RequestContext { scope: Some("sites=2".into()), ..context() };
    assert_eq!(
        one.put_in(&asks, "photos", "c", "body").await.unwrap_err().kind(),
        ErrorKind::ScopeNotReached
    );
    one.set_copies("photos", 2).await.unwrap();
    let info = one.services().admin.bucket("photos").await.unwrap();
    assert_eq!(info.unprotected_bytes, 4, "a fire at the site takes what is at one of its nodes");
    world.stop().await;
}

#[tokio::test]
async fn a_site_of_one_node_runs_nothing_of_it() {
    let world = TestWorld::new(1).await;
    let site = world.sites[0].site();
    assert!(!site.nodes.are_several());
    assert_eq!(world.sites[0].services().admin.status().await.unwrap().nodes, None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_gets_another_name_or_address_keeps_its_seat() {
    let mut world = TestWorld::of_nodes(2, 0).await;
    let (site, id) = (world.sites[0].id(), world.sites[1].id());
    // It is off, and cannot mend what another one writes of it.
    world.sites[1].stop().await;
    let rename = RenameRequest { name: "annex".into() };
    world.sites[0].services().admin.rename_site("site-1-1", rename).await.unwrap();
    assert_eq!(who_fills(&world.sites[0], site, 1), Some(id));
    world.sites[1].start().await;
    let say = AddressRequest { addresses: vec!["annex.example:7700".into()] };
    world.sites[0].services().admin.set_address("annex", say).await.unwrap();
    // It writes its own record anew when it hears, and when it is started.
    for restarted in [false, true] {
        if restarted {
            world.sites[1].stop().await;
            world.sites[1].start().await;
        }
        for node in &world.sites {
            node.until("it has its name and its seat", || async {
                let known = node.site().peers.roster.all().remove(&id);
                let is_so = known.is_some_and(|known| {
                    known.name == "annex" && known.addresses.contains(&"annex.example:7700".to_owned())
                });
                is_so && who_fills(node, site, 1) == Some(id)
            })
            .await;
            leased(node, &[0, 1]).await;
        }
    }
    let two = &world.sites[1];
    two.until("it calls itself so", || async {
        two.services().admin.status().await.unwrap().site_name == "annex"
    })
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seat_of_an_expelled_node_goes_to_a_machine_of_a_later_turn() {
    let world = TestWorld::of_nodes(3, 0).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    for node in [one, two, three] {
        leased(node, &[0, 1, 2]).await;
    }
    one.services().admin.expel("site-1-1", ExpelRequest {}).await.unwrap();
    for node in [one, three] {
        leased(node, &[0, 2]).await;
        node.until("the seat is vacant", || async { who_fills(node, one.id(), 1).is_none() }).await;
    }
    let root = one.core.as_ref().unwrap().trust.root;
    let seat = |of: &str, seat, replace| SeatRequest { of: of.into(), seat, replace };
    let next = offer(one.site(), root, &seat("site-1", 1, false)).await.unwrap();
    let first = "one that begins as the first would not know what was promised";
    assert_eq!((next.site, next.turn), (one.id(), 1), "{first}");
    let refused = offer(one.site(), root, &seat("site-1", 1, true)).await.unwrap_err();
    assert!(refused.message().contains("vacant"), "{refused}");
    let refused = offer(one.site(), root, &seat("site-1", 3, false)).await.unwrap_err();
    assert!(refused.message().contains("no seat 3: with site.seats = 3 it has seats 0 to 2"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    // Also without its first node the site is what it was, but for a seat that nobody can be given.
    three.services().admin.expel("site-1", ExpelRequest {}).await.unwrap();
    three.until("the first seat is vacant", || async { who_fills(three, one.id(), 0).is_none() }).await;
    let next = offer(three.site(), root, &seat("site-1", 1, false)).await.unwrap();
    assert_eq!((next.site, next.turn), (one.id(), 1));
    let refused = offer(three.site(), root, &seat("site-1", 0, false)).await.unwrap_err();
    assert!(refused.message().contains("1 to 3"), "{refused}");
    world.stop().await;
}

/// Of two nodes one is no majority: the other one's word that it remembers nothing, or an operator's that it is expelled, is what
/// lets it go on.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_one_goes_on_when_the_other_is_gone_for_good() {
    let mut world = TestWorld::of_nodes(2, 0).await;
    for node in &world.sites {
        leased(node, &[0, 1]).await;
    }
    let scope_of = |put: PutOutcome| put.receipt.scope;
    let asks = RequestContext { scope: Some("site".into()), ..context() };
    world.sites[0].create_bucket("photos").await.unwrap();
    let put = world.sites[0].put_in(&asks, "photos", "before", "both have it").await.unwrap();
    assert_eq!(scope_of(put).as_deref(), Some("site"));

    // Its disk is emptied.
    world.sites[1].stop().await;
    let [one, two] = &mut world.sites[..] else { panic!("two nodes") };
    let refused = one.put_in(&asks, "photos", "alone", "is no site").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "silence is no reason");
    std::fs::remove_dir_all(two.directory.path().join("data")).unwrap();
    two.start().await;
    for node in [&*one, &*two] {
        leased(node, &[0, 1]).await;
    }
    assert_eq!(two.get("photos", "before").await.unwrap(), "both have it");
    let put = two.put_in(&asks, "photos", "again", "both have it").await.unwrap();
    assert_eq!(scope_of(put).as_deref(), Some("site"));

    // It is destroyed, and somebody says so.
    two.stop().await;
    one.services().admin.expel("site-1-1", ExpelRequest {}).await.unwrap();
    leased(one, &[0]).await;
    let put = one.put_in(&asks, "photos", "left", "one has it").await.unwrap();
    assert_eq!(scope_of(put).as_deref(), Some("site"));
    one.stop().await;
    one.start().await;
    leased(one, &[0]).await;
    assert_eq!(one.get("photos", "again").await.unwrap(), "both have it");
    // Should it run after all: nobody hears it, so nothing is the site's by its word.
    two.start().await;
    let put = one.put_in(&asks, "photos", "later", "one has it").await.unwrap();
    assert_eq!(scope_of(put).as_deref(), Some("site"));
    let refused = two.put_in(&asks, "photos", "stray", "nobody has it").await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ScopeNotReached | ErrorKind::NotServing), "{refused}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_lies_at_one_node_of_a_site_and_at_the_other_when_that_is_lost() {
    let mut world = TestWorld::of_nodes(2, 1).await;
    let apart = &world.sites[2];
    apart.create_bucket("photos").await.unwrap();
    apart.set_copies("photos", 3).await.unwrap();
    let asks = RequestContext { scope: Some("sites=3".into()), ..context() };
    let refused = apart.put_in(&asks, "photos", "a", "body").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "there are two sites: {refused}");
    let id = apart.site().bucket("photos").await.unwrap().unwrap().id;
    apart.put("photos", "a", "body").await.unwrap();
    let read = move |view: &dyn skerry_base::kv::View| {
        skerry_model::space::current(view, id, "a").map_err(crate::site::unreadable)
    };
    let dot = apart.site().read(read).await.unwrap().unwrap().dot;
    let holders = |site: &TestSite| -> BTreeSet<SiteId> {
        site.site().copies.with(|machine| machine.holders(id, dot).collect())
    };
    apart.until("another site holds it", || async { holders(apart).len() == 1 }).await;
    let info = apart.services().admin.bucket("photos").await.unwrap();
    assert_eq!(info.unprotected_bytes, 0);
    let holder = *holders(apart).first().unwrap();
    let (lost, left) = if holder == world.sites[0].id() { (0, 1) } else { (1, 0) };
    let name = ["site-1", "site-1-1"][lost];
    world.sites[lost].stop().await;
    let apart = &world.sites[2];
    apart.services().admin.declare_loss(name, LossRequest { lost: true }).await.unwrap();
    let left = world.sites[left].id();
    apart.until("the other node holds it", || async { holders(apart) == [left].into() }).await;
    world.stop().await;
}
