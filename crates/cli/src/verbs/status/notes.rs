//! What `skerry status` says below its tables: what of a site wants a look.
//!
//! Invariants: each note says what is so and what to do about it; what is as it should be is not told.

use std::time::Duration;

use skerry_node::admin_shapes::StatusReport;

use super::{COPIED, refusing};
use crate::look;
use crate::verbs::{bucket, site};
use crate::words;

/// What may be to be said, in the order in which it is: first of the disk, then of copies, then of the site among others.
const NOTES: [fn(&StatusReport) -> Vec<String>; 22] = [
    damaged,
    unread_segments,
    damaged_index,
    sync_waits,
    undecided,
    surplus,
    nowhere,
    unread_buckets,
    held_for_others,
    at_cap,
    replacing,
    lacking_areas,
    unsynced,
    refused,
    turned_away,
    copies_of_others,
    copy_elsewhere,
    joining,
    anew,
    followed,
    links_lack,
    single_copies,
];

/// All that is to be said of a site, a line each.
pub(super) fn of(report: &StatusReport) -> impl Iterator<Item = String> {
    let name = &report.site_name;
    NOTES.iter().flat_map(|note| note(report)).map(move |what| format!("{name}: {what}"))
}

/// One note where something is so.
fn if_so(is_so: bool, what: impl FnOnce() -> String) -> Vec<String> {
    is_so.then(what).into_iter().collect()
}

fn damaged(report: &StatusReport) -> Vec<String> {
    let (chunks, segments) = (report.storage.damaged_chunks, report.storage.damaged_segments);
    if_so(chunks + segments > 0, || {
        let (chunks, segments) =
            (words::count(chunks, "damaged chunk"), words::count(segments, "damaged journal segment"));
        format!("{chunks}, {segments}: see `skerry scrub status`")
    })
}

fn unread_segments(report: &StatusReport) -> Vec<String> {
    let unread = report.storage.unread_segments;
    if_so(unread > 0, || {
        let (are, them) = if unread == 1 { ("is", "it") } else { ("are", "them") };
        format!(
            "{} {are} kept whole because the disk could not read a part of {them}; what reads again `skerry check --repair` takes in \
             while the site is stopped",
            words::count(unread, "payload segment")
        )
    })
}

fn damaged_index(report: &StatusReport) -> Vec<String> {
    if_so(report.storage.damaged_index, || {
        format!(
            "part of the index does not read: keys in it are answered by errors; start the site anew, which builds the index \
             again (that needs {} of room, or the old one makes way)",
            words::bytes(report.storage.index_bytes)
        )
    })
}

fn sync_waits(report: &StatusReport) -> Vec<String> {
    let seconds = report.storage.sync_waits_seconds;
    if_so(seconds > 0, || {
        format!(
            "the disk has not answered a sync for {seconds} s: nothing that is written is acknowledged; look after the disk, its cable \
             or the share it lies on"
        )
    })
}

/// What is kept for writes of which nobody has said what became of them.
fn undecided(report: &StatusReport) -> Vec<String> {
    let (writes, storage) = (report.storage.undecided_writes, &report.storage);
    if_so(writes > 0, || {
        let waits = match storage.undecided_at.is_empty() {
            true => String::new(),
            false => format!("; waits for {}", storage.undecided_at.join(", ")),
        };
        format!(
            "of {writes} conditional writes the answer of the bucket's home was lost, and their bodies ({}) are kept until it is \
             known what it decided{waits}: some ten minutes after it is linked; one that never comes back: `skerry site expel SITE` \
             (one that is only declared lost may come back with what it decided)",
            words::bytes(storage.undecided_bytes)
        )
    })
}

fn surplus(report: &StatusReport) -> Vec<String> {
    let (versions, reason) = (report.surplus.versions, &report.surplus.reason);
    if_so(versions > 0, || {
        let copies = if versions == 1 { "copy" } else { "copies" };
        format!("{versions} {copies} too many ({}): {reason}", words::bytes(report.surplus.bytes))
    })
}

/// What is at risk and nobody is known to have.
fn nowhere(report: &StatusReport) -> Vec<String> {
    if_so(report.nowhere_bytes > 0, || {
        format!(
            "of what is AT RISK {} are at no place that is known: this site's copy does not read whole, or who may have one is away: \
             `skerry scrub start`, or bring the sites back that are away",
            words::bytes(report.nowhere_bytes)
        )
    })
}

fn unread_buckets(report: &StatusReport) -> Vec<String> {
    if_so(!report.unread_buckets.is_empty(), || {
        format!(
            "{} cannot be read here, and get no copies from here: a start rebuilds an index that does not read",
            report.unread_buckets.join(", ")
        )
    })
}

fn held_for_others(report: &StatusReport) -> Vec<String> {
    let bytes = report.others.bytes;
    let note = |cap| {
        format!(
            "holds {} of at most {} for other sites: what is here stays, more is refused (`storage.others`)",
            words::bytes(bytes),
            words::bytes(cap)
        )
    };
    report.others.cap_bytes.filter(|cap| is_near(bytes, *cap)).map(note).into_iter().collect()
}

/// Whether a cap is worth a word. Who takes nothing by choice, and holds nothing, knows it.
const fn is_near(bytes: u64, cap: u64) -> bool {
    bytes > 0 && bytes >= cap.saturating_sub(cap / 10)
}

fn at_cap(report: &StatusReport) -> Vec<String> {
    if_so(!report.at_cap.is_empty(), || {
        let risk = match report.unprotected_bytes {
            0 => String::new(),
            bytes => format!("; {} are AT RISK", words::bytes(bytes)),
        };
        format!(
            "{} take no more copies from it, by the cap of their owners{risk}: raise `storage.others` there, or add a site",
            report.at_cap.join(", ")
        )
    })
}

fn replacing(report: &StatusReport) -> Vec<String> {
    let places = report.replacing.iter();
    let notes = places.map(|place| {
        let (name, id) = (&place.name, look::short(&place.site));
        format!("in the place of {name} ({id}): {}", site::progress(&place.recovery))
    });
    notes.collect()
}

fn lacking_areas(report: &StatusReport) -> Vec<String> {
    report.areas.iter().map(|lacks| format!("{}: {}", lacks.bucket, bucket::area(lacks))).collect()
}

fn unsynced(report: &StatusReport) -> Vec<String> {
    if_so(report.storage.lazy, || {
        let now = words::bytes(report.storage.unsynced_bytes);
        format!("storage.sync = os: a power cut loses what was answered last ({now} now)")
    })
}

fn refused(report: &StatusReport) -> Vec<String> {
    let refusing = refusing(report).join(", ");
    if_so(!refusing.is_empty(), || {
        let why = match report.gone {
            true => "it was expelled or replaced, and takes no writes",
            false => "it was expelled or replaced, or has not been heard of there",
        };
        format!("refused by {refusing}: {why}; `skerry site list` there says which")
    })
}

/// What two processes that run with one key are bound by.
const ONE_KEY: &str = "of a site and its copy only one may run: stop one (docs/operations.md, two copies)";

fn turned_away(report: &StatusReport) -> Vec<String> {
    let keeping = report.peers.iter().filter(|peer| peer.state == COPIED);
    let keeping = keeping.map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
    if_so(!keeping.is_empty(), || {
        let what = if report.copied { "; it takes no writes" } else { "" };
        format!("turned away by {keeping}, where another process with its key is linked{what}; {ONE_KEY}")
    })
}

fn copies_of_others(report: &StatusReport) -> Vec<String> {
    let copied = report.peers.iter().filter_map(|peer| Some((&peer.name, peer.copy_ms?)));
    copied
        .map(|(name, millis)| format!("turned away a copy of {name} {} ago; {ONE_KEY}", ago(millis)))
        .collect()
}

fn copy_elsewhere(report: &StatusReport) -> Vec<String> {
    let note = |millis| format!("another site turned away a copy of it {} ago; {ONE_KEY}", ago(millis));
    report.copy_ms.map(note).into_iter().collect()
}

fn ago(millis: u64) -> String {
    words::span(Duration::from_millis(millis))
}

fn joining(report: &StatusReport) -> Vec<String> {
    let joining = report.joining.iter();
    joining.map(|joining| format!("is still taking {}: {}", joining.bucket, joining.reason)).collect()
}

/// A site that lost part of its journal.
fn anew(report: &StatusReport) -> Vec<String> {
    let Some(anew) = &report.anew else { return Vec::new() };
    let what = match anew.names {
        true => "of names and homes, so it decides no conditions".to_owned(),
        false => format!("of {}, in which it decides no conditions", words::count(anew.buckets, "bucket")),
    };
    let more = if anew.more > 0 { format!(" and {} more", anew.more) } else { String::new() };
    let waits = match anew.waits.is_empty() {
        true => "all have been heard".to_owned(),
        false => format!("waits for {}{more}", anew.waits.join(", ")),
    };
    vec![format!(
        "lost part of its journal, or its store, and has not yet all that others have {what}; {waits}; a site that is gone for good: \
         `skerry site declare-lost`"
    )]
}

fn followed(report: &StatusReport) -> Vec<String> {
    let (prefixes, behind) = (report.followed_prefixes, report.followed_behind);
    if_so(prefixes > 0, || {
        let prefixes = if prefixes == 1 { "1 prefix".to_owned() } else { format!("{prefixes} prefixes") };
        format!("follows {prefixes}, {behind} of them behind")
    })
}

fn links_lack(report: &StatusReport) -> Vec<String> {
    // Who has no link has nothing to lose by it.
    let lack = report.links_lack.as_deref().filter(|_| !report.peers.is_empty());
    lack.map(|lack| format!("{lack}; docs/operations.md, far and fast links")).into_iter().collect()
}

fn single_copies(report: &StatusReport) -> Vec<String> {
    let buckets = report.single_copy_buckets;
    if_so(buckets > 0, || {
        format!(
            "{} with copies = 1: what only it has of them is not counted in AT RISK; `skerry bucket set NAME --copies 2` asks for a \
             second one",
            words::count(buckets, "bucket")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_worth_a_word_where_something_is_held() {
        assert!(is_near(90, 100) && is_near(1, 0) && is_near(300, 100));
        assert!(!is_near(89, 100) && !is_near(0, 0) && !is_near(0, 100));
    }
}
