//! Pages of the double.

use std::collections::BTreeMap;

use super::state::{Bucket, Upload, Version};
use crate::service::{
    Fold, Folder, ListEntry, ListPage, ListQuery, ObjectSummary, UploadEntry, UploadPage, UploadQuery,
    UploadSummary, VersionEntry, VersionId, VersionPage, VersionQuery, VersionSummary,
};

/// Folds the keys of a map into a page. `entries` answers what a key puts on it; a key without is passed over.
fn fold<V, E>(
    map: &BTreeMap<String, V>,
    mut folder: Folder,
    entries: impl Fn(&str, &V) -> Vec<E>,
    common: impl Fn(String) -> E,
) -> (Vec<E>, bool) {
    let mut page = Vec::new();
    let mut from = Some(folder.seek().to_owned());
    while let Some(start) = from.take() {
        for (key, value) in map.range(start..) {
            let mut found = entries(key, value).into_iter();
            let Some(first) = found.next() else { continue };
            match folder.offer(key) {
                Fold::Take => page.push(first),
                Fold::Prefix { name, seek } => {
                    page.push(common(name));
                    from = seek;
                    break;
                }
                // The same key again: what it has lies behind the mark, and the next key is wanted.
                Fold::Skip { seek } if seek.as_deref() == Some(key) => continue,
                Fold::Skip { seek } => {
                    from = seek;
                    break;
                }
                Fold::Full => return (page, true),
                Fold::End => return (page, false),
            }
            for entry in found {
                if !folder.taken() {
                    return (page, true);
                }
                page.push(entry);
            }
        }
    }
    (page, false)
}

fn object(key: &str, version: &Version) -> ObjectSummary {
    ObjectSummary {
        key: key.into(),
        etag: version.info.etag.clone(),
        size: version.info.size,
        modified: version.info.modified,
        owner: version.owner.clone(),
        checksums: version.info.checksums.clone(),
    }
}

/// Current keys.
pub(super) fn current(bucket: &Bucket, query: &ListQuery) -> ListPage {
    let folder = Folder::new(&query.prefix, query.delimiter.as_deref(), &query.after, query.limit);
    let entry = |key: &str, versions: &Vec<Version>| {
        let last = versions.last().filter(|version| !version.delete_marker);
        last.map(|version| ListEntry::Object(object(key, version))).into_iter().collect()
    };
    let (entries, more) = fold(&bucket.keys, folder, entry, ListEntry::Prefix);
    ListPage { entries, more, ..ListPage::default() }
}

/// All versions.
pub(super) fn versions(bucket: &Bucket, query: &VersionQuery) -> VersionPage {
    let mut folder = Folder::new(&query.prefix, query.delimiter.as_deref(), &query.after, query.limit);
    if query.after_version.is_some() {
        folder = folder.including_after();
    }
    let mark = query.after_version.as_ref().map(|version| (query.after.as_str(), version));
    let entry = |key: &str, versions: &Vec<Version>| versions_of(key, versions, mark);
    let (entries, more) = fold(&bucket.keys, folder, entry, VersionEntry::Prefix);
    VersionPage { entries, more, ..VersionPage::default() }
}

/// The versions of a key, newest first; of the marked key only those behind the mark.
fn versions_of(key: &str, versions: &[Version], mark: Option<(&str, &VersionId)>) -> Vec<VersionEntry> {
    let newest = versions.last().map(|version| &version.id);
    let all = versions.iter().rev().map(|version| {
        VersionEntry::Version(VersionSummary {
            object: object(key, version),
            version: version.id.clone(),
            latest: newest == Some(&version.id),
            delete_marker: version.delete_marker,
        })
    });
    match mark.filter(|(marked, _)| *marked == key) {
        None => all.collect(),
        Some((_, id)) => {
            let behind =
                versions.iter().rev().position(|version| version.id == *id).map_or(0, |index| index + 1);
            all.skip(behind).collect()
        }
    }
}

/// Uploads.
pub(super) fn uploads(bucket: &Bucket, query: &UploadQuery) -> UploadPage {
    let mut folder = Folder::new(&query.prefix, query.delimiter.as_deref(), &query.after, query.limit);
    if query.after_upload.is_some() {
        folder = folder.including_after();
    }
    let entry = |key: &str, uploads: &BTreeMap<String, Upload>| {
        let marked = query.after_upload.as_ref().filter(|_| key == query.after);
        let behind = uploads.iter().filter(|(id, _)| marked.is_none_or(|mark| *id > mark));
        behind.map(|(id, upload)| UploadEntry::Upload(summary(key, id, upload))).collect()
    };
    let (entries, more) = fold(&bucket.uploads, folder, entry, UploadEntry::Prefix);
    UploadPage { entries, more }
}

fn summary(key: &str, id: &str, upload: &Upload) -> UploadSummary {
    UploadSummary {
        key: key.into(),
        upload: id.into(),
        initiated: upload.initiated,
        initiator: upload.principal.access_key.clone(),
        owner: upload.principal.owner.clone(),
    }
}
