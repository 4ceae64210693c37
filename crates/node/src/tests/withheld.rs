//! What is on its way to the other nodes of a site is on no feed: nobody knows a version whose body only a node has that is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use skerry_base::kv::View;
use skerry_model::space;

use super::nodes::leased;
use super::refusing::Hung;
use super::world::{TestWorld, noise};

/// A site elsewhere follows the bucket of a site of two nodes, one of which does not come to hold anything.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_of_a_write_before_the_other_nodes_have_it() {
    let world = TestWorld::of_nodes(2, 1).await;
    let [one, two, far] = &world.sites[..] else { panic!("two nodes and a site") };
    for node in [one, two] {
        leased(node, &[0, 1]).await;
    }
    one.create_bucket("photos").await.unwrap();
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    for node in [two, far] {
        node.until("the bucket is known", || async { node.site().bucket("photos").await.unwrap().is_some() })
            .await;
        node.site().join(id).await.unwrap();
        node.until("it follows it", || async { node.site().is_complete(id) }).await;
    }
    // In turn: what is withheld when `far` has it was told too early.
    let told_early = Arc::new(AtomicBool::new(false));
    for n in 0..20_u64 {
        let key = format!("{n}");
        let hung = (n % 4 == 3).then(|| Hung::of(two));
        let has = || async { far.get("photos", &key).await.is_ok() };
        let watch = async {
            let mut changes = far.site().changes.follow();
            loop {
                let key = key.clone();
                let listed = move |view: &dyn View| Ok(space::is_listed(view, id, &key).unwrap());
                if far.site().read(listed).await.unwrap() {
                    told_early.fetch_or(one.site().stamps.withheld.first(id).is_some(), Ordering::Relaxed);
                    return;
                }
                changes.changed().await.ok();
            }
        };
        let (put, ()) = tokio::join!(one.put("photos", &key, noise(2_000, n)), watch);
        put.unwrap();
        drop(hung);
        far.until("it can be read there", has).await;
    }
    assert!(!told_early.load(Ordering::Relaxed));
    assert_eq!(one.site().stamps.withheld.first(id), None);
    world.stop().await;
}
