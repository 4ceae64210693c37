//! Enough sites for two levels of landmarks: who is told little finds what it needs, while landmarks die.

use skerry_gateway::service::{UplinkBudget, UplinkRequest};

use super::world::{TestSite, TestWorld, noise};

/// One more than fit one level.
pub(super) const SITES: usize = 18;

async fn areas(site: &TestSite) -> skerry_gateway::service::AreasReport {
    site.services().admin.areas().await.unwrap()
}

/// Waits until every site has told its landmarks everything, and answers which sites are of the top level.
pub(super) async fn settled(world: &TestWorld) -> Vec<usize> {
    let mut top = Vec::new();
    for (number, site) in world.sites.iter().enumerate() {
        site.until("landmarks know what this site holds", || async {
            let found = areas(site).await;
            let told = found.told == found.know && (1..SITES - 1).contains(&found.told);
            found.k == 2 && told && found.sites.len() == SITES - 1
        })
        .await;
        if areas(site).await.level > 0 {
            top.push(number);
        }
    }
    top
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_is_found_while_landmarks_die() {
    let mut world = TestWorld::new(SITES).await;
    let top = settled(&world).await;
    assert!((3..=5).contains(&top.len()), "{top:?}");
    let mut low = (0..SITES).filter(|site| !top.contains(site));
    let (home, holder) = (low.next().unwrap(), low.next().unwrap());
    world.sites[home].create_bucket("tide").await.unwrap();
    let body = noise(200_000, 3);
    world.sites[home].put("tide", "log", body.clone()).await.unwrap();
    let known = |site: usize| {
        let site = world.sites[site].site().clone();
        move || {
            let site = site.clone();
            async move { site.bucket("tide").await.unwrap().is_some() }
        }
    };
    world.sites[holder].until("the name is known", known(holder)).await;
    assert_eq!(world.sites[holder].get("tide", "log").await.unwrap(), body);
    let id = world.sites[home].site().bucket("tide").await.unwrap().unwrap().id;
    let complete = || async { world.sites[holder].site().is_complete(id) };
    world.sites[holder].until("it follows the bucket", complete).await;
    // The home could be asked without landmarks; nobody else has told readers of anything.
    let readers: Vec<usize> = low.collect();
    for reader in &readers {
        world.sites[*reader].until("the name is known", known(*reader)).await;
    }
    world.sites[home].stop().await;
    for (dead, reader) in top.iter().zip(&readers) {
        assert!(!world.sites[*reader].site().is_member(id));
        assert_eq!(world.sites[*reader].get("tide", "log").await.unwrap(), body, "reader {reader}");
        world.sites[*dead].stop().await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_landmark_that_gets_a_budget_is_none_until_it_is_lifted() {
    let world = TestWorld::new(SITES).await;
    let top = settled(&world).await;
    let payer = &world.sites[top[0]];
    let set = async |budget| payer.services().admin.set_uplink(UplinkRequest { budget }).await.unwrap();
    let (period, hours, zone_minutes) = ("month".to_owned(), None, 0);
    set(Some(UplinkBudget { bytes: 2_000_000_000, period, reset_day: 1, hours, zone_minutes })).await;
    let ranks = async |at: &TestSite, is_landmark: bool| {
        at.until("all see whether it is a landmark", || async {
            let found = areas(at).await;
            let name = payer.id().to_string();
            let of = found.sites.iter().find(|near| near.site == name).map_or(found.level, |near| near.level);
            (of > 0) == is_landmark
        })
        .await;
    };
    for at in &world.sites {
        ranks(at, false).await;
    }
    assert_eq!(
        settled(&world).await.iter().filter(|site| !top.contains(site)).count(),
        1,
        "one took its place"
    );
    set(None).await;
    for at in &world.sites {
        ranks(at, true).await;
    }
    assert_eq!(settled(&world).await, top);
    world.stop().await;
}
