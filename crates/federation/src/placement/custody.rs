//! Who answers for the copies of a version: the site that wrote it, and when that is declared lost the next in a
//! fixed order. Nothing is stored per version: everybody who knows which sites are lost finds the same.
//!
//! The epoch of a custody is the number of steps from the writer: it rises with each takeover and falls again when a
//! declaration is taken back, and the highest epoch that is not lost is the one that acts.

use std::collections::BTreeSet;

use skerry_base::SiteId;

/// Who is custodian, in which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Custody {
    /// Takeovers since the writer.
    pub epoch: u32,
    /// The site.
    pub site: SiteId,
}

/// The custodian of what `writer` wrote: itself; when it is lost, the first of `members` behind it in the ring of ids
/// that is not. None if nobody is left.
///
/// Sites whose `members` differ can find different custodians: both add copies then, which harms nothing.
pub fn custodian(writer: SiteId, members: &BTreeSet<SiteId>, lost: &BTreeSet<SiteId>) -> Option<Custody> {
    let behind = members.range(writer..).filter(|site| **site != writer);
    let ring = behind.chain(members.range(..writer)).copied();
    let mut epochs = 0u32..;
    core::iter::once(writer)
        .chain(ring)
        .zip(&mut epochs)
        .find(|(site, _)| !lost.contains(site))
        .map(|(site, epoch)| Custody { epoch, site })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
        numbers.iter().copied().map(site).collect()
    }

    #[test]
    fn the_writer_then_the_next_of_the_ring() {
        let members = sites(&[1, 3, 5]);
        let of = |writer, lost: &[u8]| custodian(site(writer), &members, &sites(lost));
        assert_eq!(of(3, &[]), Some(Custody { epoch: 0, site: site(3) }));
        assert_eq!(of(3, &[3]), Some(Custody { epoch: 1, site: site(5) }));
        assert_eq!(of(3, &[3, 5]), Some(Custody { epoch: 2, site: site(1) }));
        assert_eq!(of(5, &[5]), Some(Custody { epoch: 1, site: site(1) }), "the ring closes");
        assert_eq!(of(3, &[1, 3, 5]), None);
        assert_eq!(
            of(4, &[4]),
            Some(Custody { epoch: 1, site: site(5) }),
            "a writer that is no member any more"
        );
        assert_eq!(of(3, &[5]), Some(Custody { epoch: 0, site: site(3) }), "who is not lost stays");
    }
}
