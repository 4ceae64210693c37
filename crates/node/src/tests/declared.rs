//! Names and settings of buckets at a site of several nodes: what one node has answered, every other one knows.

use skerry_gateway::service::{
    CreateBucket, CreatedBucket, DutyRequest, ErrorKind, Outcome, RequestContext, Versioning,
};

use super::nodes::leased;
use super::within::site_of;
use super::world::{TestSite, context};

async fn create(node: &TestSite, asks: &RequestContext, name: &str) -> Outcome<CreatedBucket> {
    let request = CreateBucket { name: name.into(), location: None };
    node.services().buckets.create(asks, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_made_or_changed_through_one_node_is_there_at_every_other_at_once() {
    let world = site_of(3).await;
    for (n, node) in world.sites.iter().enumerate() {
        let name = format!("made-{n}");
        leased(node, &[0, 1, 2]).await;
        let made = create(node, &context(), &name).await.unwrap();
        assert_eq!(made.receipt.scope.as_deref(), Some("site"));
        for other in &world.sites {
            other.services().buckets.head(&context(), &name).await.unwrap();
            other.put(&name, "k", "x").await.unwrap();
        }
        let other = &world.sites[(n + 1) % 3];
        let set = other.services().buckets.set_versioning(&context(), &name, Versioning::Enabled).await;
        assert_eq!(set.unwrap().scope.as_deref(), Some("site"));
        for other in &world.sites {
            let shown = other.services().buckets.versioning(&context(), &name).await.unwrap();
            assert_eq!(shown, Versioning::Enabled);
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_most_nodes_cannot_hold_is_this_ones_and_says_so() {
    let world = site_of(3).await;
    let one = &world.sites[0];
    for name in ["site-1-1", "site-1-2"] {
        let request = DutyRequest { duty: "freeze".into(), abandon_uploads: false };
        one.services().admin.set_duty(name, request).await.unwrap();
    }
    one.until("two cannot hold", || async {
        let nodes = one.services().admin.status().await.unwrap().nodes.unwrap().nodes;
        nodes.iter().filter(|of| of.unable.is_some()).count() == 2
    })
    .await;
    let made = create(one, &context(), "plain").await.unwrap();
    assert_eq!(made.receipt.scope.as_deref(), Some("node"));
    let asks = RequestContext { scope: Some("site".into()), ..context() };
    let refused = create(one, &asks, "asked").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "{refused}");
    // It is kept, as the refusal says.
    one.services().buckets.head(&context(), "asked").await.unwrap();
    world.stop().await;
}
