//! Which seat of a site an invitation may give away.
//!
//! Invariant: a seat that is filled is given to another machine only when that is said, and then as its next turn.

use skerry_federation::site_view::{Seat, limits};
use skerry_gateway::service::{ErrorKind, Outcome, SeatRequest, ServiceError};

use crate::site::Site;
use crate::trust::SeatOffer;

/// The offer that a request asks for.
pub(crate) fn offer(site: &Site, request: &SeatRequest) -> Outcome<SeatOffer> {
    let invalid = |message: String| ServiceError::new(ErrorKind::InvalidArgument, message);
    let roster = &site.peers.roster;
    let found = roster.all().into_iter().find(|(_, known)| known.name == request.of);
    let Some((of, known)) = found else {
        return Err(invalid(format!("there is no site named {}", request.of)));
    };
    if known.place.site != of {
        let message = format!(
            "{} fills seat {} of {}; name the site by its first node",
            request.of,
            known.place.seat.index(),
            roster.name(known.place.site)
        );
        return Err(invalid(message));
    }
    let seat = usize::try_from(request.seat).ok().and_then(Seat::new).filter(|seat| *seat != Seat::FOUNDER);
    let seat =
        seat.ok_or_else(|| invalid(format!("seats that can be given are 1 to {}", limits::SEATS - 1)))?;
    match (roster.turn(of, seat), request.replace) {
        (None, false) => Ok(SeatOffer { site: of, seat, turn: 0 }),
        (Some((holder, turn)), true) => {
            tracing::info!(seat = seat.index(), holder = roster.name(holder), "a seat is to be filled anew");
            Ok(SeatOffer { site: of, seat, turn: turn.saturating_add(1) })
        }
        (Some((holder, _)), false) => Err(invalid(format!(
            "seat {} of {} is filled by {}; to put another machine there, say that it replaces it",
            request.seat,
            request.of,
            roster.name(holder)
        ))),
        (None, true) => Err(invalid(format!(
            "seat {} of {} is vacant: there is nobody to replace",
            request.seat, request.of
        ))),
    }
}
