//! Listings: a range scan at a member, a question to the nearest member elsewhere.
//!
//! Before: the gateway's `list` and `list_versions`. After: `peers` when this site is no member. Invariants: a
//! member lists without a message to anybody; a page is bounded in entries and in bytes.

use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::limits::{LIST_KEYS, LIST_SKIPS, MESSAGE_BYTES};
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::{
    ErrorKind, ListEntry, ListPage, ListQuery, ObjectSummary, Outcome, ReadMode, Receipt, ServiceError,
    VersionEntry, VersionId, VersionPage, VersionQuery, VersionSummary,
};
use skerry_model::Record;
use skerry_model::space::{self, Cursor};

use super::bucket::Bucket;
use super::members::{self, Asking, Failed};
use super::{newer, refusal, shape, within};
use crate::peers::message::{List, Listed, Page, Request, Response, Which};
use crate::site::{Site, unreadable};

/// Bytes of records in one page of versions; the rest goes to the next page.
const PAGE_BYTES: usize = MESSAGE_BYTES / 2;

/// One page of current keys.
pub(crate) async fn objects(
    site: &Arc<Site>,
    bucket: &Bucket,
    query: ListQuery,
    mode: &ReadMode,
) -> Outcome<ListPage> {
    let list = List {
        bucket: bucket.id,
        prefix: query.prefix,
        delimiter: query.delimiter,
        after: query.after,
        after_version: None,
        limit: query.limit.min(LIST_KEYS) as u32,
    };
    let (Told { page, .. }, receipt) = read(site, bucket, list, false, mode).await?;
    let shown = |listed: Listed| match listed {
        Listed::Object { key, row } => Some(ListEntry::Object(summary(key, row, &bucket.owner))),
        Listed::Prefix(prefix) => Some(ListEntry::Prefix(prefix)),
        Listed::Version { .. } => None,
    };
    let entries = page.entries.into_iter().filter_map(shown).collect();
    Ok(ListPage { entries, more: page.more, receipt })
}

fn summary(key: String, row: space::Listed, owner: &str) -> ObjectSummary {
    ObjectSummary {
        key,
        etag: row.etag,
        size: row.size,
        modified: row.modified,
        owner: owner.into(),
        checksums: Vec::new(),
    }
}

/// One page of versions.
pub(crate) async fn versions(
    site: &Arc<Site>,
    bucket: &Bucket,
    query: VersionQuery,
    mode: &ReadMode,
) -> Outcome<VersionPage> {
    let after = query.after_version.as_ref().map(shape::parse_version).transpose()?;
    let list = List {
        bucket: bucket.id,
        prefix: query.prefix,
        delimiter: query.delimiter,
        after: query.after,
        after_version: after.map(super::write::which),
        limit: query.limit.min(LIST_KEYS) as u32,
    };
    let (Told { page, next }, receipt) = read(site, bucket, list, true, mode).await?;
    let next = next.map(|(key, version)| (key, version.map(|version| VersionId(version.to_string()))));
    let entries = page.entries.into_iter().map(|listed| version(listed, &bucket.owner));
    let entries = entries.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
    Ok(VersionPage { entries, more: page.more, next, receipt })
}

fn version(listed: Listed, owner: &str) -> Outcome<Option<VersionEntry>> {
    match listed {
        Listed::Prefix(prefix) => Ok(Some(VersionEntry::Prefix(prefix))),
        Listed::Object { .. } => Ok(None),
        Listed::Version { record, null, latest } => {
            let record = Record::decode(&record).map_err(refusal::malformed)?;
            let version = if null { VersionId::null() } else { shape::dot_id(&record) };
            let object = shape::summary(&record, owner);
            let delete_marker = record.is_delete();
            Ok(Some(VersionEntry::Version(VersionSummary { object, version, latest, delete_marker })))
        }
    }
}

/// A page, and at a site of several nodes whether it is the site's.
async fn read(
    site: &Arc<Site>,
    bucket: &Bucket,
    list: List,
    versions: bool,
    mode: &ReadMode,
) -> Outcome<(Told, Receipt)> {
    let says = within::says(site, mode);
    let told = |is_sites| Receipt { scope: says.then(|| within::told(is_sites)), ..Receipt::default() };
    let is_sites = site.reads_for_site(bucket.id);
    if !is_sites && within::asks(site, mode) {
        let goal = newer::goal(mode, bucket.id)?;
        // Who has a token of another bucket waits for that here.
        if (says || !goal.is_empty())
            && let Some(page) = within::page(site, &list, versions, &goal).await
        {
            return Ok((page.into(), told(true)));
        }
    }
    let page = page(site, bucket, list, versions, mode).await?;
    // Unless it left the bucket meanwhile: then another one answered.
    Ok((page, told(is_sites && site.is_complete(bucket.id))))
}

async fn page(
    site: &Arc<Site>,
    bucket: &Bucket,
    list: List,
    versions: bool,
    mode: &ReadMode,
) -> Outcome<Told> {
    if site.is_complete(bucket.id) {
        members::catch_up(site, bucket, mode).await?;
        let here = list.clone();
        let page = site.read(move |view| local(view, &here, versions, Some(LIST_SKIPS))).await?;
        // Unless it left the bucket meanwhile: then the tables said less than there is.
        if site.is_complete(bucket.id) {
            return Ok(page);
        }
    }
    // Below a prefix that is followed.
    if *mode == ReadMode::Local && site.trusts(bucket.id, &list.prefix).is_some() {
        let here = list.clone();
        let page = site.read(move |view| local(view, &here, versions, Some(LIST_SKIPS))).await?;
        if site.trusts(bucket.id, &list.prefix).is_some() {
            return Ok(page);
        }
    }
    let request = if versions { Request::Versions(list.clone()) } else { Request::List(list.clone()) };
    let asking = members::nearest(site, bucket).await?;
    let asking = members::who_have_seen(site, bucket, asking, mode).await?;
    match far(site, &asking, &request).await {
        // Nobody else is a member: what there is, is here.
        Ok((None, _)) if site.is_member(bucket.id) => {
            site.read(move |view| local(view, &list, versions, Some(LIST_SKIPS))).await
        }
        Ok((from, page)) => {
            members::follow(site, bucket, from).await;
            Ok(page.into())
        }
        // An island lists what it has, above all what was written to it.
        Err(error)
            if error.kind() == ErrorKind::Unreachable
                && site.is_member(bucket.id)
                && *mode == ReadMode::Local =>
        {
            site.read(move |view| local(view, &list, versions, Some(LIST_SKIPS))).await
        }
        Err(error) => Err(error),
    }
}

async fn far(site: &Arc<Site>, asking: &Asking, request: &Request) -> Outcome<(Option<SiteId>, Page)> {
    let mut failed = Failed::default();
    for &member in &asking.sites {
        match site.peers.call(member, request).await.map(|answer| answer.response) {
            Ok(Response::Page(page)) => return Ok((Some(member), page)),
            Ok(Response::NotMember) => site.refuted(asking.bucket, member),
            Ok(Response::Joining) => failed.push(members::joining(site, member)),
            Ok(Response::Refused { code, message }) => failed.refused(&code, message),
            Ok(_) => failed.push(format!("{} answered something else", site.peers.roster.name(member))),
            Err(error) => failed.push(format!("{}: {error}", site.peers.roster.name(member))),
        }
    }
    asking.nobody(site, &failed)?;
    Ok((None, Page::default()))
}

/// A page, and where the next one starts if its last entry does not say so.
pub(crate) struct Told {
    pub(crate) page: Page,
    next: Option<(String, Option<space::VersionId>)>,
}

impl From<Page> for Told {
    fn from(page: Page) -> Self {
        Self { page, next: None }
    }
}

/// A page from the tables here. Other sites are told `skips: None`: their words for a page have no other end than its last entry.
pub(crate) fn local(view: &dyn View, list: &List, versions: bool, skips: Option<usize>) -> Outcome<Told> {
    let cursor = Cursor {
        prefix: &list.prefix,
        start_after: Some(list.after.as_str()).filter(|after| !after.is_empty()),
        delimiter: list.delimiter.as_deref(),
        max: (list.limit as usize).min(LIST_KEYS),
        skips,
    };
    match versions {
        true => versions_page(view, list, cursor),
        false => objects_page(view, list.bucket, cursor).map(Told::from),
    }
}

fn objects_page(view: &dyn View, bucket: BucketId, cursor: Cursor<'_>) -> Outcome<Page> {
    let found = space::list_current(view, bucket, cursor).map_err(unreadable)?;
    let mut entries: Vec<Listed> =
        found.keys.into_iter().map(|(key, row)| Listed::Object { key, row }).collect();
    entries.extend(found.prefixes.into_iter().map(Listed::Prefix));
    entries.sort_by(|one, other| name(one).cmp(name(other)));
    Ok(Page { entries, more: found.next.is_some() })
}

fn name(listed: &Listed) -> &str {
    match listed {
        Listed::Object { key, .. } => key,
        Listed::Prefix(prefix) => prefix,
        Listed::Version { .. } => "",
    }
}

/// A version as this node's tables name it.
pub(crate) const fn version_of(which: Which) -> space::VersionId {
    match which {
        Which::Dot(dot) => space::VersionId::Dot(dot),
        Which::Null | Which::Current => space::VersionId::Null,
    }
}

fn versions_page(view: &dyn View, list: &List, cursor: Cursor<'_>) -> Outcome<Told> {
    let after = list.after_version.map(version_of);
    let found = space::list_versions(view, list.bucket, cursor, after).map_err(unreadable)?;
    let mut entries: Vec<(String, Listed)> = Vec::new();
    for shown in found.versions {
        let null = shown.id == space::VersionId::Null;
        let (key, record) = (shown.record.key.clone(), shown.record.encode().into());
        entries.push((key, Listed::Version { record, null, latest: shown.is_latest }));
    }
    entries.extend(found.prefixes.into_iter().map(|prefix| (prefix.clone(), Listed::Prefix(prefix))));
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    let mut page = Page { entries: Vec::new(), more: found.next.is_some() };
    let (mut next, mut bytes) = (found.next, 0);
    for (_, listed) in entries {
        if let Listed::Version { record, .. } = &listed {
            bytes += record.len();
        }
        if bytes > PAGE_BYTES {
            (page.more, next) = (true, None);
            break;
        }
        page.entries.push(listed);
    }
    Ok(Told { page, next })
}

/// Answers another site's question for a page.
pub(crate) async fn answer(site: &Arc<Site>, list: List, versions: bool) -> Response {
    if !site.is_complete(list.bucket) {
        return members::not_complete(site, list.bucket);
    }
    let bucket = list.bucket;
    match site.read(move |view| local(view, &list, versions, None)).await {
        Ok(_) if !site.is_complete(bucket) => members::not_complete(site, bucket),
        Ok(told) => Response::Page(told.page),
        Err(error) => refused(&error),
    }
}

/// A refusal as it travels.
pub(crate) fn refused(error: &ServiceError) -> Response {
    Response::Refused { code: error.kind().code().into(), message: error.message().into() }
}
