//! The first byte of a frame, where it is none of those that a question or a message begins with: how urgent a question is.
//!
//! Why here: who answers writes most of what a question brings, and must know whether somebody waits for it; the question
//! itself does not tell a chunk for a reader from one for a pin. Invariants: marks are said only to who said on this link
//! that it speaks [`MARKS`] or later, so releases before hear what they always heard; a frame without a mark means what
//! it always meant; marks are bytes that no version of a question, a message or a word within a site begins with.

use skerry_federation::budget::Class;

/// The words of this release, machine and marks together: 1 knows no areas, 2 does, 3 knows marks too, 4 takes several
/// questions for chunks on a stream, 5 gives the rest of a chunk, and takes another question behind an object too, 6 knows sites on metered links, 7 has them be no
/// landmarks, 8 says with a question for a bucket what is wanted, and takes and gives it with the answer; it takes with a forwarded write what that replaces,
/// 9 with the end of an upload, too, 10 says of what it has seen that it is the same, 11 takes with a version at how many sites it is to be kept. Said and asked on
/// each link; what the machine says depends on its own part of it (`skerry_federation::limits::DIALECT`).
pub(crate) const DIALECT: u8 = 11;
/// Who speaks this reads marks and packed frames.
pub(crate) const MARKS: u8 = 3;
/// Who speaks this waits for another question on a stream on which it gave a chunk.
pub(crate) const KEEPS: u8 = 4;
/// Who speaks this gives the rest of a chunk behind an offset, and waits longer, also behind an object.
pub(crate) const RESUMES: u8 = 5;
/// Who speaks this takes what a forwarded write replaces.
pub(crate) const REPLACES: u8 = 8;
/// Who speaks this takes what the end of an upload replaces.
pub(crate) const COMPLETES: u8 = 9;
/// Who speaks this compares what was seen by a digest.
pub(crate) const COMPARES: u8 = 10;
/// Who speaks this takes at how many sites a version is to be kept that it is to hold.
pub(crate) const PROMISES: u8 = 11;

/// The marks of the classes: this and the three that follow, the most urgent first.
const CLASS: u8 = 0xc0;

/// A question with its class.
pub(crate) fn marked(class: Class, question: &[u8]) -> Vec<u8> {
    let mark = Class::ALL.into_iter().zip(CLASS..).find(|(one, _)| *one == class).map(|(_, mark)| mark);
    mark.into_iter().chain(question.iter().copied()).collect()
}

/// The class of a question, if it has a mark, and the question.
pub(crate) fn read(frame: &[u8]) -> (Option<Class>, &[u8]) {
    match frame.split_first() {
        Some((mark, question)) => {
            let class = mark.checked_sub(CLASS).and_then(|at| Class::ALL.get(usize::from(at)).copied());
            (class, if class.is_some() { question } else { frame })
        }
        None => (None, frame),
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::codec::{self, Versioned};
    use skerry_base::{BucketId, ChunkId};
    use skerry_federation::Message;

    use super::*;
    use crate::nodes::is_word;
    use crate::peers::message::Request;

    /// Fixtures of dialect 3: the marks, and that they are nothing else's first byte.
    #[test]
    fn marks_of_dialect_3() {
        let question = codec::encode(&Request::Chunk { domain: BucketId([1; 16]), chunk: ChunkId([2; 32]) });
        assert_eq!(read(&question), (None, &question[..]));
        for (class, mark) in Class::ALL.into_iter().zip([0xc0, 0xc1, 0xc2, 0xc3]) {
            let frame = marked(class, &question);
            assert_eq!(frame[0], mark);
            assert_eq!(read(&frame), (Some(class), &question[..]));
            assert!(mark != Request::VERSION && mark != Message::VERSION && !is_word(&frame));
            // What a release of dialect 2 would do with it, if it were ever said to one.
            assert!(codec::decode::<Request>(&frame).is_err());
        }
        for other in [&[][..], &[0xbf, 1], &[0xc4, 1], &[0xff]] {
            assert_eq!(read(other), (None, other));
        }
    }
}
