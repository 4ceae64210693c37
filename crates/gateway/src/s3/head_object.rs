//! HeadObject.

use super::Call;
use super::get_object::{reply, request};
use super::reply::Reply;
use crate::service::{Outcome, Services};

/// What GetObject would answer, without the bytes.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let head = services.objects.head(&call.context, request(&call)?).await?;
    Ok(reply(&call, &head.info, &head.selection))
}
