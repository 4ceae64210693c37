//! What a demo is to be, and its directory brought there: ports, credentials, the first site, configurations.
//!
//! Invariants: a directory never loses a site; peer ports stay what they were, because the sites know each
//! other by them; what was interrupted is taken up where it stopped.

use std::path::Path;

use serde_json::Value;
use skerry_node::trust::access;

use super::layout::{Layout, Site};
use super::ports;
use crate::exit::{Failure, Outcome};
use crate::files;
use crate::site_files::{CONFIGURATION, has_site};
use crate::verbs::init;

/// Sites of a new demo.
const SITES: u16 = 3;
/// S3 port of the first site of a new demo.
const PORT: u16 = 7600;

/// What a demo is to be.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How many sites.
    pub(crate) sites: u16,
    /// S3 port of the first.
    pub(crate) port: u16,
    /// Peer port of the first.
    pub(crate) peer_port: u16,
    /// What is there already.
    found: Option<Layout>,
}

impl Plan {
    /// From what was asked for and what the directory holds.
    pub(crate) fn new(directory: &Path, sites: Option<u16>, port: Option<u16>) -> Outcome<Self> {
        let found = Layout::load(directory)?;
        let there = found.as_ref().map_or(0, |layout| u16::try_from(layout.sites.len()).unwrap_or(u16::MAX));
        let wanted = sites.unwrap_or(if there == 0 { SITES } else { there });
        if wanted < there {
            let what = format!("{} has {there} sites and forgets none", directory.display());
            return Err(Failure::usage(format!("{what}; leave --sites out or name another --dir")));
        }
        let port = port.or(found.as_ref().map(|layout| layout.port)).unwrap_or(PORT);
        let peer_port = match &found {
            Some(layout) => Some(layout.peer_port),
            None => port.checked_add(ports::PEER_OFFSET),
        };
        let peer_port =
            peer_port.ok_or_else(|| Failure::usage(format!("port {port} leaves no room above it")))?;
        Ok(Self { sites: wanted, port, peer_port, found })
    }
}

/// Makes the directory what the plan says, as far as no site has to run for it: the first site, and the
/// configuration of all.
pub(crate) fn carry_out(plan: &Plan, directory: &Path, given: Option<(String, String)>) -> Outcome<Layout> {
    let mut layout = match &plan.found {
        Some(layout) => layout.clone(),
        None => Layout::new(directory),
    };
    (layout.port, layout.peer_port) = (plan.port, plan.peer_port);
    if let Some((access_key, secret_key)) = given {
        (layout.access_key, layout.secret_key) = (access_key, secret_key);
    } else if layout.access_key.is_empty() {
        let made = access::generate().map_err(|error| Failure::failed(error.to_string()))?;
        (layout.access_key, layout.secret_key) = (made.id, made.secret);
    }
    layout.sites = (1..=plan.sites).map(|number| site(plan, number)).collect::<Outcome<_>>()?;
    for (site, number) in layout.sites.iter().zip(1..) {
        configure(&layout, plan, &site.name, number)?;
    }
    if let Some(first) = layout.sites.first()
        && !layout.has_joined(first)?
    {
        init::found(&layout.site_directory(&first.name), &layout.federation_directory(), &first.name)?;
    }
    layout.store()?;
    Ok(layout)
}

fn site(plan: &Plan, number: u16) -> Outcome<Site> {
    let (s3, _) = ports::of(plan.port, plan.peer_port, number).ok_or_else(|| ports::none_left(number))?;
    Ok(Site { name: format!("site-{number}"), endpoint: format!("http://127.0.0.1:{s3}") })
}

/// Writes the configuration of a site.
fn configure(layout: &Layout, plan: &Plan, name: &str, number: u16) -> Outcome<()> {
    let (s3, peer) = ports::of(plan.port, plan.peer_port, number).ok_or_else(|| ports::none_left(number))?;
    let directory = layout.site_directory(name);
    files::directory(&directory)?;
    let place = std::path::absolute(&directory).unwrap_or_else(|_| directory.clone());
    let text = format!(
        "# Written by `skerry demo` at each start. To keep changes, copy it and run `skerry server --config COPY`.\n\
         [node]\ndir = {}\n\n[s3]\nlisten = \"127.0.0.1:{s3}\"\n\n\
         [peer]\nlisten = \"127.0.0.1:{peer}\"\nadvertise = [\"127.0.0.1:{peer}\"]\n",
        Value::from(place.display().to_string()),
    );
    files::write_secret(&directory.join(CONFIGURATION), &text)
}

impl Layout {
    /// Whether a site has its keys and its admission.
    pub(crate) fn has_joined(&self, site: &Site) -> Outcome<bool> {
        has_site(&self.site_directory(&site.name))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_directory_keeps_its_sites_peers_and_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::new(directory.path(), None, Some(7000)).unwrap();
        assert_eq!((plan.sites, plan.port, plan.peer_port), (3, 7000, 7100));
        let made = carry_out(&plan, directory.path(), None).unwrap();
        assert_eq!(
            made.sites.iter().map(|site| made.has_joined(site).unwrap()).collect::<Vec<_>>(),
            [true, false, false]
        );

        let plan = Plan::new(directory.path(), Some(4), Some(8000)).unwrap();
        assert_eq!((plan.sites, plan.port, plan.peer_port), (4, 8000, 7100));
        let again = carry_out(&plan, directory.path(), None).unwrap();
        assert_eq!((again.access_key, again.secret_key), (made.access_key, made.secret_key));
        assert_eq!(again.sites.last().unwrap().endpoint, "http://127.0.0.1:8003");

        assert!(Plan::new(directory.path(), Some(2), None).unwrap_err().message.contains("forgets none"));
        let given = Some(("A".to_owned(), "B".to_owned()));
        let plan = Plan::new(directory.path(), None, None).unwrap();
        assert_eq!(carry_out(&plan, directory.path(), given).unwrap().access_key, "A");
        assert_eq!(Layout::load(directory.path()).unwrap().unwrap().access_key, "A");
    }
}
