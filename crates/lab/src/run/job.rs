//! What one client has to do in a step: work that ends by itself, or a question that is asked until the answer is right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use skerry_bench::plan::Plan;
use skerry_bench::sample::Sample;

use super::client::Client;
use super::error::RunError;
use super::phase::{Answer, Heard, heard};
use super::talk::Ask;
use crate::rivals::TargetConfig;

/// Between two asks of a question that is not answered rightly yet, at least.
const RETRY: Duration = Duration::from_millis(100);
/// The same as a multiple of what the last ask took: looking must not become the load.
const REST: f64 = 2.0;

/// One client's part in a step.
#[derive(Debug)]
pub(super) struct Job {
    /// The place of its step among those that are played together.
    pub(super) member: usize,
    /// The client, by its place.
    pub(super) client: usize,
    target: TargetConfig,
    work: Work,
    /// Operations that ended, as far as it said.
    pub(super) operations: u64,
    /// What it came to, and when that was known.
    pub(super) answer: Option<(Answer, Instant)>,
}

/// What is asked for.
#[derive(Debug)]
pub(super) enum Work {
    /// Once.
    Once(Plan),
    /// Until all is there.
    Until(Until),
}

/// Questions, each asked until its answer is right, then the next.
#[derive(Debug)]
pub(super) struct Until {
    questions: Vec<Plan>,
    next: usize,
    /// Nothing is asked before this moment; none while an answer is waited for.
    rest: Option<Instant>,
    /// What was wrong with the last answer.
    last: String,
    /// When the first of the right answers without a wrong one after it was asked for.
    since: Option<Instant>,
}

impl Until {
    /// Of at least one question.
    pub(super) fn new(questions: Vec<Plan>) -> Self {
        Self { questions, next: 0, rest: None, last: String::new(), since: None }
    }

    /// Takes an answer; the last right one is that of all, its time from `begin` on. Its first byte is the moment from
    /// which on no answer was wrong.
    fn hear(&mut self, answer: Answer, (begin, now): (Instant, Instant)) -> Option<Answer> {
        let failed = answer.samples.first().map(|sample| sample.failure.to_string()).unwrap_or_default();
        if !failed.is_empty() {
            self.last = answer.examples.get(failed.as_str()).cloned().unwrap_or(failed);
            self.since = None;
            self.rest = Some(now + RETRY.max(Duration::from_secs_f64(answer.seconds * REST)));
            return None;
        }
        let asked = now.checked_sub(Duration::from_secs_f64(answer.seconds)).unwrap_or(now);
        let since = *self.since.get_or_insert(asked);
        self.next += 1;
        self.rest = Some(now);
        if self.next < self.questions.len() {
            return None;
        }
        let nanos = |moment: Instant| moment.saturating_duration_since(begin).as_nanos() as u64;
        let whole = |sample: Sample| Sample {
            start_ns: 0,
            wait_ns: 0,
            connect_ns: 0,
            bytes: 0,
            first_byte_ns: nanos(since),
            total_ns: nanos(now),
            ..sample
        };
        let seconds = now.saturating_duration_since(begin).as_secs_f64();
        let samples = answer.samples.into_iter().take(1).map(whole).collect();
        Some(Answer { seconds, samples, examples: BTreeMap::new() })
    }
}

impl Job {
    /// A part that has not begun.
    pub(super) fn new(member: usize, client: usize, target: TargetConfig, work: Work) -> Self {
        Self { member, client, target, work, operations: 0, answer: None }
    }

    /// How many operations it will have, if that is known.
    pub(super) fn expected(&self) -> u64 {
        match &self.work {
            Work::Once(plan) => plan.phases.first().and_then(|phase| phase.operations).unwrap_or(0),
            Work::Until(_) => 1,
        }
    }

    /// Gives the client its work, to begin at that moment.
    pub(super) fn hand_out(
        &mut self,
        client: &mut Client,
        begin: Instant,
        begin_wall_ms: u64,
    ) -> Result<(), RunError> {
        match &mut self.work {
            Work::Once(plan) => {
                let plan = Plan { begin_wall_ms: Some(begin_wall_ms), ..plan.clone() };
                client.ask(&Ask { plan, target: self.target.clone() })
            }
            Work::Until(until) => {
                until.rest = Some(begin);
                Ok(())
            }
        }
    }

    /// Looks what became of it; `begin` is that of the step.
    pub(super) fn look(&mut self, client: &mut Client, begin: Instant) -> Result<(), RunError> {
        if self.answer.is_some() {
            return Ok(());
        }
        let now = Instant::now();
        if let Work::Until(until) = &mut self.work
            && let Some(rest) = until.rest
        {
            if let Some(plan) = until.questions.get(until.next).filter(|_| now >= rest).cloned() {
                until.rest = None;
                client.ask(&Ask { plan, target: self.target.clone() })?;
            }
            return Ok(());
        }
        match heard(client)? {
            Some(Heard::At(operations)) => self.operations = operations,
            Some(Heard::Answer(answer)) => {
                let answer = match &mut self.work {
                    Work::Once(_) => Some(answer),
                    Work::Until(until) => until.hear(answer, (begin, now)),
                };
                self.answer = answer.map(|answer| (answer, now));
            }
            None => {}
        }
        Ok(())
    }

    /// What it waits for, in words.
    pub(super) fn waits_for(&self) -> String {
        match &self.work {
            Work::Until(until) if !until.last.is_empty() => format!(" ({})", until.last),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use skerry_bench::target::Operation;

    fn plan() -> Plan {
        Plan { name: "p".into(), seed: 1, client: 1, trials: 1, begin_wall_ms: None, phases: Vec::new() }
    }

    fn answer(seconds: f64, failure: &str) -> Answer {
        let sample = Sample {
            phase: "p".into(),
            trial: 1,
            client: 1,
            worker: 0,
            warm_up: false,
            operation: Operation::List,
            bucket: "b".into(),
            key: String::new(),
            bytes: 7,
            start_ns: 5,
            wait_ns: 0,
            connect_ns: 3,
            first_byte_ns: 4,
            total_ns: 9,
            failure: failure.into(),
        };
        let examples = BTreeMap::from([("wrong".to_owned(), "1 of 2 keys".to_owned())]);
        Answer { seconds, samples: vec![sample], examples }
    }

    #[test]
    fn a_question_is_asked_until_its_answer_is_right_and_the_time_counts_from_the_begin() {
        let begin = Instant::now();
        let at = |seconds: u64| (begin, begin + Duration::from_secs(seconds));
        let mut until = Until::new(vec![plan(), plan()]);
        assert!(until.hear(answer(1.0, "wrong"), at(1)).is_none());
        assert_eq!((until.next, until.last.as_str()), (0, "1 of 2 keys"));
        // Looking takes a third of the time at most.
        assert_eq!(until.rest, Some(begin + Duration::from_secs(3)));
        assert!(until.hear(answer(1.0, ""), at(4)).is_none());
        assert_eq!((until.next, until.rest), (1, Some(begin + Duration::from_secs(4))));
        assert!(until.hear(answer(1.0, "wrong"), at(6)).is_none());
        let whole = until.hear(answer(2.0, ""), at(10)).unwrap();
        let sample = &whole.samples[0];
        assert!((whole.seconds - 10.0).abs() < 1e-9 && sample.failure.is_empty());
        assert_eq!((sample.first_byte_ns, sample.total_ns), (8_000_000_000, 10_000_000_000));
        assert_eq!((sample.bytes, sample.start_ns, sample.connect_ns), (0, 0, 0));
    }
}
