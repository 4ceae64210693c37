//! The S3 suite as a library: checks that any endpoint must pass, ours, the double's, or a rival's.
//!
//! Why here: the faces and the suite must agree on S3, and the node, the demo and the lab run the same checks.
//! Each check makes its own bucket and cleans up; they may run on an endpoint that is in use.

#![expect(
    clippy::disallowed_methods,
    reason = "a client: it dials the endpoint under test and signs with the time"
)]

mod buckets;
mod checksums;
mod client;
mod copies;
mod listings;
mod multipart;
mod objects;
mod refusals;
mod settings;
mod signatures;
mod suite;
mod together;
mod versions;

use core::fmt;
use core::pin::Pin;

pub use client::{Answer, Client, Credentials};
pub use suite::{Checked, Suite};

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which check.
    pub check: &'static str,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// What all checks found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// One for each check, in order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Those that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.failure.is_some())
    }

    /// Whether all passed.
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.failures() {
            writeln!(f, "{}: {}", finding.check, finding.failure.as_deref().unwrap_or_default())?;
        }
        write!(
            f,
            "{} of {} checks passed",
            self.findings.len() - self.failures().count(),
            self.findings.len()
        )
    }
}

type Running<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;
type Check = for<'a> fn(&'a Suite) -> Running<'a>;

/// Declares the checks; their paths are their names.
macro_rules! checks {
    ($($room:ident: $($check:ident),* ;)*) => {
        /// All checks.
        const CHECKS: &[(&str, Check)] = &[$($(
            (concat!(stringify!($room), "::", stringify!($check)), |suite| Box::pin($room::$check(suite))),
        )*)*];
    };
}

checks! {
    buckets: life, names, location, unfinished, versioning_states, list_pages, not_empty, unknown;
    objects: round_trip, empty, headers, metadata, unicode_metadata, odd_keys, ranges, conditional_reads,
        conditional_writes, if_range, overrides, delete_is_idempotent, head_of_nothing, large_stream, many_deletes;
    listings: first_version, second_version, delimiters, pages, unicode, start_after, encoding, empty_page, restored;
    copies: plain, with_metadata, onto_itself, conditions, odd_names;
    multipart: whole, parts_by_number, refusals, copy_part, lists, abort, again, conditional;
    checksums: declared, wrong, on_request, md5, multipart_full, multipart_composite, trailers;
    versions: lifetimes, same_bytes, markers, suspended, listing, order, unnamed, erased;
    signatures: presigned, presigned_put, expired, skewed, wrong_secret, unknown_key, anonymous, signed_chunks,
        unsigned_chunks, tampered_chunk, old_version, unsigned_header, by_date;
    settings: none, acls, attributes;
    refusals: sub_resources, headers, keys, malformed_xml, short_body, missing_length, too_large, part_numbers,
        methods, errors_have_ids;
}

/// Runs every check against an endpoint such as `http://127.0.0.1:7600`. `seed` makes the names of the buckets.
pub async fn run_all(endpoint: &str, credentials: &Credentials, seed: u64) -> Report {
    let suite = Suite::new(Client::new(endpoint, credentials.clone()), seed);
    let mut report = Report::default();
    for (check, run) in CHECKS {
        let failure = run(&suite).await.err();
        report.findings.push(Finding { check, failure });
    }
    report
}
