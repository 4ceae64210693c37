//! Two nodes of one site: what is written through one is listed and read through the other, and what would need the
//! view to be more than shown is refused or told.

use skerry_gateway::service::{ErrorKind, RequestContext};

use super::world::{TestWorld, context};

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_are_one_site_as_far_as_it_goes() {
    let world = TestWorld::of_nodes(2).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    for node in [one, two] {
        node.until("both hold a lease", || async {
            let nodes = node.services().admin.status().await.unwrap().nodes.unwrap();
            nodes.standing == "leased" && nodes.nodes.iter().all(|of| of.role == "live")
        })
        .await;
    }
    one.create_bucket("photos").await.unwrap();
    let put = one.put("photos", "a", "body").await.unwrap();
    assert_eq!(put.receipt.scope.as_deref(), Some("node"), "of two nodes one has it");
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    two.until("it follows what the other one follows", || async { two.site().is_complete(id) }).await;
    two.until("the key is listed", || async { two.list("photos").await.unwrap() == ["a"] }).await;
    assert_eq!(two.get("photos", "a").await.unwrap(), "body");
    // Scope `site` is not there yet, and is not given by another name.
    let asks = RequestContext { scope: Some("site".into()), ..context() };
    let refused = one.put_in(&asks, "photos", "b", "body").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotImplemented);
    assert!(one.list("photos").await.unwrap() == ["a"], "nothing was written");
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
