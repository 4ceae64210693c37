//! What holds a drain up, in words: what an operator can do about it.
//!
//! Before: [`super`], with what a look found. Invariants: what can be done is named, and of what it is about the first.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::SiteId;
use skerry_federation::drain::Lacking;

use crate::leaving::MEND;

/// What is kept here and does not read, and too few others hold.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pub(super) bodies: u64,
    /// Bucket, key and why, of the first.
    pub(super) first: Option<(String, String, String)>,
    /// Buckets that cannot be looked through, and why.
    pub(super) buckets: BTreeMap<String, String>,
}

/// What of this site does not read, if nothing else is lacking or a bucket is passed over for it.
pub(super) fn unread(unread: &Unread, lacking: &Lacking) -> Option<String> {
    if let Some((bucket, why)) = unread.buckets.first_key_value() {
        return Some(format!(
            "{} buckets here cannot be looked through (the first: {bucket}: {why}); {MEND}",
            unread.buckets.len()
        ));
    }
    let (bucket, key, why) = unread.first.as_ref().filter(|_| lacking.bodies == unread.bodies)?;
    Some(format!(
        "{} bodies here do not read whole and are at too few other sites (the first: {bucket}/{key}: {why}); {MEND}",
        unread.bodies
    ))
}

/// What an operator can do about it. `going`: who could take over and goes itself, of everybody who is there; `few`: how many
/// bodies are held by too few, and who could hold them and is not there.
pub(super) fn waits_for(
    there: &BTreeSet<SiteId>,
    going: &[String],
    lacking: &Lacking,
    few: (u64, Vec<String>),
) -> String {
    if !going.is_empty() && going.len() >= there.len() {
        return format!(
            "all who could take over go themselves: {}; take one back (skerry site resume, skerry bucket join), or link \
             another site",
            going.join(", ")
        );
    }
    if there.is_empty() {
        return "no other site that takes copies is linked: heal a link, or take a frozen site into service"
            .into();
    }
    match lacking {
        Lacking { others: 1.., records: 0, bodies: 0, homes: 0, .. } => {
            "uploads that nobody completed: complete or abort them, or drain with --abandon-uploads; or conditional writes \
             whose homes have not said what they decided (`skerry status`)"
                .into()
        }
        // Others lack nothing else, so whoever is there has taken what it takes.
        Lacking { bodies, records: 0, .. } if *bodies > 0 && *bodies == few.0 && !few.1.is_empty() => {
            format!(
                "{bodies} bodies are elsewhere, and at fewer sites than their writes were answered for; not linked: {}; bring them \
             back, or say `skerry site declare-lost`",
                few.1.join(", ")
            )
        }
        _ => String::new(),
    }
}

/// The register may name this site as the home of buckets that it made, as long as it has not heard that it goes.
pub(super) fn unnamed(buckets: usize, keeper: Option<String>) -> String {
    let keeper = keeper.unwrap_or_else(|| "the site".into());
    format!(
        "of {buckets} buckets that were made here no home is named yet, and it could be this site: link {keeper}, which keeps the \
         register of names (if that one is lost for good: `skerry bucket home --register --to SITE --destroyed LOST`)"
    )
}

/// A bucket may lie at none of those who could take it over.
pub(super) fn confined(bucket: &str) -> String {
    format!(
        "the payload of {bucket} may lie at no other site that takes copies now: let it lie at one more (`skerry bucket set {bucket} \
         --residency SITES` at another site), or link one where it may"
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_does_not_read_is_named_once_nothing_else_is_lacking() {
        let bodies = |bodies| Lacking { bodies, ..Lacking::default() };
        let first = Some(("photos".to_owned(), "a".to_owned(), "damaged".to_owned()));
        let mut found = Unread { bodies: 2, first, buckets: BTreeMap::new() };
        assert_eq!(unread(&Unread::default(), &bodies(3)), None);
        assert_eq!(unread(&found, &bodies(3)), None, "one is still to be handed over");
        let told = unread(&found, &bodies(2)).unwrap();
        assert!(
            told.starts_with("2 bodies") && told.contains("photos/a") && told.contains("skerry scrub start")
        );
        found.buckets.insert("films".into(), "the index".into());
        let told = unread(&found, &bodies(3)).unwrap();
        assert!(told.contains("films") && told.contains("a start rebuilds"), "{told}");
    }

    #[test]
    fn what_holds_a_drain_up_is_told() {
        let one: BTreeSet<SiteId> = [SiteId([1; 16])].into();
        let uploads = Lacking { others: 2, ..Lacking::default() };
        let none = || (0, Vec::new());
        assert!(waits_for(&BTreeSet::new(), &[], &uploads, none()).contains("linked"));
        assert!(waits_for(&one, &[], &uploads, none()).contains("--abandon-uploads"));
        let body = Lacking { bodies: 1, ..uploads };
        assert_eq!(waits_for(&one, &[], &body, none()), "");
        let few = |away: &[&str]| (1, away.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(waits_for(&one, &[], &body, few(&[])), "", "it is being placed");
        let away = waits_for(&one, &[], &body, few(&["oslo"]));
        assert!(away.contains("oslo") && away.contains("declare-lost"), "{away}");
        let goes = waits_for(&one, &["bergen".into()], &body, none());
        assert!(goes.contains("bergen") && goes.contains("skerry bucket join"), "{goes}");
    }
}
