//! A member's answers: what is wanted is given with the answer, once for each question.
//!
//! A question reaches a member over several landmarks, and again where an answer was lost. Invariants: who does not know the
//! word, or whose question was answered by giving already, hears that this site is a member, and asks; no more than
//! [`limits::GIVEN`] questions are remembered, the oldest give way.

use std::collections::VecDeque;

use skerry_base::SiteId;

use super::answer::Question;
use crate::context::Context;
use crate::message::Said;
use crate::{Output, limits};

/// Questions that were answered so, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Given(VecDeque<(SiteId, u64)>);

impl Given {
    /// Answers a question to this site, which is a member.
    pub(super) fn answer(&mut self, mut question: Question, cx: &mut Context<'_>) {
        let knows = cx.peers.speaks_at_least(question.asker, limits::SEEKS);
        let wanted = question.wanted.take().filter(|_| knows && cx.peers.is_reachable(question.asker));
        match wanted.filter(|_| self.is_first((question.asker, question.ticket))) {
            Some(wanted) => {
                question.say(Said::Giving, cx);
                cx.stats.given += 1;
                cx.out.push(Output::Give { to: question.asker, bucket: question.bucket, wanted });
            }
            None => question.say(Said::Member, cx),
        }
    }

    fn is_first(&mut self, question: (SiteId, u64)) -> bool {
        if self.0.contains(&question) {
            return false;
        }
        if self.0.len() >= limits::GIVEN {
            self.0.pop_front();
        }
        self.0.push_back(question);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_given_to_once_and_few_are_remembered() {
        let (mut given, site) = (Given::default(), SiteId([1; 16]));
        assert!(given.is_first((site, 1)));
        assert!(!given.is_first((site, 1)));
        assert!(given.is_first((SiteId([2; 16]), 1)), "another asks by the same number");
        (2..2 * limits::GIVEN as u64).for_each(|ticket| assert!(given.is_first((site, ticket))));
        assert_eq!(given.0.len(), limits::GIVEN);
    }
}
