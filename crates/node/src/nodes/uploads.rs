//! Uploads that live at the other nodes of this site: each lists its own, whoever was asked lists all.
//!
//! Before: `paths/list_uploads.rs`, which merges the pages. Invariant: a node that does not answer soon, or is of a release that
//! does not know the question, keeps no list back; nothing of its uploads can be done meanwhile either.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use skerry_base::limits::LIST_KEYS;
use skerry_gateway::service::Outcome;

use super::ask::{Ask, ListedUpload, Told, Uploads, ask};
use crate::paths::list_uploads;
use crate::site::Site;

/// How long another node may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A page of each other node that answers.
pub(crate) async fn of_others(site: &Arc<Site>, wanted: &Uploads) -> Vec<(Vec<ListedUpload>, bool)> {
    let seats = site.nodes.all.without(site.nodes.me);
    let others = seats.iter().filter_map(|seat| site.peers.roster.holder(site.nodes.site, seat));
    let page = |node| async move {
        match ask(site, node, Ask::Uploads(wanted.clone()), PATIENCE).await {
            Ok(Told::Uploads(entries, more)) => Some((entries, more)),
            other => {
                tracing::debug!(%node, ?other, "another node of this site does not list its uploads");
                None
            }
        }
    };
    join_all(others.map(|(_, node)| page(node))).await.into_iter().flatten().collect()
}

/// Answers another node.
pub(super) async fn answer(site: &Arc<Site>, wanted: Uploads) -> Outcome<Told> {
    let wanted = Uploads { limit: wanted.limit.min(LIST_KEYS as u32), ..wanted };
    let (entries, more) = list_uploads::local(site, wanted).await?;
    Ok(Told::Uploads(entries, more))
}
