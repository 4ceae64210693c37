//! When a site may be switched off, and when it only looks so.

use skerry_base::NodeId;

use super::*;

const BUCKET: BucketId = BucketId([9; 16]);
const NEAR: SiteId = SiteId([2; 16]);
const FAR: SiteId = SiteId([3; 16]);

fn origin(node: u8, incarnation: u64) -> Origin {
    Origin { node: NodeId([node; 16]), incarnation }
}

fn dot(seq: u64) -> Dot {
    Dot { origin: origin(1, 1), seq }
}

fn upto(seq: u64) -> Vector {
    Vector::from_iter([(origin(1, 1), seq)])
}

fn own(seq: u64, members: &[SiteId], home: bool) -> BTreeMap<BucketId, Own> {
    let members = members.iter().copied().collect();
    [(BUCKET, Own { vector: upto(seq), members, home, may_be_named: false })].into()
}

/// What a site says that has everything up to `seq` and holds these bodies, in its n-th life.
fn word(life: u64, seq: u64, bodies: Option<&[u64]>) -> Word {
    let spans = bodies.unwrap_or_default().iter().map(|seq| dot(*seq)).collect();
    let from = if bodies.is_some() { Vector::new() } else { upto(seq) };
    let held = Held { from, spans, upto: upto(seq) };
    Word { life: origin(2, life), seen: Some(upto(seq)), held }
}

#[derive(Default)]
struct Run {
    drain: Drain,
    now: u64,
}

impl Run {
    fn new(sites: &[SiteId]) -> Self {
        let mut run = Self::default();
        run.tell(Input::Sites(sites.to_vec()));
        run
    }

    fn tell(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.now += 1_000_000_000;
        self.drain.handle(input, Instant(self.now), &mut out);
        out
    }

    fn said(&mut self, site: SiteId, word: Word) -> Vec<Output> {
        self.tell(Input::Said(BUCKET, site, word))
    }

    /// The shell's look through the bodies.
    fn scan(&mut self, bodies: &[u64]) -> Vec<Output> {
        let lacking = bodies.iter().filter(|seq| !self.drain.holds(BUCKET, dot(**seq))).count() as u64;
        self.tell(Input::Scanned { bodies: lacking, bytes: lacking * 100, others: 0, believed: 0 })
    }
}

fn ask(site: SiteId, life: Option<u64>, seq: u64) -> Output {
    Output::Ask { bucket: BUCKET, site, life: life.map(|life| origin(2, life)), from: upto(seq) }
}

#[test]
fn what_nobody_follows_is_given_to_the_nearest_and_safe_is_confirmed_in_full() {
    let mut run = Run::new(&[NEAR, FAR]);
    // Nobody to ask: nobody follows.
    let out = run.tell(Input::Look(own(2, &[], false)));
    assert_eq!(out, [Output::Follow(BUCKET, NEAR), Output::Scan]);
    let out = run.scan(&[1, 2]);
    assert_eq!(out, [Output::Lacks(Lacking { records: 2, bodies: 2, bytes: 200, ..Lacking::default() })]);
    // It follows by now, and one body was placed.
    run.tell(Input::Took(BUCKET, dot(1), NEAR));
    assert_eq!(run.tell(Input::Look(own(2, &[NEAR], false))), [ask(NEAR, None, 0)]);
    assert_eq!(run.said(NEAR, word(1, 2, Some(&[1]))), [Output::Scan]);
    assert_eq!(run.scan(&[1, 2]), [Output::Lacks(Lacking { bodies: 1, bytes: 100, ..Lacking::default() })]);
    assert_eq!(run.drain.remaining(Instant(run.now)).map(|left| left.as_secs() > 0), Some(true));
    run.tell(Input::Took(BUCKET, dot(2), NEAR));
    assert_eq!(run.tell(Input::Look(own(2, &[NEAR], false))), [ask(NEAR, Some(1), 2)]);
    assert_eq!(run.said(NEAR, word(1, 2, None)), [Output::Scan]);
    assert_eq!(run.scan(&[1, 2]), [ask(NEAR, None, 0)], "asked again, in full");
    let safe = Output::Safe([(BUCKET, upto(2))].into());
    let out = run.said(NEAR, word(1, 2, Some(&[1, 2])));
    assert_eq!((out.len(), out.first()), (1, Some(&safe)));
    // Looked at again it is confirmed in short.
    run.tell(Input::Look(own(2, &[NEAR], false)));
    run.said(NEAR, word(1, 2, None));
    assert_eq!(run.scan(&[1, 2]), [ask(NEAR, Some(1), 2)]);
    assert_eq!(run.said(NEAR, word(1, 2, None)), [safe]);
    assert!(run.drain.is_resting());
}

/// Everything is at NEAR, up to the confirmation.
fn nearly() -> Run {
    let mut run = Run::new(&[NEAR, FAR]);
    run.tell(Input::Look(own(1, &[NEAR, FAR], false)));
    run.said(NEAR, word(1, 1, Some(&[1])));
    assert_eq!(run.said(FAR, word(5, 1, Some(&[]))), [Output::Scan]);
    assert_eq!(run.scan(&[1]), [ask(NEAR, None, 0), ask(FAR, None, 0)]);
    run.said(FAR, word(5, 1, Some(&[])));
    run
}

#[test]
fn a_holder_that_was_started_anew_before_it_confirmed_is_not_rested_on() {
    let mut run = nearly();
    let out = run.said(NEAR, word(2, 1, Some(&[1])));
    assert!(matches!(out[..], [Output::Doubt]), "{out:?}");
    assert!(
        run.drain.holds(BUCKET, dot(1)),
        "it says that it holds it still: the next look may find it safe"
    );
    let mut run = nearly();
    let out = run.said(NEAR, word(2, 1, Some(&[])));
    assert!(matches!(out[..], [Output::Doubt]) && !run.drain.holds(BUCKET, dot(1)), "{out:?}");
}

#[test]
fn a_holder_that_is_gone_or_silent_or_let_go_before_it_confirmed_is_not_rested_on() {
    let out = nearly().tell(Input::Silent(BUCKET, NEAR));
    assert!(matches!(out[..], [Output::Doubt]), "{out:?}");
    let out = nearly().tell(Input::Sites(vec![FAR]));
    assert!(matches!(out[..], [Output::Doubt]), "{out:?}");
    let out = nearly().said(NEAR, word(1, 1, Some(&[])));
    assert!(matches!(out[..], [Output::Doubt]), "{out:?}");
}

#[test]
fn who_goes_itself_is_not_rested_on_and_another_follows_in_its_place() {
    // It began to go before it confirmed.
    let mut run = nearly();
    let out = run.tell(Input::Goes(BUCKET, NEAR));
    assert!(matches!(out[..], [Output::Doubt]) && !run.drain.holds(BUCKET, dot(1)), "{out:?}");
    // It says so at once: of the members nobody stays, so the next nearest follows.
    run.tell(Input::Look(own(1, &[NEAR], false)));
    assert_eq!(run.tell(Input::Silent(BUCKET, FAR)), []);
    let out = run.tell(Input::Goes(BUCKET, NEAR));
    assert_eq!(out, [Output::Follow(BUCKET, FAR), Output::Scan]);
    assert_eq!(run.drain.going().collect::<Vec<_>>(), [(BUCKET, NEAR)]);
    assert_eq!(
        run.scan(&[1]),
        [Output::Lacks(Lacking { records: 1, bodies: 1, bytes: 100, ..Lacking::default() })]
    );
    // It stays after all.
    run.tell(Input::Sites(vec![NEAR]));
    assert_eq!(run.tell(Input::Look(own(1, &[NEAR], false))), [ask(NEAR, None, 0)]);
    assert_eq!(run.said(NEAR, word(1, 1, Some(&[1]))), [Output::Scan]);
    assert_eq!((run.drain.going().count(), run.drain.holds(BUCKET, dot(1))), (0, true));
    // Nobody else is there: it says what is lacking, and who goes.
    run.tell(Input::Look(own(1, &[NEAR], true)));
    assert_eq!(run.tell(Input::Goes(BUCKET, NEAR)), [Output::Scan]);
    assert!(matches!(run.scan(&[1])[..], [Output::Lacks(Lacking { records: 1, bodies: 1, homes: 1, .. })]));
}

#[test]
fn records_are_elsewhere_only_if_somebody_who_answers_now_is_complete() {
    let mut run = Run::new(&[NEAR, FAR]);
    run.tell(Input::Look(own(3, &[NEAR, FAR], true)));
    run.said(NEAR, word(1, 2, Some(&[])));
    // A member that has not taken all yet.
    let joining = Word { seen: None, ..word(1, 3, Some(&[])) };
    assert_eq!(run.said(FAR, joining), [Output::Scan]);
    assert!(!run.drain.has_record(BUCKET, dot(3)) && run.drain.has_record(BUCKET, dot(2)));
    assert_eq!(run.scan(&[]), [Output::Lacks(Lacking { records: 1, homes: 1, ..Lacking::default() })]);
    run.tell(Input::Look(own(3, &[NEAR, FAR], true)));
    run.said(NEAR, word(1, 2, None));
    // The home goes to who has everything, not to the nearest.
    assert_eq!(run.said(FAR, word(1, 3, None)), [Output::Hand(BUCKET, FAR), Output::Scan]);
    assert_eq!(run.scan(&[]), [Output::Lacks(Lacking { homes: 1, ..Lacking::default() })]);
}

#[test]
fn what_was_said_before_and_taken_by_name_outlives_what_is_said_now() {
    let held = |dots: &[u64]| dots.iter().map(|seq| dot(*seq)).collect::<Spans>();
    let known = || Known { life: Some(origin(2, 1)), held: held(&[1, 9]), upto: upto(1), ..Known::default() };
    let says =
        |from: u64, dots: &[u64], to: u64| Held { from: upto(from), spans: held(dots), upto: upto(to) };
    let has = |known: &Known, dots: &[u64]| dots.iter().all(|seq| known.held.contains(dot(*seq)));
    let mut full = known();
    assert!(full.renew(says(0, &[1, 2], 2)) && has(&full, &[1, 2, 9]));
    let mut let_go = known();
    assert!(!let_go.renew(says(0, &[2], 2)), "1 was let go");
    assert!(!has(&let_go, &[1]) && has(&let_go, &[2, 9]));
    let mut further = known();
    assert!(further.renew(says(1, &[3], 4)) && has(&further, &[1, 3, 9]) && !has(&further, &[2]));
    assert_eq!(further.upto, upto(4));
}

#[test]
fn uploads_keep_a_site_and_an_island_is_never_safe() {
    let mut run = nearly();
    run.tell(Input::Look(own(1, &[NEAR], false)));
    run.said(NEAR, word(1, 1, None));
    run.said(FAR, word(5, 1, None));
    let out = run.tell(Input::Scanned { bodies: 0, bytes: 0, others: 2, believed: 0 });
    assert_eq!(out, [Output::Lacks(Lacking { others: 2, ..Lacking::default() })]);
    let mut alone = Run::new(&[]);
    assert_eq!(alone.tell(Input::Look(own(1, &[NEAR], false))), [Output::Scan]);
    assert!(matches!(alone.scan(&[1])[..], [Output::Lacks(_)]));
    // Nothing to hand over: nothing is lost.
    let mut empty = Run::new(&[]);
    empty.tell(Input::Look(BTreeMap::new()));
    assert_eq!(empty.scan(&[]), [Output::Safe(BTreeMap::new())]);
}

#[test]
fn a_body_is_kept_where_enough_hold_it_that_stay() {
    const AWAY: SiteId = SiteId([4; 16]);
    let mut run = Run::new(&[NEAR, FAR]);
    run.tell(Input::Look(own(1, &[NEAR, FAR], false)));
    run.said(NEAR, word(1, 1, Some(&[1])));
    let (once, twice, apart) = (Demand::anywhere(1), Demand::anywhere(2), Together::default());
    let kept = |run: &Run, wish: &Demand, promised: usize, may: &[SiteId]| {
        run.drain.is_kept((BUCKET, dot(1)), (wish, promised), &may.iter().copied().collect(), &apart)
    };
    assert!(kept(&run, &once, 0, &[NEAR, FAR]) && !kept(&run, &twice, 0, &[NEAR, FAR]));
    assert!(!kept(&run, &once, 2, &[NEAR, FAR]), "what was promised");
    assert!(kept(&run, &twice, 2, &[NEAR]), "the other one takes nothing of the bucket");
    assert!(!kept(&run, &once, 2, &[NEAR, AWAY]), "what was promised waits for one that is away");
    assert!(kept(&run, &twice, 0, &[NEAR, AWAY]), "what the bucket wants is seen to by who stays");
    // One that goes holds nothing, and nothing is asked of it.
    run.tell(Input::Goes(BUCKET, FAR));
    assert!(kept(&run, &twice, 2, &[NEAR, FAR]));
    run.tell(Input::Look(own(1, &[NEAR, FAR], false)));
    run.tell(Input::Goes(BUCKET, NEAR));
    assert!(!kept(&run, &once, 0, &[NEAR, FAR]) && run.drain.holders(BUCKET, dot(1)).is_empty());
}

/// It was said that nothing is lacking: who is silent since is believed, who answers that it has less is heard, and nothing is
/// said anew on such a belief.
#[test]
fn who_is_silent_is_believed_and_who_holds_less_is_heard() {
    let mut run = nearly();
    assert!(matches!(run.said(NEAR, word(1, 1, Some(&[1])))[..], [Output::Safe(_)]));
    let believed = |run: &mut Run, sites: &[SiteId]| {
        run.tell(Input::Sites(vec![FAR]));
        run.tell(Input::Believe(sites.iter().copied().collect()));
        run.tell(Input::Look(own(1, &[NEAR, FAR], false)));
        // The records are not at FAR any more either.
        assert_eq!(run.said(FAR, word(6, 0, Some(&[]))), [Output::Scan]);
        run.drain.believed_holders(BUCKET, dot(1)).into_iter().collect::<Vec<_>>()
    };
    let scanned = |bodies, believed| Input::Scanned { bodies, bytes: bodies * 100, others: 0, believed };
    assert_eq!(believed(&mut run, &[NEAR]), [NEAR]);
    assert!(run.drain.holders(BUCKET, dot(1)).is_empty());
    assert!(run.drain.is_believed_to_have(BUCKET, dot(1)) && !run.drain.has_record(BUCKET, dot(1)));
    assert_eq!(run.tell(scanned(0, 1)), [Output::Doubt], "nothing new is known");
    assert_eq!(believed(&mut run, &[NEAR]), [NEAR], "however often it is silent");
    assert_eq!(run.tell(scanned(0, 0)), [Output::Doubt], "a record is where only silence says so");
    // It was declared lost.
    assert_eq!(believed(&mut run, &[]), []);
    let lacking = Lacking { records: 1, bodies: 1, bytes: 100, ..Lacking::default() };
    assert_eq!(run.tell(scanned(1, 0)), [Output::Lacks(lacking)]);
    // It is there again, and begun anew.
    run.tell(Input::Sites(vec![NEAR, FAR]));
    run.tell(Input::Believe([NEAR].into()));
    run.tell(Input::Look(own(1, &[NEAR, FAR], false)));
    run.said(NEAR, word(2, 0, Some(&[])));
    run.said(FAR, word(6, 0, None));
    assert!(run.drain.believed_holders(BUCKET, dot(1)).is_empty(), "its word is no silence");
    assert_eq!(run.tell(scanned(1, 0)), [Output::Lacks(lacking)]);
}
