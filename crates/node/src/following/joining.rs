//! When a write makes a site that follows a prefix a member of the whole bucket, and what is said of it.
//!
//! Before: `paths/write.rs`. Invariants: what is refused, and what changes nothing, makes no member; what was written and has its
//! body here does, also if the site ends between the word of the bucket's home and its own: it is written down before the
//! home is asked.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::BucketId;
use skerry_base::kv::{Table, View};
use skerry_gateway::service::Outcome;
use skerry_model::record::{Record, Versioning};
use skerry_model::space;
use skerry_model::write::Ask;

use crate::drive::stored::{Stored, forget, say};
use crate::paths::bucket::Bucket;
use crate::paths::write::Asked;
use crate::site::{Site, entry, unreadable};

/// Writes whose bodies lie here and that a home is deciding, by bucket.
#[derive(Debug, Default)]
pub(super) struct Deciding(Mutex<BTreeMap<BucketId, usize>>);

impl Deciding {
    fn all(&self) -> MutexGuard<'_, BTreeMap<BucketId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The site becomes a member because of a write, and says so if it followed a prefix only.
pub(crate) async fn join(site: &Arc<Site>, bucket: BucketId, key: &str) -> Outcome<()> {
    let is_part = site.follows_part(bucket);
    site.join(bucket).await?;
    if is_part {
        let name = site.bucket_of(bucket).await?.map_or_else(|| bucket.to_string(), |bucket| bucket.name);
        let why = format!("the write of {key:?} made this site a member of the whole bucket (--writes join)");
        if site.following.note_joined(bucket, &why) {
            tracing::warn!(
                event = "followed_prefix_joined",
                bucket = name,
                key,
                "{why}: it takes all records; `skerry bucket leave {name}` brings it back to its prefixes"
            );
        }
    }
    Ok(())
}

/// Whether a plain write changes nothing, as far as what is here or was asked for tells: then it makes no member either.
pub(crate) async fn changes_nothing(site: &Arc<Site>, asked: &Asked) -> Outcome<bool> {
    if !site.follows_part(asked.bucket.id) {
        return Ok(false);
    }
    let (id, key) = (asked.bucket.id, asked.key.clone());
    match asked.ask {
        Ask::Delete if asked.bucket.versioning == Versioning::Off => {
            let heads = site.look(move |view| space::heads(view, id, &key).map_err(unreadable)).await?;
            Ok(heads.iter().all(Record::is_delete))
        }
        Ask::Erase(version) => {
            let look = move |view: &dyn View| space::version(view, id, &key, version).map_err(unreadable);
            Ok(site.look(look).await?.is_none())
        }
        _ => Ok(false),
    }
}

/// A body that lies here only while the bucket's home decides whether it is written.
pub(crate) struct Undecided(BucketId);

/// Remembers it where a write makes a member that was decided and not one that was refused; none where the site is one, or
/// never becomes one.
pub(crate) async fn begin(site: &Arc<Site>, bucket: &Bucket) -> Outcome<Option<Undecided>> {
    if !site.follows_part(bucket.id) || site.stays_out(bucket) {
        return Ok(None);
    }
    let id = bucket.id;
    *site.following.deciding.all().entry(id).or_default() += 1;
    let undecided = Undecided(id);
    let fact = say(Stored::Deciding, id);
    let noted = site.commit(site.system, (), move |_| Ok(((), vec![entry(&fact)]))).await;
    match noted {
        Ok(()) => Ok(Some(undecided)),
        Err(error) => {
            undecided.end(site).await.ok();
            Err(error)
        }
    }
}

impl Undecided {
    /// It is known what became of it, and carried out.
    pub(crate) async fn end(self, site: &Arc<Site>) -> Outcome<()> {
        let id = self.0;
        {
            let mut all = site.following.deciding.all();
            let left = all.get(&id).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                all.remove(&id)
            } else {
                all.insert(id, left)
            };
        }
        let here = site.clone();
        let propose = move |_: &dyn View| {
            // Another has begun meanwhile, and rests on the same fact.
            let goes = !here.following.deciding.all().contains_key(&id);
            let fact = goes.then(|| forget(Stored::Deciding, id));
            Ok(((), fact.iter().map(entry).collect()))
        };
        site.commit(site.system, (), propose).await
    }
}

/// What a home may have decided before this site ended: it becomes a member, as if it had heard.
pub(super) async fn pick_up(site: &Arc<Site>) -> Outcome<()> {
    let read = |view: &dyn View| {
        let mut found = Vec::new();
        let all = view.scan_prefix(Table::Local, Stored::Deciding.prefix(), &mut |key, _| {
            found.extend(Stored::Deciding.bucket(key));
            ControlFlow::Continue(())
        });
        all.map_err(|error| unreadable(error.into()))?;
        Ok(found)
    };
    for bucket in site.read(read).await? {
        if site.following.deciding.all().contains_key(&bucket) {
            continue;
        }
        if site.follows_part(bucket) {
            tracing::warn!(event = "followed_prefix_joined", %bucket, "a conditional write may have been decided before the site ended");
            site.join(bucket).await?;
        }
        let fact = forget(Stored::Deciding, bucket);
        site.commit(site.system, (), move |_| Ok(((), vec![entry(&fact)]))).await?;
    }
    Ok(())
}
