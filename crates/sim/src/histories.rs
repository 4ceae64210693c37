//! Histories of conditional operations as their clients saw them, for a checker that is not ours.
//!
//! One line of JSON per operation: a key, what was asked, what was answered, and between which two turns of the world
//! it ran. Each key is a register of ETags: a put or delete names the state that it expects. What no answer came to is
//! `unknown`: it may have happened at any later time, or never. `crates/sim/linear` checks them (porcupine).
//!
//! Invariant: an operation that certainly did nothing and said nothing about the key is not in a history.

use std::fmt;

use crate::checkers::races::Expected;

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// To read the key.
    Get,
    /// To put this, if the key is as expected.
    Put(String),
    /// To delete it, if the key is as expected.
    Delete,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// Nothing, yet or ever.
    Unknown,
    /// It was done.
    Done,
    /// The key was not as expected.
    Missed,
    /// The key read so.
    Read(Expected),
    /// It was refused, whatever the key was: it is left out.
    Refused,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Of which key.
    pub key: String,
    /// The site of its client.
    pub site: usize,
    /// What was asked.
    pub act: Act,
    /// The state that was expected.
    pub expected: Expected,
    /// The turn in which it began.
    pub begun: u64,
    /// The turn in which its answer came.
    pub ended: Option<u64>,
    /// What that was.
    pub answered: Answered,
}

/// An operation of the world of a seed, as a line.
pub struct Line<'a>(pub u64, pub &'a Operation);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seed, operation) = self;
        let (act, new) = match &operation.act {
            Act::Get => ("get", None),
            Act::Put(etag) => ("put", Some(etag)),
            Act::Delete => ("delete", None),
        };
        let (answered, read) = match &operation.answered {
            Answered::Unknown => ("unknown", None),
            Answered::Done => ("done", None),
            Answered::Missed => ("missed", None),
            Answered::Read(found) => ("read", found.as_ref()),
            Answered::Refused => ("refused", None),
        };
        let key = &operation.key;
        write!(f, r#"{{"key":"{seed}/{key}","site":{},"act":"{act}","#, operation.site)?;
        write!(f, r#""expected":"{}","new":"{}","#, text(operation.expected.as_ref()), text(new))?;
        write!(f, r#""answered":"{answered}","read":"{}","begun":{}"#, text(read), operation.begun)?;
        match operation.ended {
            Some(ended) => write!(f, r#","ended":{ended}}}"#),
            None => f.write_str("}"),
        }
    }
}

/// ETags are hexadecimal; no object is the empty text.
fn text(state: Option<&String>) -> &str {
    state.map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_a_line() {
        let mut operation = Operation {
            key: "b/race-0".into(),
            site: 1,
            act: Act::Put("ab".into()),
            expected: None,
            begun: 3,
            ended: None,
            answered: Answered::Unknown,
        };
        let line = r#"{"key":"7/b/race-0","site":1,"act":"put","expected":"","new":"ab","answered":"unknown","read":"","begun":3}"#;
        assert_eq!(Line(7, &operation).to_string(), line);
        operation.ended = Some(9);
        operation.answered = Answered::Read(Some("cd".into()));
        operation.act = Act::Get;
        let line = r#"{"key":"7/b/race-0","site":1,"act":"get","expected":"","new":"","answered":"read","read":"cd","begun":3,"ended":9}"#;
        assert_eq!(Line(7, &operation).to_string(), line);
    }
}
