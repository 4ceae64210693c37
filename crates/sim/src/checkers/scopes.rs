//! What was acknowledged with `sites=n` survives the loss of any n−1 sites: each of those that were counted has record
//! and body in its durable bytes, as long as its disk is the same and nothing has replaced the version there.

use skerry_base::Dot;
use skerry_model::space;
use skerry_storage::Store;

use super::{Violation, bodies};
use crate::history::{History, Place};

const NAME: &str = "scopes";

/// Looks for one version in the durable bytes of a site that said to hold it.
pub fn check(
    history: &History,
    site: usize,
    store: &Store,
    (place, dot): (&Place, Dot),
) -> Option<Violation> {
    let lives = history.memory(site).is_some_and(|memory| memory.of(place).alive().contains(&dot));
    if !lives {
        return None;
    }
    let lacks = |what: &str| {
        Some(Violation::at(NAME, site, format!("{place:?} {dot} is said to be held there: {what}")))
    };
    let record = match space::record(&store.view(), place.0, &place.1, dot) {
        Ok(Some(record)) => record,
        Ok(None) => return lacks("it is not"),
        Err(error) => return lacks(&error.to_string()),
    };
    let mut body = Vec::new();
    let chunks = record.object().map(|object| object.chunks.as_slice()).unwrap_or_default();
    match bodies::read(store, place.0, chunks, &mut body) {
        Ok(()) => bodies::check_read(history, site, place, dot, &body),
        Err(why) => lacks(&format!("its body is not: {why}")),
    }
}
