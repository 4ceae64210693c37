//! Invitations that this site gave out, kept in a file until they are used or expire.
//!
//! Invariants: the file holds the public half of each invitation's one-time key, so reading it lets nobody
//! join; an invitation admits one node key, and the same node may ask again when the answer was lost; the use
//! is on disk before it is answered; of a name one invitation is open, the last.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use skerry_base::{SiteId, WallTime, codec};
use skerry_federation::site_view::Seat;

use super::admission::{AdminKey, SignedSite, SiteStatement, federation_id};
use super::identity::PublicKey;
use super::{JoinToken, SeatOffer, SignedSeat, SiteTrust, TrustError, entropy, files};

/// Invitations kept at once; the oldest finished ones make room.
pub const INVITES: usize = 1024;
/// Longest life of an invitation.
pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The public half of an invitation's key, and what is signed with the private half.
pub(super) fn invite_key(secret: &[u8; 32]) -> Result<(Ed25519KeyPair, PublicKey), entropy::NoEntropy> {
    // Every 32 bytes are a seed: this cannot fail.
    let pair = Ed25519KeyPair::from_seed_unchecked(secret).map_err(|_| entropy::NoEntropy)?;
    let mut key = [0; 32];
    key.copy_from_slice(pair.public_key().as_ref());
    Ok((pair, PublicKey(key)))
}

/// One invitation as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Invite {
    key: String,
    site: String,
    expires: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admitted: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seat: Option<InvitedSeat>,
}

/// The seat that an invitation is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InvitedSeat {
    site: String,
    seat: u8,
    turn: u32,
}

impl InvitedSeat {
    fn of(offer: SeatOffer) -> Self {
        Self { site: offer.site.to_string(), seat: offer.seat.into(), turn: offer.turn }
    }

    fn offer(&self) -> Option<SeatOffer> {
        Some(SeatOffer {
            site: self.site.parse().ok()?,
            seat: Seat::try_from(self.seat).ok()?,
            turn: self.turn,
        })
    }
}

/// What an invitation is for.
#[derive(Debug, Clone, Copy)]
pub struct Invited<'a> {
    /// The name of the site, or of the node, that will join.
    pub name: &'a str,
    /// The seat that it will fill at a site that is there already.
    pub seat: Option<SeatOffer>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InviteFile {
    version: u8,
    invites: Vec<Invite>,
}

/// Why an invitation was not made or not honoured.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    /// This site holds no admin key.
    #[error(
        "this site holds no admin key and cannot admit others; invite from the site that was made first, or, if that is gone, \
         put admin-2.key from the directory of the root key into this site's directory as admin.key and start it anew"
    )]
    NoAdmin,
    /// Too long, or too many.
    #[error("{0}")]
    Refused(String),
    /// The token is not of this site, or forged, or there is a later one.
    #[error("the token was not given out by this site, or a later invitation of the same name took it back")]
    Unknown,
    /// The name went to another site meanwhile.
    #[error("there is a site named {0} already; ask for a token with another name")]
    Taken(String),
    /// Somebody else joined with it.
    #[error("the token was used already; ask for a new one")]
    Used,
    /// Too late.
    #[error("the token has expired; ask for a new one")]
    Expired,
    /// The file failed.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// An invitation that was given out.
#[derive(Debug)]
pub struct Given {
    /// What the newcomer joins with.
    pub token: JoinToken,
    /// Whether an earlier one of the name, not used yet, is good no more.
    pub took_back: bool,
}

/// The invitations of a site.
#[derive(Debug)]
pub struct InviteBook {
    path: PathBuf,
    file: Mutex<InviteFile>,
}

impl InviteBook {
    /// Opens the book at `path`; a missing file is an empty book.
    pub fn open(path: &Path) -> Result<Self, TrustError> {
        let damaged = |reason: String| TrustError::File { path: path.display().to_string(), reason };
        let file = if files::exists(path)? {
            serde_json::from_str(&files::read_secret(path)?).map_err(|error| damaged(error.to_string()))?
        } else {
            InviteFile { version: 1, invites: Vec::new() }
        };
        if file.version != 1 {
            return Err(damaged(format!("version {}; this release reads version 1", file.version)));
        }
        Ok(Self { path: path.to_path_buf(), file: Mutex::new(file) })
    }

    /// Gives out an invitation. `addresses` are where this node can be dialled.
    pub fn invite(
        &self,
        trust: &SiteTrust,
        invited: Invited<'_>,
        addresses: Vec<String>,
        life: Duration,
        now: WallTime,
    ) -> Result<Given, InviteError> {
        if trust.admin.is_none() {
            return Err(InviteError::NoAdmin);
        }
        if life.is_zero() || life > LONGEST {
            return Err(InviteError::Refused("an invitation lives up to 30 days".into()));
        }
        let secret = entropy::bytes().map_err(TrustError::from)?;
        let (_, key) = invite_key(&secret).map_err(TrustError::from)?;
        let expires = WallTime(now.0.saturating_add(life.as_millis() as u64));
        let site = invited.name;
        let invite = Invite {
            key: key.to_string(),
            site: site.into(),
            expires: expires.0,
            admitted: None,
            seat: invited.seat.map(InvitedSeat::of),
        };
        let took_back = self.change(|invites| {
            invites.retain(|known| known.expires > now.0);
            // One turn of a seat is given once: two machines that both are its next one could each count for it.
            if invite.seat.is_some() && invites.iter().any(|known| known.seat == invite.seat) {
                let reason =
                    "an invitation for this seat is open, or was used a moment ago: let it expire first";
                return Err(InviteError::Refused(reason.into()));
            }
            // Two that are used would be two sites of one name.
            let before = invites.len();
            invites.retain(|known| known.admitted.is_some() || known.site != invite.site);
            let took_back = invites.len() < before;
            if invites.len() >= INVITES {
                return Err(InviteError::Refused(format!("{INVITES} invitations are open already")));
            }
            invites.push(invite);
            Ok(took_back)
        })?;
        let (federation, inviter) = (federation_id(&trust.root), trust.identity.public());
        let token = JoinToken {
            federation,
            root: trust.root,
            inviter,
            addresses,
            site: site.into(),
            secret,
            expires,
        };
        Ok(Given { token, took_back })
    }

    /// The name that an invitation is for which nobody has used yet.
    pub(super) fn name_of(&self, invite: &PublicKey) -> Option<String> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let key = invite.to_string();
        let open = |known: &&Invite| known.key == key && known.admitted.is_none();
        file.invites.iter().find(open).map(|known| known.site.clone())
    }

    /// Honours an invitation whose one-time key `invite` the node `joiner` has proven to hold.
    pub(super) fn redeem(
        &self,
        admin: &AdminKey,
        root: &PublicKey,
        invite: PublicKey,
        joiner: PublicKey,
        now: WallTime,
    ) -> Result<(SignedSite, Option<SignedSeat>), InviteError> {
        let name = invite.to_string();
        self.change(|invites| {
            let invite = invites.iter_mut().find(|known| known.key == name).ok_or(InviteError::Unknown)?;
            let offer =
                invite.seat.as_ref().map(|seat| seat.offer().ok_or(InviteError::Unknown)).transpose()?;
            // Signing the same again gives the same: an answer that was lost is given once more.
            let seated = |node: &SiteStatement| offer.map(|offer| admin.seat(offer, node));
            if let Some(admitted) = &invite.admitted {
                let (signed, node) = same_node(admitted, root, joiner)?;
                return Ok((signed, seated(&node)));
            }
            if invite.expires <= now.0 {
                return Err(InviteError::Expired);
            }
            let statement = SiteStatement {
                federation: federation_id(root),
                site: SiteId(entropy::bytes().map_err(TrustError::from)?),
                name: invite.site.clone(),
                node: joiner,
                admitted: now,
            };
            let signed = admin.admit(&statement);
            invite.admitted = Some(STANDARD.encode(signed.encode()));
            Ok((signed, seated(&statement)))
        })
    }

    /// Changes the list and stores it; on an error nothing changes.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<Invite>) -> Result<T, InviteError>,
    ) -> Result<T, InviteError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut invites = file.invites.clone();
        let result = change(&mut invites)?;
        let changed = InviteFile { version: 1, invites };
        let text = serde_json::to_string_pretty(&changed)
            .map_err(|error| InviteError::Refused(error.to_string()))?;
        files::write_secret(&self.path, &text)?;
        *file = changed;
        Ok(result)
    }
}

/// The admission given before, if it was given to this node.
fn same_node(
    admitted: &str,
    root: &PublicKey,
    joiner: PublicKey,
) -> Result<(SignedSite, SiteStatement), InviteError> {
    let signed = STANDARD.decode(admitted).ok().and_then(|bytes| codec::decode::<SignedSite>(&bytes).ok());
    let signed = signed.ok_or(InviteError::Used)?;
    match signed.verify(root) {
        Ok(statement) if statement.node == joiner => Ok((signed, statement)),
        _ => Err(InviteError::Used),
    }
}
