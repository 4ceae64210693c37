//! The face without a socket: what its settings change.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "the client of the suite signs with the machine's time")]

use std::time::{SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt;
use skerry_base::WallTime;

use super::*;
use crate::conformance::{Client, Credentials};
use crate::http::body::full;
use crate::memory::Memory;

fn now() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

fn settings() -> Settings {
    Settings {
        domains: vec!["island.test".into()],
        region: None,
        clock_rule: ClockRule::Island,
        clock: Arc::new(|| ClockReading { now: now(), trusted: true }),
        host_id: "site-1".into(),
        documents: Documents::new(32 << 20),
    }
}

fn front(settings: Settings) -> Front {
    Front::new(Memory::new("KEY", "secret", now).services(), settings)
}

/// Signs for a host and asks; answers status and body.
async fn ask(
    front: &Front,
    host: &str,
    method: &'static str,
    target: &str,
    headers: &[(&'static str, &str)],
    body: &str,
) -> (u16, String) {
    let response = answer(front, host, (method, target), headers, body).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// The same with its headers.
async fn answer(
    front: &Front,
    host: &str,
    (method, target): (&'static str, &str),
    headers: &[(&'static str, &str)],
    body: &str,
) -> Response<Outflow> {
    let credentials = Credentials { access_key: "KEY".into(), secret: "secret".into() };
    let length = body.len().to_string();
    let headers = [&[("content-length", length.as_str())], headers].concat();
    let head = Client::new(&format!("http://{host}"), credentials).head(method, target, &headers);
    let mut request = Request::builder().method(method).uri(target);
    for line in head.lines().skip(1).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    front.answer(request.body(full(body.to_owned())).unwrap(), "ID").await
}

async fn head(front: &Front, target: &str) -> Response<Outflow> {
    answer(front, "h", ("HEAD", target), &[], "").await
}

#[tokio::test]
async fn a_region_is_any_unless_configured() {
    for (region, status) in [(None, 200), (Some("island-1"), 200), (Some("island-2"), 400)] {
        let front = front(Settings { region: region.map(Into::into), ..settings() });
        let (found, body) = ask(&front, "h", "GET", "/", &[], "").await;
        assert_eq!(found, status, "{body}");
        assert_eq!(body.contains("<Code>AuthorizationHeaderMalformed</Code>"), status == 400);
        // By that the clients of S3 find out what to sign for.
        assert_eq!(body.contains("<Region>island-2</Region>"), status == 400, "{body}");
    }
}

/// Whoever follows what is told of a bucket's region is let in.
#[tokio::test]
async fn the_region_that_may_sign_is_told_of_every_bucket() {
    for (region, told) in [(Some("island-1"), "island-1"), (None, "eu-north-1")] {
        let front = front(Settings { region: region.map(Into::into), ..settings() });
        let location = "<CreateBucketConfiguration><LocationConstraint>eu-north-1</LocationConstraint>\
                        </CreateBucketConfiguration>";
        assert_eq!(ask(&front, "h", "PUT", "/abc", &[], location).await.0, 200);
        let (_, list) = ask(&front, "h", "GET", "/", &[], "").await;
        assert!(list.contains(&format!("<BucketRegion>{told}</BucketRegion>")), "{list}");
        for (wanted, found) in [(told, true), ("elsewhere", false)] {
            let (_, list) = ask(&front, "h", "GET", &format!("/?bucket-region={wanted}"), &[], "").await;
            assert_eq!(list.contains("<Name>abc</Name>"), found, "{list}");
        }
        let (_, location) = ask(&front, "h", "GET", "/abc?location", &[], "").await;
        assert!(location.contains(told), "{location}");
        let head = head(&front, "/abc").await;
        assert_eq!(head.headers()["x-amz-bucket-region"], told);
    }
    // The oldest region is told by saying nothing.
    let front = front(settings());
    assert_eq!(ask(&front, "h", "PUT", "/abc", &[], "").await.0, 200);
    let (_, location) = ask(&front, "h", "GET", "/abc?location", &[], "").await;
    assert!(!location.contains("us-east-1"), "{location}");
    assert_eq!(head(&front, "/abc").await.headers()["x-amz-bucket-region"], "us-east-1");
}

#[tokio::test]
async fn an_island_with_a_wrong_clock_still_serves() {
    let wrong = |trusted| Settings {
        clock: Arc::new(move || ClockReading { now: WallTime(86_400_000), trusted }),
        ..settings()
    };
    let status = async |settings: Settings| ask(&front(settings), "h", "GET", "/", &[], "").await.0;
    assert_eq!(status(wrong(false)).await, 200);
    assert_eq!(status(wrong(true)).await, 403);
    assert_eq!(status(Settings { clock_rule: ClockRule::Strict, ..wrong(false) }).await, 403);
}

#[tokio::test]
async fn a_bucket_may_stand_in_the_host_name() {
    let front = front(settings());
    assert_eq!(ask(&front, "abc.island.test:80", "PUT", "/", &[], "").await.0, 200);
    let ours = "/_skerry/health/live";
    assert_eq!(ask(&front, "abc.island.test", "PUT", ours, &[], "an ordinary key").await.0, 200);
    assert_eq!(ask(&front, "abc.island.test", "GET", ours, &[], "").await.1, "an ordinary key");
    assert_eq!(
        ask(&front, "island.test", "GET", "/abc/_skerry/health/live", &[], "").await.1,
        "an ordinary key"
    );
    assert!(front.address("island.test", ours).unwrap().is_admin());
}

#[tokio::test]
async fn what_we_add_to_s3_is_checked_too() {
    let front = front(settings());
    let status = async |headers: &[(&'static str, &str)]| ask(&front, "h", "GET", "/", headers, "").await.0;
    assert_eq!(status(&[("x-skerry-read", "latest")]).await, 200);
    assert_eq!(status(&[("x-skerry-token", "t")]).await, 200);
    assert_eq!(status(&[("x-skerry-read", "sometimes")]).await, 400);
    assert_eq!(status(&[("x-skerry-colour", "blue")]).await, 501);
}

#[test]
fn every_kind_of_refusal_has_a_code_of_its_own_and_a_status_that_tells_to_retry_or_not() {
    let mut codes: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), ErrorKind::ALL.len());
    // Clients repeat these by themselves.
    let repeated = ErrorKind::ALL.iter().filter(|kind| matches!(kind.status(), 500 | 502..=504));
    let repeated: Vec<_> = repeated.collect();
    assert_eq!(repeated, [&ErrorKind::SlowDown, &ErrorKind::Unavailable, &ErrorKind::Internal]);
}

/// A copy that takes longer than clients are patient.
#[tokio::test(start_paused = true)]
async fn a_long_copy_is_kept_alive_and_says_in_its_document_how_it_went() {
    let long = std::time::Duration::from_secs(100);
    let text = async |outcome: fn() -> Outcome<Reply>| {
        let work = async move {
            tokio::time::sleep(long).await;
            outcome()
        };
        let reply = front(settings()).patiently(work, "/abc/key", "ID").await.unwrap();
        let response = reply.finish("ID", "site-1");
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("content-length"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    };
    let good = || Reply::xml(&s3s::dto::CopyObjectResult::default());
    let body = text(good).await;
    assert!(body.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n     "), "{body}");
    assert_eq!(body.matches("<?xml").count(), 1, "{body}");
    assert!(body.contains("<CopyObjectResult"), "{body}");
    let bad = || Err(ServiceError::new(ErrorKind::StorageFull, "the disk is full"));
    let body = text(bad).await;
    assert!(body.trim_end().ends_with("</Error>") && body.matches("<?xml").count() == 1, "{body}");
    assert!(body.contains("<Message>the disk is full</Message>") && body.contains("/abc/key"), "{body}");
}

/// One that does not is answered by its own status.
#[tokio::test(start_paused = true)]
async fn a_short_copy_is_answered_by_its_own_status() {
    let work = async { Err(ServiceError::no_such_key("key")) };
    let refused = front(settings()).patiently(work, "/abc/key", "ID").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSuchKey);
}
