//! A stopped site's directory is looked through: damage has names, a broken index is no loss.

use std::sync::Arc;

use super::world::{TestSite, TestWorld, copy_files, noise};
use crate::check::{CheckError, CheckReport, Mending, Progress, Watch, check};

fn quiet() -> Watch {
    Watch(Arc::new(|_: Progress| {}))
}

fn checked(site: &TestSite, repair: bool) -> CheckReport {
    let mending = if repair { Mending::Repair } else { Mending::Nothing };
    check(&site.settings().0, mending, quiet()).unwrap()
}

/// A small body, a large one and one that needs a tree, in two buckets.
async fn filled() -> (TestWorld, [Vec<u8>; 3]) {
    let world = TestWorld::new(1).await;
    let bodies = [noise(20_000, 1), noise(2 << 20, 2), noise(6 << 20, 3)].map(|body| body.to_vec());
    for (bucket, key, body) in
        [("papers", "small", &bodies[0]), ("photos", "large", &bodies[1]), ("photos", "tree", &bodies[2])]
    {
        world.sites[0].create_bucket(bucket).await.ok();
        world.sites[0].put(bucket, key, body.clone()).await.unwrap();
    }
    (world, bodies)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_damaged_is_told_by_its_names_and_left_to_the_site_to_mend() {
    let (mut world, bodies) = filled().await;
    world.sites[0].stop().await;
    let whole = checked(&world.sites[0], false);
    assert!(whole.is_well && whole.absent.is_empty(), "{whole:?}");
    assert_eq!(whole.index, "whole");
    assert!(whole.bytes > 8 << 20);
    world.sites[0].damage(&bodies[0][5000..5064]);
    world.sites[0].damage(&bodies[2][(5 << 20) + 5..(5 << 20) + 69]);
    for repair in [false, true] {
        let report = checked(&world.sites[0], repair);
        let mut names: Vec<(&str, &str)> =
            report.damaged.iter().map(|hurt| (hurt.bucket.as_str(), hurt.key.as_str())).collect();
        names.sort_unstable();
        assert_eq!(names, [("papers", "small"), ("photos", "tree")]);
        assert_eq!((report.is_well, report.damaged_chunks, report.repaired), (false, 2, repair));
        assert!(report.unnamed.is_empty() && report.journal.is_empty());
    }
    world.sites[0].start().await;
    let told = world.sites[0].services().admin.scrub().await.unwrap();
    assert_eq!(told.damaged_chunks, 2, "the running site knows what to mend");
    assert_eq!(world.sites[0].get("photos", "large").await.unwrap(), bodies[1]);
    world.sites[0].get("papers", "small").await.unwrap_err();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_in_use_or_without_a_store_is_refused_untouched() {
    let (mut world, _) = filled().await;
    let (mut config, _) = world.sites[0].settings();
    let refused = check(&config, Mending::Repair, quiet()).unwrap_err();
    assert!(matches!(refused, CheckError::InUse(_)), "{refused}");
    assert!(refused.to_string().contains("stop the site first"));
    world.sites[0].stop().await;
    let empty = tempfile::tempdir().unwrap();
    config.node.dir = empty.path().display().to_string();
    assert!(matches!(check(&config, Mending::Repair, quiet()), Err(CheckError::NoStore(_))));
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "nothing was made");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_with_any_part_flipped_is_told_and_repaired() {
    let (mut world, bodies) = filled().await;
    world.sites[0].stop().await;
    let index = world.sites[0].directory.path().join("data/index");
    let mut files = Vec::new();
    let mut folders = vec![index];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(!files.is_empty());
    let mut told = 0;
    for file in files {
        for part in 0..6 {
            // The repair before may have put another index in the place.
            let Ok(mut now) = std::fs::read(&file) else { continue };
            let at = now.len() * part / 6 + 3;
            let Some(place) = now.get_mut(at) else { continue };
            *place = !*place;
            std::fs::write(&file, now).unwrap();
            let report = checked(&world.sites[0], true);
            assert!(report.is_well, "{file:?} at {at}: {report:?}");
            told += usize::from(report.index.starts_with("rebuilt"));
        }
    }
    assert!(told > 0);
    world.sites[0].start().await;
    for (bucket, key, body) in
        [("papers", "small", &bodies[0]), ("photos", "large", &bodies[1]), ("photos", "tree", &bodies[2])]
    {
        assert_eq!(world.sites[0].get(bucket, key).await.unwrap(), *body);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_base_of_the_journal_is_told_and_written_anew_before_the_index_is_rebuilt() {
    let (mut world, bodies) = filled().await;
    let store = world.sites[0].site().store.clone();
    tokio::task::spawn_blocking(move || store.renew_base()).await.unwrap().unwrap();
    world.sites[0].put("papers", "later", bodies[0].clone()).await.unwrap();
    world.sites[0].stop().await;
    let base = world.sites[0].directory.path().join("data/base");
    assert_eq!(checked(&world.sites[0], false).base, "whole");
    for part in 0..4 {
        let mut bytes = std::fs::read(&base).unwrap();
        let at = bytes.len() * part / 4 + 7;
        bytes[at] = !bytes[at];
        std::fs::write(&base, bytes).unwrap();
        let told = checked(&world.sites[0], false);
        assert!(!told.is_well && told.base.starts_with("damaged: "), "{told:?}");
        let mended = checked(&world.sites[0], true);
        assert!(mended.is_well && mended.base.starts_with("rewritten: "), "{mended:?}");
        let whole = checked(&world.sites[0], false);
        assert!(whole.is_well && whole.base == "whole", "{whole:?}");
    }
    world.sites[0].start().await;
    for (bucket, key, body) in [
        ("papers", "small", &bodies[0]),
        ("papers", "later", &bodies[0]),
        ("photos", "large", &bodies[1]),
        ("photos", "tree", &bodies[2]),
    ] {
        assert_eq!(world.sites[0].get(bucket, key).await.unwrap(), *body, "{key}");
    }
    world.stop().await;
}

/// A rebuild may cost what only it says, or come to no end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_leaves_a_whole_index_alone() {
    let (mut world, bodies) = filled().await;
    world.sites[0].stop().await;
    let whole = checked(&world.sites[0], true);
    assert!(whole.is_well && whole.repaired && whole.index == "whole", "{whole:?}");
    assert!(!world.sites[0].directory.path().join("data/index-aside").exists());
    world.sites[0].start().await;
    assert_eq!(world.sites[0].get("photos", "tree").await.unwrap(), bodies[2]);
    world.stop().await;
}

/// The site runs well, because its index says what the segment said. A rebuild from the journal alone would lose it, and the
/// body with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_loses_nothing_that_a_damaged_segment_of_the_journal_said() {
    let (mut world, bodies) = filled().await;
    let count = 300;
    for number in 0..count {
        world.sites[0]
            .put("papers", &format!("sheet-{number}-"), noise(20_000, number).to_vec())
            .await
            .unwrap();
    }
    world.sites[0].stop().await;
    let segment = world.sites[0].directory.path().join("data/journal/0000000001.seg");
    let mut content = std::fs::read(&segment).unwrap();
    let key = b"sheet-50-";
    let at = content.windows(key.len()).position(|window| window == key).unwrap();
    content[at] ^= 1;
    std::fs::write(&segment, content).unwrap();
    let told = checked(&world.sites[0], false);
    assert!(!told.is_well && told.journal.len() == 1 && told.journal[0].segment == 1, "{told:?}");
    let mended = checked(&world.sites[0], true);
    assert!(mended.is_well && mended.base.starts_with("rewritten: journal segment 1: "), "{mended:?}");
    let whole = checked(&world.sites[0], false);
    assert!(whole.is_well && whole.base == "whole", "{whole:?}");
    world.sites[0].start().await;
    for number in 0..count {
        let body = world.sites[0].get("papers", &format!("sheet-{number}-")).await.unwrap();
        assert_eq!(body, noise(20_000, number), "{number}");
    }
    assert_eq!(world.sites[0].get("photos", "tree").await.unwrap(), bodies[2]);
    world.stop().await;
}

/// What was lost with its frame stays lost, and is told; but who repaired it is not asked to do so again for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_repair_cannot_bring_back_asks_for_none() {
    let (mut world, _) = filled().await;
    for number in 0..300 {
        let key = format!("sheet-{number}-");
        world.sites[0].put("papers", &key, noise(20_000, number).to_vec()).await.unwrap();
    }
    world.sites[0].stop().await;
    let data = world.sites[0].directory.path().join("data");
    std::fs::remove_dir_all(data.join("index")).unwrap();
    let segment = data.join("journal/0000000001.seg");
    let mut content = std::fs::read(&segment).unwrap();
    let key = b"sheet-50-";
    let at = content.windows(key.len()).position(|window| window == key).unwrap();
    content[at] ^= 1;
    std::fs::write(&segment, content).unwrap();
    let told = checked(&world.sites[0], false);
    assert!(!told.is_well && told.journal[0].lost.is_some() && !told.journal[0].settled, "{told:?}");
    checked(&world.sites[0], true);
    let again = checked(&world.sites[0], false);
    assert!(again.is_well && again.journal.len() == 1 && again.journal[0].settled, "{again:?}");
    world.sites[0].start().await;
    assert_eq!(world.sites[0].get("papers", "sheet-51-").await.unwrap(), noise(20_000, 51));
    world.stop().await;
}

/// What was given up may be all that says what the journal does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_builds_an_index_that_its_start_gave_up_once() {
    let (mut world, bodies) = filled().await;
    world.sites[0].stop().await;
    let data = world.sites[0].directory.path().join("data");
    std::fs::write(data.join("index/current"), b"rotten").unwrap();
    std::fs::write(data.join("index/first"), b"1").unwrap();
    let report = checked(&world.sites[0], true);
    assert!(report.is_well && report.repaired && report.index.starts_with("rebuilt"), "{report:?}");
    assert!(data.join("index-aside/first").exists());
    world.sites[0].start().await;
    assert_eq!(world.sites[0].get("photos", "tree").await.unwrap(), bodies[2]);
    world.stop().await;
}

/// The end of the journal is replayed upon it, which fails the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_goes_on_where_the_index_does_not_read_at_its_start() {
    let world = TestWorld::new(1).await;
    world.sites[0].create_bucket("papers").await.ok();
    for number in 0..200 {
        world.sites[0].put("papers", &format!("sheet-{number}"), noise(300, number).to_vec()).await.unwrap();
    }
    let store = world.sites[0].site().store.clone();
    tokio::task::spawn_blocking(move || store.checkpoint()).await.unwrap().unwrap();
    for number in (0..200).step_by(5) {
        world.sites[0].put("papers", &format!("sheet-{number}"), noise(300, 1).to_vec()).await.unwrap();
    }
    let mut failed = 0;
    for part in 0..8 {
        let copy = tempfile::tempdir().unwrap();
        copy_files(world.sites[0].directory.path(), copy.path());
        let tables = std::fs::read_dir(copy.path().join("data/index/tables")).unwrap();
        let len = |path: &std::path::PathBuf| path.metadata().unwrap().len();
        let table = tables.map(|entry| entry.unwrap().path()).max_by_key(len).unwrap();
        let mut bytes = std::fs::read(&table).unwrap();
        let at = bytes.len() * part / 8 + 5;
        bytes[at] ^= 1;
        std::fs::write(&table, bytes).unwrap();
        let (mut config, _) = world.sites[0].settings();
        config.node.dir = copy.path().display().to_string();
        let report = check(&config, Mending::Repair, quiet()).unwrap();
        assert!(report.is_well && report.repaired, "{part}: {report:?}");
        failed += usize::from(report.index.contains("marked as damaged"));
    }
    assert!(failed > 0);
    world.stop().await;
}

/// Whose index is suspected need not wait until it is found damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_index_is_rebuilt_where_somebody_asks_for_that_alone() {
    let (mut world, bodies) = filled().await;
    world.sites[0].stop().await;
    let (config, _) = world.sites[0].settings();
    let aside = world.sites[0].directory.path().join("data/index-aside");
    for (mending, is_rebuilt) in
        [(Mending::Nothing, false), (Mending::Repair, false), (Mending::Rebuild, true)]
    {
        let report = check(&config, mending, quiet()).unwrap();
        assert!(report.is_well, "{report:?}");
        let index = if is_rebuilt { "rebuilt: a rebuild was asked for" } else { "whole" };
        assert_eq!((report.index.as_str(), aside.exists()), (index, is_rebuilt), "{mending:?}");
    }
    world.sites[0].start().await;
    assert_eq!(world.sites[0].get("papers", "small").await.unwrap(), bodies[0]);
    assert_eq!(world.sites[0].get("photos", "tree").await.unwrap(), bodies[2]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_tells_how_far_it_is() {
    let (mut world, _) = filled().await;
    world.sites[0].stop().await;
    std::fs::remove_dir_all(world.sites[0].directory.path().join("data/index")).unwrap();
    let seen: Arc<std::sync::Mutex<Vec<Progress>>> = Arc::default();
    let heard = seen.clone();
    let watch = Watch(Arc::new(move |progress| heard.lock().unwrap().push(progress)));
    assert!(check(&world.sites[0].settings().0, Mending::Repair, watch).unwrap().is_well);
    let seen: Vec<Progress> = seen.lock().unwrap().clone();
    assert!(seen.iter().any(|progress| progress.stage == crate::check::Stage::RebuildChunks));
    for pair in seen.windows(2) {
        assert!(pair[0].stage != pair[1].stage || pair[0].done <= pair[1].done, "{pair:?}");
    }
    world.stop().await;
}

/// An upload id begins with the id of the site: it is no secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_store_has_a_salt_of_its_own() {
    let mut world = TestWorld::new(1).await;
    let identity =
        |world: &TestWorld| std::fs::read(world.sites[0].directory.path().join("data/store")).unwrap();
    let made = identity(&world);
    assert_ne!(made[8..24], world.sites[0].site().id.0);
    assert_ne!(made[8..24], [0; 16]);
    world.sites[0].stop().await;
    world.sites[0].start().await;
    assert_eq!(identity(&world), made);
    world.stop().await;
}
