//! The load generator against the gateway's double over real sockets, plain and TLS.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::registry::Registry;
use skerry_base::WallTime;
use skerry_bench::engine::{Outcome, run};
use skerry_bench::plan::{Arrival, Connections, Keys, Mix, Order, Phase, Plan, Shape, SizeRange, Verify};
use skerry_bench::s3::{Addressing, S3Config, S3Target};
use skerry_bench::sample::{read_csv, write_csv};
use skerry_bench::six::{HEADER, Line, Six};
use skerry_bench::summary::Summary;
use skerry_bench::target::Operation;
use skerry_gateway::admin::Administration;
use skerry_gateway::http::{Faces, Limits, Tls, bind, serve};
use skerry_gateway::memory::Memory;
use skerry_gateway::s3::{ClockReading, ClockRule, Documents, Front, Settings};
use skerry_gateway::telemetry::Telemetry;
use skerry_scenario::workload_size::ObjectSize;

fn now() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

/// Serves a double on loopback until the runtime ends.
async fn double() -> SocketAddr {
    double_over(None).await
}

async fn double_over(tls: Option<Tls>) -> SocketAddr {
    let memory = Memory::new("KEY", "secret", now);
    let settings = Settings {
        domains: vec!["localhost".into()],
        region: None,
        clock_rule: ClockRule::Strict,
        clock: Arc::new(|| ClockReading { now: now(), trusted: true }),
        host_id: "site-1".into(),
        documents: Documents::new(32 << 20),
    };
    let mut registry = Registry::default();
    let telemetry = Telemetry::register(&mut registry);
    let registry = Arc::new(Mutex::new(registry));
    let administration = Administration::new(memory.services().admin, registry, "token");
    let front = Front::new(memory.services(), settings);
    let faces = Arc::new(Faces::new(Some(front), Some(administration), telemetry));
    let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, tls, faces, Limits::default(), std::future::pending()));
    address
}

fn config(endpoint: String) -> S3Config {
    S3Config {
        endpoints: vec![endpoint],
        access_key: "KEY".into(),
        secret_key: "secret".into(),
        region: "us-east-1".into(),
        choose: Default::default(),
        addressing: Default::default(),
        sign_payload: false,
        authorities_pem: None,
    }
}

fn plan(phases: Vec<Phase>) -> Plan {
    Plan { name: "test".into(), seed: 3, client: 0, trials: 1, begin_wall_ms: None, phases }
}

async fn outcome(config: S3Config, plan: &Plan) -> Outcome {
    run(plan, Arc::new(S3Target::new(config).unwrap()), &Arc::default(), None).await.unwrap()
}

fn of_one(operation: Operation, count: u64) -> Phase {
    let keys = Keys { count, order: Order::Sequential, folders: 2, ..Keys::default() };
    let range = |bytes, to| SizeRange {
        bytes: ObjectSize(bytes),
        to: Some(ObjectSize(to)),
        weight: 1,
        shape: Shape::Uniform,
    };
    let sizes = vec![range(0, 20), range(60_000, 200_000)];
    Phase { keys, sizes, operations: Some(count), workers: 4, ..Phase::new(operation.word(), operation) }
}

fn create() -> Phase {
    Phase { operations: Some(1), ..Phase::new("create", Operation::CreateBucket) }
}

fn assert_all_well(outcome: &Outcome) {
    for phase in &outcome.phases {
        assert!(phase.examples.is_empty(), "{}: {:?}", phase.name, phase.examples);
    }
}

#[tokio::test]
async fn what_is_written_is_read_and_each_byte_verified() {
    for sign_payload in [false, true] {
        for verify in [Verify::Bytes, Verify::Md5] {
            let config = S3Config { sign_payload, ..config(format!("http://{}", double().await)) };
            let phase = |operation| Phase { verify, ..of_one(operation, 60) };
            let list = Phase { operations: Some(1), list_all: true, ..phase(Operation::List) };
            let plan = plan(vec![
                create(),
                phase(Operation::Put),
                phase(Operation::Get),
                phase(Operation::Head),
                list,
            ]);
            let outcome = outcome(config, &plan).await;
            assert_all_well(&outcome);
            let [written, read] = [1, 2].map(|index| Summary::of(&outcome.phases[index].samples));
            assert_eq!((written.count, written.bytes), (60, read.bytes));
            assert!(written.bytes > 60 * 30_000, "{}", written.bytes);
            // Four workers, four connections, kept.
            assert_eq!(written.connects, 4);
            assert!(outcome.phases[2].samples.iter().all(|sample| sample.first_byte_ns > 0));
        }
    }
}

#[tokio::test]
async fn another_seed_finds_other_bytes() {
    let config = config(format!("http://{}", double().await));
    let sizes = vec![SizeRange { bytes: ObjectSize(1000), to: None, weight: 1, shape: Shape::Uniform }];
    let phase = |operation| Phase { sizes: sizes.clone(), ..of_one(operation, 10) };
    assert_all_well(&outcome(config.clone(), &plan(vec![create(), phase(Operation::Put)])).await);
    let other = Plan { seed: 4, ..plan(vec![phase(Operation::Get)]) };
    let read = outcome(config.clone(), &other).await;
    assert_eq!(Summary::of(&read.phases[0].samples).failure_codes.get("wrong-bytes"), Some(&10));
    // Fewer keys listed than there are is a failure, too.
    let list = Phase { operations: Some(1), list_all: true, ..of_one(Operation::List, 11) };
    let listed = outcome(config, &plan(vec![list])).await;
    assert_eq!(Summary::of(&listed.phases[0].samples).failure_codes.get("wrong-listing"), Some(&1));
}

#[tokio::test]
async fn a_mix_runs_clean_and_its_samples_survive_the_file() {
    let config = config(format!("http://{}", double().await));
    let mix = Mix { put: 3, get: 5, head: 1, list: 1, delete: 1, ..Mix::default() };
    let keys = Keys { count: 40, order: Order::Zipf, ..Keys::default() };
    let mixed = Phase { mix, keys, name: "mixed, \"all\"".into(), workers: 8, ..of_one(Operation::Get, 500) };
    let load =
        Phase { keys: Keys { order: Order::Sequential, ..mixed.keys.clone() }, ..of_one(Operation::Put, 40) };
    let outcome = outcome(config, &plan(vec![create(), load, mixed])).await;
    assert_all_well(&outcome);
    let samples = &outcome.phases[2].samples;
    assert_eq!(samples.len(), 500);
    assert_eq!(Summary::by_operation(samples).len(), 5);
    let mut file = Vec::new();
    write_csv(&mut file, samples).unwrap();
    assert_eq!(&read_csv(file.as_slice()).unwrap(), samples);
}

#[tokio::test]
async fn new_connections_are_timed_apart() {
    let config = config(format!("http://{}", double().await));
    let put = Phase { connections: Connections::New, ..of_one(Operation::Put, 20) };
    let outcome = outcome(config, &plan(vec![create(), put])).await;
    assert_all_well(&outcome);
    let summary = Summary::of(&outcome.phases[1].samples);
    assert_eq!(summary.connects, 20);
    assert!(summary.connect_mean > 0.0 && summary.connect_mean < summary.mean);
}

#[tokio::test]
async fn failures_have_their_codes() {
    let address = double().await;
    let endpoint = format!("http://{address}");
    let read = of_one(Operation::Get, 4);
    let codes = async |config: S3Config| {
        let outcome = outcome(config, &plan(vec![read.clone()])).await;
        Summary::of(&outcome.phases[0].samples).failure_codes.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(codes(config(endpoint.clone())).await, ["404 NoSuchBucket"]);
    let wrong = S3Config { secret_key: "wrong".into(), ..config(endpoint) };
    assert_eq!(codes(wrong).await, ["403 SignatureDoesNotMatch"]);
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(codes(config(format!("http://{free}"))).await, ["connect"]);
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_opened_again() {
    // A server of one answer for each connection, which it does not announce to close.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    });
    let keys = Keys { count: 20, ..Keys::default() };
    // The pause lets the end of the connection arrive before it is used again.
    let phase =
        Phase { keys, operations: Some(20), think_ms: [5, 5], ..Phase::new("delete", Operation::Delete) };
    let outcome = outcome(config(format!("http://{address}")), &plan(vec![phase])).await;
    assert_all_well(&outcome);
    assert_eq!(Summary::of(&outcome.phases[0].samples).connects, 20);
}

#[tokio::test]
async fn six_steps_make_one_line() {
    let config = config(format!("http://{}", double().await));
    for parallel in [false, true] {
        let six = Six { number: 10, size: 4096, bucket: "testbucket".into(), parallel, ..Six::default() };
        let outcome = outcome(config.clone(), &six.plan()).await;
        assert_all_well(&outcome);
        let names: Vec<&str> = outcome.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["create bucket", "upload", "list", "download", "erase objects", "erase bucket"]);
        let line = Line::of(&six, &outcome.phases).unwrap().to_string();
        assert_eq!(line.split(' ').count(), HEADER.split(' ').count());
        assert_eq!(line.split(' ').skip(2).take(2).collect::<Vec<_>>(), ["10", "4096"]);
    }
    // The bucket is gone: the same again finds nothing in its way, a listing finds no bucket.
    let list =
        Phase { buckets: vec!["testbucket".into()], operations: Some(1), ..of_one(Operation::List, 1) };
    let listed = outcome(config, &plan(vec![list])).await;
    assert_eq!(Summary::of(&listed.phases[0].samples).failure_codes.get("404 NoSuchBucket"), Some(&1));
}

#[tokio::test]
async fn tls_is_spoken_with_who_is_trusted_and_with_nobody_else() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let address = double_over(Some(Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap())).await;
    let trusting =
        |pem: &str| S3Config { authorities_pem: Some(pem.into()), ..config(format!("https://{address}")) };
    let work = plan(vec![create(), of_one(Operation::Put, 10), of_one(Operation::Get, 10)]);
    assert_all_well(&outcome(trusting(&certificate), &work).await);
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap().cert.pem();
    let refused = outcome(trusting(&other), &plan(vec![of_one(Operation::Get, 2)])).await;
    assert_eq!(Summary::of(&refused.phases[0].samples).failure_codes.get("connect"), Some(&2));
    assert!(S3Target::new(config(format!("https://{address}"))).is_err(), "https without authorities");
}

#[tokio::test]
async fn the_bucket_may_stand_before_the_host() {
    let endpoint = format!("http://localhost:{}", double().await.port());
    let config = S3Config { addressing: Addressing::Virtual, ..config(endpoint) };
    let list = Phase { operations: Some(1), list_all: true, ..of_one(Operation::List, 10) };
    let work = plan(vec![create(), of_one(Operation::Put, 10), of_one(Operation::Get, 10), list]);
    assert_all_well(&outcome(config, &work).await);
}

#[tokio::test]
async fn a_fixed_rate_is_kept_in_real_time() {
    let config = config(format!("http://{}", double().await));
    let rated = Phase { arrival: Arrival::Rate(200.0), operations: Some(100), ..of_one(Operation::Put, 100) };
    let outcome = outcome(config, &plan(vec![create(), rated])).await;
    assert_all_well(&outcome);
    let samples = &outcome.phases[1].samples;
    assert!(samples.iter().enumerate().all(|(number, sample)| sample.start_ns == 5_000_000 * number as u64));
    // The last one is due after 495 ms: whoever ends before has begun too early.
    assert!(outcome.phases[1].seconds >= 0.495);
}
