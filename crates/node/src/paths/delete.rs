//! DELETE of a key or of one version, one or up to a thousand.
//!
//! Before: the gateway's `delete` and `delete_many`. After: `write.rs`.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use skerry_base::Instant;
use skerry_gateway::service::{
    DeleteObject, DeleteOutcome, DeleteTarget, Outcome, Receipt, RequestContext, VersionId,
};
use skerry_model::Statement;
use skerry_model::policy::Action;
use skerry_model::record::{Scope, Versioning};
use skerry_model::space::{self, VersionId as Named};
use skerry_model::write::Ask;

use super::bucket::Bucket;
use super::write::{self, Asked, Written};
use super::{scope, shape, within};
use crate::site::{Site, unreadable};

/// Deletes of one request that are on the way to the disk at once: they share syncs.
const AT_ONCE: usize = 64;

/// Deletes a key or erases a version.
pub(crate) fn delete<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: DeleteObject,
) -> BoxFuture<'a, Outcome<DeleteOutcome>> {
    Box::pin(async move {
        let bucket = site.allowed(context, &request.bucket, Action::Write).await?;
        scope::check(site, context, &bucket)?;
        one(site, context, &bucket, request.target).await
    })
}

/// Deletes many; one answer each, in order.
pub(crate) fn delete_many<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    bucket: &'a str,
    targets: Vec<DeleteTarget>,
) -> BoxFuture<'a, Outcome<Vec<Outcome<DeleteOutcome>>>> {
    Box::pin(async move {
        let bucket = site.allowed(context, bucket, Action::Write).await?;
        scope::check(site, context, &bucket)?;
        // All are written first, then all are brought to their scope within the time of one: else sites that are cut off would be
        // waited for once for each batch, and its client would have given up after the first.
        let deletes = targets.into_iter().map(|target| apply(site, context, &bucket, target));
        let applied: Vec<Outcome<Applied>> = futures::stream::iter(deletes).buffered(AT_ONCE).collect().await;
        let until = scope::until(site);
        let reached =
            applied.into_iter().map(|applied| async { reach(site, context, &bucket, applied?, until).await });
        let mut outcomes: Vec<Outcome<DeleteOutcome>> =
            futures::stream::iter(reached).buffered(AT_ONCE).collect().await;
        let receipt = of_all(outcomes.iter().flatten().map(|outcome| &outcome.receipt));
        for outcome in outcomes.iter_mut().flatten() {
            outcome.receipt = receipt.clone();
        }
        Ok(outcomes)
    })
}

/// What holds for all of these: a scope that all of them reached, and the token of the last write where one origin made
/// them all. A batch has one answer, and may not promise for one delete what another reached.
fn of_all<'a>(receipts: impl Iterator<Item = &'a Receipt> + Clone) -> Receipt {
    let mut scopes = receipts.clone().filter_map(|receipt| receipt.scope.as_ref());
    let scope = scopes.next().filter(|first| scopes.all(|scope| scope == *first)).cloned();
    let tokens = receipts.filter_map(|receipt| write::parse_token(receipt.token.as_deref()?));
    let last = tokens.map(Some).reduce(|one, other| {
        let ((bucket, dot), (_, late)) = (one?, other?);
        (dot.origin == late.origin).then_some((bucket, dot.max(late)))
    });
    let token = last.flatten().map(|(bucket, dot)| write::token(bucket, dot));
    Receipt { scope, token, lost: None }
}

async fn one(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &Bucket,
    target: DeleteTarget,
) -> Outcome<DeleteOutcome> {
    let applied = apply(site, context, bucket, target).await?;
    reach(site, context, bucket, applied, scope::until(site)).await
}

/// A delete that is written here.
struct Applied {
    version: Option<VersionId>,
    erases_marker: bool,
    /// Whether what is here was the site's when it was looked at.
    is_sites: bool,
    written: Written,
}

async fn apply(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &Bucket,
    target: DeleteTarget,
) -> Outcome<Applied> {
    let version = target.version.as_ref().map(shape::parse_version).transpose()?;
    let asked = Asked {
        bucket: bucket.clone(),
        key: target.key,
        condition: target.condition,
        ask: version.map_or(Ask::Delete, Ask::Erase),
        writer: context.principal.access_key.clone(),
        scope: Scope::Site,
        small: None,
        pins: Vec::new(),
        with: Vec::new(),
        upload: None,
    };
    let is_sites = site.reads_for_site(bucket.id);
    write::acquainted(site, &asked).await?;
    // Looked at behind that: what does not lie here was heard of by then.
    let erases_marker = match version {
        Some(version) => marker(site, bucket, &asked.key, version).await?,
        None => false,
    };
    let written = write::known(site, asked, Vec::new()).await?;
    Ok(Applied { version: target.version, erases_marker, is_sites, written })
}

/// Brings it to the scope that is wanted.
async fn reach(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &Bucket,
    applied: Applied,
    until: Instant,
) -> Outcome<DeleteOutcome> {
    let receipt = match &applied.written {
        Written::Nothing if site.nodes.are_several() => within::nothing(context, applied.is_sites)?,
        written => scope::reach_by(site, context, bucket, written, until).await?,
    };
    Ok(outcome(bucket, applied.version, applied.erases_marker, &applied.written, receipt))
}

async fn marker(site: &Arc<Site>, bucket: &Bucket, key: &str, version: Named) -> Outcome<bool> {
    let (id, key) = (bucket.id, key.to_owned());
    let read = move |view: &dyn skerry_base::kv::View| {
        let found = space::version(view, id, &key, version).map_err(unreadable)?;
        Ok(found.is_some_and(|record| record.is_delete()))
    };
    site.read(read).await
}

fn outcome(
    bucket: &Bucket,
    version: Option<VersionId>,
    erases_marker: bool,
    written: &Written,
    receipt: Receipt,
) -> DeleteOutcome {
    if version.is_some() {
        return DeleteOutcome { delete_marker: erases_marker, version, receipt };
    }
    match written {
        Written::Record(record) if bucket.versioning != Versioning::Off => {
            let delete_marker = matches!(record.statement, Statement::Delete);
            DeleteOutcome { delete_marker, version: Some(shape::version_id(record)), receipt }
        }
        _ => DeleteOutcome { receipt, ..DeleteOutcome::default() },
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{BucketId, Dot, NodeId, Origin};

    use super::*;

    fn receipt(scope: &str, node: u8, seq: u64) -> Receipt {
        let origin = Origin { node: NodeId([node; 16]), ..Origin::default() };
        let token = write::token(BucketId::default(), Dot { origin, seq });
        Receipt { scope: Some(scope.into()), token: Some(token), lost: None }
    }

    #[test]
    fn a_batch_claims_what_all_of_it_reached_and_its_token_is_of_the_last_write() {
        let all = [receipt("site", 1, 7), receipt("site", 1, 12), Receipt::default(), receipt("site", 1, 9)];
        assert_eq!(of_all(all.iter()), receipt("site", 1, 12));
        let mixed = [receipt("node", 1, 1), receipt("site", 1, 2)];
        assert_eq!(of_all(mixed.iter()), Receipt { scope: None, ..receipt("", 1, 2) });
        // Neither of two origins says anything of the other's writes.
        let two = [receipt("site", 1, 1), receipt("site", 2, 2)];
        assert_eq!(of_all(two.iter()), Receipt { token: None, ..receipt("site", 1, 1) });
        assert_eq!(of_all([].iter()), Receipt::default());
    }
}
