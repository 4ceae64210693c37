//! Reads that want more than what is here: a token, the latest, a miss at a member that is behind, a site just started.

use std::collections::BTreeSet;
use std::time::Duration;

use skerry_base::SiteId;
use skerry_federation::Input;
use skerry_gateway::service::{BucketPatch, ErrorKind, ListQuery, Outcome, ReadMode, RequestContext};
use skerry_model::bucket::Joins;

use super::world::{TestSite, TestWorld, context, noise};
use crate::server::Core;

fn latest() -> RequestContext {
    RequestContext { read: ReadMode::Latest, ..context() }
}

async fn follows(site: &TestSite, bucket: &str) {
    site.until("the bucket is known", || async { site.site().bucket(bucket).await.unwrap().is_some() }).await;
    site.list(bucket).await.unwrap();
    let id = site.site().bucket(bucket).await.unwrap().unwrap().id;
    site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_refused_where_its_write_cannot_be() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "old", "0").await.unwrap();
    follows(two, "photos").await;
    follows(three, "photos").await;
    world.converged("photos").await;
    one.cut(true).await;
    let put = one.put("photos", "new", "1").await.unwrap();
    let after = RequestContext { read: ReadMode::After(put.receipt.token.unwrap()), ..context() };
    // Two can ask three, which has not seen the write either: that is no answer, for no key.
    for key in ["new", "old"] {
        let refused = two.get_with("photos", key, None, &after).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unreachable, "{key}");
        assert!(refused.message().contains("site-1"), "{}", refused.message());
    }
    assert_eq!(two.get("photos", "old").await.unwrap(), "0");
    one.cut(false).await;
    world.linked(one).await;
    assert_eq!(two.get_with("photos", "new", None, &after).await.unwrap(), "1");
    world.stop().await;
}

/// A write that is here says nothing of what else there is: of another bucket, or of one that is not followed whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_a_write_that_is_here_makes_nothing_unfindable() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "old", "0").await.unwrap();
    two.create_bucket("own").await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    let token = two.put("own", "a", "1").await.unwrap().receipt.token.unwrap();
    let after = RequestContext { read: ReadMode::After(token), ..context() };
    assert_eq!(two.get_with("photos", "old", None, &after).await.unwrap(), "0");
    assert_eq!(two.get_with("own", "a", None, &after).await.unwrap(), "1");
    let gone = two.get_with("own", "b", None, &after).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NoSuchKey);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_nothing_lists_what_the_token_or_the_latest_asks_for_or_nothing() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "old", "0").await.unwrap();
    follows(two, "photos").await;
    let known = || async { three.site().bucket("photos").await.unwrap().is_some() };
    three.until("the bucket is known", known).await;
    let stay = BucketPatch { join: Some("manual".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", stay).await.unwrap();
    let manual = || async {
        let found = three.site().bucket("photos").await.unwrap();
        found.is_some_and(|bucket| three.site().joins(&bucket) == Joins::Manual)
    };
    three.until("it is joined by hand only", manual).await;
    one.cut(true).await;
    let token = one.put("photos", "new", "1").await.unwrap().receipt.token.unwrap();
    let after = RequestContext { read: ReadMode::After(token), ..context() };
    let list = |context: RequestContext| async move {
        let query = ListQuery { bucket: "photos".into(), limit: 1000, ..ListQuery::default() };
        let page = three.services().objects.list(&context, query).await?;
        Outcome::Ok(page.entries.iter().map(|entry| entry.name().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(list(context()).await.unwrap(), ["old"]);
    assert_eq!(list(latest()).await.unwrap(), ["old"], "all that can be reached");
    let refused = list(after.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    assert!(refused.message().contains("token"), "{refused}");
    one.cut(false).await;
    world.linked(one).await;
    assert_eq!(list(after).await.unwrap(), ["new", "old"]);
    assert_eq!(list(latest()).await.unwrap(), ["new", "old"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_is_what_all_who_answer_know() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "first", "0").await.unwrap();
    follows(two, "photos").await;
    follows(three, "photos").await;
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    three
        .until("both others are known members", || async {
            three.site().drive.ask(move |machine, _| machine.members(id).len()).await == Some(2)
        })
        .await;
    for n in 0..10 {
        let key = format!("{n}");
        one.put("photos", &key, "1").await.unwrap();
        assert_eq!(three.get_with("photos", &key, None, &latest()).await.unwrap(), "1");
        // Else both writes had not seen each other, and the delete hides only what its site had seen.
        assert_eq!(two.get_with("photos", &key, None, &latest()).await.unwrap(), "1");
        two.put("photos", &key, noise(60_000, n)).await.unwrap();
        assert_eq!(three.get_with("photos", &key, None, &latest()).await.unwrap(), noise(60_000, n));
        two.delete("photos", &key).await.unwrap();
        let gone = three.get_with("photos", &key, None, &latest()).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NoSuchKey);
    }
    world.stop().await;
}

/// Known to be behind and linked, a member asks; without a link, or if the bucket says so, it answers from what is here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_miss_at_a_member_is_asked_on_or_not() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", "0").await.unwrap();
    follows(two, "photos").await;
    world.converged("photos").await;
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    // News of a record that no feed brings: as long as it is missing, this site is behind.
    let origin = one.site().stamps.origin;
    let vector = skerry_base::Vector::from_iter([(origin, 1000)]);
    let news = skerry_federation::Message::News { bucket: id, vector };
    two.site().drive.tell(skerry_federation::Input::Received { from: one.id(), message: news });
    let asked = two.site().drive.ask(move |machine, replica| machine.ahead(id, replica)).await.unwrap();
    assert!(asked.is_empty() || asked == [one.id()]);
    assert_eq!(two.get("photos", "never").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    let patch = BucketPatch { miss: Some("local".into()), ..BucketPatch::default() };
    assert_eq!(two.services().admin.update_bucket("photos", patch).await.unwrap().miss, "local");
    assert_eq!(two.get("photos", "never").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    let patch = BucketPatch { miss: Some("sometimes".into()), ..BucketPatch::default() };
    assert!(two.services().admin.update_bucket("photos", patch).await.is_err());
    one.cut(true).await;
    two.until("the cut is seen", || async { two.site().boxes.linked().is_empty() }).await;
    assert_eq!(
        two.get("photos", "never").await.unwrap_err().kind(),
        ErrorKind::NoSuchKey,
        "an island answers"
    );
    world.stop().await;
}

/// Two are ahead, and neither has what the other has: one does not speak for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_miss_at_a_member_is_asked_of_all_who_are_ahead() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", "0").await.unwrap();
    follows(two, "photos").await;
    follows(three, "photos").await;
    world.converged("photos").await;
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    // Each writes alone; then all are linked, hear of what the others have, and are given none of it.
    let all: BTreeSet<SiteId> = world.sites.iter().map(TestSite::id).collect();
    for site in &world.sites {
        site.cut(true).await;
        site.site().drive.tell(Input::Spent(all.clone()));
    }
    two.put("photos", "of-two", "2").await.unwrap();
    three.put("photos", "of-three", "3").await.unwrap();
    for site in &world.sites {
        site.site().peers.net().set_cut(false);
    }
    one.until("both are known to be ahead", || async {
        one.site().drive.ask(move |machine, replica| machine.ahead(id, replica).len()).await == Some(2)
    })
    .await;
    assert_eq!(one.get("photos", "never").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    assert_eq!(one.get("photos", "of-two").await.unwrap(), "2");
    assert_eq!(one.get("photos", "of-three").await.unwrap(), "3");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_just_started_waits_for_its_links() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    let body = noise(200_000, 3);
    world.sites[0].put("photos", "a", body.clone()).await.unwrap();
    world.sites[0].put("photos", "b", noise(200_000, 4)).await.unwrap();
    follows(&world.sites[1], "photos").await;
    world.converged("photos").await;
    for (wait, key, works) in [(Duration::from_secs(20), "a", true), (Duration::ZERO, "b", false)] {
        world.sites[1].stop().await;
        world.sites[0].site().peers.net().set_cut(!works);
        let (mut config, options) = world.sites[1].settings();
        config.peer.start_wait.0 = wait;
        world.sites[1].core = Some(Core::start(&config, options).await.unwrap());
        let read = world.sites[1].get("photos", key).await;
        match works {
            true => assert!(read.unwrap() == body),
            false => assert_eq!(read.map(|body| body.len()).unwrap_err().kind(), ErrorKind::Unreachable),
        }
    }
    world.stop().await;
}

/// Who wrote something and was set back has not seen it: that it is the site of the write proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_was_set_back_answers_no_token_of_what_it_lost() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        one.put("photos", "k", "old").await.unwrap();
        follows(two, "photos").await;
        world.converged("photos").await;
    }
    world.sites[0].stop().await;
    let backup = world.sites[0].copy();
    world.sites[0].start().await;
    world.sites[1].cut(true).await;
    let token = world.sites[0].put("photos", "k", "new").await.unwrap().receipt.token.unwrap();
    world.sites[0].stop().await;
    world.sites[0] = backup;
    world.sites[0].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.cut(false).await;
    world.until_linked(one, two).await;
    let after = RequestContext { read: ReadMode::After(token), ..context() };
    let read = two.get_with("photos", "k", None, &after).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Unreachable, "no site has seen the write of the token");
    world.stop().await;
}
