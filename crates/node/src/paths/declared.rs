//! Names, settings and access keys at a site of several nodes: documents of the system bucket that all its live nodes have
//! before the answer.
//!
//! Before: `buckets.rs` and the administration with what they declare. After: [`crate::nodes::settle`]. Invariants: what was
//! declared is durable here whatever the others say; an answer names the scope that was reached.

use std::sync::Arc;

use bytes::Bytes;
use skerry_base::WallTime;
use skerry_base::kv::View;
use skerry_gateway::service::{Outcome, Receipt, RequestContext};
use skerry_model::record::Scope;
use skerry_model::space;

use super::bucket::Declared;
use super::{scope, within};
use crate::nodes::{self, Load};
use crate::site::{Site, unreadable};

/// Whether all live nodes of the site have it; else why not.
pub(crate) type Reached = Result<(), String>;

/// Declares as [`Site::declare`] does, and then has the other nodes of the site hold it.
pub(crate) async fn declare<T: Send + 'static>(
    site: &Arc<Site>,
    writer: &str,
    decide: impl FnOnce(&dyn View, WallTime) -> Outcome<(T, Option<Declared>)> + Send + 'static,
) -> Outcome<(T, Reached)> {
    let decide = move |view: &dyn View, wall| {
        let (answer, declared) = decide(view, wall)?;
        let documents = declared.iter().flat_map(|declared| &declared.documents);
        let keys: Vec<String> = documents.map(|(key, _)| key.clone()).collect();
        Ok(((answer, keys), declared))
    };
    let (answer, keys) = site.declare(writer, decide).await?;
    Ok((answer, settle(site, keys).await?))
}

async fn settle(site: &Arc<Site>, keys: Vec<String>) -> Outcome<Reached> {
    if !site.nodes.are_several() || keys.is_empty() {
        return Ok(Ok(()));
    }
    if !site.nodes.can_settle(site.clock.since_boot()) {
        return Ok(Err("this node hears no majority of the site's nodes that can hold it".into()));
    }
    let system = site.system;
    let read = move |view: &dyn View| {
        let mut heads: Vec<Bytes> = Vec::new();
        for key in &keys {
            let found = space::heads(view, system, key).map_err(unreadable)?;
            heads.extend(found.iter().map(|head| Bytes::from(head.encode())));
        }
        Ok(heads)
    };
    let load = Load::Records(system, site.look(read).await?);
    Ok(nodes::settle(site, load, None).await.map_err(|why| why.to_string()))
}

/// What is answered then.
pub(crate) fn receipt(site: &Site, context: &RequestContext, reached: Reached) -> Outcome<Receipt> {
    let scope = match reached {
        Ok(()) => Scope::Site,
        Err(why) if context.scope.as_deref() == Some("site") => {
            return Err(within::short(site, &why, "saying it again changes nothing and tries again"));
        }
        Err(why) => {
            tracing::debug!(why, "what was declared is this node's, not the site's");
            Scope::Node
        }
    };
    Ok(Receipt { scope: Some(scope::name(scope)), ..Receipt::default() })
}
