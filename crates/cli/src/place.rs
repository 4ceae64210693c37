//! What a verb acts on: a site's directory, a demo's directory with several sites, or an endpoint.
//!
//! A directory tells the endpoints and holds the admin tokens, so on the machine itself nothing else is
//! needed; from elsewhere one says `--endpoint` and gives the token in `SKERRY_TOKEN`. Invariant: what was meant for
//! a site that is named is done at no other one, also where an endpoint is named beside it.

use std::path::{Path, PathBuf};

use clap::Args;
use skerry_node::admin_shapes::StatusReport;

use crate::admin::{Answer, Client, Endpoint};
use crate::arguments::Globals;
use crate::demo::layout::{self, Layout};
use crate::exit::{Failure, Outcome};
use crate::files;
use crate::site_files;

/// File of the admin token in the directory of a demo's site.
pub(crate) const ADMIN_TOKEN: &str = "admin.token";

/// Where the sites are.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Directory of a site, or of a demo; ./skerry-demo if there is one, else ./skerry
    #[arg(long, value_name = "DIR", env = "SKERRY_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Ask the site that listens here, such as https://store.example:7600
    #[arg(long, value_name = "URL", env = "SKERRY_ENDPOINT")]
    pub(crate) endpoint: Option<Endpoint>,
    /// The admin token, with --endpoint; else the one in the directory
    // One in 64 begins with a hyphen.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SKERRY_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    pub(crate) token: Option<String>,
    /// Certificate (PEM) of the authority that the endpoint's certificate comes from
    #[arg(long = "ca", value_name = "FILE", env = "SKERRY_CA")]
    pub(crate) authority: Option<PathBuf>,
    /// Let the token cross a network readable, to an --endpoint of plain HTTP at another machine
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// One site that can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Its name, or its endpoint if that is all one knows.
    pub(crate) name: String,
    pub(crate) client: Client,
}

/// Whether the process lives and has no site yet.
fn is_opening(live: &Answer) -> bool {
    live.body.starts_with(b"opening")
}

impl Site {
    /// Whether it serves. Not whether it is ready: one that was expelled never is, and is there all the same. Nor whether its
    /// process lives: one that opens its store does.
    pub(crate) async fn is_there(&self) -> bool {
        self.life().await.is_some_and(|answer| !is_opening(&answer))
    }

    /// Whether its process lives.
    pub(crate) async fn lives(&self) -> bool {
        self.life().await.is_some()
    }

    async fn life(&self) -> Option<Answer> {
        let answer = self.client.send(hyper::Method::GET, "/_skerry/health/live", bytes::Bytes::new()).await;
        answer.ok().filter(|answer| answer.status.is_success())
    }

    /// Its name; asked for where all one knows is its endpoint.
    pub(crate) async fn called(&self) -> Outcome<String> {
        if self.name != self.client.endpoint.to_string() {
            return Ok(self.name.clone());
        }
        self.client.get::<StatusReport>("/_skerry/v1/status").await.map(|report| report.site_name)
    }

    /// The same with the admin token that lies in its directory now.
    pub(crate) fn reloaded(&self, directory: &Path) -> Outcome<Self> {
        let mut site = self.clone();
        site.client.token = files::read(&directory.join(ADMIN_TOKEN))?.map(|token| token.trim().to_owned());
        Ok(site)
    }
}

impl Place {
    /// The sites of a directory, with the tokens that lie there.
    pub(crate) fn of_directory_only(directory: &Path) -> Self {
        let dir = Some(directory.to_path_buf());
        Self { dir, endpoint: None, token: None, authority: None, insecure: false }
    }

    /// All sites meant, in order.
    pub(crate) fn sites(&self, globals: &Globals) -> Outcome<Vec<Site>> {
        if let Some(endpoint) = &self.endpoint {
            return Ok(vec![self.by_endpoint(endpoint, globals)?]);
        }
        let directory = self.directory()?;
        let mut sites = match Layout::load(&directory)? {
            Some(layout) => self.of_demo(&layout, globals)?,
            // It may have been renamed since it was made: it is asked for its name, by [`Place::check`].
            None => return Ok(vec![self.of_directory(&directory, globals)?]),
        };
        if let Some(only) = &globals.only_site {
            let names: Vec<String> = sites.iter().map(|site| site.name.clone()).collect();
            sites.retain(|site| site.name == *only);
            if sites.is_empty() {
                let there = names.join(", ");
                return Err(Failure::refused(format!(
                    "{} has no site {only}; there is {there}",
                    directory.display()
                )));
            }
        }
        Ok(sites)
    }

    /// The site that a single act goes to: the one named, or the first that answers.
    pub(crate) async fn site(&self, globals: &Globals) -> Outcome<Site> {
        let sites = self.sites(globals)?;
        let (mut last, mut opening) = (Failure::unreachable("there is no site"), None);
        for site in sites {
            match site.client.send(hyper::Method::GET, "/_skerry/health/live", bytes::Bytes::new()).await {
                // It says itself how far it is, if no other serves.
                Ok(answer) if is_opening(&answer) => opening = opening.or(Some(site)),
                Ok(_) => {
                    self.check(&site, globals).await?;
                    return Ok(site);
                }
                Err(failure) => last = failure,
            }
        }
        opening.ok_or(last)
    }

    /// Asks the site at an endpoint, or of a directory that was made under another name, who it is, if one is named beside it.
    pub(crate) async fn check(&self, site: &Site, globals: &Globals) -> Outcome<()> {
        let Some(named) = &globals.only_site else { return Ok(()) };
        if self.endpoint.is_none() && site.name == *named {
            return Ok(());
        }
        let there: StatusReport = site.client.get("/_skerry/v1/status").await?;
        self.check_name(site, &there, globals)
    }

    /// Refuses a place at which another site answers than the one that is named.
    pub(crate) fn check_name(&self, site: &Site, there: &StatusReport, globals: &Globals) -> Outcome<()> {
        match (&self.endpoint, &globals.only_site) {
            (_, Some(named)) if *named == there.site_name || *named == there.site => Ok(()),
            (Some(endpoint), Some(named)) => {
                let hint = "name that one, or the endpoint of the other";
                Err(Failure::usage(format!("at {endpoint} is {}, not {named}; {hint}", there.site_name)))
            }
            // Those of a demo were found by the name that they have there.
            (None, Some(named)) if *named != site.name => {
                let place = self.directory()?;
                let (place, is) = (place.display(), &there.site_name);
                Err(Failure::refused(format!("{place} has no site {named}; there is {is}")))
            }
            _ => Ok(()),
        }
    }

    /// The directory named, or the demo's in the current one, or the site's.
    pub(crate) fn directory(&self) -> Outcome<PathBuf> {
        if let Some(dir) = &self.dir {
            return files::found(dir).map(|()| dir.clone());
        }
        let defaults = [layout::DEFAULT_DIRECTORY, site_files::DEFAULT_DIRECTORY].map(Path::new);
        match defaults.into_iter().find(|default| default.is_dir()) {
            Some(default) => Ok(default.to_path_buf()),
            None => Err(Failure::usage("which site? Say --dir DIR, or --endpoint URL with SKERRY_TOKEN")),
        }
    }

    fn by_endpoint(&self, endpoint: &Endpoint, globals: &Globals) -> Outcome<Site> {
        if self.token.is_some() && !endpoint.is_private() && !self.insecure {
            let would = "the admin token would cross the network readable";
            return Err(Failure::usage(format!(
                "{endpoint} is plain HTTP and not this machine: {would}. Say https://, or --insecure if you mean it"
            )));
        }
        let client = Client {
            endpoint: endpoint.clone(),
            token: self.token.clone(),
            authority: self.authority.clone(),
            timeout: globals.timeout,
            is_directory_s: false,
        };
        Ok(Site { name: endpoint.to_string(), client })
    }

    fn of_demo(&self, layout: &Layout, globals: &Globals) -> Outcome<Vec<Site>> {
        let site = |site: &layout::Site| {
            let endpoint = site.endpoint.parse().map_err(Failure::failed)?;
            let token = layout.site_directory(&site.name).join(ADMIN_TOKEN);
            Ok(Site { name: site.name.clone(), client: self.client(endpoint, &token, None, globals)? })
        };
        layout.sites.iter().map(site).collect()
    }

    fn of_directory(&self, directory: &Path, globals: &Globals) -> Outcome<Site> {
        let known = site_files::known(directory)?;
        let endpoint = known.endpoint.parse().map_err(Failure::failed)?;
        Ok(Site { name: known.name, client: self.client(endpoint, &known.token, known.authority, globals)? })
    }

    fn client(
        &self,
        endpoint: Endpoint,
        token: &Path,
        authority: Option<PathBuf>,
        globals: &Globals,
    ) -> Outcome<Client> {
        let stored = || Ok(files::read(token)?.map(|token| token.trim().to_owned()));
        let is_directory_s = self.token.is_none();
        let token = self.token.clone().map_or_else(stored, |token| Ok(Some(token)))?;
        let authority = self.authority.clone().or(authority);
        Ok(Client { endpoint, token, authority, timeout: globals.timeout, is_directory_s })
    }
}
