//! `skerry init`: makes a federation and its first site.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use skerry_base::WallTime;
use skerry_node::trust::TrustError;
use skerry_node::trust::founding::Founding;

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::reach::Reach;
use crate::site_files::{CONFIGURATION, DEFAULT_DIRECTORY, refuse_demo, refuse_site};
use crate::words;

/// Make a federation and its first site. The root key is written to a directory of its own: carry it away, it
/// belongs on no site.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Directory of the site to make
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY, env = "SKERRY_DIR")]
    dir: PathBuf,
    /// Name of the site
    #[arg(long, value_name = "SITE", default_value = "site-1", value_parser = words::site_name)]
    name: String,
    /// Directory for the root key and a spare admin key
    #[arg(long, value_name = "DIR", default_value = "skerry-root")]
    root: PathBuf,
    #[command(flatten)]
    reach: Reach,
}

impl Init {
    pub(crate) fn run(&self, globals: &Globals) -> Outcome {
        let (dir, root) = (self.dir.display(), self.root.display());
        let what =
            format!("make a federation with the site {} in {dir} and its root key in {root}", self.name);
        refuse_demo(&self.dir)?;
        refuse_site(&self.dir)?;
        refuse_inside(&self.dir, &self.root)?;
        // A configuration that cannot be read is said before anything is made.
        let configured = self.reach.configured(&self.dir)?;
        if output::dry_run(globals.dry_run, &what, globals.json)? {
            return Ok(Exit::Done);
        }
        found(&self.dir, &self.root, &self.name)?;
        self.reach.keep(&self.dir, &self.name, &configured)?;
        if globals.json {
            let Reach { advertise, tls, .. } = &self.reach;
            let body = json!({
                "site": self.name, "directory": self.dir, "root": self.root, "tls": tls, "advertise": advertise,
            });
            output::document("init", &body)?;
            return Ok(Exit::Done);
        }
        output::line(&format!("{} is in {dir}. Next: skerry server {dir}", self.name));
        output::line(&format!("Then: skerry key create --dir {dir}; skerry invite SITE --dir {dir}"));
        if !self.reach.is_dialled(&configured) {
            output::note(&format!(
                "Nobody can be invited until this site knows where others dial it: set peer.advertise in \
                 {dir}/{CONFIGURATION}, as advertise = [\"box1.example:7700\"] (--advertise does that)"
            ));
        }
        output::note(&format!("Carry {root} away: the root key in it signs admins and belongs on no site."));
        output::note(&format!(
            "Keys lie in {dir} under file permissions only: whoever takes the disk has them."
        ));
        Ok(Exit::Done)
    }
}

/// Refuses to lay the root key where the site's disk is: whoever takes the disk would have the federation.
fn refuse_inside(dir: &Path, root: &Path) -> Outcome<()> {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    match whole(root).starts_with(whole(dir)) {
        true => Err(Failure::refused(format!(
            "{} is inside {}: the root key belongs on no site; name another --root",
            root.display(),
            dir.display()
        ))),
        false => Ok(()),
    }
}

/// Makes a federation with its first site. What is there already is refused and stays; what was interrupted is taken up.
pub(crate) fn found(dir: &Path, root: &Path, name: &str) -> Outcome<()> {
    refuse_site(dir)?;
    let founding = Founding::begin(name, now(), dir, root).map_err(failed)?;
    founding.store(dir, root).map_err(failed)
}

/// What the wall clock says.
fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn failed(error: TrustError) -> Failure {
    match error {
        TrustError::Taken(_) => Failure::refused(error.to_string()),
        other => Failure::failed(other.to_string()),
    }
}
