//! ListMultipartUploads: the uploads that live at the nodes of this site.
//!
//! An upload is bookkeeping of its node and is not replicated: each lists its own, and whoever is asked asks the others
//! (`nodes/uploads.rs`). Uploads that live at other sites are listed there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skerry_base::SiteId;
use skerry_base::kv::View;
use skerry_base::limits::LIST_KEYS;
use skerry_gateway::service::{Fold, Folder, Outcome, UploadEntry, UploadPage, UploadQuery, UploadSummary};
use skerry_model::multipart::{Upload, UploadId};
use skerry_model::space;

use super::bucket::Bucket;
use crate::nodes::ask::{Begun, ListedUpload, Uploads};
use crate::nodes::uploads;
use crate::site::{Site, unreadable};

/// Before every upload of a key: no site has this id.
const FIRST: UploadId = UploadId { site: SiteId([0; 16]), draw: [0; 16] };

/// Some entries, and whether more are behind them.
type Listed = (Vec<ListedUpload>, bool);

/// One page of the uploads.
pub(crate) async fn uploads(site: &Arc<Site>, bucket: &Bucket, query: UploadQuery) -> Outcome<UploadPage> {
    let UploadQuery { prefix, delimiter, after, after_upload, limit, .. } = query;
    let asked = u32::try_from(limit).unwrap_or(u32::MAX);
    let wanted = Uploads { bucket: bucket.id, prefix, delimiter, after, after_upload, limit: asked };
    let (others, own) = tokio::join!(uploads::of_others(site, &wanted), local(site, wanted.clone()));
    let (found, more) = merged(others.into_iter().chain([own?]), limit);
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let mut entries = Vec::with_capacity(found.len());
    for ListedUpload { key, upload } in found {
        let Some(Begun { id, started, writer }) = upload else {
            entries.push(UploadEntry::Prefix(key));
            continue;
        };
        if !owners.contains_key(&writer) {
            let known = site.access_key(&writer).await?;
            let owner = known.map_or_else(|| bucket.owner.clone(), |known| known.owner);
            owners.insert(writer.clone(), owner);
        }
        let owner = owners.get(&writer).cloned().unwrap_or_default();
        let upload = id.to_string();
        let summary = UploadSummary { key, upload, initiated: started, initiator: writer, owner };
        entries.push(UploadEntry::Upload(summary));
    }
    Ok(UploadPage { entries, more })
}

/// Those that live at this node.
pub(crate) async fn local(site: &Arc<Site>, wanted: Uploads) -> Outcome<Listed> {
    site.read(move |view| page(view, &wanted)).await
}

/// The first so many of these pages, each of which has as many if it has not all.
fn merged(pages: impl Iterator<Item = Listed>, limit: usize) -> Listed {
    let (mut all, mut more) = (BTreeSet::new(), false);
    for (entries, has_more) in pages {
        all.extend(entries);
        more |= has_more;
    }
    more |= all.len() > limit;
    (all.into_iter().take(limit).collect(), more)
}

fn listed(upload: Upload) -> ListedUpload {
    let Upload { key, id, started, writer, .. } = upload;
    ListedUpload { key, upload: Some(Begun { id, started, writer }) }
}

fn page(view: &dyn View, wanted: &Uploads) -> Outcome<Listed> {
    let (bucket, limit) = (wanted.bucket, wanted.limit as usize);
    let mut folder = Folder::new(&wanted.prefix, wanted.delimiter.as_deref(), &wanted.after, limit);
    if wanted.after_upload.is_some() {
        folder = folder.including_after();
    }
    let mut after = start(wanted);
    let mut entries = Vec::new();
    // Whether the last key's uploads go on the page: only the first of a key is offered.
    let mut taking: Option<String> = None;
    loop {
        let from = after.as_ref().map(|(key, id)| (key.as_str(), *id));
        let found = space::list_uploads(view, bucket, &wanted.prefix, from, LIST_KEYS).map_err(unreadable)?;
        let Some(last) = found.last() else { return Ok((entries, false)) };
        let mut next = (last.key.clone(), Some(last.id));
        for upload in found {
            if taking.as_ref() == Some(&upload.key) {
                if !folder.taken() {
                    return Ok((entries, true));
                }
                entries.push(listed(upload));
                continue;
            }
            let seek = match folder.offer(&upload.key) {
                Fold::Take => {
                    taking = Some(upload.key.clone());
                    entries.push(listed(upload));
                    continue;
                }
                Fold::Prefix { name, seek } => {
                    entries.push(ListedUpload { key: name, upload: None });
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

fn start(wanted: &Uploads) -> After {
    if wanted.after.is_empty() {
        return None;
    }
    match wanted.after_upload.as_ref().map(|upload| upload.parse()) {
        Some(Ok(id)) => Some((wanted.after.clone(), Some(id))),
        _ => Some((wanted.after.clone(), None)),
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::WallTime;

    use super::*;

    fn upload(key: &str, node: u8) -> ListedUpload {
        let id = UploadId { site: SiteId([node; 16]), draw: [1; 16] };
        let begun = Begun { id, started: WallTime(7), writer: "w".into() };
        ListedUpload { key: key.into(), upload: Some(begun) }
    }

    fn prefix(name: &str) -> ListedUpload {
        ListedUpload { key: name.into(), upload: None }
    }

    #[test]
    fn pages_of_several_nodes_are_one_page() {
        let one = (vec![upload("a", 2), prefix("b/"), upload("d", 2)], false);
        let other = (vec![upload("a", 1), prefix("b/"), upload("c", 1)], false);
        let all = [upload("a", 1), upload("a", 2), prefix("b/"), upload("c", 1), upload("d", 2)];
        let of = |limit| merged([one.clone(), other.clone()].into_iter(), limit);
        assert_eq!(of(9), (all.to_vec(), false));
        assert_eq!(of(5), (all.to_vec(), false));
        assert_eq!(of(3), (all[..3].to_vec(), true));
        let full = (vec![upload("a", 1)], true);
        assert!(merged([full, (Vec::new(), false)].into_iter(), 1).1, "its node has more");
    }
}
