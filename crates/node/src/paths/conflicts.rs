//! Ends a conflict: one version stays, by an operator's word.
//!
//! Before: the admin face. After: `write.rs`. Invariants: what is chosen is current before anything else goes, so a
//! stop in between loses nothing and the act can be repeated; what goes is erased by its own version id, never what
//! was not known here.

use std::collections::BTreeSet;
use std::sync::Arc;

use skerry_base::Dot;
use skerry_base::kv::View;
use skerry_gateway::service::{
    ConflictEnd, ConflictEnded, ErrorKind, Outcome, ServiceError, VERSION, VersionId as ServiceVersion,
    WriteCondition,
};
use skerry_model::record::{Scope, Versioning};
use skerry_model::space::{self, Conflict, VersionId};
use skerry_model::write::Ask;
use skerry_model::{Record, Statement};

use super::bucket::Bucket;
use super::ingest::Body;
use super::write::{self, Asked};
use super::{copy, shape};
use crate::site::{Site, unreadable};

/// The conflict of a key, or that it has none.
pub(crate) fn of_key(view: &dyn View, bucket: &Bucket, key: &str) -> Outcome<Conflict> {
    let found = space::conflict(view, bucket.id, key).map_err(unreadable)?;
    found.ok_or_else(|| {
        let message = format!("{key} in {} has no conflict, as far as is known here", bucket.name);
        ServiceError::new(ErrorKind::NoSuchConflict, message)
    })
}

fn read(view: &dyn View, bucket: &Bucket, key: &str, dot: Dot) -> Outcome<Record> {
    let found = space::record(view, bucket.id, key, dot).map_err(unreadable)?;
    found.ok_or_else(|| ServiceError::new(ErrorKind::NoSuchVersion, "that version is not here any more"))
}

/// Ends it.
pub(crate) async fn end(site: &Arc<Site>, writer: &str, request: ConflictEnd) -> Outcome<ConflictEnded> {
    let bucket = site.known(&request.bucket).await?;
    let (of, key) = (bucket.clone(), request.key.clone());
    let conflict = site.read(move |view| of_key(view, &of, &key)).await?;
    let chosen = chosen(&conflict, request.keep.as_deref())?;
    let versions = bucket.versioning == Versioning::Enabled;
    let by = Act { site, bucket: &bucket, key: &request.key, writer };
    let renewed = chosen != conflict.current || versions;
    // Only what was shown goes: a write that arrives meanwhile is nobody's choice yet.
    let shown = std::iter::once(conflict.current).chain(conflict.losers.iter().map(|loser| loser.dot));
    let shown: BTreeSet<Dot> = shown.filter(|dot| renewed || *dot != chosen).collect();
    if renewed {
        by.renew(chosen).await?;
    }
    let mut erased = Vec::new();
    if !versions {
        let (of, key) = (bucket.clone(), request.key.clone());
        let left = site.read(move |view| space::conflict(view, of.id, &key).map_err(unreadable)).await?;
        let losers = left.into_iter().flat_map(|left| left.losers).map(|loser| loser.dot);
        for dot in losers.filter(|dot| shown.contains(dot)) {
            by.write(Ask::Erase(VersionId::Dot(dot)), None).await?;
            erased.push(VersionId::Dot(dot).to_string());
        }
    }
    tracing::info!(bucket = bucket.name, key = request.key, erased = erased.len(), "a conflict was ended");
    let kept = VersionId::Dot(chosen).to_string();
    Ok(ConflictEnded { version: VERSION, bucket: bucket.name, key: request.key, kept, erased })
}

fn chosen(conflict: &Conflict, keep: Option<&str>) -> Outcome<Dot> {
    let Some(keep) = keep else { return Ok(conflict.current) };
    let named = shape::parse_version(&ServiceVersion(keep.to_owned()))?;
    let all = std::iter::once(conflict.current).chain(conflict.losers.iter().map(|loser| loser.dot));
    let found = all.into_iter().find(|dot| VersionId::Dot(*dot) == named);
    found.ok_or_else(|| {
        let message = "that version is none of the conflict's; see `skerry conflicts show`";
        ServiceError::new(ErrorKind::NoSuchVersion, message)
    })
}

struct Act<'a> {
    site: &'a Arc<Site>,
    bucket: &'a Bucket,
    key: &'a str,
    writer: &'a str,
}

impl Act<'_> {
    /// What a version says becomes the newest statement about the key, which has seen all others.
    async fn renew(&self, dot: Dot) -> Outcome<()> {
        let (bucket, key) = (self.bucket.clone(), self.key.to_owned());
        let record = self.site.read(move |view| read(view, &bucket, &key, dot)).await?;
        match &record.statement {
            Statement::Put(object) => {
                let (body, object) = copy::again(self.site, self.bucket, &record, object).await?;
                self.write(Ask::Put(Box::new(object)), Some(body)).await
            }
            _ => self.write(Ask::Delete, None).await,
        }
    }

    async fn write(&self, ask: Ask, body: Option<Body>) -> Outcome<()> {
        let (small, pins) = body.map_or((None, Vec::new()), |body| (body.small, body.pins));
        let asked = Asked {
            bucket: self.bucket.clone(),
            key: self.key.to_owned(),
            condition: WriteCondition::default(),
            ask,
            writer: self.writer.to_owned(),
            scope: Scope::Site,
            small,
            pins,
            with: Vec::new(),
            upload: None,
        };
        write::write(self.site, asked).await.map(drop)
    }
}
