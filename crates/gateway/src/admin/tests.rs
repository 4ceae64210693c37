//! Administration over the double.

#![expect(clippy::unwrap_used, reason = "tests")]

use http_body_util::BodyExt;
use serde_json::{Value, json};
use skerry_base::WallTime;

use super::verbs::VERBS;
use super::*;
use crate::http::body::full;
use crate::memory::Memory;

fn administration() -> Administration {
    let memory = Memory::new("KEY", "secret", || WallTime(1000));
    Administration::new(memory.services().admin, SharedRegistry::default(), "the token")
}

fn request(method: &Method, path: &str, body: &str, token: Option<&str>) -> Request<Inflow> {
    let mut request = Request::builder().method(method).uri(format!("/_skerry/{path}"));
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(full(body.to_owned())).unwrap()
}

async fn ask(face: &Administration, method: &Method, path: &str, body: &str) -> (u16, Value) {
    let response = face.answer(request(method, path, body, Some("the token")), false).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn only_health_answers_without_the_token() {
    let face = administration();
    let mut paths: Vec<(Method, String)> =
        VERBS.iter().map(|(method, verb)| (method.clone(), format!("v1/{verb}"))).collect();
    paths.push((Method::GET, "metrics".into()));
    for (method, path) in &paths {
        for token in [None, Some(""), Some("the toke"), Some("the token and more"), Some("THE TOKEN")] {
            let response = face.answer(request(method, path, "", token), false).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method} {path} {token:?}");
        }
    }
    for path in ["health/live", "health/ready"] {
        assert_eq!(face.answer(request(&Method::GET, path, "", None), false).await.status(), StatusCode::OK);
    }
    assert_eq!(face.answer(request(&Method::GET, "metrics", "", None), true).await.status(), StatusCode::OK);
    // Behind a proxy on the same machine everybody comes from loopback.
    let added =
        ["forwarded", "x-forwarded-for", "x-forwarded-port", "x-forwarded-prefix", "x-real-ip", "via"];
    for header in added {
        let mut asked = request(&Method::GET, "metrics", "", None);
        asked.headers_mut().insert(header, HeaderValue::from_static("203.0.113.7"));
        assert_eq!(face.answer(asked, true).await.status(), StatusCode::UNAUTHORIZED, "{header}");
        let mut asked = request(&Method::GET, "metrics", "", Some("the token"));
        asked.headers_mut().insert(header, HeaderValue::from_static("203.0.113.7"));
        assert_eq!(face.answer(asked, true).await.status(), StatusCode::OK, "{header}");
    }
    // A page in a browser on this machine, under a name that was made to lead here.
    let hosts = [
        ("evil.test:7600", 401),
        ("127.0.0.1:7600", 200),
        ("[::1]:7600", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1.evil.test", 401),
    ];
    for (host, status) in hosts {
        let mut asked = request(&Method::GET, "metrics", "", None);
        asked.headers_mut().insert("host", HeaderValue::from_static(host));
        assert_eq!(face.answer(asked, true).await.status().as_u16(), status, "{host}");
    }
    let verb = face.answer(request(&Method::GET, "v1/status", "", None), true).await;
    assert_eq!(verb.status(), StatusCode::UNAUTHORIZED, "loopback is no token for verbs");
}

/// Of a file that says nothing, whoever wrote it.
#[tokio::test]
async fn an_empty_token_opens_to_nobody() {
    let memory = Memory::new("KEY", "secret", || WallTime(1000));
    let face = Administration::new(memory.services().admin, SharedRegistry::default(), "");
    for token in [None, Some(""), Some(" "), Some("x")] {
        let response = face.answer(request(&Method::GET, "v1/status", "", token), false).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{token:?}");
    }
}

#[tokio::test]
async fn verbs_carry_a_version_and_do_what_they_say() {
    let face = administration();
    let (get, post, patch) = (Method::GET, Method::POST, Method::PATCH);
    let (status, report) = ask(&face, &get, "v1/status", "").await;
    assert_eq!((status, &report["version"], &report["cut"]), (200, &json!(1), &json!(false)));
    let (_, sites) = ask(&face, &get, "v1/sites", "").await;
    assert_eq!((&sites["version"], &sites["sites"][0]["name"]), (&json!(1), &json!("memory")));
    assert_eq!(ask(&face, &get, "v1/sites/memory", "").await.1["link"], json!("this"));
    let (_, link) = ask(&face, &post, "v1/link", r#"{"cut":true}"#).await;
    assert_eq!(link, json!({"version": 1, "cut": true}));
    assert_eq!(ask(&face, &post, "v1/scrub", r#"{"pause":true}"#).await.1["paused"], json!(true));
    assert_eq!(ask(&face, &get, "v1/scrub", "").await.1["paused"], json!(true));
    let (_, space) = ask(&face, &get, "v1/space?scan=true", "").await;
    assert_eq!((&space["version"], &space["rows"]), (&json!(1), &json!([])));
    let (status, key) = ask(&face, &post, "v1/keys", r#"{"name":"backup"}"#).await;
    assert_eq!((status, &key["version"], &key["name"]), (201, &json!(1), &json!("backup")));
    let disable = format!("v1/keys/{}/disable", key["id"].as_str().unwrap());
    assert_eq!(ask(&face, &post, &disable, "").await.1["enabled"], json!(false));
    let (_, keys) = ask(&face, &get, "v1/keys", "").await;
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
    assert!(!keys.to_string().contains("secret"), "secrets are shown once: {keys}");
    assert_eq!(ask(&face, &post, "v1/buckets", r#"{"name":"abc"}"#).await.0, 201);
    let (_, bucket) = ask(&face, &patch, "v1/buckets/abc", r#"{"versioning":"enabled"}"#).await;
    assert_eq!((&bucket["versioning"], &bucket["version"]), (&json!("enabled"), &json!(1)));
    assert_eq!(ask(&face, &get, "v1/buckets/abc", "").await.1["name"], json!("abc"));
    let (_, invite) = ask(&face, &post, "v1/invites", r#"{"site":"site-4"}"#).await;
    assert_eq!(invite["expires_ms"], json!(1000 + 24 * 3_600_000));
    let (_, page) = ask(&face, &get, "v1/conflicts?bucket=abc&limit=5", "").await;
    assert_eq!(page, json!({"version": 1, "conflicts": [], "next": null, "names": []}));
    assert_eq!(ask(&face, &get, "v1/conflicts?unseen=true", "").await.0, 200);
    let (_, home) = ask(&face, &post, "v1/buckets/abc/home", r#"{"site":"memory"}"#).await;
    assert_eq!((&home["bucket"], &home["epoch"]), (&json!("abc"), &json!(1)));
    let (_, register) = ask(&face, &post, "v1/register", r#"{"site":"memory"}"#).await;
    assert_eq!((&register["bucket"], &register["site"]), (&json!(""), &json!("memory")));
    let (_, loss) = ask(&face, &get, "v1/sites/memory/lost", "").await;
    assert_eq!((&loss["version"], &loss["lost"], &loss["count"]), (&json!(1), &json!(false), &json!(0)));
    let (_, only) = ask(&face, &get, "v1/sites/memory/only?limit=5", "").await;
    assert_eq!((&only["versions"], &only["next"]), (&json!([]), &json!(null)));
    let unique = r#"{"name":"one-of-a-kind","unique":true}"#;
    assert_eq!(ask(&face, &post, "v1/buckets", unique).await.0, 201);
}

#[tokio::test]
async fn refusals_are_json_and_name_themselves() {
    let face = administration();
    let (get, post) = (Method::GET, Method::POST);
    for (method, path, body, status, error) in [
        (&get, "v1/nothing", "", 404, "NotFound"),
        (&get, "v2/status", "", 404, "NotFound"),
        (&post, "v1/status", "", 405, "MethodNotAllowed"),
        (&get, "v1/sites/nowhere", "", 404, "NoSuchSite"),
        (&post, "v1/sites", "", 405, "MethodNotAllowed"),
        (&post, "v1/sites/memory/duty", r#"{"duty":"rest"}"#, 400, "InvalidArgument"),
        (&post, "v1/sites/memory/duty", r#"{"duties":"serve"}"#, 400, "InvalidArgument"),
        (&Method::DELETE, "v1/buckets/abc", "", 405, "MethodNotAllowed"),
        (&get, "v1/buckets/abc", "", 404, "NoSuchBucket"),
        (&post, "v1/link", "", 400, "InvalidArgument"),
        (&post, "v1/link", r#"{"cut":true,"site":"x"}"#, 400, "InvalidArgument"),
        (&post, "v1/link", "{", 400, "InvalidArgument"),
        (&post, "v1/keys/NOBODY/disable", "", 404, "NoSuchAccessKey"),
        (&post, "v1/scrub", r#"{"paused":true}"#, 400, "InvalidArgument"),
        (&Method::DELETE, "v1/scrub", "", 405, "MethodNotAllowed"),
        (&post, "v1/buckets", r#"{"name":"NO"}"#, 400, "InvalidBucketName"),
        (&get, "v1/conflicts?buckets=x", "", 400, "InvalidArgument"),
        (&get, "v1/space?scan=yes", "", 400, "InvalidArgument"),
        (&get, "v1/space?by=bucket", "", 400, "InvalidArgument"),
        (&get, "v1/conflicts?limit=0", "", 400, "InvalidArgument"),
        (&get, "v1/conflict?bucket=abc", "", 400, "InvalidArgument"),
        (&get, "v1/conflict?bucket=abc&key=x&y=z", "", 400, "InvalidArgument"),
        (&get, "v1/conflict?bucket=abc&key=x&unseen=perhaps", "", 400, "InvalidArgument"),
        (&get, "v1/conflicts?unseen=perhaps", "", 400, "InvalidArgument"),
        (&post, "v1/conflict", r#"{"bucket":"abc","key":"x"}"#, 404, "NoSuchConflict"),
        (&post, "v1/conflict", r#"{"bucket":"abc"}"#, 400, "InvalidArgument"),
        (&post, "v1/register", r#"{"site":"elsewhere"}"#, 404, "NoSuchSite"),
        (&post, "v1/buckets/abc/home", r#"{"site":"memory"}"#, 404, "NoSuchBucket"),
        (&get, "v1/register", "", 405, "MethodNotAllowed"),
        (&post, "v1/sites/memory/lost", r#"{"lost":true}"#, 400, "InvalidArgument"),
        (&get, "v1/sites/elsewhere/lost", "", 404, "NoSuchSite"),
        (&get, "v1/sites/memory/only?bucket=x", "", 400, "InvalidArgument"),
        (&Method::DELETE, "v1/sites/memory/lost", "", 405, "MethodNotAllowed"),
    ] {
        let (found, answer) = ask(&face, method, path, body).await;
        assert_eq!((found, &answer["error"]), (status, &json!(error)), "{method} {path}: {answer}");
        assert_eq!(answer["version"], json!(1));
        assert!(!answer["message"].as_str().unwrap().is_empty());
    }
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(70_000));
    assert_eq!(ask(&face, &post, "v1/keys", &large).await.0, 400);
}
