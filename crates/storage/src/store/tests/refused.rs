//! What the file system refuses the index now it may grant later: nobody takes that for damage, unless it never ends.

use skerry_base::WallTime;
use skerry_base::kv::ViewError;

use super::world::{kept, open};
use crate::disk::faulty::FaultyDisk;
use crate::index::Refused;
use crate::index::health::MARKER;

fn is_marked(disk: &FaultyDisk) -> bool {
    disk.names().contains(&MARKER.to_owned())
}

/// Flushes go through all the time: somebody has to say that merges do not.
#[test]
fn an_index_that_is_refused_its_flushes_or_its_merges_all_the_time_is_marked() {
    for merges in [true, false] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        let index = settings.kept.as_ref().unwrap();
        let refuse = |count| {
            index.refuse(match merges {
                true => Refused { merges: count, flushes: 0 },
                false => Refused { flushes: count, merges: 0 },
            });
        };
        let step = |count| {
            refuse(count);
            store.checkpoint().unwrap();
            store.collect(WallTime(1)).unwrap();
        };
        store.view().guarded(|| Err::<(), _>(ViewError::Refused("too many open files".into()))).unwrap_err();
        (0..20).for_each(|_| step(20));
        assert!(!is_marked(&disk), "not tried again since");
        assert_eq!(index.merged_again(), if merges { 20 } else { 0 });
        step(0);
        (1..12).for_each(step);
        step(1);
        (2..12).for_each(step);
        assert!(!is_marked(&disk), "it went through once");
        step(12);
        assert!(is_marked(&disk));
        let tried = index.merged_again();
        step(13);
        assert_eq!(index.merged_again(), tried, "each try wears the disk");
    }
}
