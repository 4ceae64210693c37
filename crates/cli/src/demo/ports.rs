//! Ports of a demo: site i serves S3 on `P + i - 1` and its peers on `P + 100 + i - 1`. All are tried before
//! anything is started, so that a busy one is named and nothing has to be undone.

use std::net::{Ipv4Addr, TcpListener};

use crate::exit::{Failure, Outcome};

/// From the S3 ports to the peer ports; also the most sites of a demo.
pub(crate) const PEER_OFFSET: u16 = 100;

/// The S3 port and the peer port of site `number`, from 1.
pub(crate) fn of(base: u16, number: u16) -> Option<(u16, u16)> {
    let s3 = base.checked_add(number.checked_sub(1)?)?;
    Some((s3, s3.checked_add(PEER_OFFSET)?))
}

/// Fails with the name of a port that is taken.
pub(crate) fn check(base: u16, sites: u16) -> Outcome<()> {
    for number in 1..=sites {
        let (s3, peer) = of(base, number)
            .ok_or_else(|| Failure::usage(format!("no port is left for site-{number} above {base}")))?;
        for (port, what) in [(s3, "S3"), (peer, "peers")] {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                let hint = "say --port P for another range";
                Failure::failed(format!(
                    "port {port} ({what} of site-{number}) cannot be taken: {error}; {hint}"
                ))
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn sites_are_side_by_side() {
        assert_eq!(of(7600, 1), Some((7600, 7700)));
        assert_eq!(of(7600, 3), Some((7602, 7702)));
        assert_eq!(of(65_500, 1), None);
        assert_eq!(of(7600, 0), None);
    }

    #[test]
    fn a_busy_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let failure = check(port, 1).unwrap_err();
        assert!(failure.message.contains(&format!("port {port} (S3 of site-1)")), "{}", failure.message);
    }
}
