//! The join protocol: two messages over a stream of a stranger.
//!
//! The joiner pins the inviter's key from the token; the inviter knows the joiner's key from the handshake. The
//! joiner signs both keys and its request with the invitation's one-time key: the proof is worth nothing on
//! any other connection, and the secret itself is never sent. The answer holds the admission, the credential
//! key and a snapshot of the roster; the joiner believes it only under the root key of its token.

use serde::{Deserialize, Serialize};
use skerry_base::WallTime;
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::limits::ADDRESSES;
use tokio::io::AsyncWriteExt;

use super::admission::{SignedSite, SiteStatement, Untrusted};
use super::identity::{self, Identity, PublicKey};
use super::invite::{InviteBook, InviteError, invite_key};
use super::{JoinToken, SealingKey, SignedSeat, SiteTrust, TrustError};
use crate::net::Stream;
use crate::net::frame::{self, FrameError};

/// Bytes of a stranger's request: more is refused unread.
const REQUEST_BYTES: usize = 16 << 10;
const PROOF: &str = "join proof v1";

#[derive(Debug, Serialize, Deserialize)]
struct JoinRequest {
    invite: PublicKey,
    site: String,
    addresses: Vec<String>,
    proof: Vec<u8>,
}

impl Versioned for JoinRequest {
    const NAME: &'static str = "join request";
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
enum JoinAnswer {
    Welcome { admission: SignedSite, credentials: [u8; 32], roster: Vec<Vec<u8>> },
    Refused(String),
}

impl Versioned for JoinAnswer {
    const NAME: &'static str = "join answer";
    const VERSION: u8 = 1;
}

/// Why a join failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The inviter's reason.
    #[error("the inviting site refused: {0}")]
    Refused(String),
    /// This side's reason.
    #[error(transparent)]
    Invite(#[from] InviteError),
    /// The stranger could not prove its invitation.
    #[error("the proof does not fit the invitation")]
    Proof,
    /// The admission is not what the token promised.
    #[error("the inviting site's answer is not believed: {0}")]
    Untrusted(#[from] Untrusted),
    /// Not the protocol.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The stream failed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended too early.
    #[error("the other side hung up")]
    HungUp,
}

/// What a site that was let in knows.
#[derive(Debug)]
pub struct Welcome {
    /// Its keys and proof of membership, ready to be stored.
    pub trust: SiteTrust,
    /// Documents of the sites known to the inviter, opaque here.
    pub roster: Vec<Vec<u8>>,
}

/// Joins with `token` over a stream from [`crate::net::Net::join`]; `addresses` are where this node can be
/// dialled by others.
pub async fn join(
    mut stream: Stream,
    token: &JoinToken,
    identity: Identity,
    addresses: Vec<String>,
) -> Result<Welcome, JoinError> {
    let (pair, invite) = invite_key(&token.secret).map_err(|error| InviteError::Trust(error.into()))?;
    let mut request = JoinRequest { invite, site: token.site.clone(), addresses, proof: Vec::new() };
    let proven = proven(&request, &identity.public(), &token.inviter);
    request.proof = identity::sign(&pair, PROOF, &proven).0;
    frame::write(&mut stream, &codec::encode(&request)).await?;
    let answer = frame::read(&mut stream).await?.ok_or(JoinError::HungUp)?;
    match codec::decode(&answer)? {
        JoinAnswer::Refused(reason) => Err(JoinError::Refused(reason)),
        JoinAnswer::Welcome { admission, credentials, roster } => {
            let statement = admission.verify(&token.root)?;
            if statement.node != identity.public() || statement.name != token.site {
                return Err(Untrusted::Site.into());
            }
            let credentials = SealingKey::from_bytes(credentials);
            let root = token.root;
            let trust =
                SiteTrust { identity, root, admission, statement, credentials, admin: None, seat: None };
            Ok(Welcome { trust, roster })
        }
    }
}

/// A stranger that proved its invitation and is admitted, but not answered yet: the caller first stores the
/// site's record, then says [`Admitted::welcome`].
pub struct Admitted {
    /// The admission to put into the site's document.
    pub admission: SignedSite,
    /// What it states.
    pub statement: SiteStatement,
    /// The seat that it is to fill at a site that is there already.
    pub seat: Option<SignedSeat>,
    /// Where the site says that it can be dialled.
    pub addresses: Vec<String>,
    stream: Stream,
    credentials: SealingKey,
}

/// Whether a name is another site's.
pub type Taken<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

/// Serves a stranger's stream up to its admission. A refusal has been answered when this returns.
pub async fn receive(
    mut stream: Stream,
    stranger: PublicKey,
    trust: &SiteTrust,
    (book, taken): (&InviteBook, Taken<'_>),
    now: WallTime,
) -> Result<Admitted, JoinError> {
    let bytes = frame::read_capped(&mut stream, REQUEST_BYTES).await?.ok_or(JoinError::HungUp)?;
    match judge(&bytes, stranger, trust, (book, taken), now) {
        Ok(Judged { admission, seat, addresses }) => {
            let statement = admission.verify(&trust.root)?;
            let credentials = trust.credentials.clone();
            Ok(Admitted { admission, statement, seat, addresses, stream, credentials })
        }
        Err(error) => {
            let reason = match &error {
                JoinError::Invite(InviteError::Trust(_)) => "the inviting site failed; see its log".into(),
                other => other.to_string(),
            };
            refuse(&mut stream, reason).await?;
            Err(error)
        }
    }
}

/// Who may come in.
struct Judged {
    admission: SignedSite,
    seat: Option<SignedSeat>,
    addresses: Vec<String>,
}

fn judge(
    bytes: &[u8],
    stranger: PublicKey,
    trust: &SiteTrust,
    (book, taken): (&InviteBook, Taken<'_>),
    now: WallTime,
) -> Result<Judged, JoinError> {
    let request: JoinRequest = codec::decode(bytes)?;
    let proven = proven(&request, &stranger, &trust.identity.public());
    if !request.invite.verifies(PROOF, &proven, &request.proof) {
        return Err(JoinError::Proof);
    }
    if request.addresses.len() > ADDRESSES || request.addresses.iter().any(|address| address.len() > 300) {
        let reason = format!("at most {ADDRESSES} addresses of 300 bytes are taken");
        return Err(InviteError::Refused(reason).into());
    }
    let admin = trust.admin.as_ref().ok_or(InviteError::NoAdmin)?;
    // Before the token is used up: another site may have been given the name since it was given out.
    if let Some(name) = book.name_of(&request.invite).filter(|name| taken(name)) {
        return Err(InviteError::Taken(name).into());
    }
    let (admission, seat) = book.redeem(admin, &trust.root, request.invite, stranger, now)?;
    Ok(Judged { admission, seat, addresses: request.addresses })
}

impl Admitted {
    /// Answers with the federation's secrets and the documents of all sites.
    pub async fn welcome(mut self, roster: Vec<Vec<u8>>) -> Result<(), JoinError> {
        let credentials = *self.credentials.as_bytes();
        let answer = JoinAnswer::Welcome { admission: self.admission, credentials, roster };
        frame::write(&mut self.stream, &codec::encode(&answer)).await?;
        Ok(self.stream.shutdown().await.map_err(FrameError::from)?)
    }

    /// Answers that it cannot be now; the same node may ask again with the same token.
    pub async fn refuse(mut self, reason: &str) -> Result<(), JoinError> {
        refuse(&mut self.stream, reason.into()).await
    }
}

/// When a stranger that was turned away may try again.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Answers a stranger for whom there is no room now. Its question is read first, so that the answer is not lost with the
/// connection.
pub(crate) async fn turn_away(mut stream: Stream) -> Result<(), JoinError> {
    frame::read_capped(&mut stream, REQUEST_BYTES).await?;
    let reason = format!(
        "busy: it lets as many sites in at once as it can; try again in {} seconds with the same token",
        AGAIN.as_secs()
    );
    refuse(&mut stream, reason).await
}

async fn refuse(stream: &mut Stream, reason: String) -> Result<(), JoinError> {
    frame::write(stream, &codec::encode(&JoinAnswer::Refused(reason))).await?;
    Ok(stream.shutdown().await.map_err(FrameError::from)?)
}

/// What the invitation's key signs: both ends of the connection and the request.
fn proven(request: &JoinRequest, joiner: &PublicKey, inviter: &PublicKey) -> Vec<u8> {
    let said = (joiner, inviter, &request.site, &request.addresses);
    // Only texts and fixed arrays: encoding cannot fail.
    postcard::to_extend(&said, Vec::new()).unwrap_or_default()
}

impl From<TrustError> for JoinError {
    fn from(error: TrustError) -> Self {
        Self::Invite(error.into())
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
