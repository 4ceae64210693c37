//! Mixes and sizes as one writes them on a command line.

use std::str::FromStr;

use skerry_scenario::workload_size::ObjectSize;

use crate::plan::{Mix, Shape, SizeRange};
use crate::target::Operation;

impl FromStr for Mix {
    type Err = String;

    /// Reads `put=20,get=70,list=10`; a weight left out is 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = Self::default();
        for part in text.split(',') {
            let (word, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight: u64 =
                weight.trim().parse().map_err(|_| format!("{part:?}: a weight is a whole number"))?;
            let place = match Operation::of_word(word.trim()) {
                Some(Operation::Put) => &mut mix.put,
                Some(Operation::Get) => &mut mix.get,
                Some(Operation::Head) => &mut mix.head,
                Some(Operation::List) => &mut mix.list,
                Some(Operation::Delete) => &mut mix.delete,
                _ => {
                    return Err(format!(
                        "{word:?} is no operation of a mix; say put, get, head, list, delete"
                    ));
                }
            };
            *place += weight;
        }
        if mix == Self::default() {
            return Err("the mix asks for nothing; say for example put=20,get=80".into());
        }
        Ok(mix)
    }
}

impl FromStr for SizeRange {
    type Err = String;

    /// Reads `1MB`, `1kB..1MB` (all alike), `1kB..1MB~log` (each decade alike), each with a weight: `4kB@70`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, weight) = match text.split_once('@') {
            Some((rest, weight)) => (
                rest,
                weight.parse().map_err(|_| format!("{text:?}: the weight behind @ is a whole number"))?,
            ),
            None => (text, 1),
        };
        let (rest, shape) = match rest.strip_suffix("~log") {
            Some(rest) => (rest, Shape::Log),
            None => (rest, Shape::Uniform),
        };
        let (bytes, to) = match rest.split_once("..") {
            Some((low, high)) => (low.parse::<ObjectSize>()?, Some(high.parse::<ObjectSize>()?)),
            None => (rest.parse::<ObjectSize>()?, None),
        };
        if to.is_some_and(|to| to < bytes) {
            return Err(format!("{text:?}: the range ends below its begin"));
        }
        Ok(Self { bytes, to, weight, shape })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn mixes_are_read() {
        let mix: Mix = "put=20,get=70, list=10,head".parse().unwrap();
        assert_eq!((mix.put, mix.get, mix.list, mix.head, mix.delete), (20, 70, 10, 1, 0));
        for wrong in ["", "put=x", "putt=1", "put=0", "create-bucket=1", "put=-1"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read() {
        let range = |text: &str| text.parse::<SizeRange>().unwrap();
        assert_eq!(
            range("1MB"),
            SizeRange { bytes: ObjectSize(1_000_000), to: None, weight: 1, shape: Shape::Uniform }
        );
        let expected = SizeRange {
            bytes: ObjectSize(1000),
            to: Some(ObjectSize(1 << 20)),
            weight: 7,
            shape: Shape::Log,
        };
        assert_eq!(range("1kB..1MiB~log@7"), expected);
        for wrong in ["", "1MB..1kB", "1MB@x", "big", "1MB@"] {
            assert!(wrong.parse::<SizeRange>().is_err(), "{wrong}");
        }
    }
}
