//! Buckets that were deleted while somebody wrote to them come back, and that is said loudly; the register of names
//! names the homes of new ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use skerry_base::BucketId;
use skerry_base::kv::View;
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{Deleted, has_begun, keeps_register, revival, unnamed};
use skerry_model::space::SpaceError;
use tokio::time::timeout;

use super::again;
use crate::paths::bucket::Declared;
use crate::paths::register;
use crate::site::{Site, unreadable};

/// Looks after every change, as often as one look takes.
pub(super) async fn revive(site: Arc<Site>) {
    let mut changes = site.changes.follow();
    // Whoever did this before may have taken the marks and not looked: all deleted buckets are new to this one.
    let mut reviver = Reviver { site, deleted: Deleted::default(), system: None, changed: BTreeSet::new() };
    loop {
        changes.mark_unchanged();
        let looked = reviver.look().await;
        if let Err(error) = &looked {
            tracing::warn!(%error, "deleted buckets could not be looked through; it is tried again");
        }
        let told = again(&mut changes, looked.is_ok());
        let told = match reviver.deleted.next_look().filter(|_| looked.is_ok()) {
            Some(due) => timeout(due.since(reviver.site.clock.now()), told).await.unwrap_or(true),
            None => told.await,
        };
        if !told {
            return;
        }
    }
}

struct Reviver {
    site: Arc<Site>,
    deleted: Deleted,
    /// How often the system bucket had changed when claims were read.
    system: Option<u64>,
    /// In which buckets something came that was not looked at yet.
    changed: BTreeSet<BucketId>,
}

impl Reviver {
    /// Only what a feed changed can come back, and what was written here while it was being deleted.
    async fn look(&mut self) -> Outcome<()> {
        let (system, count) = (self.site.system, self.site.changes.system_count());
        self.changed.append(&mut self.site.changes.take_dirty());
        // A failure may have lost what was known: claims are read again then.
        let is_said = self.system.take() != Some(count);
        if is_said {
            self.read(move |deleted, view| deleted.follow(view, system)).await?;
            // Before they are looked at: what is written from then on is told. Each time: a failure half-way may have
            // kept it from being said.
            self.site.changes.watch(self.deleted.all().collect());
        }
        let (wall, now) = (self.site.clock.wall(), self.site.clock.now());
        let is_due = self.deleted.next_look().is_some_and(|due| due <= now);
        if is_said || is_due || self.deleted.all().any(|bucket| self.changed.contains(&bucket)) {
            let changed = self.changed.clone();
            let found =
                self.read(move |deleted, view| deleted.revivals(view, system, &changed, (wall, now))).await?;
            for (name, claimed) in found {
                bring_back(&self.site, name, claimed.bucket).await?;
            }
        }
        self.changed.clear();
        self.system = Some(count);
        Ok(())
    }

    async fn read<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&mut Deleted, &dyn View) -> Result<T, SpaceError> + Send + 'static,
    ) -> Outcome<T> {
        let mut deleted = std::mem::take(&mut self.deleted);
        let read = move |view: &dyn View| {
            let answer = read(&mut deleted, view).map_err(unreadable);
            Ok((deleted, answer))
        };
        let (deleted, answer) = self.site.read(read).await?;
        self.deleted = deleted;
        answer
    }
}

async fn bring_back(site: &Site, name: String, bucket: BucketId) -> Outcome<()> {
    let system = site.system;
    let decide = move |view: &dyn View, wall| {
        // Whether it waited for long enough was looked at before.
        let claimed = revival(view, system, (&name, bucket), (wall, true)).map_err(unreadable)?;
        Ok((claimed.is_some(), claimed.map(|claimed| Declared::claim(claimed, false))))
    };
    if site.declare("", decide).await? {
        tracing::warn!(%bucket, "a deleted bucket is back: somebody wrote to it before hearing of the deletion");
    }
    Ok(())
}

/// At the site that keeps the register: names a home for every bucket that it hears of, and carries out what a former
/// register had begun.
pub(super) async fn name_homes(site: Arc<Site>) {
    let mut changes = site.changes.follow_system();
    loop {
        changes.mark_unchanged();
        let is_done = name_all(&site).await;
        if !again(&mut changes, is_done).await {
            return;
        }
    }
}

/// Whether nothing is left to be named.
async fn name_all(site: &Arc<Site>) -> bool {
    let (system, me) = (site.system, site.id);
    let look = move |view: &dyn View| {
        let found = unnamed(view, system, me).map_err(unreadable)?;
        let keeps = keeps_register(view, system, me).is_ok();
        Ok((found, keeps && has_begun(view, system).map_err(unreadable)?))
    };
    let (found, has_begun) = match site.read(look).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "buckets without a home could not be looked for; it is tried again");
            return false;
        }
    };
    let only_begun: &[BucketId] = &[];
    let rounds =
        found.chunks(register::TOGETHER).chain((found.is_empty() && has_begun).then_some(only_begun));
    for buckets in rounds {
        if let Err(why) = register::name(site, buckets.to_vec(), Vec::new()).await {
            let error = why.into_error();
            tracing::debug!(%error, "homes of buckets were not named; it is tried again");
            return false;
        }
    }
    true
}
