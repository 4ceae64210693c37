//! x

use std::path::Path;

use super::layout::{Layout, Site};
use crate::demo::ports;
use crate::exit::{Failure, Outcome};

/// What a demo is to be.
pub(crate) struct Plan {
    pub(crate) sites: u16,
    pub(crate) port: u16,
    layout: Layout,
}

impl Plan {
    pub(crate) fn new(directory: &Path, sites: Option<u16>, port: Option<u16>) -> Outcome<Self> {
        let layout = Layout::new(directory, port.unwrap_or(7600), "a".into(), "b".into());
        Ok(Self { sites: sites.unwrap_or(3), port: port.unwrap_or(7600), layout })
    }
}

pub(crate) fn carry_out(plan: &Plan, _credentials: Option<(String, String)>) -> Outcome<Layout> {
    let _ = Site { name: String::new(), endpoint: String::new() };
    let _ = ports::of(plan.port, 1);
    plan.layout.store()?;
    let _ = plan.layout.federation_directory();
    Err(Failure::failed("x"))
}
