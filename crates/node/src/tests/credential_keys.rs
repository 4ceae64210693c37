//! Credential keys: what is sealed once a site was expelled does not open there, and does everywhere else.

use skerry_base::CredentialKeyId;
use skerry_base::kv::View;
use skerry_gateway::service::{ErrorKind, ExpelRequest, KeyCreate, KeyCreated, KeyStatus};
use skerry_model::bucket::{CredentialDocument, Sealer, SystemKey, document_object};

use super::world::{TestSite, TestWorld, key};
use crate::credential_keys::{self, tell};
use crate::paths::bucket::Declared;
use crate::paths::credentials::about;
use crate::peers::message::Response;
use crate::trust::SealingKey;

async fn make(at: &TestSite) -> KeyCreated {
    at.services().admin.create_key(KeyCreate { name: None, owner: None }).await.unwrap()
}

async fn expel(at: &TestSite, name: &str) {
    at.services().admin.expel(name, ExpelRequest {}).await.unwrap();
}

async fn authenticates(at: &TestSite, made: &KeyCreated) -> bool {
    let found = at.services().credentials.credential(&made.key.id).await;
    found.is_ok_and(|found| found.secret == made.secret)
}

/// Whether a site opens the secret with what its disk has, once it has the record.
async fn opens(at: &TestSite, sealed_at: &TestSite, made: &KeyCreated) -> bool {
    let document = sealed_at.site().access_key(&made.key.id).await.unwrap().unwrap();
    at.site().credentials.ring.open(&about(&made.key.id), &document.secret).is_ok()
}

async fn listed(at: &TestSite, id: &str) -> KeyStatus {
    let listed = at.services().admin.keys().await.unwrap().keys;
    listed.into_iter().find(|found| found.id == id).unwrap()
}

async fn seals_with(at: &TestSite) -> CredentialKeyId {
    match credential_keys::sealer(at.site()).await.unwrap() {
        Sealer::Later(id) => id,
        Sealer::First => panic!("the first key seals"),
    }
}

fn unopened(at: &TestSite) -> usize {
    at.site().credentials.counts()[0]
}

async fn until_all_linked(world: &TestWorld, among: &[usize]) {
    for one in among {
        for other in among.iter().filter(|other| *other != one) {
            world.until_linked(&world.sites[*one], &world.sites[*other]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_after_a_site_was_expelled_does_not_open_there_and_does_elsewhere() {
    let mut world = TestWorld::new(3).await;
    until_all_linked(&world, &[0, 1, 2]).await;
    let (before, after) = {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        let before = make(one).await;
        assert!(opens(three, one, &before).await && before.key.known_to.is_empty());
        expel(one, "site-3").await;
        let after = make(one).await;
        assert!(after.key.known_to.is_empty() && authenticates(one, &after).await);
        assert!(!opens(three, one, &after).await);
        two.until("it is told the key", || authenticates(two, &after)).await;
        assert!(authenticates(two, &before).await, "what was made before works on");
        assert_eq!(seals_with(one).await, seals_with(two).await, "no other is made");
        let states = [listed(two, &before.key.id).await, listed(two, &after.key.id).await];
        assert_eq!(states.map(|state| state.known_to), [vec!["site-3".to_owned()], Vec::new()]);
        // The one that the sites were started with, and the one of before.
        two.until("what it knew is counted", || async { two.site().credentials.counts() == [0, 2] }).await;
        two.services().admin.disable_key(&before.key.id).await.unwrap();
        two.until("one is disabled", || async { two.site().credentials.counts() == [0, 1] }).await;
        (before, after)
    };
    // Its file outlives the process.
    world.sites[1].stop().await;
    world.sites[1].start().await;
    assert!(authenticates(&world.sites[1], &after).await);
    // Without it, it is told again.
    world.sites[1].stop().await;
    std::fs::remove_file(world.sites[1].directory.path().join("credential.keys")).unwrap();
    world.sites[0].cut(true).await;
    world.sites[1].start().await;
    let refused = world.sites[1].services().credentials.credential(&after.key.id).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.message().contains("has not been told the credential key"), "{refused}");
    let two = &world.sites[1];
    two.until("it is missed", || async { unopened(two) == 1 }).await;
    world.sites[0].cut(false).await;
    two.until("it is told again", || authenticates(two, &after)).await;
    two.until("it is counted", || async { unopened(two) == 0 }).await;
    let refused = two.services().credentials.credential(&before.key.id).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidAccessKeyId, "{refused}");
    world.stop().await;
}

/// Each expels another one; neither has heard of the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_islands_that_expelled_one_each_come_to_a_key_that_neither_of_these_has() {
    let world = TestWorld::new(4).await;
    until_all_linked(&world, &[0, 1, 2, 3]).await;
    {
        let [one, two, three, four] = &world.sites[..] else { panic!("four sites") };
        one.cut(true).await;
        two.cut(true).await;
        expel(one, "site-3").await;
        expel(two, "site-4").await;
        let (ones, twos) = (make(one).await, make(two).await);
        assert_ne!(seals_with(one).await, seals_with(two).await);
        one.cut(false).await;
        two.cut(false).await;
        one.until("it opens what the other sealed", || authenticates(one, &twos)).await;
        two.until("it opens what the other sealed", || authenticates(two, &ones)).await;
        for site in [one, two] {
            site.until("both are gone", || async { site.site().peers.roster.all().len() == 2 }).await;
        }
        let both = make(one).await;
        two.until("it opens what is sealed last", || authenticates(two, &both)).await;
        for gone in [three, four] {
            assert!(!opens(gone, one, &both).await);
        }
        assert_eq!(seals_with(one).await, seals_with(two).await);
        assert_eq!(listed(two, &ones.key.id).await.known_to, ["site-4"]);
        assert_eq!(listed(one, &twos.key.id).await.known_to, ["site-3"]);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_key_is_told_to_members_who_ask_for_it_and_to_nobody_else() {
    let world = TestWorld::new(3).await;
    until_all_linked(&world, &[0, 1, 2]).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        expel(one, "site-3").await;
        let id = seals_with(one).await;
        assert_eq!(told(one, two, &[CredentialKeyId([1; 16]), id]).await, 1);
        assert_eq!((told(one, two, &[]).await, told(one, three, &[id]).await), (0, 0));
        // The second site says of a key of the first that it is kept from nobody, in the name of either.
        let honest = said(one, id).await;
        let other = CredentialDocument { kept_from: [].into(), ..honest.clone() };
        let own = CredentialDocument { at: two.id(), ..other.clone() };
        let ring = &two.site().credentials.ring;
        for forged in [other.clone(), ring.sign(other), ring.sign(own)] {
            declare(two, id, &forged).await;
            assert!(said_there(two, id).await.contains(&forged));
            let again = || async { said_there(two, id).await.contains(&honest) };
            two.until("its maker says it again", again).await;
            assert_eq!((told(one, two, &[id]).await, told(one, three, &[id]).await), (1, 0));
            assert_eq!(seals_with(one).await, id);
        }
        // Of a key of its own it says what it wants, but not who made it.
        let key = SealingKey::generate().unwrap();
        let gone = [three.id()].into();
        let by = (one.site().clock.wall(), one.id());
        let forged = ring.sign(CredentialDocument::of(key.as_bytes(), &gone, by, Some(honest.made)));
        declare(two, forged.id(), &forged).await;
        let came = || async { said_there(one, forged.id()).await.contains(&forged) };
        one.until("the record came", came).await;
        assert!(!known(one, forged.id()).await && seals_with(one).await == id);
    }
    world.stop().await;
}

/// How many of these keys a site tells another one.
async fn told(by: &TestSite, asker: &TestSite, wanted: &[CredentialKeyId]) -> usize {
    let answer = tell(by.site(), asker.id(), wanted.to_vec()).await.unwrap();
    let Response::CredentialKeys(keys) = answer else { panic!("another answer") };
    keys.len()
}

async fn known(at: &TestSite, id: CredentialKeyId) -> bool {
    credential_keys::known(at.site()).await.unwrap().keys.get(id).is_some()
}

async fn said(at: &TestSite, id: CredentialKeyId) -> CredentialDocument {
    credential_keys::known(at.site()).await.unwrap().keys.get(id).cloned().unwrap()
}

/// Writes a document where that of a key lies.
async fn declare(at: &TestSite, id: CredentialKeyId, said: &CredentialDocument) {
    let (place, object) = (SystemKey::Credential(id).to_string(), document_object(said, said.made));
    let decide = move |_: &dyn View, _| Ok(((), Some(Declared::document(place, object))));
    at.site().declare("", decide).await.unwrap();
}

/// What lies where the document of a key does.
async fn said_there(at: &TestSite, id: CredentialKeyId) -> Vec<CredentialDocument> {
    let (system, place) = (at.site().system, SystemKey::Credential(id).to_string());
    let read = move |view: &dyn View| {
        let heads = skerry_model::space::heads(view, system, &place).unwrap();
        Ok(heads.iter().filter_map(|head| skerry_model::bucket::document(head).unwrap()).collect())
    };
    at.site().read(read).await.unwrap()
}

/// It has heard of it, and has each key that it makes itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_knows_that_it_was_expelled_makes_no_credential_key() {
    let world = TestWorld::new(2).await;
    until_all_linked(&world, &[0, 1]).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        expel(one, "site-2").await;
        // Its own record says so, as where that came before the link went.
        let (system, about) = (one.site().system, two.id());
        let read = move |view: &dyn View| Ok(skerry_model::bucket::site(view, system, about).unwrap());
        let document = one.site().read(read).await.unwrap().unwrap();
        crate::welcome::declare(two.site(), "", about, document).await.unwrap();
        let made = make(two).await;
        assert!(authenticates(two, &made).await && two.site().credentials.ring.said().is_empty());
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_a_site_was_started_with_opens_before_any_other_site_answers() {
    let mut world = TestWorld::new(2).await;
    until_all_linked(&world, &[0, 1]).await;
    expel(&world.sites[0], "site-2").await;
    let id = seals_with(&world.sites[0]).await;
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert!(one.services().credentials.credential(&key().id).await.is_ok());
    assert_eq!(seals_with(one).await, id);
    assert_eq!(listed(one, &key().id).await.known_to, ["site-2"]);
    world.stop().await;
}

/// Whoever asks again with a token that was used is told again who all the others are and where, and the first key: also one
/// that was expelled meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_was_expelled_is_not_welcomed_again_by_its_old_token() {
    use crate::trust::invite::{InviteBook, Invited};
    use crate::trust::{Identity, SiteTrust, join};
    use std::sync::Arc;

    let world = TestWorld::new(1).await;
    let one = &world.sites[0];
    let directory = tempfile::tempdir().unwrap();
    let door = crate::welcome::Door {
        trust: Arc::new(SiteTrust::load(one.directory.path()).unwrap()),
        invites: Arc::new(InviteBook::open(&directory.path().join("invites.json")).unwrap()),
        turned_away: Arc::default(),
    };
    let invited = Invited { name: "south", seat: None };
    let (hour, now) = (std::time::Duration::from_secs(3600), one.site().clock.wall());
    let token = door.invites.invite(&door.trust, invited, Vec::new(), hour, now).unwrap().token;
    let pkcs8 = Identity::generate().unwrap().pkcs8().to_vec();
    let join = async || {
        let identity = Identity::from_pkcs8(&pkcs8).unwrap();
        let (key, (here, there)) = (identity.public(), tokio::io::duplex(1 << 20));
        let joining = join::join(Box::new(there), &token, identity, Vec::new());
        let opening = door.open(one.site(), key, Box::new(here));
        tokio::join!(joining, opening).0
    };
    join().await.unwrap();
    one.until("it is known", || async { one.site().peers.roster.count() == 2 }).await;
    expel(one, "south").await;
    one.until("it belongs no more", || async { one.site().peers.roster.count() == 1 }).await;
    let again = join().await.map(|welcome| welcome.roster.len());
    assert!(again.is_err(), "it is told the records of {again:?} sites, and the credential key");
    world.stop().await;
}
