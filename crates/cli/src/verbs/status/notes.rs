//! What `skerry status` says below its tables: what of a site wants a look.

use skerry_node::admin_shapes::{StatusReport, StorageStatus};

use super::{COPIED, refusing};
use crate::look;
use crate::output;
use crate::words;

/// What is to be said of a site's disk and of the copies on it.
pub(super) fn note_storage(report: &StatusReport) {
    let (chunks, segments) = (report.storage.damaged_chunks, report.storage.damaged_segments);
    if chunks + segments > 0 {
        let (chunks, segments) =
            (words::count(chunks, "damaged chunk"), words::count(segments, "damaged journal segment"));
        let found = format!("{chunks}, {segments}");
        output::note(&format!("{}: {found}: see `skerry scrub status`", report.site_name));
    }
    let unread = report.storage.unread_segments;
    if unread > 0 {
        let (unread, are, them) = match unread {
            1 => ("1 payload segment".to_owned(), "is", "it"),
            many => (words::count(many, "payload segment"), "are", "them"),
        };
        let what = format!(
            "{unread} {are} kept whole because the disk could not read a part of {them}; what reads again \
             `skerry check --repair` takes in while the site is stopped"
        );
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.damaged_index {
        let what = format!(
            "part of the index does not read: keys in it are answered by errors; start the site anew, which builds the index \
             again (that needs {} of room, or the old one makes way)",
            words::bytes(report.storage.index_bytes)
        );
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.sync_waits_seconds > 0 {
        let what = format!(
            "the disk has not answered a sync for {} s: nothing that is written is acknowledged; look after the disk, its cable or \
             the share it lies on",
            report.storage.sync_waits_seconds
        );
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.undecided_writes > 0 {
        output::note(&format!("{}: {}", report.site_name, undecided(&report.storage)));
    }
    if report.surplus.versions > 0 {
        let (versions, bytes) = (report.surplus.versions, words::bytes(report.surplus.bytes));
        let copies = if versions == 1 { "copy" } else { "copies" };
        let what = format!("{versions} {copies} too many ({bytes}): {}", report.surplus.reason);
        output::note(&format!("{}: {what}", report.site_name));
    }
    note_nowhere(report);
    note_caps(report);
    for place in &report.replacing {
        let (name, id) = (&place.name, look::short(&place.site));
        let what =
            format!("in the place of {name} ({id}): {}", crate::verbs::site::progress(&place.recovery));
        output::note(&format!("{}: {what}", report.site_name));
    }
    for lacks in &report.areas {
        let what = format!("{}: {}", lacks.bucket, crate::verbs::bucket::area(lacks));
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.lazy {
        let unsynced = words::bytes(report.storage.unsynced_bytes);
        let what = format!("storage.sync = os: a power cut loses what was answered last ({unsynced} now)");
        output::note(&format!("{}: {what}", report.site_name));
    }
}

/// What is kept for writes of which nobody has said what became of them.
fn undecided(storage: &StorageStatus) -> String {
    let (writes, bytes) = (storage.undecided_writes, words::bytes(storage.undecided_bytes));
    let waits = match storage.undecided_at.is_empty() {
        true => String::new(),
        false => format!("; waits for {}", storage.undecided_at.join(", ")),
    };
    format!(
        "of {writes} conditional writes the answer of the bucket's home was lost, and their bodies ({bytes}) are kept until it is \
         known what it decided{waits}: some ten minutes after it is linked; one that never comes back: `skerry site expel SITE` (one that is only declared lost may \
         come back with what it decided)"
    )
}

/// Whether a cap is worth a word. Who takes nothing by choice, and holds nothing, knows it.
const fn is_near(bytes: u64, cap: u64) -> bool {
    bytes > 0 && bytes >= cap.saturating_sub(cap / 10)
}

/// What is to be said of what is at risk and nobody is known to have.
fn note_nowhere(report: &StatusReport) {
    if report.nowhere_bytes > 0 {
        let what = format!(
            "of what is AT RISK {} are at no place that is known: this site's copy does not read whole, or who may have one is away",
            words::bytes(report.nowhere_bytes)
        );
        let hint = "`skerry scrub start`, or bring the sites back that are away";
        output::note(&format!("{}: {what}: {hint}", report.site_name));
    }
    if !report.unread_buckets.is_empty() {
        let what =
            format!("{} cannot be read here, and get no copies from here", report.unread_buckets.join(", "));
        output::note(&format!("{}: {what}: a start rebuilds an index that does not read", report.site_name));
    }
}

/// What is to be said of what sites hold for others.
fn note_caps(report: &StatusReport) {
    let others = &report.others;
    if let Some(cap) = others.cap_bytes.filter(|cap| is_near(others.bytes, *cap)) {
        let what = format!("{} of at most {}", words::bytes(others.bytes), words::bytes(cap));
        let hint = "what is here stays, more is refused (`storage.others`)";
        output::note(&format!("{}: holds {what} for other sites: {hint}", report.site_name));
    }
    if !report.at_cap.is_empty() {
        let risk = match report.unprotected_bytes {
            0 => String::new(),
            bytes => format!("; {} are AT RISK", words::bytes(bytes)),
        };
        let what = format!("{} take no more copies from it", report.at_cap.join(", "));
        let hint = "raise `storage.others` there, or add a site";
        output::note(&format!("{}: {what}, by the cap of their owners{risk}: {hint}", report.site_name));
    }
}

/// What is to be said of a site among the others.
pub(super) fn note_standing(report: &StatusReport) {
    let refusing = refusing(report).join(", ");
    if !refusing.is_empty() {
        let why = match report.gone {
            true => "it was expelled or replaced, and takes no writes",
            false => "it was expelled or replaced, or has not been heard of there",
        };
        let hint = "`skerry site list` there says which";
        output::note(&format!("{}: refused by {refusing}: {why}; {hint}", report.site_name));
    }
    note_copies(report);
    for joining in &report.joining {
        let what = format!("is still taking {}: {}", joining.bucket, joining.reason);
        output::note(&format!("{}: {what}", report.site_name));
    }
    note_anew(report);
    if report.followed_prefixes > 0 {
        let prefixes = match report.followed_prefixes {
            1 => "1 prefix".to_owned(),
            many => format!("{many} prefixes"),
        };
        let behind = report.followed_behind;
        output::note(&format!("{}: follows {prefixes}, {behind} of them behind", report.site_name));
    }
    // Who has no link has nothing to lose by it.
    if let Some(lack) = report.links_lack.as_deref().filter(|_| !report.peers.is_empty()) {
        output::note(&format!("{}: {lack}; docs/operations.md, far and fast links", report.site_name));
    }
    if report.single_copy_buckets > 0 {
        let buckets = words::count(report.single_copy_buckets, "bucket");
        let what = "what only it has of them is not counted in AT RISK; `skerry bucket set NAME --copies 2` asks for a second one";
        output::note(&format!("{}: {buckets} with copies = 1: {what}", report.site_name));
    }
}

/// What is to be said of a site that lost part of its journal.
fn note_anew(report: &StatusReport) {
    let Some(anew) = &report.anew else { return };
    let what = match anew.names {
        true => "of names and homes, so it decides no conditions".to_owned(),
        false => format!("of {}, in which it decides no conditions", words::count(anew.buckets, "bucket")),
    };
    let more = if anew.more > 0 { format!(" and {} more", anew.more) } else { String::new() };
    let waits = match anew.waits.is_empty() {
        true => "all have been heard".to_owned(),
        false => format!("waits for {}{more}", anew.waits.join(", ")),
    };
    output::note(&format!(
        "{}: lost part of its journal, or its store, and has not yet all that others have {what}; {waits}; a site that is gone for good: \
         `skerry site declare-lost`",
        report.site_name
    ));
}

/// What is to be said of two processes that run with one key.
fn note_copies(report: &StatusReport) {
    let ago = |millis| words::span(std::time::Duration::from_millis(millis));
    let rule = "of a site and its copy only one may run: stop one (docs/operations.md, two copies)";
    let keeping: Vec<&str> =
        report.peers.iter().filter(|peer| peer.state == COPIED).map(|peer| peer.name.as_str()).collect();
    if !keeping.is_empty() {
        let keeping = keeping.join(", ");
        let what = if report.copied { "; it takes no writes" } else { "" };
        let why = format!("turned away by {keeping}, where another process with its key is linked{what}");
        output::note(&format!("{}: {why}; {rule}", report.site_name));
    }
    for peer in &report.peers {
        if let Some(millis) = peer.copy_ms {
            let what = format!("turned away a copy of {} {} ago", peer.name, ago(millis));
            output::note(&format!("{}: {what}; {rule}", report.site_name));
        }
    }
    if let Some(millis) = report.copy_ms {
        let what = format!("another site turned away a copy of it {} ago", ago(millis));
        output::note(&format!("{}: {what}; {rule}", report.site_name));
    }
}

#[cfg(test)]
mod tests {
    use super::is_near;

    #[test]
    fn a_cap_is_worth_a_word_where_something_is_held() {
        assert!(is_near(90, 100) && is_near(1, 0) && is_near(300, 100));
        assert!(!is_near(89, 100) && !is_near(0, 0) && !is_near(0, 100));
    }
}
