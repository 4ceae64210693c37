//! The gateway's bucket service: claims in the system bucket, decided here without asking anybody.

use std::sync::Arc;

use async_trait::async_trait;
use skerry_base::kv::View;
use skerry_gateway::service::{
    BucketInfo, BucketService, CreateBucket, CreatedBucket, ErrorKind, Outcome, ReadMode, Receipt,
    RequestContext, ServiceError, Versioning,
};
use skerry_model::bucket::{self as model, BucketConfig, Claimed, Named, NewBucket};
use skerry_model::policy::Action;

use super::bucket::{Bucket, Declared, refused_claim};
use super::shape;
use crate::site::{Site, unreadable};

/// Buckets of a site.
pub(crate) struct Buckets(pub(crate) Arc<Site>);

/// What a write to the system bucket answers.
fn receipt() -> Receipt {
    Receipt { scope: Some("site".into()), token: None }
}

fn info(bucket: Bucket) -> BucketInfo {
    BucketInfo { name: bucket.name, created: bucket.created, owner: bucket.owner }
}

/// Makes a bucket for an owner.
pub(crate) async fn create(site: &Arc<Site>, writer: &str, owner: &str, name: &str) -> Outcome<()> {
    let sites = site.peers.roster.all();
    let own = sites.get(&site.id).map_or_else(|| site.name.clone(), |known| known.name.clone());
    let is_site = |name: &str| sites.values().any(|known| known.name == name);
    let reserved = model::reserved_for(name, is_site);
    let own_name = reserved == Some(own.as_str());
    if let Some(reserved) = reserved.filter(|reserved| *reserved != own) {
        let message =
            format!("names with {reserved} and two hyphens can only be claimed at the site {reserved}");
        return Err(ServiceError::new(ErrorKind::InvalidBucketName, message));
    }
    let (id, system) = (site.id, site.system);
    let (wanted, owner, named) = (name.to_owned(), owner.to_owned(), name.to_owned());
    let decide = move |view: &dyn View, wall| {
        let config = BucketConfig::default();
        let new = NewBucket { name: &wanted, owner: &owner, site: id, site_name: &own, config };
        let claimed = model::claim(view, system, new, wall).map_err(|error| refused_claim(error, &wanted))?;
        // Nobody else may claim a name of this site's own, and nobody else names homes if this is the register.
        let first = own_name || model::keeps_register(view, system, id).is_ok();
        let known = model::home(view, system, claimed.bucket).map_err(unreadable)?.is_some();
        let home = (first && !known).then(|| Named::first(claimed.bucket, id, false, wall));
        Ok((claimed.bucket, Some(Declared::claim(claimed, true).with(home))))
    };
    let bucket = site.declare(writer, decide).await?;
    site.joined(bucket, true);
    tracing::info!(bucket = named, %bucket, "bucket created");
    Ok(())
}

/// Changes the claim of a bucket.
pub(crate) async fn change(
    site: &Arc<Site>,
    writer: &str,
    bucket: &Bucket,
    change: impl FnOnce(&mut BucketConfig) -> Outcome<()> + Send + 'static,
) -> Outcome<()> {
    let (system, name) = (site.system, bucket.name.clone());
    let decide = move |view: &dyn View, wall| {
        let found = model::resolve(view, system, &name).map_err(unreadable)?;
        let mut claim = found.ok_or_else(|| ServiceError::no_such_bucket(&name))?.claim;
        change(&mut claim.config)?;
        Ok(((), Some(Declared::claim(Claimed::new(&claim, wall), false))))
    };
    site.declare(writer, decide).await
}

#[async_trait]
impl BucketService for Buckets {
    async fn list(&self, context: &RequestContext) -> Outcome<Vec<BucketInfo>> {
        self.0.may(context, Action::ListBuckets, None).await?;
        let (system, owner) = (self.0.system, context.principal.owner.clone());
        let read = move |view: &dyn View| model::list_buckets(view, system, Some(&owner)).map_err(unreadable);
        let found = self.0.read(read).await?;
        Ok(found.into_iter().map(Bucket::of).map(info).collect())
    }

    async fn create(&self, context: &RequestContext, request: CreateBucket) -> Outcome<CreatedBucket> {
        self.0.may(context, Action::CreateBucket, None).await?;
        let principal = &context.principal;
        create(&self.0, &principal.access_key, &principal.owner, &request.name).await?;
        Ok(CreatedBucket { name: request.name, receipt: receipt() })
    }

    async fn head(&self, context: &RequestContext, bucket: &str) -> Outcome<BucketInfo> {
        self.0.allowed(context, bucket, Action::Read).await.map(info)
    }

    async fn delete(&self, context: &RequestContext, bucket: &str) -> Outcome<Receipt> {
        let bucket = self.0.allowed(context, bucket, Action::ManageBucket).await?;
        let (system, name) = (self.0.system, bucket.name.clone());
        if !self.0.is_complete(bucket.id) {
            not_empty_elsewhere(&self.0, &bucket).await?;
        }
        let decide = move |view: &dyn View, wall| {
            let found = model::resolve(view, system, &name).map_err(unreadable)?;
            let claim = found.ok_or_else(|| ServiceError::no_such_bucket(&name))?.claim;
            let claimed = model::unclaim(view, &claim, wall).map_err(|error| refused_claim(error, &name))?;
            Ok(((), Some(Declared::claim(claimed, false))))
        };
        self.0.declare(&context.principal.access_key, decide).await?;
        Ok(receipt())
    }

    async fn location(&self, context: &RequestContext, bucket: &str) -> Outcome<Option<String>> {
        self.0.allowed(context, bucket, Action::Read).await?;
        Ok(None)
    }

    async fn versioning(&self, context: &RequestContext, bucket: &str) -> Outcome<Versioning> {
        let bucket = self.0.allowed(context, bucket, Action::Read).await?;
        Ok(shape::shown_versioning(bucket.versioning))
    }

    async fn set_versioning(
        &self,
        context: &RequestContext,
        bucket: &str,
        versioning: Versioning,
    ) -> Outcome<Receipt> {
        let bucket = self.0.allowed(context, bucket, Action::ManageBucket).await?;
        let wanted = shape::stored_versioning(versioning);
        let set = move |config: &mut BucketConfig| {
            config.versioning = wanted;
            Ok(())
        };
        change(&self.0, &context.principal.access_key, &bucket, set).await?;
        Ok(receipt())
    }
}

/// Whoever deletes a bucket that is not kept here must hear from a member that it is empty.
async fn not_empty_elsewhere(site: &Arc<Site>, bucket: &Bucket) -> Outcome<()> {
    let query = skerry_gateway::service::ListQuery {
        bucket: bucket.name.clone(),
        limit: 1,
        ..skerry_gateway::service::ListQuery::default()
    };
    let page = super::list::objects(site, bucket, query, &ReadMode::Local).await?;
    if page.entries.is_empty() {
        return Ok(());
    }
    Err(refused_claim(skerry_model::bucket::ClaimRefusal::NotEmpty, &bucket.name))
}
