//! One byte of each kind of file flipped at a site whose objects another site holds, too: what is damaged comes from
//! there, is mended, and is never served; what nobody needs is rebuilt; what cannot be guessed is refused.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use skerry_gateway::service::ScrubRequest;

use super::world::{TestSite, TestWorld, noise};
use crate::server::Core;

const KEYS: [&str; 4] = ["small", "large", "chunks", "tree"];

fn bodies() -> [Bytes; 4] {
    [noise(5_000, 1), noise(90_000, 2), noise((2 << 20) + 7, 3), noise((5 << 20) + 3, 4)]
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// How many objects are not answered; wrong bytes are a failure.
async fn unanswered(site: &TestSite, what: &str) -> usize {
    let mut unanswered = 0;
    for (key, body) in KEYS.iter().zip(bodies()) {
        match site.get("safe", key).await {
            Ok(found) => assert!(found == body, "{what}: wrong bytes of {key} were served"),
            Err(_) => unanswered += 1,
        }
    }
    unanswered
}

async fn begun(world: &mut TestWorld) {
    let (config, options) = world.sites[0].settings();
    match Core::start(&config, options).await {
        Ok(core) => world.sites[0].core = Some(core),
        // A start that meets an index that does not read is refused and notes it: the next one builds it anew.
        Err(_) => world.sites[0].start().await,
    }
    let site = &world.sites[0];
    world.linked(site).await;
    let holders = || async {
        let id = site.site().bucket("safe").await.unwrap().unwrap().id;
        site.site().drive.ask(move |machine, _| machine.members(id).len()).await == Some(1)
    };
    site.until("the other holder is known", holders).await;
}

/// Starts the site, reads everything, scrubs until nothing is damaged, and reads everything without the other.
async fn judged(world: &mut TestWorld, what: &str) {
    begun(world).await;
    if unanswered(&world.sites[0], what).await > 0 {
        // An index that does not read is noted, and built anew at the next start.
        world.sites[0].stop().await;
        begun(world).await;
    }
    let site = &world.sites[0];
    assert_eq!(unanswered(site, what).await, 0, "{what}: not repaired");
    let admin = site.services().admin.clone();
    let round = admin.set_scrub(ScrubRequest { pause: Some(false), begin: true }).await.unwrap().round;
    let mended = || async {
        let report = admin.scrub().await.unwrap();
        report.round == round && !report.running && report.damaged_chunks == 0
    };
    site.until(&format!("{what}: all of it is mended"), mended).await;
    site.cut(true).await;
    assert_eq!(unanswered(site, what).await, 0, "{what}: passed on, but not mended");
    world.sites[0].stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_byte_of_each_kind_flipped_is_repaired_from_the_other_holder() {
    let mut world = TestWorld::new(2).await;
    let site = &world.sites[0];
    site.create_bucket("safe").await.unwrap();
    site.set_copies("safe", 2).await.unwrap();
    for (key, body) in KEYS.iter().zip(bodies()) {
        site.put("safe", key, body).await.unwrap();
    }
    let unprotected = || async { site.services().admin.bucket("safe").await.unwrap().unprotected_bytes };
    site.until("the other holds everything", || async { unprotected().await == 0 }).await;
    world.sites[0].stop().await;
    let data = world.sites[0].directory.path().join("data");
    // Who the store is: its segments say it, too.
    let identity = std::fs::read(data.join("store")).unwrap();
    flip(&data.join("store"), 9);
    judged(&mut world, "who the store is").await;
    assert_eq!(std::fs::read(data.join("store")).unwrap(), identity);
    // Bodies in the journal and in payload.
    let [small, large, chunks, tree] = bodies();
    for (what, bytes) in [("small", &small[1000..1064]), ("large", &large[70_000..70_064])] {
        world.sites[0].damage(bytes);
        judged(&mut world, what).await;
    }
    world.sites[0].damage(&chunks[(1 << 20) + 5..(1 << 20) + 69]);
    world.sites[0].damage(&tree[(4 << 20) + 5..(4 << 20) + 69]);
    judged(&mut world, "two bodies at once").await;
    // Header of a segment, of a frame, an entry; header of a segment and of an extent, its name, a sum of a block.
    for (folder, at) in
        [("journal", 12), ("journal", 64 + 20), ("journal", 64 + 70), ("payload", 20), ("payload", 4096 + 10)]
            .into_iter()
            .chain([("payload", 4096 + 40), ("payload", 4096 + 65)])
    {
        let segment = data.join(folder).join("0000000001.seg");
        flip(&segment, at);
        judged(&mut world, &format!("{folder}, byte {at}")).await;
        // One fault at a time: an index that is rebuilt needs the journal.
        if segment.exists() {
            flip(&segment, at);
        }
    }
    for file in files(&data.join("index")) {
        let Ok(len) = std::fs::metadata(&file).map(|found| found.len()) else { continue };
        flip(&file, len / 2);
        judged(&mut world, &format!("index, {}", file.display())).await;
    }
    world.stop().await;
}
