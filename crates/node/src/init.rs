//! Making a site's directory: as the first of a federation, or by a token.
//!
//! Invariants: the key that a token is to admit is on disk before the token is used, so that what failed on either side, or on
//! the way, can be repeated with it; beside the store lies a file of what is known of other sites, first as the inviting site told it: a store
//! that begins with nothing, also one that was emptied, begins with that.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use skerry_base::kv::View;
use skerry_base::{SiteId, codec};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{SiteDocument, SystemKey};
use skerry_model::{Record, space};

use crate::net::Net;
use crate::net::tcp::TcpNet;
use crate::site::{Site, unreadable};
use crate::trust::join::{self, JoinError, Welcome};
use crate::trust::{Identity, JoinToken, SignedSeat, SiteTrust, TrustError, files};

/// Records of the roster, one a line in base64.
const ROSTER: &str = "roster.join";

/// The key of a node that was not let in yet, and the invitation that it is for.
const JOINING: &str = "joining.key";
const INVITATION: &str = "SKERRY INVITATION";

/// Why a directory did not become a site.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is one.
    #[error("{0} holds a site already")]
    Exists(String),
    /// Keys or files.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The inviting site refused, or what it said is not believed.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The inviting site was not reached.
    #[error("the inviting site was not reached: {0}")]
    Net(#[from] crate::net::NetError),
    /// No randomness.
    #[error(transparent)]
    Key(#[from] crate::trust::InvalidKey),
    /// No port to dial from.
    #[error(transparent)]
    Bind(#[from] crate::net::tcp::BindError),
}

/// Makes a site in `directory` with a token; `addresses` are where others will dial it.
pub async fn join(
    directory: &Path,
    token: &JoinToken,
    addresses: Vec<String>,
) -> Result<SiteTrust, InitError> {
    if SiteTrust::exists(directory)? || SiteTrust::is_torn(directory)? {
        return Err(InitError::Exists(directory.display().to_string()));
    }
    let identity = joining(directory, token)?;
    let net = TcpNet::bind("127.0.0.1:0", &identity).await?;
    let stream = net.join(token.inviter, &token.addresses).await?;
    let welcome = join::join(stream, token, identity, addresses).await;
    net.close().await;
    let Welcome { mut trust, roster } = welcome?;
    trust.seat = seat_of(&trust, &roster);
    write_roster(directory, &roster)?;
    trust.store(directory)?;
    files::remove(&directory.join(JOINING))?;
    Ok(trust)
}

/// The key to join with: kept with the invitation that it is for, and taken up where the same token is tried again. An
/// invitation admits one key; another invitation is another site, and two of one key would be each other.
fn joining(directory: &Path, token: &JoinToken) -> Result<Identity, InitError> {
    let (path, invitation) = (directory.join(JOINING), token.invitation()?);
    files::private_directory(directory)?;
    if files::exists(&path)? {
        let text = files::read_secret(&path)?;
        // A file that does not read is of a try that told nobody of its key, or was damaged since: the token will say.
        let kept = files::from_pem(&path, INVITATION, &text).is_ok_and(|kept| kept == invitation.0);
        let key = files::from_pem(&path, "PRIVATE KEY", &text).ok();
        if let Some(identity) = key.filter(|_| kept).and_then(|key| Identity::from_pkcs8(&key).ok()) {
            return Ok(identity);
        }
    }
    let identity = Identity::generate()?;
    let text = files::pem("PRIVATE KEY", identity.pkcs8()) + &files::pem(INVITATION, &invitation.0);
    files::write_secret(&path, &text)?;
    Ok(identity)
}

/// The seat that the inviting site gave to this node, as its own record says.
fn seat_of(trust: &SiteTrust, roster: &[Vec<u8>]) -> Option<SignedSeat> {
    let (member, node) = (trust.statement.site, trust.identity.public());
    let key = SystemKey::Site(member).to_string();
    let own =
        roster.iter().filter_map(|record| Record::admit(record).ok()).find(|record| record.key == key)?;
    let document: SiteDocument = codec::decode(own.object()?.document.as_ref()?).ok()?;
    let seats = document.admissions.iter().filter_map(|bytes| codec::decode::<SignedSeat>(bytes).ok());
    seats.filter(|seat| seat.verify(&trust.root, member, &node).is_ok()).last()
}

/// Records of sites that are kept beside the store at most: enough to find somebody who knows the rest.
const KEPT: usize = 64;

/// The records of sites that the inviting site gave, or that this site knew when its store was emptied.
pub(crate) fn take_roster(directory: &Path) -> Result<Vec<Vec<u8>>, TrustError> {
    let path = directory.join(ROSTER);
    if !files::exists(&path)? {
        return Ok(Vec::new());
    }
    let text = files::read_secret(&path)?;
    Ok(text.lines().filter_map(|line| STANDARD.decode(line).ok()).collect())
}

fn write_roster(directory: &Path, roster: &[Vec<u8>]) -> Result<(), TrustError> {
    let text: String = roster.iter().map(|record| STANDARD.encode(record) + "\n").collect();
    files::write_secret(&directory.join(ROSTER), &text)
}

/// Writes only what is new: a start costs a site no sync for it.
fn replace_roster(directory: &Path, roster: &[Vec<u8>]) -> Result<(), TrustError> {
    if take_roster(directory).is_ok_and(|kept| kept == roster) {
        Ok(())
    } else {
        write_roster(directory, roster)
    }
}

/// Keeps the records of the other nodes of this site and of some other sites beside the store. Without them a site whose
/// store is emptied knows nobody, and nobody that dials it has a key that it knows.
pub(crate) async fn keep_roster(site: &Site) {
    let near = site.peers.roster.fellows(site.id);
    let (first, rest): (Vec<_>, Vec<_>) = site
        .peers
        .roster
        .all()
        .into_iter()
        .partition(|(id, known)| *id == site.id || near.contains(&known.key.node()));
    let ids: Vec<SiteId> = first.into_iter().chain(rest).map(|(id, _)| id).take(KEPT).collect();
    let system = site.system;
    let read = move |view: &dyn View| {
        let record = |id: &SiteId| space::current(view, system, &SystemKey::Site(*id).to_string());
        let records = ids.iter().filter_map(|id| record(id).transpose());
        records.map(|record| Ok(record.map_err(unreadable)?.encode())).collect::<Outcome<Vec<_>>>()
    };
    let directory = site.place.clone();
    let kept = match site.read(read).await {
        Ok(records) => tokio::task::spawn_blocking(move || replace_roster(&directory, &records)).await,
        Err(error) => return tracing::warn!(%error, "the records of sites were not read"),
    };
    if let Ok(Err(error)) = kept {
        tracing::warn!(%error, "the records of sites are not kept beside the store");
    }
}
