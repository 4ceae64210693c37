//! How a new site is reached: where it listens (`--listen`, `--peer-listen`), by other sites (`--advertise`) and by clients
//! over TLS (`--tls`). `skerry init` and `skerry join` write it into the directory's configuration, for a site knows at each
//! start only what stands there.
//!
//! Invariant: a configuration that lies there is its operator's: it is not changed, what it lacks is printed.

use std::path::Path;

use clap::Args;
use skerry_node::config::{Config, ConfigError, is_dialable};
use skerry_node::trust::ca;

use crate::admin::Endpoint;
use crate::exit::{Failure, Outcome};
use crate::files;
use crate::output;
use crate::site_files::{self, CONFIGURATION};
use crate::words;

/// Names of the machine itself: its own verbs ask there.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Where clients of a site with a certificate are served: elsewhere than on the machine itself, they are its point.
const EVERYWHERE: &str = "0.0.0.0:7600";

/// How it is reached.
#[derive(Debug, Default, Args)]
pub(crate) struct Reach {
    /// Where clients (S3) are served, as HOST:PORT; 127.0.0.1:7600 by default, 0.0.0.0:7600 with --tls. Written to
    /// skerry.toml in the directory
    #[arg(long, value_name = "ADDRESS", value_parser = dialable)]
    pub(crate) listen: Option<String>,
    /// Where other sites are served, as HOST:PORT; 0.0.0.0:7700 by default. Written to skerry.toml in the directory
    #[arg(long, value_name = "ADDRESS", value_parser = dialable)]
    pub(crate) peer_listen: Option<String>,
    /// Where other sites can dial this one, as HOST:PORT, the best first; may be given more than once. Written to
    /// skerry.toml in the directory; else what that says
    #[arg(long, value_name = "ADDRESS", value_parser = dialable)]
    pub(crate) advertise: Vec<String>,
    /// Make a certificate authority and a certificate for the S3 endpoint under this host name or address, and those
    /// of the machine itself; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = words::said)]
    pub(crate) tls: Vec<String>,
}

pub(crate) fn dialable(text: &str) -> Result<String, String> {
    if is_dialable(text) {
        return Ok(text.to_owned());
    }
    Err("say HOST:PORT or [v6 address]:PORT, as box1.example:7700".into())
}

impl Reach {
    /// Where others dial the site: as said here, else as its configuration says.
    pub(crate) fn addresses(&self, configured: &Config) -> Vec<String> {
        if self.advertise.is_empty() { configured.peer.advertise.clone() } else { self.advertise.clone() }
    }

    /// Whether others can dial it.
    pub(crate) fn is_dialled(&self, configured: &Config) -> bool {
        let listen = self.peer_listen.as_ref().unwrap_or(&configured.peer.listen);
        let anywhere = ["0.0.0.0:", "[::]:"].iter().any(|any| listen.starts_with(any));
        !anywhere || !self.addresses(configured).is_empty()
    }

    /// What the directory's configuration says. One that names the certificates made here cannot be read before.
    /// Refused if the site could not start where it is to listen.
    pub(crate) fn configured(&self, directory: &Path) -> Outcome<Config> {
        // A site without the certificate that was asked for could not be made a second time.
        ca::check_names(&self.tls).map_err(|error| {
            Failure::usage(format!(
                "--tls: {error}; say a host name in ASCII (xn--…), as certificates have it"
            ))
        })?;
        let configured = match site_files::of_directory(directory) {
            Err(_) if !self.tls.is_empty() => Config::default(),
            read => read?,
        };
        let mut said = vec![
            ("SKERRY_S3_LISTEN", self.s3_listen(&configured).unwrap_or_else(|| configured.s3.listen.clone())),
            (
                "SKERRY_PEER_LISTEN",
                self.peer_listen.clone().unwrap_or_else(|| configured.peer.listen.clone()),
            ),
        ];
        // Certificates are checked when they are there.
        if !self.tls.is_empty() || !configured.tls.certificate.is_empty() || configured.s3.insecure {
            said.push(("SKERRY_S3_INSECURE", "true".into()));
        }
        let said = said.into_iter().map(|(name, value)| (name.to_owned(), value));
        Config::load(None, said).map_err(|error| match error {
            // Nobody set the variables that it would name.
            ConfigError::Value { field, reason, .. } => Failure::usage(format!("{field}: {reason}")),
            other => Failure::usage(other.to_string()),
        })?;
        Ok(configured)
    }

    /// Where it serves clients, if that is said or follows from what is.
    fn s3_listen(&self, configured: &Config) -> Option<String> {
        let is_default = configured.s3.listen == Config::default().s3.listen;
        let open = (!self.tls.is_empty() && is_default).then(|| EVERYWHERE.to_owned());
        self.listen.clone().or(open)
    }

    /// Makes the certificates that were asked for and writes down where the site is reached.
    pub(crate) fn keep(&self, directory: &Path, name: &str, configured: &Config) -> Outcome<()> {
        let certificate = self.certify(directory, name, configured)?;
        let sections = [self.s3(configured), self.peer(configured), certificate];
        let text: Vec<String> = sections.into_iter().flatten().collect();
        if text.is_empty() {
            return Ok(());
        }
        let file = directory.join(CONFIGURATION);
        if files::read(&file)?.is_some() {
            let each = "each line under the heading that is there already, if it is";
            output::note(&format!("add to {}, {each}:\n{}", file.display(), text.join("\n")));
            return Ok(());
        }
        files::write_secret(&file, &text.join("\n"))
    }

    /// The section `s3` as it should be; none if the configuration says that already.
    fn s3(&self, configured: &Config) -> Option<String> {
        let listen = self.s3_listen(configured).filter(|listen| *listen != configured.s3.listen)?;
        Some(format!("[s3]\nlisten = {}\n", serde_json::json!(listen)))
    }

    /// The section `peer`, the same.
    fn peer(&self, configured: &Config) -> Option<String> {
        let listen = self.peer_listen.as_ref().filter(|listen| **listen != configured.peer.listen);
        let says = self.advertise.is_empty() || self.advertise == configured.peer.advertise;
        // JSON's strings and lists of them are TOML's.
        let lines = [
            listen.map(|listen| format!("listen = {}\n", serde_json::json!(listen))),
            (!says).then(|| format!("advertise = {}\n", serde_json::json!(self.advertise))),
        ];
        let lines: String = lines.into_iter().flatten().collect();
        (!lines.is_empty()).then(|| format!("[peer]\n{lines}"))
    }

    /// Makes an authority and a certificate in `tls/`; gives the section that names them.
    fn certify(&self, directory: &Path, name: &str, configured: &Config) -> Outcome<Option<String>> {
        if self.tls.is_empty() {
            return Ok(None);
        }
        let tls = directory.join("tls");
        let mut reached = configured.clone();
        reached.s3.listen = self.s3_listen(configured).unwrap_or(reached.s3.listen);
        let own: Endpoint = site_files::endpoint(&reached).parse().map_err(Failure::usage)?;
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
        Reach { advertise: owned(advertise), tls: owned(tls), ..Reach::default() }
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
    fn every_heading_is_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut said = reach(&["box.example:7710"], &["box.example"]);
        (said.listen, said.peer_listen) = (Some("0.0.0.0:7610".into()), Some("0.0.0.0:7710".into()));
        said.keep(directory.path(), "box", &said.configured(directory.path()).unwrap()).unwrap();
        let text = std::fs::read_to_string(directory.path().join(CONFIGURATION)).unwrap();
        for heading in ["[s3]", "[peer]", "[tls]"] {
            assert_eq!(text.matches(heading).count(), 1, "{text}");
        }
        let config = site_files::of_directory(directory.path()).unwrap();
        assert_eq!(
            (config.s3.listen.as_str(), config.peer.listen.as_str()),
            ("0.0.0.0:7610", "0.0.0.0:7710")
        );
        assert_eq!(config.peer.advertise, ["box.example:7710"]);
    }

    #[test]
    fn where_a_site_could_not_start_it_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let mut said = Reach { listen: Some("0.0.0.0:7610".into()), ..Reach::default() };
        let refused = said.configured(directory.path()).unwrap_err();
        assert!(
            refused.message.contains("s3.listen") && refused.message.contains("TLS"),
            "{}",
            refused.message
        );
        said.tls = vec!["box.example".into()];
        assert!(said.configured(directory.path()).is_ok());
        said.peer_listen = said.listen.clone();
        assert!(said.configured(directory.path()).unwrap_err().message.contains("same as s3.listen"));
    }

    #[test]
    fn a_name_that_no_certificate_takes_is_said_before_anything_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let refused =
            reach(&[], &["box.example", "bücher.example"]).configured(directory.path()).unwrap_err();
        assert!(refused.message.contains("bücher.example"), "{}", refused.message);
        assert_eq!(refused.exit, crate::exit::Exit::Usage);
        assert!(reach(&[], &["xn--bcher-kva.example", "10.0.0.5"]).configured(directory.path()).is_ok());
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
