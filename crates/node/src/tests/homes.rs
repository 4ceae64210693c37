//! Names that several claim, homes that move, conflicts that end.

use skerry_base::kv::View;
use skerry_base::{Origin, Vector, codec};
use skerry_gateway::service::{
    BucketCreate, ConflictEnd, ConflictKey, ConflictQuery, ErrorKind, HomeRequest, LossRequest,
    WriteCondition,
};
use skerry_model::{bucket, space, write};

use super::world::{TestSite, TestWorld};
use crate::config::BucketScope;
use crate::net::{Net, PeerAddress, frame};
use crate::peers::message::{Request, Response};
use crate::server::Core;
use crate::site::unreadable;

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

fn new(name: &str, owner: &str, unique: bool) -> BucketCreate {
    BucketCreate { name: name.into(), owner: Some(owner.into()), unique, copies: None, copies_in: None }
}

fn to(site: &str, destroyed: Option<&str>) -> HomeRequest {
    HomeRequest { site: site.into(), destroyed: destroyed.map(Into::into) }
}

async fn knows(site: &TestSite, bucket: &str) {
    site.until("the bucket is known", || async { site.site().bucket(bucket).await.unwrap().is_some() }).await;
}

async fn home_is(site: &TestSite, bucket: &str, home: &str, epoch: u64) {
    site.until("the home is known", || async {
        let found = site.services().admin.bucket(bucket).await;
        found.is_ok_and(|found| found.home == home && found.home_epoch == epoch)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_owners_one_keeps_the_name_and_the_other_is_shown() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    three.cut(true).await;
    two.services().admin.create_bucket(new("photos", "ann", false)).await.unwrap();
    three.services().admin.create_bucket(new("photos", "bob", false)).await.unwrap();
    three.put("photos", "mine", "bob's").await.unwrap();
    let refused = three.services().admin.create_bucket(new("one", "bob", true)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "{}", refused.message());
    two.services().admin.create_bucket(new("one", "ann", true)).await.unwrap();
    two.put_if("one", "lock", "two", absent()).await.unwrap();
    let refused = one.services().admin.create_bucket(new("one", "bob", true)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BucketAlreadyExists, "{}", refused.message());
    three.services().admin.create_bucket(new("one", "bob", false)).await.unwrap();
    three.cut(false).await;
    world.linked(three).await;
    for site in &world.sites {
        knows(site, "photos--site-3").await;
        knows(site, "one--site-3").await;
        let page = site.services().admin.conflicts(ConflictQuery::default()).await.unwrap();
        let names: Vec<_> = page.names.iter().map(|name| (&*name.appears_as, &*name.owner)).collect();
        assert_eq!(names, [("one--site-3", "bob"), ("photos--site-3", "bob")]);
        assert_eq!(site.services().admin.bucket("photos").await.unwrap().owner, "ann");
        assert_eq!(site.services().admin.bucket("one").await.unwrap().owner, "ann");
    }
    assert_eq!(three.get("photos--site-3", "mine").await.unwrap(), "bob's");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_is_handed_over_and_nobody_decides_twice() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("locks").await.unwrap();
    one.put_if("locks", "first", "one", absent()).await.unwrap();
    for site in [two, three] {
        knows(site, "locks").await;
        assert_eq!(site.get("locks", "first").await.unwrap(), "one");
        home_is(site, "locks", "site-1", 1).await;
    }
    let refused = two.services().admin.move_home("locks", to("site-2", None)).await.unwrap_err();
    assert!(refused.message().contains("site-1"), "{}", refused.message());
    let refused = one.services().admin.move_home("locks", to("atlantis", None)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSuchSite);
    let moved = one.gives_home("locks", to("site-2", None)).await;
    assert_eq!((&*moved.site, moved.epoch), ("site-2", 2));
    home_is(two, "locks", "site-2", 2).await;
    world.converged("locks").await;
    for site in [one, two] {
        let lost = site.put_if("locks", "first", "again", absent()).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{}", lost.message());
    }
    one.cut(true).await;
    let refused = one.put_if("locks", "second", "one", absent()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "{}", refused.message());
    two.put_if("locks", "second", "two", absent()).await.unwrap();
    world.stop().await;
}

/// An heir that is behind decides nothing, and for good if the giver burns meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_is_given_only_to_a_site_that_has_all_of_the_bucket() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("locks").await.unwrap();
    one.put_if("locks", "first", "one", absent()).await.unwrap();
    knows(two, "locks").await;
    two.cut(true).await;
    one.put_if("locks", "second", "one", absent()).await.unwrap();
    let refused = one.services().admin.move_home("locks", to("site-2", None)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable);
    assert!(refused.message().contains("the home stays where it is"), "{}", refused.message());
    one.put_if("locks", "third", "one", absent()).await.unwrap();
    two.cut(false).await;
    world.linked(two).await;
    // It did not follow the bucket, and takes it before it becomes the home.
    let id = one.site().bucket("locks").await.unwrap().unwrap().id;
    assert!(!two.site().is_member(id));
    one.gives_home("locks", to("site-2", None)).await;
    home_is(two, "locks", "site-2", 2).await;
    let lost = two.put_if("locks", "third", "two", absent()).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{}", lost.message());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_home_is_replaced_on_an_operators_word_and_expelled() {
    let mut world = TestWorld::new(3).await;
    world.sites[2].create_bucket("locks").await.unwrap();
    for site in &world.sites[..2] {
        knows(site, "locks").await;
        home_is(site, "locks", "site-3", 1).await;
    }
    world.sites[2].put_if("locks", "first", "three", absent()).await.unwrap();
    let id = world.sites[2].site().bucket("locks").await.unwrap().unwrap().id;
    for site in &world.sites[..2] {
        assert_eq!(site.get("locks", "first").await.unwrap(), "three");
        site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
    }
    let admin = world.sites[0].services().admin.clone();
    let refused = admin.move_home("locks", to("site-1", Some("site-3"))).await.unwrap_err();
    assert!(refused.message().contains("site-3 is not destroyed: it answers"), "{refused}");
    world.sites[2].stop().await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    let waits = one.put_if("locks", "none", "one", absent()).await.unwrap_err();
    assert!(waits.message().contains("when the link is back"), "{waits}");
    admin.declare_loss("site-3", LossRequest { lost: true }).await.unwrap();
    let waits = one.put_if("locks", "none", "one", absent()).await.unwrap_err();
    assert!(waits.message().contains("--destroyed site-3"), "{waits}");
    let refused = two.services().admin.move_home("locks", to("site-2", Some("site-3"))).await.unwrap_err();
    assert!(refused.message().contains("site-1"), "{}", refused.message());
    let moved = one.services().admin.move_home("locks", to("site-1", Some("site-3"))).await.unwrap();
    assert_eq!((moved.epoch, moved.expelled.as_deref()), (2, Some("site-3")));
    let lost = one.put_if("locks", "first", "one", absent()).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{}", lost.message());
    home_is(two, "locks", "site-1", 2).await;
    two.put_if("locks", "second", "two", absent()).await.unwrap();
    two.until("the lost site is no site any more", || async { two.site().peers.roster.all().len() == 2 })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_is_shown_and_ended_everywhere() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", "0").await.unwrap();
    assert_eq!(two.get("photos", "a").await.unwrap(), "0");
    world.converged("photos").await;
    two.cut(true).await;
    for key in ["a", "b"] {
        one.put("photos", key, "one").await.unwrap();
        two.put("photos", key, "two").await.unwrap();
    }
    two.cut(false).await;
    world.linked(two).await;
    world.converged("photos").await;
    looking_without_seeing(one).await;
    for (key, loser) in [("a", false), ("b", true)] {
        let named = ConflictKey { bucket: "photos".into(), key: key.into(), unseen: true };
        let detail = one.services().admin.conflict(named).await.unwrap();
        let current = one.get("photos", key).await.unwrap();
        assert_eq!((detail.losers.len(), detail.more), (1, 0));
        let keep = loser.then(|| detail.losers[0].version_id.clone());
        let end = ConflictEnd { bucket: "photos".into(), key: key.into(), keep };
        let ended = one.services().admin.end_conflict(end).await.unwrap();
        assert_eq!(ended.erased.len(), 1, "{ended:?}");
        world.converged("photos").await;
        for site in &world.sites {
            let shown = site.get("photos", key).await.unwrap();
            assert_eq!(shown == current, !loser);
        }
    }
    for site in &world.sites {
        let page = site.services().admin.conflicts(ConflictQuery::default()).await.unwrap();
        assert!(page.conflicts.is_empty(), "{:?}", page.conflicts);
    }
    let none = ConflictEnd { bucket: "photos".into(), key: "a".into(), keep: None };
    let refused = one.services().admin.end_conflict(none).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSuchConflict);
    world.stop().await;
}

/// Losers of a bucket that count as seen at a site.
async fn seen(site: &TestSite, bucket: &str) -> usize {
    let id = site.site().known(bucket).await.unwrap().id;
    let count = move |view: &dyn skerry_base::kv::View| {
        let all = space::conflicts(view, Some(id), None, 100).unwrap();
        let losers = all.iter().flat_map(|conflict| &conflict.losers);
        let fact = |dot| space::local(view, &write::listed_fact(id, dot)).unwrap();
        Ok(losers.filter(|loser| fact(loser.dot).is_some()).count())
    };
    site.site().read(count).await.unwrap()
}

/// Whoever only looks (`--dry-run`) has not seen; two conflicts, of which one is of the key `a`.
async fn looking_without_seeing(site: &TestSite) {
    let admin = &site.services().admin;
    let list = |unseen| admin.conflicts(ConflictQuery { unseen, ..ConflictQuery::default() });
    let show = |unseen| admin.conflict(ConflictKey { bucket: "photos".into(), key: "a".into(), unseen });
    assert_eq!(list(true).await.unwrap().conflicts.len(), 2);
    assert_eq!(show(true).await.unwrap().losers.len(), 1);
    assert_eq!(seen(site, "photos").await, 0);
    show(false).await.unwrap();
    assert_eq!(seen(site, "photos").await, 1);
    list(false).await.unwrap();
    assert_eq!(seen(site, "photos").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_names_of_its_own_every_site_has_its_own_bucket_of_one_name() {
    let mut world = TestWorld::new(2).await;
    for site in &mut world.sites {
        site.stop().await;
        let (mut config, options) = site.settings();
        config.s3.bucket_scope = BucketScope::Site;
        site.core = Some(Core::start(&config, options).await.unwrap());
    }
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.linked(one).await;
    two.cut(true).await;
    for (site, body) in [(one, "one"), (two, "two")] {
        site.create_bucket("pos").await.unwrap();
        site.put_if("pos", "till", body, absent()).await.unwrap();
    }
    two.cut(false).await;
    world.linked(two).await;
    knows(one, "pos--site-2").await;
    assert_eq!(one.get("pos", "till").await.unwrap(), "one");
    assert_eq!(two.get("pos", "till").await.unwrap(), "two");
    assert_eq!(one.get("pos--site-2", "till").await.unwrap(), "two");
    world.stop().await;
}

/// A lost register is replaced though somebody is silent: that is said. What somebody who answers knows is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_register_is_replaced_with_what_those_know_who_answer_and_the_others_are_named() {
    let mut world = TestWorld::new(3).await;
    let (system, lost) = (world.sites[0].site().system, world.sites[0].id());
    let eldest = move |view: &dyn View| bucket::eldest(view, system, lost).map_err(unreadable);
    let eldest = world.sites[0].site().read(eldest).await.unwrap();
    // Nobody else may replace it.
    let (left, other) = if eldest == Some(world.sites[1].id()) { (1, 2) } else { (2, 1) };
    let names = |number: usize| format!("site-{}", number + 1);
    let unknown = Origin { node: world.sites[other].node(), incarnation: u64::MAX };
    world.sites[other].stop().await;
    world.sites[0].stop().await;
    let two = &world.sites[left];
    // In its place somebody who has seen a record that cannot arrive.
    let net = world.sites[other].bare();
    net.set_peers(vec![PeerAddress { key: two.key(), addresses: Vec::new() }]);
    let answers = tokio::spawn(async move {
        while let Some((_, mut stream)) = net.accept().await {
            let Ok(Some(asked)) = frame::read(&mut stream).await else { continue };
            if codec::decode::<Request>(&asked).is_ok_and(|asked| asked == Request::Size { bucket: system }) {
                let vector = Vector::from_iter([(unknown, 1)]);
                let answer = codec::encode(&Response::Size { bytes: 0, vector });
                frame::write(&mut stream, &answer).await.ok();
            }
        }
    });
    two.until("it is linked", || async { two.site().linked(world.sites[other].id()) }).await;
    let replace = || two.services().admin.move_register(to(&names(left), Some("site-1")));
    let refused = replace().await.unwrap_err();
    assert!(
        refused.message().contains(&names(other)) && refused.message().contains("nothing was done"),
        "{refused}"
    );
    answers.abort();
    two.site().peers.net().set_cut(true);
    let moved = replace().await.unwrap();
    assert_eq!((moved.epoch, moved.unheard), (2, vec![names(other)]));
    world.stop().await;
}

/// A home whose store was emptied (a data disk that was not mounted, or a new one) has forgotten what it decided: it learns from the
/// others that it is the home, and must decide nothing before it has heard from all of them what it had decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_whose_store_was_emptied_does_not_give_away_once_more_what_it_has_given() {
    let mut world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    two.create_bucket("locks").await.unwrap();
    for site in [one, two, three] {
        knows(site, "locks").await;
        home_is(site, "locks", "site-2", 1).await;
    }
    // The third follows the bucket, and is away when the first wins.
    for site in [one, two, three] {
        site.put("locks", &format!("other-{}", site.id()), "k").await.unwrap();
    }
    world.converged("locks").await;
    let [one, _, three] = &world.sites[..] else { panic!("three sites") };
    three.cut(true).await;
    one.put_if("locks", "lock", "one", absent()).await.unwrap();
    assert_eq!(one.get("locks", "lock").await.unwrap(), "one");
    one.cut(true).await;
    world.sites[1].stop().await;
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.sites[2].cut(false).await;
    world.acquaint().await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    knows(two, "locks").await;
    home_is(two, "locks", "site-2", 1).await;
    let won = three.put_if("locks", "lock", "three", absent()).await;
    one.cut(false).await;
    assert!(won.is_err(), "the lock was given to the first, and once more to the third");
    world.stop().await;
}

/// A name that a site had before it was called otherwise may be that of buckets that nobody has heard of: whoever is called so next
/// would be their home as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_former_name_of_a_site_is_given_to_nobody_else() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    two.cut(true).await;
    two.create_bucket("locks--site-2").await.unwrap();
    two.put_if("locks--site-2", "lock", "two", absent()).await.unwrap();
    let admin = &one.services().admin;
    let rename = |name: &str| skerry_gateway::service::RenameRequest { name: name.into() };
    admin.rename_site("site-2", rename("oslo")).await.unwrap();
    admin.rename_site("oslo", rename("bergen")).await.unwrap();
    for name in ["site-2", "oslo"] {
        let refused = admin.rename_site("site-3", rename(name)).await.unwrap_err();
        assert!(refused.message().contains(&format!("bergen was called {name} before")), "{refused}");
        let invited =
            skerry_gateway::service::InviteRequest { site: name.into(), expires_seconds: None, seat: None };
        assert!(admin.invite(invited).await.is_err(), "{name}");
    }
    two.cut(false).await;
    let is_called = || async { two.services().admin.status().await.unwrap().site_name == "bergen" };
    two.until("it is called so", is_called).await;
    knows(one, "locks--site-2").await;
    // What the site itself writes of itself says so still.
    three.until("all is known", || async { three.site().peers.roster.name(two.id()) == "bergen" }).await;
    assert!(admin.rename_site("site-3", rename("oslo")).await.is_err());
    admin.rename_site("bergen", rename("oslo")).await.unwrap();
    world.stop().await;
}

/// The register of names as well: what it gave to one it gives to nobody else, though its store was emptied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_register_whose_store_was_emptied_gives_no_name_twice() {
    let mut world = TestWorld::new(3).await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    three.cut(true).await;
    two.services().admin.create_bucket(new("one", "ann", true)).await.unwrap();
    two.cut(true).await;
    world.sites[0].stop().await;
    std::fs::remove_dir_all(world.sites[0].directory.path().join("data")).unwrap();
    world.sites[0].start().await;
    world.sites[2].cut(false).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    world.acquaint().await;
    world.until_linked(one, three).await;
    let given = three.services().admin.create_bucket(new("one", "bob", true)).await;
    two.cut(false).await;
    assert!(given.is_err(), "the name was given to ann, and once more to bob");
    world.stop().await;
}

/// A home that does not follow the bucket, or not whole, hears what a member has of the key before it decides for another site, as it
/// does for clients of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_is_no_member_looks_before_it_decides_for_others() {
    let mut world = TestWorld::new(4).await;
    let [one, two, three, four] = &world.sites[..] else { panic!("four sites") };
    one.cut(true).await;
    // Who makes it is about to go, as the register has heard before it hears of the bucket: it is the home itself then.
    let duty = skerry_gateway::service::DutyRequest { duty: "drain".into(), abandon_uploads: false };
    one.services().admin.set_duty("site-2", duty).await.unwrap();
    two.create_bucket("locks").await.unwrap();
    for site in [two, three, four] {
        knows(site, "locks").await;
        site.put("locks", &format!("of-{}", site.id()), "x").await.unwrap();
    }
    let id = two.site().bucket("locks").await.unwrap().unwrap().id;
    for site in [three, four] {
        site.until("it is a member", || async { site.site().is_complete(id) }).await;
    }
    for other in [two, three, four] {
        for site in [three, four] {
            if site.id() != other.id() {
                site.has_all_of(other, "locks").await;
            }
        }
    }
    world.sites[1].stop().await;
    let [one, _, three, four] = &world.sites[..] else { panic!("four sites") };
    one.cut(false).await;
    home_is(one, "locks", "site-1", 1).await;
    home_is(four, "locks", "site-1", 1).await;
    assert!(!one.site().is_member(id), "it follows it already");
    // The fourth has no link to the third; the home is linked with both.
    four.site().peers.net().set_apart([three.node()].into());
    four.until("the link is gone", || async { !four.site().linked(three.id()) }).await;
    three.put("locks", "lock", "three").await.unwrap();
    // A home that followed the bucket would have it by now.
    crate::tasks::rest(std::time::Duration::from_secs(3)).await;
    let won = four.put_if("locks", "lock", "four", absent()).await;
    assert!(won.is_err(), "what was there before, and was known to a neighbour of the home, was replaced");
    world.stop().await;
}
