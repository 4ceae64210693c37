//! Which S3 service to put load on, and with whose key: options, `SKERRY_*`, `AWS_*`, or the demo that lies here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use skerry_bench::s3::{Addressing, Choose, S3Config, S3Target};
use skerry_bench::target::Target;

use crate::arguments::Globals;
use crate::demo::layout::{DEFAULT_DIRECTORY, Layout};
use crate::exit::{Failure, Outcome};
use crate::files;

/// Where systems keep the authorities they trust.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The service under load.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct Aim {
    /// S3 endpoint; several may be given, workers take turns. Else AWS_ENDPOINT_URL, else the first site of the demo
    #[arg(long = "endpoint", value_name = "URL", env = "SKERRY_ENDPOINT", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// Access key; else AWS_ACCESS_KEY_ID, else the demo's
    #[arg(long, value_name = "KEY", env = "SKERRY_ACCESS_KEY", requires = "secret_key")]
    access_key: Option<String>,
    /// Its secret; else AWS_SECRET_ACCESS_KEY, else the demo's
    #[arg(
        long,
        value_name = "SECRET",
        env = "SKERRY_SECRET_KEY",
        hide_env_values = true,
        allow_hyphen_values = true,
        requires = "access_key"
    )]
    secret_key: Option<String>,
    /// Region in the signature; else AWS_REGION, else us-east-1
    #[arg(long)]
    region: Option<String>,
    /// Put the bucket's name before the host's instead of into the path
    #[arg(long)]
    virtual_host: bool,
    /// Let the signature cover the body: costs the client a SHA-256
    #[arg(long)]
    sign_payload: bool,
    /// Certificates (PEM) of authorities for https; else AWS_CA_BUNDLE, else the system's
    #[arg(long = "ca", value_name = "FILE", env = "SKERRY_CA")]
    authority: Option<PathBuf>,
    /// Directory of a demo; ./skerry-demo if there is one
    #[arg(long, value_name = "DIR", env = "SKERRY_DIR")]
    dir: Option<PathBuf>,
}

/// The first of these variables that says something.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

impl Aim {
    /// The target, connected to nothing yet.
    pub(crate) fn target(&self, globals: &Globals) -> Outcome<Arc<dyn Target>> {
        let target =
            S3Target::new(self.config(globals)?).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Arc::new(target))
    }

    fn config(&self, globals: &Globals) -> Outcome<S3Config> {
        let demo = self.demo()?;
        let given = if self.endpoints.is_empty() {
            variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]).into_iter().collect()
        } else {
            self.endpoints.clone()
        };
        let endpoints = match (&demo, given) {
            (_, given) if !given.is_empty() => given,
            (Some(demo), _) => vec![site_of(demo, globals)?],
            (None, _) => {
                return Err(Failure::usage(
                    "which service? Say --endpoint URL, or --dir with a demo's directory",
                ));
            }
        };
        // Only the demo's own sites get the demo's key unasked.
        let ours = demo.filter(|demo| {
            endpoints.iter().all(|endpoint| demo.sites.iter().any(|site| site.endpoint == *endpoint))
        });
        let (access_key, secret_key) = self.credentials(ours.as_ref())?;
        let region = self.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let speaks_tls = endpoints.iter().any(|endpoint| endpoint.starts_with("https"));
        Ok(S3Config {
            endpoints,
            access_key,
            secret_key,
            region: region.unwrap_or_else(|| "us-east-1".into()),
            choose: Choose::Worker,
            addressing: if self.virtual_host { Addressing::Virtual } else { Addressing::Path },
            sign_payload: self.sign_payload,
            authorities_pem: if speaks_tls { Some(self.authorities()?) } else { None },
        })
    }

    fn credentials(&self, demo: Option<&Layout>) -> Outcome<(String, String)> {
        let given = self.access_key.clone().zip(self.secret_key.clone());
        let environment = || variable(&["AWS_ACCESS_KEY_ID"]).zip(variable(&["AWS_SECRET_ACCESS_KEY"]));
        let of_demo = || demo.map(|demo| (demo.access_key.clone(), demo.secret_key.clone()));
        let none = "with which key? Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or say --access-key and \
                    --secret-key";
        given.or_else(environment).or_else(of_demo).ok_or_else(|| Failure::usage(none))
    }

    /// The demo in the directory named, or in the usual one.
    fn demo(&self) -> Outcome<Option<Layout>> {
        match &self.dir {
            Some(dir) => {
                let found = Layout::load(dir)?;
                let none = || Failure::usage(format!("{}: no demo lies here", dir.display()));
                if self.endpoints.is_empty() { found.ok_or_else(none).map(Some) } else { Ok(found) }
            }
            None => Layout::load(Path::new(DEFAULT_DIRECTORY)),
        }
    }

    fn authorities(&self) -> Outcome<String> {
        let named = self.authority.clone().or_else(|| variable(&["AWS_CA_BUNDLE"]).map(PathBuf::from));
        if let Some(path) = named {
            let none = || Failure::usage(format!("{}: no such file", path.display()));
            return files::read(&path)?.ok_or_else(none);
        }
        for bundle in BUNDLES {
            if let Some(text) = files::read(Path::new(bundle))? {
                return Ok(text);
            }
        }
        Err(Failure::usage(
            "https needs authorities to trust, and this system has none: name some with --ca FILE",
        ))
    }
}

/// The endpoint of the site that is meant, or of the first.
fn site_of(demo: &Layout, globals: &Globals) -> Outcome<String> {
    let only = globals.only_site.as_ref();
    let found = demo.sites.iter().find(|site| only.is_none_or(|only| site.name == *only));
    let none = || Failure::usage(format!("the demo has no site {}", only.map_or("at all", String::as_str)));
    found.map(|site| site.endpoint.clone()).ok_or_else(none)
}
