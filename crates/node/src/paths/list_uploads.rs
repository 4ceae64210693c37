//! ListMultipartUploads: the uploads that live at this site.
//!
//! An upload is bookkeeping of its site and is not replicated: each site lists its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::limits::LIST_KEYS;
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::{Fold, Folder, Outcome, UploadEntry, UploadPage, UploadQuery, UploadSummary};
use skerry_model::multipart::{Upload, UploadId};
use skerry_model::space;

use super::bucket::Bucket;
use crate::site::{Site, unreadable};

/// Before every upload of a key: no site has this id.
const FIRST: UploadId = UploadId { site: SiteId([0; 16]), draw: [0; 16] };

/// One page of the uploads.
pub(crate) async fn uploads(site: &Arc<Site>, bucket: &Bucket, query: UploadQuery) -> Outcome<UploadPage> {
    let id = bucket.id;
    let (found, more) = site.read(move |view| page(view, id, &query)).await?;
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let mut entries = Vec::with_capacity(found.len());
    for entry in found {
        let upload = match entry {
            Listed::Prefix(prefix) => {
                entries.push(UploadEntry::Prefix(prefix));
                continue;
            }
            Listed::Upload(upload) => upload,
        };
        if !owners.contains_key(&upload.writer) {
            let key = site.access_key(&upload.writer).await?;
            let owner = key.map_or_else(|| bucket.owner.clone(), |key| key.owner);
            owners.insert(upload.writer.clone(), owner);
        }
        let owner = owners.get(&upload.writer).cloned().unwrap_or_default();
        entries.push(UploadEntry::Upload(UploadSummary {
            key: upload.key,
            upload: upload.id.to_string(),
            initiated: upload.started,
            initiator: upload.writer,
            owner,
        }));
    }
    Ok(UploadPage { entries, more })
}

enum Listed {
    Upload(Box<Upload>),
    Prefix(String),
}

fn page(view: &dyn View, bucket: BucketId, query: &UploadQuery) -> Outcome<(Vec<Listed>, bool)> {
    let delimiter = query.delimiter.as_deref();
    let mut folder = Folder::new(&query.prefix, delimiter, &query.after, query.limit);
    if query.after_upload.is_some() {
        folder = folder.including_after();
    }
    let mut after = start(query);
    let mut entries = Vec::new();
    // Whether the last key's uploads go on the page: only the first of a key is offered.
    let mut taking: Option<String> = None;
    loop {
        let from = after.as_ref().map(|(key, id)| (key.as_str(), *id));
        let found = space::list_uploads(view, bucket, &query.prefix, from, LIST_KEYS).map_err(unreadable)?;
        let Some(last) = found.last() else { return Ok((entries, false)) };
        let mut next = (last.key.clone(), Some(last.id));
        for upload in found {
            if taking.as_ref() == Some(&upload.key) {
                if !folder.taken() {
                    return Ok((entries, true));
                }
                entries.push(Listed::Upload(Box::new(upload)));
                continue;
            }
            let seek = match folder.offer(&upload.key) {
                Fold::Take => {
                    taking = Some(upload.key.clone());
                    entries.push(Listed::Upload(Box::new(upload)));
                    continue;
                }
                Fold::Prefix { name, seek } => {
                    entries.push(Listed::Prefix(name));
                    seek
                }
                Fold::Skip { seek } => seek,
                Fold::Full => return Ok((entries, true)),
                Fold::End => return Ok((entries, false)),
            };
            // What lies below a prefix is not read to its end.
            if let Some(seek) = seek.filter(|seek| *seek > next.0) {
                next = (seek, Some(FIRST));
            }
        }
        after = Some(next);
    }
}

type After = Option<(String, Option<UploadId>)>;

fn start(query: &UploadQuery) -> After {
    if query.after.is_empty() {
        return None;
    }
    match query.after_upload.as_ref().map(|upload| upload.parse()) {
        Some(Ok(id)) => Some((query.after.clone(), Some(id))),
        _ => Some((query.after.clone(), None)),
    }
}
