//! What happens between processes: connections, the door at both ends, the questions that prove a clone.

use super::{
    ANSWERS_WITHIN, ASK, Duration, Event, Instant, Link, Linked, Mistake, Suspicion, World, key_of, millis,
    node, seconds,
};
use skerry_federation::clones::{Door, door};

/// A connection whose ends have proven their keys. First the one that was dialled looks, then the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Greeting {
    /// Who looks.
    here: (usize, u64),
    /// Who came.
    there: (usize, u64),
    /// Whether the other end has looked.
    last: bool,
    /// The life that was asked whether it is there.
    asked: u64,
}

/// A clone was turned away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meeting {
    at: (usize, u64),
    key: usize,
    stood: u64,
    came: u64,
}

/// Three questions, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proof {
    at: (usize, u64),
    other: (usize, u64),
    suspicion: Suspicion,
    step: u8,
}

impl World {
    /// Dials every key that there is no link to.
    pub(super) fn dial(&mut self, number: usize) {
        if !self.processes[number].up {
            return;
        }
        let own = self.processes[number].key;
        for key in (0..self.keys).filter(|key| *key != own) {
            if self.processes[number].links.contains_key(&key) {
                continue;
            }
            let there = |other: &usize| {
                let process = &self.processes[*other];
                process.key == key && process.up && self.reaches(number, *other)
            };
            let there: Vec<usize> = (0..self.processes.len()).filter(there).collect();
            if let Some(&other) = self.draw.pick(&there) {
                let life = |process: usize| (process, self.processes[process].life);
                let greeting = Greeting { here: life(other), there: life(number), last: false, asked: 0 };
                self.plan(millis(5)..=millis(400), Event::Greet(greeting));
            }
        }
        self.plan(seconds(5)..=seconds(30), Event::Dial(number));
    }

    pub(super) fn greet(&mut self, greeting: Greeting) {
        let Greeting { here, there, .. } = greeting;
        if !self.is(here) || !self.is(there) || !self.reaches(here.0, there.0) {
            return;
        }
        let key = self.processes[there.0].key;
        let standing = self.peer(here.0, key).map(|(_, life)| life);
        let refused = self.processes[here.0].machine.refused(node(key));
        match door(standing, there.1, &refused) {
            Door::Open => self.admitted(greeting),
            Door::Shut => self.turn_away(here, there),
            Door::Ask => {
                let asked = standing.unwrap_or_default();
                let answers = self.answers(here.0, key, asked) || self.mistake == Some(Mistake::NoQuestion);
                let span = if answers { self.draw.span(millis(5)..=millis(600)) } else { ANSWERS_WITHIN };
                self.plan(span..=span, Event::Answered(Greeting { asked, ..greeting }, answers));
            }
        }
    }

    pub(super) fn answered(&mut self, greeting: Greeting, answers: bool) {
        let Greeting { here, there, asked, .. } = greeting;
        if !self.is(here) {
            return;
        }
        if !answers {
            return self.admitted(greeting);
        }
        let key = self.processes[there.0].key;
        self.turn_away(here, there);
        let meeting = Meeting { at: here, key, stood: asked, came: there.1 };
        self.plan(millis(20)..=seconds(1), Event::Met(meeting));
    }

    fn admitted(&mut self, greeting: Greeting) {
        let Greeting { here, there, last, .. } = greeting;
        if !self.is(here) || !self.is(there) || !self.reaches(here.0, there.0) {
            return;
        }
        if !last {
            return self.greet(Greeting { here: there, there: here, last: true, asked: 0 });
        }
        // What was found while the other end was asked counts.
        for (one, other) in [(here, there), (there, here)] {
            let key = self.processes[other.0].key;
            if self.processes[one.0].machine.refused(node(key)).contains(&other.1) {
                return self.turn_away(one, other);
            }
        }
        self.numbers += 1;
        self.links.insert(self.numbers, Link { ends: [here, there] });
        for (one, other) in [(here, there), (there, here)] {
            let key = self.processes[other.0].key;
            self.processes[one.0].copied.remove(&key);
            if let Some(former) = self.processes[one.0].links.insert(key, self.numbers) {
                self.lose(former);
            }
            self.set_linked(one.0);
        }
        self.count("links");
    }

    fn turn_away(&mut self, here: (usize, u64), there: (usize, u64)) {
        self.count("turned away");
        self.judge_innocent(there.1);
        let key = self.processes[here.0].key;
        if self.is(there) {
            self.processes[there.0].copied.insert(key);
        }
    }

    /// The others are asked before it is decided.
    pub(super) fn met(&mut self, meeting: Meeting) {
        let Meeting { at, key, stood, came } = meeting;
        if !self.is(at) {
            return;
        }
        let now = self.queue.now();
        let mut there = Linked { life: came, for_ms: 0 };
        let others = self.processes[at.0].links.keys();
        let others: Vec<(usize, u64)> = others.filter_map(|key| self.peer(at.0, *key)).collect();
        for (other, life) in others {
            if !self.answers(at.0, self.processes[other].key, life) {
                continue;
            }
            let word = self.processes[other].machine.word(&[].into(), now);
            self.take(at.0, &word, now);
            let known = word.linked.iter().filter(|(of, linked)| *of == node(key) && linked.life == came);
            there.for_ms = known.map(|(_, linked)| linked.for_ms).fold(there.for_ms, u64::max);
        }
        let here = self.processes[at.0].machine.linked(node(key), now).filter(|here| here.life == stood);
        self.decide(at.0, key, here.unwrap_or(Linked { life: stood, for_ms: 0 }), there);
    }

    fn take(
        &mut self,
        number: usize,
        word: &skerry_federation::clones::Word,
        now: Instant,
    ) -> Vec<Suspicion> {
        if self.mistake == Some(Mistake::Unsaid) {
            let word = skerry_federation::clones::Word { found: Vec::new(), ..word.clone() };
            return self.processes[number].machine.hear(&word, now).0;
        }
        let (suspicions, is_news) = self.processes[number].machine.hear(word, now);
        if is_news {
            self.count("heard of");
            self.remember(number);
        }
        suspicions
    }

    fn decide(&mut self, number: usize, key: usize, here: Linked, there: Linked) {
        if self.processes[number].machine.prove(node(key), here, there) {
            self.count("found");
            self.judge_pair(here.life, there.life);
            self.remember(number);
        }
    }

    /// Asks one other site whom it is linked with.
    pub(super) fn ask(&mut self, number: usize) {
        let now = self.queue.now();
        if !self.processes[number].up {
            return;
        }
        self.plan(seconds(1)..=seconds(5), Event::Ask(number));
        if self.processes[number].ask_at > now {
            return;
        }
        self.processes[number].ask_at = now.after(ASK);
        let keys: Vec<usize> = self.processes[number].links.keys().copied().collect();
        let Some(other) = self.draw.pick(&keys).and_then(|key| self.peer(number, *key)) else { return };
        if !self.answers(number, self.processes[other.0].key, other.1) {
            return;
        }
        let word = self.processes[other.0].machine.word(&[].into(), now);
        for suspicion in self.take(number, &word, now) {
            self.count("suspicions");
            let at = (number, self.processes[number].life);
            let proof = Proof { at, other, suspicion, step: 0 };
            if self.mistake == Some(Mistake::Believed) {
                self.decide(number, key_of(suspicion.node), suspicion.here, suspicion.there);
            } else {
                self.plan(millis(5)..=millis(800), Event::Prove(proof));
            }
        }
    }

    /// One of the three answers.
    pub(super) fn prove(&mut self, proof: Proof) {
        let Proof { at, other, suspicion: Suspicion { node, here, there }, step } = proof;
        let key = key_of(node);
        let answers = match step {
            1 => {
                self.answers(at.0, self.processes[other.0].key, other.1)
                    && self.is(other)
                    && self.answers(other.0, key, there.life)
            }
            _ => self.answers(at.0, key, here.life),
        };
        if !self.is(at) || !answers {
            return;
        }
        if step < 2 {
            let next: std::ops::RangeInclusive<Duration> = millis(5)..=millis(800);
            return self.plan(next, Event::Prove(Proof { step: step + 1, ..proof }));
        }
        self.count("proven from afar");
        self.decide(at.0, key, here, there);
    }
}
