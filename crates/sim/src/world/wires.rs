//! Connections between sites: who believes to be connected with whom, and who is right.
//!
//! A connection belongs to one life of both processes. It is made when both are up and the sea is open both
//! ways; it breaks when a process ends (seen soon when the machine lives on, late when it does not) or when
//! nothing comes through for a while. Until each side has noticed, it goes on sending into the void.

use std::collections::BTreeMap;

/// One side's belief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wire {
    /// Counts the connections of this pair.
    pub(super) number: u64,
    /// Whether this side believes that it stands.
    pub(super) up: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Wires {
    sides: BTreeMap<(usize, usize), Wire>,
    made: u64,
}

impl Wires {
    /// What `from` believes about its connection with `to`.
    pub(super) fn side(&self, from: usize, to: usize) -> Wire {
        self.sides.get(&(from, to)).copied().unwrap_or(Wire { number: 0, up: false })
    }

    /// The number of a new connection.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// `from` sees the connection come up.
    pub(super) fn up(&mut self, from: usize, to: usize, number: u64) {
        self.sides.insert((from, to), Wire { number, up: true });
    }

    /// `from` sees that connection break; false if it is not the one it believes in.
    pub(super) fn down(&mut self, from: usize, to: usize, number: u64) -> bool {
        match self.sides.get_mut(&(from, to)) {
            Some(wire) if wire.up && wire.number == number => {
                wire.up = false;
                true
            }
            _ => false,
        }
    }

    /// The process of `site` is gone, and its beliefs with it.
    pub(super) fn forget(&mut self, site: usize) {
        self.sides.retain(|(from, _), _| *from != site);
    }

    /// Those who believe to be connected with `site`, and by which connection.
    pub(super) fn peers_of(&self, site: usize) -> Vec<(usize, u64)> {
        let towards = |((from, to), wire): (&(usize, usize), &Wire)| {
            (*to == site && wire.up).then_some((*from, wire.number))
        };
        self.sides.iter().filter_map(towards).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_finds_out_for_itself() {
        let mut wires = Wires::default();
        let first = wires.next_number();
        wires.up(0, 1, first);
        assert!(wires.side(0, 1).up && !wires.side(1, 0).up);
        wires.up(1, 0, first);
        wires.forget(1);
        assert_eq!(wires.peers_of(1), [(0, first)]);
        let second = wires.next_number();
        wires.up(1, 0, second);
        assert_ne!(wires.side(0, 1), wires.side(1, 0), "of two different lives");
        assert!(!wires.down(0, 1, second));
        assert!(wires.down(0, 1, first));
        assert!(!wires.down(0, 1, first));
    }
}
