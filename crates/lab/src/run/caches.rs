//! Drops the machine's caches, so that what is read comes from the disk.

use std::fs;

/// Writes dirty pages and forgets clean ones; the reason if that is refused.
pub(super) fn drop_caches() -> Result<(), String> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
        .map_err(|error| format!("caches were not dropped between phases: /proc/sys/vm/drop_caches: {error}"))
}
