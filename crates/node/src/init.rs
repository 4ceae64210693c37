//! Making a site's directory: as the first of a federation, or by a token.
//!
//! Invariant: what the inviting site told of the roster lies in a file until the first start has stored it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::net::Net;
use crate::net::tcp::TcpNet;
use crate::trust::join::{self, JoinError, Welcome};
use crate::trust::{Identity, JoinToken, SiteTrust, TrustError, files};

/// Records of the roster, one a line in base64.
const ROSTER: &str = "roster.join";

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
    if SiteTrust::exists(directory) {
        return Err(InitError::Exists(directory.display().to_string()));
    }
    let identity = Identity::generate()?;
    let net = TcpNet::bind("127.0.0.1:0", &identity).await?;
    let stream = net.join(token.inviter, &token.addresses).await?;
    let welcome = join::join(stream, token, identity, addresses).await;
    net.close().await;
    let Welcome { trust, roster } = welcome?;
    files::private_directory(directory)?;
    let text: String = roster.iter().map(|record| STANDARD.encode(record) + "\n").collect();
    files::write_secret(&directory.join(ROSTER), &text)?;
    trust.store(directory)?;
    Ok(trust)
}

/// The records that the inviting site gave, if they are not stored yet.
pub(crate) fn take_roster(directory: &Path) -> Result<Vec<Vec<u8>>, TrustError> {
    let path = directory.join(ROSTER);
    if !files::exists(&path) {
        return Ok(Vec::new());
    }
    let text = files::read_secret(&path)?;
    Ok(text.lines().filter_map(|line| STANDARD.decode(line).ok()).collect())
}

/// They are stored.
pub(crate) fn roster_taken(directory: &Path) -> Result<(), TrustError> {
    let path = directory.join(ROSTER);
    if files::exists(&path) { files::write_secret(&path, "") } else { Ok(()) }
}
