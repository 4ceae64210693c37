//! A link that gives so many bytes a second, shared equally by what is on its way, as streams share one.

use super::*;

const CHUNK: u64 = 1 << 20;
const TICK: Duration = Duration::from_millis(20);

/// A reader, or a maker of copies, that wants some chunks ahead.
struct Body {
    class: Class,
    ahead: usize,
    /// Chunks that it has asked for and not taken yet, in order, by ticket; whether they came.
    asked: Vec<(u64, bool)>,
    place: u64,
    got: u64,
}

struct Link {
    flow: Flow,
    now: Instant,
    rate: u64,
    bodies: Vec<Body>,
    /// What is still to come, of whom, and since when.
    coming: BTreeMap<u64, (u64, Instant)>,
    longest: Duration,
    most: usize,
    most_bytes: u64,
}

impl Link {
    fn new(rate: u64) -> Self {
        let (flow, now) = (Flow::default(), Instant(1));
        let (bodies, coming, longest) = (Vec::new(), BTreeMap::new(), Duration::ZERO);
        Self { flow, now, rate, bodies, coming, longest, most: 0, most_bytes: 0 }
    }

    fn read(&mut self, class: Class, ahead: usize) {
        self.bodies.push(Body { class, ahead, asked: Vec::new(), place: 0, got: 0 });
    }

    fn tick(&mut self) {
        for (number, body) in self.bodies.iter_mut().enumerate() {
            while body.asked.first().is_some_and(|(_, came)| *came) {
                body.asked.remove(0);
                body.got += 1;
            }
            while body.asked.len() < body.ahead {
                let errand = Errand { class: body.class, reader: number as u64, place: body.place };
                body.asked.push((self.flow.ask(errand, CHUNK), false));
                body.place += 1;
            }
        }
        while let Some(ticket) = self.flow.call() {
            self.coming.insert(ticket, (CHUNK, self.now));
        }
        self.most = self.most.max(self.coming.len());
        self.most_bytes = self.most_bytes.max(self.coming.values().map(|(left, _)| left).sum());
        self.now = self.now.after(TICK);
        let mut gives = self.rate * TICK.as_millis() as u64 / 1000;
        while gives > 0 && !self.coming.is_empty() {
            let each = (gives / self.coming.len() as u64).max(1);
            for ticket in self.coming.keys().copied().collect::<Vec<_>>() {
                let Some((left, since)) = self.coming.get_mut(&ticket) else { continue };
                let bytes = each.min(*left).min(gives);
                *left -= bytes;
                gives -= bytes;
                let (is_whole, since) = (*left == 0, *since);
                self.flow.came(ticket, bytes, self.now);
                if is_whole {
                    self.longest = self.longest.max(self.now.since(since));
                    self.coming.remove(&ticket);
                    self.flow.leave(ticket);
                    let all = self.bodies.iter_mut().flat_map(|body| &mut body.asked);
                    all.filter(|(asked, _)| *asked == ticket).for_each(|(_, came)| *came = true);
                }
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now.after(Duration::from_secs(seconds));
        while self.now < end {
            self.tick();
        }
    }
}

#[test]
fn a_slow_link_has_one_or_two_chunks_on_their_way_and_is_never_idle() {
    for kbit in [70, 200, 500, 1000] {
        let rate = kbit * 125;
        let mut link = Link::new(rate);
        link.read(Class::Read, 8);
        // From a link of which nothing is known two are asked for.
        link.run(300);
        assert!(link.most_bytes <= 2 * CHUNK, "{} bytes at once at {kbit} kbit/s", link.most_bytes);
        link.longest = Duration::ZERO;
        link.run(600);
        let alone = CHUNK as f64 / rate as f64;
        assert!(link.longest.as_secs_f64() < 1.6 * alone + 5.0, "{:?} at {kbit} kbit/s", link.longest);
        let got = link.bodies[0].got as f64 * CHUNK as f64 + (2 * CHUNK) as f64;
        assert!(got > 0.97 * rate as f64 * 900.0, "{got} bytes at {kbit} kbit/s");
    }
}

#[test]
fn a_fast_link_has_all_that_a_reader_wants_on_its_way_before_two_chunks_came() {
    let mut link = Link::new(12 << 20);
    link.read(Class::Read, 8);
    while link.bodies[0].got < 2 {
        link.tick();
    }
    link.tick();
    assert!(link.most >= 8, "{} on their way", link.most);
}

#[test]
fn what_a_link_gives_is_learnt_anew_when_it_changes() {
    let mut link = Link::new(8 << 20);
    link.read(Class::Read, 16);
    link.run(5);
    assert!(link.most >= 16);
    link.rate = 32 << 10;
    // What was asked for before comes first.
    link.run(16 * 33);
    link.most = 0;
    link.run(120);
    assert!(link.most <= 2, "{} after it became slow", link.most);
    link.rate = 8 << 20;
    link.run(5);
    assert!(link.most >= 16, "{} after it became fast", link.most);
}

#[test]
fn many_copies_over_a_slow_link_come_one_after_the_other() {
    let mut link = Link::new(64 << 10);
    (0..12).for_each(|_| link.read(Class::Copy, 1));
    link.run(300);
    assert!(link.most_bytes <= 2 * CHUNK, "{} bytes at once", link.most_bytes);
    // Of the first body more came than of the last: it is there sooner, and what breaks costs little.
    let got: Vec<u64> = link.bodies.iter().map(|body| body.got).collect();
    assert!(got[0] > 4 && got[11] == 0, "{got:?}");
}

#[test]
fn readers_and_small_chunks_go_at_once_and_one_copy_goes_beside_them() {
    let mut link = Link::new(64 << 10);
    link.read(Class::Copy, 4);
    link.read(Class::Read, 8);
    link.run(300);
    link.read(Class::Read, 8);
    link.run(1);
    let on_their_way =
        |link: &Link, reader: u64| link.flow.readers.range((reader, 0, 0)..(reader + 1, 0, 0)).count();
    assert_eq!(on_their_way(&link, 2), 1, "another reader's first chunk");
    assert_eq!(on_their_way(&link, 0), 1, "a copy, and no more beside reads");
    let errand = Errand { class: Class::Read, reader: 1, place: 1000 };
    let small = link.flow.ask(errand, SMALL_BYTES);
    assert_eq!(link.flow.call(), Some(small));
}

/// Whatever is asked, comes or is given up in any order: who waits is called once all that is on its way has gone.
#[test]
fn nobody_who_waits_is_forgotten() {
    for seed in 0..200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut dice = move |sides: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % sides
        };
        let (mut flow, mut now) = (Flow::default(), Instant(1));
        let (mut waiting, mut going) = (BTreeSet::new(), Vec::new());
        for _ in 0..400 {
            now = now.after(Duration::from_millis(dice(500)));
            match dice(4) {
                0 | 1 => {
                    let class = if dice(2) == 0 { Class::Copy } else { Class::Read };
                    let errand = Errand { class, reader: dice(4), place: dice(9) };
                    waiting.insert(flow.ask(errand, dice(CHUNK)));
                }
                2 if !going.is_empty() => {
                    let ticket = going[dice(going.len() as u64) as usize];
                    flow.came(ticket, dice(CHUNK), now);
                }
                _ if !going.is_empty() => flow.leave(going.swap_remove(dice(going.len() as u64) as usize)),
                _ => {}
            }
            while let Some(ticket) = flow.call() {
                assert!(waiting.remove(&ticket));
                going.push(ticket);
            }
            assert!(waiting.is_empty() || !going.is_empty(), "seed {seed}: somebody waits for nothing");
        }
        while let Some(ticket) = going.pop() {
            flow.leave(ticket);
            going.extend(std::iter::from_fn(|| flow.call()).inspect(|ticket| {
                waiting.remove(ticket);
            }));
        }
        assert!(waiting.is_empty(), "seed {seed}: {waiting:?} wait for ever");
        assert_eq!((flow.left, flow.left_of_copies, flow.copies), (0, 0, 0));
    }
}

#[test]
fn a_slow_link_that_is_busy_is_told_from_a_silent_one() {
    let span = Duration::from_secs(15);
    assert!(!is_held_up(0, span) && !is_held_up(4 << 10, span), "nothing, or signs of life");
    assert!(is_held_up(130_000, span) && is_held_up(10 << 20, span));
    assert!(!is_held_up(200 << 20, span), "there an answer has no queue to wait in");
}
