//! Which seat of a site an invitation may give away.
//!
//! Invariants: a seat that is filled is given to another machine only when that is said; whoever was given it before is
//! counted, also when it was expelled since, so that no two machines have the same turn and only the first of all begins
//! with the memory of a new site.

use skerry_base::SiteId;
use skerry_federation::site_view::{Seat, limits};
use skerry_gateway::service::{Outcome, SeatRequest, ServiceError};
use skerry_model::bucket::{SiteDocument, SiteState, sites};

use crate::peers::roster::Place;
use crate::site::{Site, unreadable};
use crate::trust::{PublicKey, SeatOffer, seat};

/// Who was ever admitted, by name, and where; those that belong no more last.
async fn admitted(site: &Site, root: PublicKey) -> Outcome<Vec<(String, SiteId, Place)>> {
    let system = site.system;
    let mut all = site.read(move |view| sites(view, system).map_err(unreadable)).await?;
    all.sort_by_key(|(_, document)| document.state != SiteState::Member);
    let known = |(id, document): (SiteId, SiteDocument)| {
        let key = PublicKey(document.nodes.first()?.key);
        let said = seat::seat_in(document.admissions.iter().map(AsRef::as_ref), &root, id, &key);
        Some((document.name, id, said.map_or(Place::first(id), Place::of)))
    };
    Ok(all.into_iter().filter_map(known).collect())
}

/// Refuses a seat that the site does not have: whoever took it could not start. Only its own nodes know how many it has.
fn refuse_missing(site: &Site, of: SiteId, seat: Seat) -> Outcome<()> {
    let (nodes, name) = (&site.nodes, site.peers.roster.name(of));
    if nodes.site != of || nodes.all.contains(seat) {
        return Ok(());
    }
    let (asked, seats) = (seat.index(), nodes.all.len());
    Err(ServiceError::refused(match seats {
        1 => format!(
            "{name} has no seat {asked}: it is one node (site.seats = 1). Set site.seats in its skerry.toml to the number of its \
             nodes, start it anew, then invite"
        ),
        _ => format!("{name} has no seat {asked}: with site.seats = {seats} it has seats 0 to {}", seats - 1),
    }))
}

/// The offer that a request asks for.
pub(crate) async fn offer(site: &Site, root: PublicKey, request: &SeatRequest) -> Outcome<SeatOffer> {
    let roster = &site.peers.roster;
    let admitted = admitted(site, root).await?;
    let Some(&(_, of, place)) = admitted.iter().find(|(name, ..)| *name == request.of) else {
        return Err(ServiceError::no_such_site(&request.of));
    };
    if place.site != of {
        let message = format!(
            "{} fills seat {} of {}; name the site by its first node",
            request.of,
            place.seat.index(),
            roster.name(place.site)
        );
        return Err(ServiceError::refused(message));
    }
    let seat = usize::try_from(request.seat).ok().and_then(Seat::new).filter(|seat| *seat != Seat::FOUNDER);
    let seat = seat.ok_or_else(|| {
        ServiceError::invalid(format!("seats that can be given are 1 to {}", limits::SEATS - 1))
    })?;
    refuse_missing(site, of, seat)?;
    let before = admitted.iter().filter(|(.., place)| place.site == of && place.seat == seat);
    let turn = before.map(|(.., place)| place.turn.saturating_add(1)).max().unwrap_or(0);
    match (roster.turn(of, seat), request.replace) {
        (None, false) => Ok(SeatOffer { site: of, seat, turn }),
        (Some((holder, _)), true) => {
            tracing::info!(seat = seat.index(), holder = roster.name(holder), "a seat is to be filled anew");
            Ok(SeatOffer { site: of, seat, turn })
        }
        (Some((holder, _)), false) => Err(ServiceError::refused(format!(
            "seat {} of {} is filled by {}; to put another machine there, say that it replaces it (--replace)",
            request.seat,
            request.of,
            roster.name(holder)
        ))),
        (None, true) => Err(ServiceError::refused(format!(
            "seat {} of {} is vacant: there is nobody to replace",
            request.seat, request.of
        ))),
    }
}
