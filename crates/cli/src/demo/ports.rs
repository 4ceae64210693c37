//! Ports of a demo: site i serves S3 on `P + i - 1` and, in a new demo, its peers on `P + 100 + i - 1`. All are
//! tried before anything is started, so that a busy one is named and nothing has to be undone.

use std::net::{Ipv4Addr, TcpListener};

use crate::exit::{Failure, Outcome};

/// From the S3 ports to the peer ports; also the most sites of a demo.
pub(crate) const PEER_OFFSET: u16 = 100;

/// The S3 port and the peer port of site `number`, from 1.
pub(crate) fn of(s3: u16, peer: u16, number: u16) -> Option<(u16, u16)> {
    let further = number.checked_sub(1)?;
    Some((s3.checked_add(further)?, peer.checked_add(further)?))
}

/// No port is left for a site.
pub(crate) fn none_left(number: u16) -> Failure {
    Failure::usage(format!("no port is left for site-{number}; say --port P with a lower one"))
}

/// Fails with the name of a port that is taken.
pub(crate) fn check(s3: u16, peer: u16, sites: u16) -> Outcome<()> {
    if s3.abs_diff(peer) < sites {
        let hint = format!("say --port P at least {sites} away from {peer}");
        return Err(Failure::usage(format!(
            "the sites' peer ports start at {peer}, too near to {s3}; {hint}"
        )));
    }
    for number in 1..=sites {
        let (s3, peer) = of(s3, peer, number).ok_or_else(|| none_left(number))?;
        for (port, what) in [(s3, "S3"), (peer, "peers")] {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                let hint = "say --port P for another range";
                let message =
                    format!("port {port} ({what} of site-{number}) cannot be taken: {error}; {hint}");
                match error.kind() {
                    std::io::ErrorKind::AddrInUse => Failure::refused(message),
                    _ => Failure::failed(message),
                }
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn sites_are_side_by_side() {
        assert_eq!(of(7600, 7700, 1), Some((7600, 7700)));
        assert_eq!(of(7600, 7700, 3), Some((7602, 7702)));
        assert_eq!(of(7600, 65_535, 2), None);
        assert_eq!(of(7600, 7700, 0), None);
    }

    #[test]
    fn a_busy_port_is_named_and_a_clash_is_usage() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let failure = check(port, port - 1000, 1).unwrap_err();
        assert!(failure.message.contains(&format!("port {port} (S3 of site-1)")), "{}", failure.message);
        assert_eq!(check(7701, 7700, 3).unwrap_err().exit, Exit::Usage);
    }
}
