//! A site's directory as the command line sees it: its configuration, its name, where it listens.

use std::path::{Path, PathBuf};

use clap::Args;
use skerry_node::config::Config;
use skerry_node::trust::{SiteTrust, TrustError, ca};

use crate::arguments::Globals;
use crate::demo::layout::Layout;
use crate::exit::{Failure, Outcome};
use crate::files;

/// The configuration file that a directory may hold.
pub(crate) const CONFIGURATION: &str = "skerry.toml";

/// The directory that `skerry init` and `skerry join` make where none is named.
pub(crate) const DEFAULT_DIRECTORY: &str = "skerry";

/// The variable that names a site's directory.
const DIRECTORY_VARIABLE: &str = "SKERRY_DIR";

/// Where a configuration comes from: a file or a directory; the environment lies over it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Source {
    /// Directory of the site, ./skerry if none is named; its skerry.toml is read if there is one
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The same, as other verbs have it
    #[arg(long = "dir", value_name = "DIR", env = DIRECTORY_VARIABLE)]
    pub(crate) named: Option<PathBuf>,
    /// Configuration file (TOML); goes before the directory
    #[arg(long, value_name = "FILE", env = "SKERRY_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

impl Source {
    /// Loads it; what is wrong with it is named.
    pub(crate) fn load(&self) -> Outcome<Config> {
        if let Some(file) = &self.config {
            return load(Some(file));
        }
        match self.directory()? {
            Some(directory) => {
                files::found(directory)?;
                of_directory(directory)
            }
            // The environment may say where the site lies; what lies there is read as if it were named.
            None => of_directory(load(None)?.node.dir.as_ref()),
        }
    }

    /// The directory that is named. Two different ones are a mistake; one of the environment is no second one.
    fn directory(&self) -> Outcome<Option<&PathBuf>> {
        match (&self.dir, &self.named) {
            (Some(dir), Some(named)) if dir != named && !is_of_environment(named) => {
                let both = format!("{} and --dir {}", dir.display(), named.display());
                Err(Failure::usage(format!("which directory, {both}? Say one")))
            }
            (dir, named) => Ok(dir.as_ref().or(named.as_ref())),
        }
    }
}

fn is_of_environment(directory: &Path) -> bool {
    std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|said| said == directory)
}

/// A directory as one says it: `./skerry` is a place, `skerry` a word.
pub(crate) fn shown(directory: &Path) -> String {
    let said = directory.display();
    let is_bare = directory.components().count() == 1 && directory.is_relative();
    if is_bare { format!("./{said}") } else { said.to_string() }
}

fn load(file: Option<&Path>) -> Outcome<Config> {
    Config::load(file, variables()?).map_err(|error| Failure::usage(error.to_string()))
}

/// The variables of the environment that are ours. Others may be of any bytes.
fn variables() -> Outcome<Vec<(String, String)>> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| name.starts_with("SKERRY_"));
    let text = |(name, value): (String, std::ffi::OsString)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(Failure::usage(format!("{name} in the environment is not text (UTF-8)"))),
    };
    ours.map(text).collect()
}

/// The configuration of a directory: its file or the defaults, and in any case itself as the directory.
pub(crate) fn of_directory(directory: &Path) -> Outcome<Config> {
    let file = directory.join(CONFIGURATION);
    let mut config = load(file.is_file().then_some(file.as_path()))?;
    config.node.dir = directory.display().to_string();
    Ok(config)
}

/// The directory of one site, also when a demo's is given together with `--site`.
pub(crate) fn offline(directory: &Path, globals: &Globals) -> Outcome<PathBuf> {
    let Some(layout) = Layout::load(directory)? else {
        return named(directory, globals.only_site.as_deref()).map(|()| directory.to_path_buf());
    };
    let names: Vec<&str> = layout.sites.iter().map(|site| site.name.as_str()).collect();
    match &globals.only_site {
        Some(name) if names.contains(&name.as_str()) => Ok(layout.site_directory(name)),
        _ => {
            let there = names.join(", ");
            let message = format!("{}: which site? Say --site, one of {there}", directory.display());
            // One that is named and not there is unknown; none named is a wrong command line.
            Err(if globals.only_site.is_some() { Failure::refused(message) } else { Failure::usage(message) })
        }
    }
}

/// Refuses a directory of another site than the one that is named. Nobody can be asked what it is called by now.
fn named(directory: &Path, name: Option<&str>) -> Outcome<()> {
    let Some(name) = name else { return Ok(()) };
    let there = known(directory)?.name;
    match there == name {
        true => Ok(()),
        false => Err(Failure::refused(format!(
            "{} has no site {name}; there is {there} (its name when it was made)",
            directory.display()
        ))),
    }
}

/// What a site's directory tells about it.
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: String,
    /// Where its admin face is reached from this machine.
    pub(crate) endpoint: String,
    /// Where the admin token lies.
    pub(crate) token: PathBuf,
    /// The certificate of the authority that `skerry init` made, if there is one.
    pub(crate) authority: Option<PathBuf>,
}

/// Whether a directory holds a site.
pub(crate) fn has_site(directory: &Path) -> Outcome<bool> {
    let unreadable =
        |error: TrustError| Failure::failed(format!("cannot read {}: {error}", directory.display()));
    SiteTrust::exists(directory).map_err(unreadable)
}

/// Refuses to make a site where there is one, or what is left of one.
pub(crate) fn refuse_site(directory: &Path) -> Outcome<()> {
    match has_site(directory)? {
        true => Err(Failure::refused(format!("{} holds a site already", directory.display()))),
        false => refuse_torn(directory),
    }
}

/// Keys or a store without the proof that goes with them: to make another site there would write over the keys.
fn refuse_torn(directory: &Path) -> Outcome<()> {
    match SiteTrust::is_torn(directory) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::refused(format!(
            "{0} holds a site whose trust.json is missing: put it back from a backup of {0} (nothing was changed); to make \
             another site name another directory",
            directory.display()
        ))),
        Err(error) => Err(Failure::failed(format!("cannot read {}: {error}", directory.display()))),
    }
}

/// Refuses to make a site where a demo lies: verbs would find the one and not the other.
pub(crate) fn refuse_demo(directory: &Path) -> Outcome<()> {
    match Layout::load(directory)? {
        Some(_) => Err(Failure::refused(format!(
            "{} holds a demo; name another directory for a site",
            directory.display()
        ))),
        None => Ok(()),
    }
}

fn no_directory(place: &str) -> String {
    format!("no site in {place}: no such directory")
}

/// Reads what a site's directory tells.
pub(crate) fn known(directory: &Path) -> Outcome<Known> {
    if !has_site(directory)? {
        refuse_torn(directory)?;
        let place = shown(directory);
        let no = if directory.exists() { format!("no site in {place}") } else { no_directory(&place) };
        return Err(Failure::usage(format!("{no}; `skerry init` or `skerry join` makes one")));
    }
    let config = of_directory(directory)?;
    let trust = SiteTrust::load(directory).map_err(|error| Failure::failed(error.to_string()))?;
    let authority = directory.join("tls").join(ca::CA_CERTIFICATE);
    Ok(Known {
        name: trust.statement.name,
        endpoint: endpoint(&config),
        token: directory.join(&config.admin.token_file),
        authority: authority.is_file().then_some(authority),
    })
}

/// Where the admin face of a configuration is reached from the machine itself.
pub(crate) fn endpoint(config: &Config) -> String {
    let scheme = if config.tls.certificate.is_empty() { "http" } else { "https" };
    let listen = if config.admin.listen.is_empty() { &config.s3.listen } else { &config.admin.listen };
    let listen = listen.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
    format!("{scheme}://{listen}")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_base::WallTime;
    use skerry_node::trust::founding::Founding;

    use super::*;

    #[test]
    fn what_is_left_of_a_site_is_not_written_over() {
        let place = tempfile::tempdir().unwrap();
        let (site, root) = (place.path().join("site"), place.path().join("root"));
        let refused = |directory: &Path| {
            let new = refuse_site(directory).err().map(|failure| failure.message);
            (new.is_some_and(|said| said.contains("trust.json is missing")), known(directory).is_err())
        };
        assert_eq!(refused(&site), (false, true), "nothing is there");
        Founding::begin("north", WallTime(0), &site, &root).unwrap().store(&site, &root).unwrap();
        std::fs::remove_file(site.join("trust.json")).unwrap();
        assert_eq!(refused(&site), (false, true), "one that never was started is a try, and is taken up");
        SiteTrust::started(&site).unwrap();
        assert_eq!(refused(&site), (true, true));
        std::fs::remove_file(site.join("node.key")).unwrap();
        std::fs::create_dir_all(site.join("data")).unwrap();
        assert_eq!(refused(&site), (false, true), "an empty place for data");
        std::fs::write(site.join("data/store"), "x").unwrap();
        assert_eq!(refused(&site), (true, true));
    }

    #[test]
    fn the_admin_face_is_where_the_configuration_says() {
        let mut config = Config::default();
        config.s3.listen = "0.0.0.0:7600".into();
        assert_eq!(endpoint(&config), "http://127.0.0.1:7600");
        config.tls.certificate = "server.pem".into();
        config.admin.listen = "[::]:7800".into();
        assert_eq!(endpoint(&config), "https://[::1]:7800");
    }
}
