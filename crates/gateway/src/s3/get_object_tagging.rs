//! GetObjectTagging.
//!
//! Why carried out though no object has tags: clients ask for them before they copy, and "none" is the truth.

use s3s::dto;

use super::Call;
use super::get_object::about;
use super::reply::Reply;
use crate::service::{Outcome, Services};

/// The empty set, of an object that exists.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let head = services.objects.head(&call.context, about(&call)?).await?;
    let output = dto::GetObjectTaggingOutput { tag_set: Vec::new(), version_id: None };
    Ok(Reply::xml(&output)?.with_version(head.info.version.as_ref()))
}
