//! Bodies when the memory for them is all in use: downloads go on in small pieces, uploads wait, small ones do not.

use std::time::Duration;

use skerry_base::limits::{ARRIVING_BYTES, INCOMING_BYTES, OUTGOING_BYTES};
use skerry_gateway::service::BucketPatch;

use super::world::{TestWorld, noise};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_go_on_in_pieces_here_and_from_elsewhere() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("bulk").await.unwrap();
    let body = noise((3 << 20) + 77_777, 1);
    one.put("bulk", "k", body.clone()).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("bulk").await.unwrap().is_some() }).await;
    for site in [one, two] {
        let held = site.site().outgoing.try_take(OUTGOING_BYTES).unwrap();
        // As after a look-up that waited for the disk: nothing is read in place.
        site.site().quick.took(Duration::from_secs(1));
        assert_eq!(site.get("bulk", "k").await.unwrap(), body);
        drop(held);
    }
    assert!(two.site().arriving.try_take(ARRIVING_BYTES).is_some(), "all of it was given back");
    let received = two.payload_received();
    let held = two.site().outgoing.try_take(OUTGOING_BYTES).unwrap();
    two.site().quick.took(Duration::from_secs(1));
    assert_eq!(two.get("bulk", "k").await.unwrap(), body);
    assert_eq!(two.payload_received(), received, "the pieces came from the copy that was kept");
    drop(held);
    world.stop().await;
}

/// Nothing may be kept here, so what comes with the first piece of a chunk is all of it: it is sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_with_little_room_and_nothing_kept_is_the_object() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("bulk").await.unwrap();
    let bound = BucketPatch { residency: Some(vec!["site-1".into()]), ..BucketPatch::default() };
    one.services().admin.update_bucket("bulk", bound).await.unwrap();
    let body = noise((4 << 20) + 77_777, 1);
    one.put("bulk", "k", body.clone()).await.unwrap();
    let knows = || async {
        two.site().bucket("bulk").await.unwrap().is_some_and(|bucket| !bucket.may_lie_at(two.id()))
    };
    two.until("the binding is known", knows).await;
    for room in [1, 15, 16, 17, 31, 33] {
        let held = two.site().outgoing.try_take(OUTGOING_BYTES - room * (64 << 10)).unwrap();
        assert!(two.get("bulk", "k").await.unwrap() == body, "with room for {room} pieces");
        drop(held);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_uploads_wait_for_room_and_small_ones_do_not() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("bulk").await.unwrap();
    let held = site.site().incoming.try_take(INCOMING_BYTES).unwrap();
    let mut large = Box::pin(site.put("bulk", "large", noise(2 << 20, 2)));
    let small = async {
        site.put("bulk", "small", noise(4 << 10, 3)).await.unwrap();
        assert_eq!(site.get("bulk", "small").await.unwrap(), noise(4 << 10, 3));
    };
    tokio::select! {
        biased;
        done = &mut large => panic!("there was no room: {done:?}"),
        () = small => {}
    }
    drop(held);
    large.await.unwrap();
    assert_eq!(site.get("bulk", "large").await.unwrap(), noise(2 << 20, 2));
    let all_of_it = || async { site.site().incoming.try_take(INCOMING_BYTES).is_some() };
    site.until("all of it is given back", all_of_it).await;
    world.stop().await;
}
