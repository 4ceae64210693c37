//! The word of an admin key that a node fills a seat of a site of several nodes.
//!
//! Every node has an admission of its own ([`super::admission`]); this one says in addition that its machine stands on
//! the LAN of another node, the site's first, and which of the site's seats it fills. It travels in the node's document,
//! where releases that do not know it pass it over.
//!
//! Invariants: a statement names the node's key and its id, so that it is worth nothing in another node's document; the
//! machine that fills a seat after another one has a higher turn.

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::{SiteId, WallTime};
use skerry_federation::site_view::Seat;

use super::admission::{AdminCertificate, AdminKey, SiteStatement, Untrusted, federation_id};
use super::identity::{PublicKey, Signature};

const SEAT: &str = "seat admission v1";

/// Who fills a seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatStatement {
    /// The federation.
    pub federation: [u8; 16],
    /// The site: the id of its first node.
    pub site: SiteId,
    /// Which seat; never the first, which the site's first node has.
    pub seat: Seat,
    /// How many machines filled it before this one.
    pub turn: u32,
    /// The id of the node that fills it.
    pub member: SiteId,
    /// Its key.
    pub node: PublicKey,
    /// When it was admitted, by the admin's clock.
    pub admitted: WallTime,
}

impl Versioned for SeatStatement {
    const NAME: &'static str = "seat statement";
    const VERSION: u8 = 1;
}

/// What an invitation says of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatOffer {
    /// The site.
    pub site: SiteId,
    /// Its seat.
    pub seat: Seat,
    /// Machines before.
    pub turn: u32,
}

/// A [`SeatStatement`] with the chain that makes it believable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedSeat {
    /// The encoded statement, exactly the bytes that are signed.
    pub statement: Vec<u8>,
    /// Who signed, and the root's word for that key.
    pub certificate: AdminCertificate,
    /// By the admin key.
    pub signature: Signature,
}

impl Versioned for SignedSeat {
    const NAME: &'static str = "seat admission";
    /// Apart from the versions of a site's own admission, which lies in the same list.
    const VERSION: u8 = 65;
}

impl AdminKey {
    /// Gives a seat to a node that is admitted.
    pub fn seat(&self, offer: SeatOffer, node: &SiteStatement) -> SignedSeat {
        let statement = SeatStatement {
            federation: node.federation,
            site: offer.site,
            seat: offer.seat,
            turn: offer.turn,
            member: node.site,
            node: node.node,
            admitted: node.admitted,
        };
        let statement = codec::encode(&statement);
        let signature = self.identity.sign(SEAT, &statement);
        SignedSeat { statement, certificate: self.certificate.clone(), signature }
    }
}

impl SignedSeat {
    /// The form that travels in a node's document.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// What it states of this node, if the chain from `root` holds.
    pub fn verify(
        &self,
        root: &PublicKey,
        member: SiteId,
        node: &PublicKey,
    ) -> Result<SeatStatement, Untrusted> {
        self.certificate.verify(root)?;
        if !self.certificate.key.verifies(SEAT, &self.statement, &self.signature.0) {
            return Err(Untrusted::Site);
        }
        let statement: SeatStatement =
            codec::decode(&self.statement).map_err(|error| Untrusted::Malformed(error.to_string()))?;
        if statement.federation != federation_id(root) {
            return Err(Untrusted::Federation);
        }
        if statement.node != *node || statement.member != member {
            return Err(Untrusted::Malformed("the seat is another node's".into()));
        }
        if statement.seat == Seat::FOUNDER || statement.site == member {
            return Err(Untrusted::Malformed("the first seat is given by nobody".into()));
        }
        Ok(statement)
    }
}

/// Whether these bytes of a document's list are a seat's admission.
pub fn is_seat(admission: &[u8]) -> bool {
    admission.first() == Some(&SignedSeat::VERSION)
}

/// The seat that a document's list of admissions gives to this node, if it gives one.
pub fn seat_in<'a>(
    admissions: impl IntoIterator<Item = &'a [u8]>,
    root: &PublicKey,
    member: SiteId,
    node: &PublicKey,
) -> Option<SeatStatement> {
    let read = |bytes: &[u8]| codec::decode::<SignedSeat>(bytes).ok()?.verify(root, member, node).ok();
    admissions.into_iter().filter(|bytes| is_seat(bytes)).filter_map(read).max_by_key(|said| said.turn)
}

#[cfg(test)]
#[path = "seat_tests.rs"]
mod tests;
