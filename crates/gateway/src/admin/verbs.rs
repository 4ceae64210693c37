//! `/_skerry/v1/…`: one verb of [`AdminService`] each.

#[cfg(test)]
use hyper::Method;
use hyper::{Request, Response, StatusCode};
use serde::Serialize;

use super::json::{self, Failure};
use crate::http::body::{Inflow, Outflow};
use crate::s3::uri::Query;
use crate::service::{
    AdminService, ConflictKey, ConflictQuery, ErrorKind, FollowRequest, JoinRequest, LeaveRequest, LossQuery,
    Outcome, ServiceError, SpaceQuery,
};

/// Carries out the verb at a path below `/_skerry/v1/`.
pub(super) async fn run(
    service: &dyn AdminService,
    verb: &str,
    query: &Query,
    request: Request<Inflow>,
) -> Result<Response<Outflow>, Failure> {
    let method = request.method().clone();
    let segments: Vec<&str> = verb.split('/').collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["status"]) => ok(service.status().await),
        ("GET", ["sites"]) => ok(service.sites().await),
        ("GET", ["sites", name]) => ok(service.site(name).await),
        ("POST", ["sites", name, "duty"]) => ok(service.set_duty(name, json::request(request).await?).await),
        ("POST", ["sites", name, "name"]) => {
            ok(service.rename_site(name, json::request(request).await?).await)
        }
        ("POST", ["sites", name, "address"]) => {
            ok(service.set_address(name, json::request(request).await?).await)
        }
        ("POST", ["sites", name, "area"]) => ok(service.set_area(name, json::request(request).await?).await),
        ("POST", ["sites", name, "expel"]) => ok(service.expel(name, json::request(request).await?).await),
        ("POST", ["sites", name, "replace"]) => {
            ok(service.replace(name, json::request(request).await?).await)
        }
        ("GET", ["areas"]) => ok(service.areas().await),
        ("GET", ["space"]) => ok(service.space(space_query(query)?).await),
        ("GET", ["scrub"]) => ok(service.scrub().await),
        ("POST", ["scrub"]) => ok(service.set_scrub(json::request(request).await?).await),
        ("POST", ["link"]) => ok(service.set_link(json::request(request).await?).await),
        ("GET", ["link", "budget"]) => ok(service.uplink().await),
        ("POST", ["link", "budget"]) => ok(service.set_uplink(json::request(request).await?).await),
        ("GET", ["conflicts"]) => ok(service.conflicts(conflict_query(query)?).await),
        ("GET", ["conflict"]) => ok(service.conflict(conflict_key(query)?).await),
        ("POST", ["conflict"]) => ok(service.end_conflict(json::request(request).await?).await),
        ("GET", ["sites", name, "lost"]) => ok(service.loss(name).await),
        ("POST", ["sites", name, "lost"]) => {
            ok(service.declare_loss(name, json::request(request).await?).await)
        }
        ("GET", ["sites", name, "only"]) => ok(service.only_at(name, loss_query(query)?).await),
        ("POST", ["invites"]) => created(service.invite(json::request(request).await?).await),
        ("GET", ["keys"]) => ok(service.keys().await),
        ("POST", ["keys"]) => created(service.create_key(json::request(request).await?).await),
        ("POST", ["keys", id, "disable"]) => ok(service.disable_key(id).await),
        ("GET", ["buckets"]) => ok(service.buckets().await),
        ("POST", ["buckets"]) => created(service.create_bucket(json::request(request).await?).await),
        ("GET", ["buckets", name]) => ok(service.bucket(name).await),
        ("POST", ["buckets", name, "home"]) => {
            ok(service.move_home(name, json::request(request).await?).await)
        }
        ("POST", ["buckets", name, "join"]) => join(service, name, json::request(request).await?).await,
        ("POST", ["buckets", name, "leave"]) => leave(service, name, json::request(request).await?).await,
        ("GET", ["buckets", name, "leave"]) => ok(service.membership(name).await),
        ("GET", ["pins"]) => ok(service.pins().await),
        ("POST", ["pins"]) => ok(service.set_pin(json::request(request).await?).await),
        ("POST", ["register"]) => ok(service.move_register(json::request(request).await?).await),
        ("PATCH", ["buckets", name]) => ok(service.update_bucket(name, json::request(request).await?).await),
        (_, path) => Err(match allowed(path) {
            Some(allowed) => Failure::method(&method, allowed),
            None => Failure::path(&format!("/v1/{verb}")),
        }),
    }
}

/// The methods that a path takes; none where there is nothing.
fn allowed(path: &[&str]) -> Option<&'static str> {
    Some(match path {
        ["status" | "areas" | "space" | "conflicts" | "sites"] | ["sites", _] | ["sites", _, "only"] => "GET",
        ["link" | "invites" | "register"]
        | ["sites", _, "duty" | "name" | "address" | "area" | "expel" | "replace"]
        | ["keys", _, "disable"]
        | ["buckets", _, "home" | "join"] => "POST",
        ["scrub" | "conflict" | "keys" | "buckets" | "pins"]
        | ["link", "budget"]
        | ["sites", _, "lost"]
        | ["buckets", _, "leave"] => "GET, POST",
        ["buckets", _] => "GET, PATCH",
        _ => return None,
    })
}

/// The whole bucket, or what lies below a prefix.
async fn join(
    service: &dyn AdminService,
    name: &str,
    request: JoinRequest,
) -> Result<Response<Outflow>, Failure> {
    let JoinRequest { when, prefix, writes } = request;
    match (prefix, when, writes) {
        (Some(prefix), None, writes) => {
            ok(service.follow_prefix(name, FollowRequest { prefix, writes, ends: false }).await)
        }
        (None, when, None) => {
            ok(service.join_bucket(name, JoinRequest { when, ..JoinRequest::default() }).await)
        }
        _ => {
            let what = "prefix goes without when, and writes only with prefix";
            Err(ServiceError::new(ErrorKind::InvalidArgument, what).into())
        }
    }
}

async fn leave(
    service: &dyn AdminService,
    name: &str,
    request: LeaveRequest,
) -> Result<Response<Outflow>, Failure> {
    match request.prefix {
        None => ok(service.leave_bucket(name).await),
        Some(prefix) => {
            ok(service.follow_prefix(name, FollowRequest { prefix, writes: None, ends: true }).await)
        }
    }
}

fn ok(outcome: Outcome<impl Serialize>) -> Result<Response<Outflow>, Failure> {
    json::response(StatusCode::OK, &outcome?)
}

fn created(outcome: Outcome<impl Serialize>) -> Result<Response<Outflow>, Failure> {
    json::response(StatusCode::CREATED, &outcome?)
}

fn space_query(query: &Query) -> Result<SpaceQuery, Failure> {
    let refused = |what: &str| Failure::from(ServiceError::new(ErrorKind::InvalidArgument, what));
    if query.names().any(|name| name != "scan") {
        return Err(refused("space takes scan and nothing else"));
    }
    match query.text("scan").as_deref() {
        None | Some("false") => Ok(SpaceQuery { scan: false }),
        Some("true") => Ok(SpaceQuery { scan: true }),
        Some(_) => Err(refused("scan is true or false")),
    }
}

fn conflict_key(query: &Query) -> Result<ConflictKey, Failure> {
    let known = query.names().all(|name| matches!(name, "bucket" | "key" | "unseen"));
    match (query.text("bucket"), query.text("key")) {
        (Some(bucket), Some(key)) if known => Ok(ConflictKey { bucket, key, unseen: unseen(query)? }),
        _ => {
            let takes = "conflict takes bucket, key and unseen";
            Err(ServiceError::new(ErrorKind::InvalidArgument, takes).into())
        }
    }
}

fn unseen(query: &Query) -> Result<bool, Failure> {
    match query.text("unseen").as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(ServiceError::new(ErrorKind::InvalidArgument, "unseen is true or false").into()),
    }
}

fn conflict_query(query: &Query) -> Result<ConflictQuery, Failure> {
    let refused = |what: String| Failure::from(ServiceError::new(ErrorKind::InvalidArgument, what));
    if let Some(name) = query.names().find(|name| !matches!(*name, "bucket" | "after" | "limit" | "unseen")) {
        return Err(refused(format!("conflicts take bucket, after, limit and unseen, not {name}")));
    }
    let limit = match query.text("limit").map(|text| text.parse::<usize>()) {
        None => None,
        Some(Ok(limit)) if (1..=1000).contains(&limit) => Some(limit),
        Some(_) => return Err(refused("limit is a number from 1 to 1000".into())),
    };
    let (bucket, after) = (query.text("bucket"), query.text("after"));
    Ok(ConflictQuery { bucket, after, limit, unseen: unseen(query)? })
}

fn loss_query(query: &Query) -> Result<LossQuery, Failure> {
    let refused = |what: String| Failure::from(ServiceError::new(ErrorKind::InvalidArgument, what));
    if let Some(name) = query.names().find(|name| !matches!(*name, "after" | "limit")) {
        return Err(refused(format!("this takes after and limit, not {name}")));
    }
    let limit = match query.text("limit").map(|text| text.parse::<usize>()) {
        None => None,
        Some(Ok(limit)) if (1..=1000).contains(&limit) => Some(limit),
        Some(_) => return Err(refused("limit is a number from 1 to 1000".into())),
    };
    Ok(LossQuery { after: query.text("after"), limit })
}

/// The method that each path takes, for tests and documents.
#[cfg(test)]
pub(super) const VERBS: &[(Method, &str)] = &[
    (Method::GET, "status"),
    (Method::GET, "sites"),
    (Method::GET, "sites/abc"),
    (Method::POST, "sites/abc/duty"),
    (Method::POST, "sites/abc/name"),
    (Method::POST, "sites/abc/address"),
    (Method::POST, "sites/abc/area"),
    (Method::POST, "sites/abc/expel"),
    (Method::POST, "sites/abc/replace"),
    (Method::GET, "areas"),
    (Method::GET, "space"),
    (Method::GET, "scrub"),
    (Method::POST, "scrub"),
    (Method::POST, "link"),
    (Method::GET, "link/budget"),
    (Method::POST, "link/budget"),
    (Method::GET, "conflicts"),
    (Method::GET, "conflict"),
    (Method::POST, "conflict"),
    (Method::POST, "invites"),
    (Method::GET, "keys"),
    (Method::POST, "keys"),
    (Method::POST, "keys/x/disable"),
    (Method::GET, "sites/x/lost"),
    (Method::POST, "sites/x/lost"),
    (Method::GET, "sites/x/only"),
    (Method::GET, "buckets"),
    (Method::POST, "buckets"),
    (Method::GET, "buckets/abc"),
    (Method::POST, "buckets/abc/home"),
    (Method::POST, "buckets/abc/join"),
    (Method::POST, "buckets/abc/leave"),
    (Method::GET, "buckets/abc/leave"),
    (Method::GET, "pins"),
    (Method::POST, "pins"),
    (Method::POST, "register"),
    (Method::PATCH, "buckets/abc"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_a_refused_method_is_told_is_what_is_taken() {
        for (_, path) in VERBS {
            let taken = VERBS.iter().filter(|(_, other)| other == path).map(|(method, _)| method.as_str());
            let taken = taken.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
            assert_eq!(allowed(&path.split('/').collect::<Vec<_>>()), Some(taken.as_str()), "{path}");
        }
        assert_eq!(allowed(&["buckets", "x", "y"]), None);
    }
}
