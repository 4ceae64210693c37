//! How a new site is reached: by other sites (`--advertise`) and by clients over TLS (`--tls`). `skerry init` and
//! `skerry join` write it into the directory's configuration, for a site knows at each start only what stands there.
//!
//! Invariant: a configuration that lies there is its operator's: it is not changed, what it lacks is printed.

use std::path::Path;

use clap::Args;
use skerry_node::config::{Config, is_dialable};
use skerry_node::trust::ca;

use crate::admin::Endpoint;
use crate::exit::{Failure, Outcome};
use crate::files;
use crate::output;
use crate::site_files::{self, CONFIGURATION};

/// Names of the machine itself: its own verbs ask there.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How it is reached.
#[derive(Debug, Default, Args)]
pub(crate) struct Reach {
    /// Where other sites can dial this one, as HOST:PORT, the best first; may be given more than once. Written to
    /// skerry.toml in the directory; else what that says
    #[arg(long, value_name = "ADDRESS", value_parser = dialable)]
    pub(crate) advertise: Vec<String>,
    /// Make a certificate authority and a certificate for the S3 endpoint under this host name or address, and those
    /// of the machine itself; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) tls: Vec<String>,
}

fn dialable(text: &str) -> Result<String, String> {
    if is_dialable(text) {
        return Ok(text.to_owned());
    }
    Err("other sites dial HOST:PORT or [v6 address]:PORT, as box1.example:7700".into())
}

impl Reach {
    /// Where others dial the site: as said here, else as its configuration says.
    pub(crate) fn addresses(&self, configured: &Config) -> Vec<String> {
        if self.advertise.is_empty() { configured.peer.advertise.clone() } else { self.advertise.clone() }
    }

    /// Whether others can dial it.
    pub(crate) fn is_dialled(&self, configured: &Config) -> bool {
        let anywhere = ["0.0.0.0:", "[::]:"].iter().any(|any| configured.peer.listen.starts_with(any));
        !anywhere || !self.addresses(configured).is_empty()
    }

    /// What the directory's configuration says. One that names the certificates made here cannot be read before.
    pub(crate) fn configured(&self, directory: &Path) -> Outcome<Config> {
        match site_files::of_directory(directory) {
            Err(_) if !self.tls.is_empty() => Ok(Config::default()),
            read => read,
        }
    }

    /// Makes the certificates that were asked for and writes down where the site is reached.
    pub(crate) fn keep(&self, directory: &Path, name: &str, configured: &Config) -> Outcome<()> {
        let text = self.peer(configured).into_iter().chain(self.certify(directory, name, configured)?);
        let text: Vec<String> = text.collect();
        if text.is_empty() {
            return Ok(());
        }
        let file = directory.join(CONFIGURATION);
        if files::read(&file)?.is_some() {
            output::note(&format!("add to {}:\n{}", file.display(), text.join("\n")));
            return Ok(());
        }
        // Clients elsewhere are the point of a certificate.
        let open = (!self.tls.is_empty()).then(|| "[s3]\nlisten = \"0.0.0.0:7600\"\n".to_owned());
        let text: Vec<String> = open.into_iter().chain(text).collect();
        files::write_secret(&file, &text.join("\n"))
    }

    /// The section `peer` as it should be; none if the configuration says that already.
    fn peer(&self, configured: &Config) -> Option<String> {
        let says = self.advertise.is_empty() || self.advertise == configured.peer.advertise;
        // JSON's lists of strings are TOML's.
        (!says).then(|| format!("[peer]\nadvertise = {}\n", serde_json::json!(self.advertise)))
    }

    /// Makes an authority and a certificate in `tls/`; gives the section that names them.
    fn certify(&self, directory: &Path, name: &str, configured: &Config) -> Outcome<Option<String>> {
        if self.tls.is_empty() {
            return Ok(None);
        }
        let tls = directory.join("tls");
        let own: Endpoint = site_files::endpoint(configured).parse().map_err(Failure::usage)?;
        let names = names(&self.tls, &own.host);
        ca::store(&tls, name, &names).map_err(|error| Failure::failed(error.to_string()))?;
        let path =
            |file: &str| toml_text(&std::path::absolute(tls.join(file)).unwrap_or_else(|_| tls.join(file)));
        let (certificate, key) = (path(ca::CERTIFICATE), path(ca::KEY));
        Ok(Some(format!("[tls]\ncertificate = {certificate}\nkey = {key}\n")))
    }
}

/// The names of a certificate: those that were said, and where the machine's own verbs ask.
fn names(said: &[String], own: &str) -> Vec<String> {
    let mut names = said.to_vec();
    for name in [own].iter().chain(&HERE) {
        if !names.iter().any(|known| known == name) {
            names.push((*name).to_owned());
        }
    }
    names
}

/// A path as a TOML string.
fn toml_text(path: &Path) -> String {
    // JSON's escapes are TOML's.
    serde_json::Value::from(path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn reach(advertise: &[&str], tls: &[&str]) -> Reach {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Reach { advertise: owned(advertise), tls: owned(tls) }
    }

    #[test]
    fn what_was_said_is_what_the_site_reads_at_its_start() {
        let directory = tempfile::tempdir().unwrap();
        let site = directory.path();
        let said = reach(&["box.example:7700", "[fd00::1]:7700"], &["box.example"]);
        said.keep(site, "box", &Config::default()).unwrap();
        let config = site_files::of_directory(site).unwrap();
        assert_eq!(config.peer.advertise, ["box.example:7700", "[fd00::1]:7700"]);
        assert_eq!(config.s3.listen, "0.0.0.0:7600");
        assert!(config.tls.certificate.ends_with("tls/server.pem"), "{}", config.tls.certificate);
    }

    #[test]
    fn a_configuration_that_lies_there_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(CONFIGURATION);
        std::fs::write(&file, "[peer]\nlisten = \"127.0.0.1:7700\"\n").unwrap();
        let said = reach(&["box.example:7700"], &[]);
        said.keep(directory.path(), "box", &said.configured(directory.path()).unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[peer]\nlisten = \"127.0.0.1:7700\"\n");

        let mut config = Config::default();
        assert!(!reach(&[], &[]).is_dialled(&config) && said.is_dialled(&config));
        assert_eq!(said.peer(&config).unwrap(), "[peer]\nadvertise = [\"box.example:7700\"]\n");
        config.peer.advertise = vec!["box.example:7700".into()];
        assert_eq!(said.peer(&config), None, "it says so already");
        assert!(reach(&[], &[]).is_dialled(&config));
    }

    #[test]
    fn the_machine_itself_is_always_among_the_names() {
        let said = ["box.example".to_owned(), "localhost".to_owned()];
        let all = ["box.example", "localhost", "10.0.0.5", "127.0.0.1", "::1"];
        assert_eq!(names(&said, "10.0.0.5"), all);
    }

    #[test]
    fn an_address_that_nobody_can_dial_is_refused() {
        assert!(dialable("box.example:7700").is_ok());
        for wrong in ["box.example", "box.example:0", ":7700", "http://box.example:7700"] {
            assert!(dialable(wrong).is_err(), "{wrong}");
        }
    }
}
