//! Serves the double in memory on 127.0.0.1: `cargo run -p skerry-gateway --example double [PORT]`.
//!
//! Why: to try a client against the S3 face alone. The access key is `KEY`, its secret `secret`.

#![expect(clippy::disallowed_methods, reason = "a program of its own, with the machine's clock")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::registry::Registry;
use skerry_base::WallTime;
use skerry_gateway::admin::Administration;
use skerry_gateway::http::{Faces, Limits, bind, serve};
use skerry_gateway::memory::Memory;
use skerry_gateway::s3::{ClockReading, ClockRule, Documents, Front, Settings};
use skerry_gateway::telemetry::Telemetry;

fn now() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(7600), |port| port.parse())?;
    let memory = Memory::new("KEY", "secret", now);
    let settings = Settings {
        domains: vec!["localhost".into()],
        region: None,
        clock_rule: ClockRule::Island,
        clock: Arc::new(|| ClockReading { now: now(), trusted: true }),
        host_id: "double".into(),
        documents: Documents::new(32 << 20),
    };
    let mut registry = Registry::default();
    let telemetry = Telemetry::register(&mut registry);
    let administration =
        Administration::new(memory.services().admin, Arc::new(Mutex::new(registry)), "token");
    let front = Front::new(memory.services(), settings);
    let faces = Arc::new(Faces::new(Some(front), Some(administration), telemetry));
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    println!("http://{} key KEY secret secret admin token token", listener.local_addr()?);
    serve(listener, None, faces, Limits::default(), std::future::pending()).await;
    Ok(())
}
