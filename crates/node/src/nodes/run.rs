//! Steps the machine: what comes from other nodes and from the clock goes in, what it wants is carried out in order behind
//! its stores.
//!
//! Invariants: one task owns the machine; a store that waits for the disk holds up what follows it and no beat; what could
//! not be stored is never followed by what depended on it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use skerry_base::SiteId;
use skerry_federation::site_view::{Durable, Input, Memory, Output, Seat, Seats, SiteView, Standing, limits};
use skerry_storage::{CommitError, Store};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::beside::Beside;
use super::memory::{Begun, Unusable, ViewFile, begin};
use super::met::Met;
use super::refusing::{Look, Refusing, hindrance};
use super::writes::{Question, UNITS, Unsettled, Writes, have_held};
use super::{ANSWERED, Door, Event, LEAVING, Nodes, Shown, WAITING, catch_up, gaps, lock, talk};
use crate::clock::Clock;
use crate::site::Site;
use crate::tasks::Tasks;
use crate::telemetry::seldom::Seldom;
use crate::trust::{SeatStatement, entropy};

/// What a start knows.
pub(crate) struct Start<'a> {
    /// The id of this node.
    pub(crate) member: SiteId,
    /// The seat that an admin gave it, if one did.
    pub(crate) seated: Option<SeatStatement>,
    /// `site.seats`.
    pub(crate) seats: u32,
    /// Starts of this store before.
    pub(crate) life: u64,
    /// Whether the site's directory was never started on.
    pub(crate) is_unstarted: bool,
    /// The disk.
    pub(crate) store: &'a Arc<Store>,
    /// The site's directory.
    pub(crate) place: &'a Path,
}

/// A machine that is ready to run.
pub(crate) struct Ready {
    memory: Memory,
    inbox: mpsc::Receiver<Event>,
}

/// Why a start failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unready {
    /// It cannot take its seat.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] entropy::NoEntropy),
    /// The memory of this start could not be made durable.
    #[error("the site's view could not be stored: {0}")]
    Store(String),
}

/// Makes what others use of the nodes of this site; with several seats also the machine, whose memory of this start is
/// durable when this returns.
pub(crate) async fn start(of: Start<'_>) -> Result<(Nodes, Option<Ready>), Unready> {
    let seat = of.seated.as_ref().map_or(Seat::FOUNDER, |said| said.seat);
    let site = of.seated.as_ref().map_or(of.member, |said| said.site);
    let seats = usize::try_from(of.seats).unwrap_or(usize::MAX);
    let turn = of.seated.as_ref().map_or(0, |said| said.turn);
    let view = of.store.view();
    let found = ViewFile::read(&view)?;
    let begun = Begun { seat, turn, seats, life: of.life, is_unstarted: of.is_unstarted };
    let memory = begin(found.as_ref(), begun, entropy::number()?)?;
    let kept = match &memory {
        Memory::Kept(durable) => Some(*durable),
        Memory::Blank(_) => None,
    };
    let stored_gaps = gaps::read(&view).map_err(|error| Unready::Store(error.to_string()))?;
    let shown = Shown {
        standing: Standing::Apart,
        view: None,
        holds_in: None,
        reads_until: None,
        refusing: Seats::NONE,
        stuck: Seats::NONE,
        heard: [None; limits::SEATS],
    };
    let mut nodes = Nodes {
        site,
        me: seat,
        all: Seats::first(seats),
        process: entropy::number()?,
        events: None,
        shown: Mutex::new(shown),
        turned: watch::Sender::new(None),
        memory: Mutex::new(kept),
        doors: Mutex::default(),
        unheard: Seldom::default(),
        met: Mutex::new(Met::read(&view)?),
        writes: Mutex::new(Writes::default()),
        lately: Mutex::default(),
        room: Semaphore::new(UNITS),
        fetching: Mutex::default(),
        has_caught_up: AtomicBool::new(false),
        gaps: Mutex::new(gaps::begin(&stored_gaps)),
        stored_gaps: tokio::sync::Mutex::new(stored_gaps),
        settled: Mutex::default(),
        unkept: Mutex::default(),
        passing: tokio::sync::Mutex::default(),
        naming: tokio::sync::Mutex::default(),
        taken_over: AtomicU64::new(0),
        asked: Arc::new(Semaphore::new(ANSWERED)),
        refusing: Refusing::default(),
    };
    // One node is its site. Only that its disk was emptied is remembered, for when there are more.
    let was_emptied = of.life == 0 && !of.is_unstarted;
    if seats > 1 || (was_emptied && found.is_none()) {
        let file = ViewFile::new(seats, kept.as_ref());
        keep(of.store, &Beside::of(of.place), file).await.map_err(Unready::Store)?;
    }
    if seats == 1 {
        return Ok((nodes, None));
    }
    let (events, inbox) = mpsc::channel(WAITING);
    nodes.events = Some(events);
    Ok((nodes, Some(Ready { memory, inbox })))
}

/// Runs the machine and what carries its words, until the site stops.
pub(crate) fn run(site: &Arc<Site>, ready: Ready, tasks: &Tasks) {
    let nodes = &site.nodes;
    for seat in nodes.all.without(nodes.me).iter() {
        let (words, leaving) = mpsc::channel(LEAVING);
        if let Some(door) = lock(&nodes.doors).get_mut(seat.index()) {
            *door = Door { words: Some(words), refused: None };
        }
        tasks.spawn(talk::speak(site.clone(), seat, leaving));
    }
    let levelled = site.clone();
    tasks.keep("bodies of nodes", move || super::bodies::level(levelled.clone()));
    let clock = site.clock;
    let machine = SiteView::new(nodes.me, nodes.all, ready.memory, clock.since_boot());
    let (store, nodes, inbox) = (site.store.clone(), nodes.clone(), ready.inbox);
    let (site, tasks) = (site.clone(), tasks.clone());
    let (storing, waiting) = (None, VecDeque::new());
    let (look, left, tasks_of) = (Look::default(), Seats::NONE, tasks.clone());
    let (files, kept) = mpsc::channel(FILES);
    tasks.spawn(keep_all(store, Beside::of(&site.place), kept));
    let stepper =
        Stepper { machine, nodes, files, clock, inbox, storing, waiting, site, look, left, tasks: tasks_of };
    tasks.spawn(stepper.run());
}

type Stored = oneshot::Receiver<Result<(), String>>;

/// What waits for the disk: one that somebody waits for, and one that forgets.
const FILES: usize = 4;

/// What is to be kept, and whoever waits for it.
type Keep = (ViewFile, oneshot::Sender<Result<(), String>>);

/// Stores in their order, until nobody hands in any more.
async fn keep_all(store: Arc<Store>, beside: Beside, mut files: mpsc::Receiver<Keep>) {
    while let Some((file, answer)) = files.recv().await {
        answer.send(keep(&store, &beside, file).await).ok();
    }
}

/// In both places at once: what is said waits for the slower.
async fn keep(store: &Store, beside: &Beside, file: ViewFile) -> Result<(), String> {
    let (answer, stored) = oneshot::channel();
    let entry = file.entry();
    let done = move |result: Result<(), CommitError<std::convert::Infallible>>| {
        answer.send(result.map_err(|error| error.to_string())).ok();
    };
    store.submit(move |_| Ok(((), vec![entry])), done);
    let beside = beside.clone();
    let written = tokio::task::spawn_blocking(move || beside.write(&file));
    stored.await.map_err(|_| "the store ended".to_owned())??;
    written.await.map_err(|error| error.to_string())?
}

struct Stepper {
    machine: SiteView,
    nodes: Arc<Nodes>,
    files: mpsc::Sender<Keep>,
    clock: Clock,
    inbox: mpsc::Receiver<Event>,
    /// The first of `waiting` is on its way to the disk.
    storing: Option<Stored>,
    waiting: VecDeque<(Durable, Vec<Output>)>,
    /// For what is asked of other nodes.
    site: Arc<Site>,
    /// Whether this node can hold what others write.
    look: Look,
    /// The seats that the machine knows to have nobody any more.
    left: Seats,
    tasks: Tasks,
}

enum Next {
    Event(Event),
    Stored(Result<(), String>),
    End,
}

impl Stepper {
    async fn run(mut self) {
        self.input(Input::Wake);
        loop {
            self.look();
            let pause = self.machine.next_wake().since(self.clock.since_boot());
            match tokio::time::timeout(pause, self.next()).await {
                Err(_) => self.input(Input::Wake),
                Ok(Next::Event(Event::Said(said))) => {
                    let at = self.clock.since_boot();
                    if let Some(heard) = lock(&self.nodes.shown).heard.get_mut(said.from.index()) {
                        *heard = Some(at);
                    }
                    self.input(Input::Heard(*said));
                }
                Ok(Next::Event(Event::Disowned)) => self.forget(),
                Ok(Next::Event(Event::Input(input))) => self.input(*input),
                Ok(Next::Stored(result)) => self.stored(result),
                Ok(Next::End) => return,
            }
        }
    }

    async fn next(&mut self) -> Next {
        let Some(storing) = self.storing.as_mut() else {
            return self.inbox.recv().await.map_or(Next::End, Next::Event);
        };
        tokio::select! {
            biased;
            stored = storing => Next::Stored(stored.unwrap_or_else(|_| Err("the store ended".into()))),
            event = self.inbox.recv() => event.map_or(Next::End, Next::Event),
        }
    }

    fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        self.take(&mut inputs);
    }

    /// Everything that follows from these, also what the machine says to itself.
    fn take(&mut self, inputs: &mut VecDeque<Input>) {
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            self.machine.handle(input, self.clock.since_boot(), &mut out);
            self.show();
            self.carry_out(out, inputs);
        }
        self.show();
        if self.machine.is_fenced() {
            tracing::warn!(
                "the seat of this node was given on, by a view that it was not in: it begins without memory"
            );
            self.forget();
        }
    }

    fn show(&self) {
        let now = self.clock.since_boot();
        self.nodes.show_refusing(self.machine.refusing(now), self.machine.stuck(now));
        self.nodes.show(&self.machine, now);
        if let Some(why) = hindrance(&self.site) {
            self.nodes.end_all(&why);
        }
    }

    /// Whether this node can hold what others write, and who has left the site: looked at ten times a second at least.
    fn look(&mut self) {
        let now = self.clock.since_boot();
        let left = self.site.peers.roster.left(self.nodes.site);
        if std::mem::replace(&mut self.left, left) != left {
            tracing::info!(?left, "seats of this site whose machines were expelled");
            self.input(Input::Gone(left));
        }
        if let Some(news) = self.look.again(&self.nodes, (&self.site.duties, &self.site.store), now) {
            self.input(news);
        }
    }

    /// Everything up to the first store at once; each store waits for the disk, and what follows it for the store.
    fn carry_out(&mut self, out: Vec<Output>, inputs: &mut VecDeque<Input>) {
        let mut stores: Vec<(Durable, Vec<Output>)> = Vec::new();
        for output in out {
            match (output, stores.last_mut()) {
                (Output::Store(memory), _) => stores.push((memory, Vec::new())),
                (output, Some((_, rest))) => rest.push(output),
                (output, None) => self.effect(output, inputs),
            }
        }
        self.waiting.extend(stores);
        self.store_next();
    }

    fn store_next(&mut self) {
        if self.storing.is_none()
            && let Some((memory, _)) = self.waiting.front()
        {
            self.storing = Some(self.keep(Some(memory)));
        }
    }

    /// Hands in what is to be kept next. Where that cannot be, whoever waits for it hears that it was not.
    fn keep(&self, memory: Option<&Durable>) -> Stored {
        let (answer, stored) = oneshot::channel();
        let file = ViewFile::new(self.nodes.all.len(), memory);
        if let Err(error) = self.files.try_send((file, answer)) {
            tracing::error!(%error, "the view of this site could not be handed to the disk");
        }
        stored
    }

    fn stored(&mut self, result: Result<(), String>) {
        self.storing = None;
        let Some((memory, rest)) = self.waiting.pop_front() else { return };
        let mut inputs = VecDeque::new();
        match result {
            Ok(()) => {
                *lock(&self.nodes.memory) = Some(memory);
                self.carry_out(rest, &mut inputs);
            }
            // As if it had been lost on its way: whoever waits for it asks again.
            Err(error) => tracing::error!(error, "the view of this site could not be stored"),
        }
        self.store_next();
        self.take(&mut inputs);
    }

    fn effect(&mut self, output: Output, inputs: &mut VecDeque<Input>) {
        match output {
            Output::Send(to, said) if to == self.nodes.me => inputs.push_back(Input::Heard(said)),
            Output::Send(to, said) => self.nodes.send(to, said),
            Output::Hold { to, write, epoch } => self.hold(to, (write, epoch), inputs),
            Output::CatchUp { from, epoch } => {
                if catch_up::begin(&self.nodes, from, epoch) {
                    self.tasks.spawn(catch_up::fetch(self.site.clone(), from, epoch));
                }
            }
            Output::Settled(write) => self.nodes.end(write, Ok(())),
            Output::Abandoned(write) => self.nodes.end(write, Err(Unsettled::Turned)),
            Output::Refused(write) => self.nodes.end(write, Err(Unsettled::Full)),
            Output::Store(_) => {}
        }
    }

    /// Has a node hold a write. What waits here is durable here.
    fn hold(&self, to: Seat, (write, epoch): (u64, u64), inputs: &mut VecDeque<Input>) {
        match self.nodes.question(write, to, epoch) {
            Question::Over => inputs.push_back(Input::GiveUp(write)),
            Question::OnItsWay if to == self.nodes.me && self.machine.may_hold(epoch) => {
                inputs.push_back(Input::Held { write, epoch, by: to });
            }
            Question::OnItsWay => {}
            Question::Ask(question) => {
                self.tasks.spawn(have_held(self.site.clone(), to, (write, epoch), *question));
            }
        }
    }

    /// This disk went back behind what it had promised: the others take this machine in as one without memory.
    fn forget(&mut self) {
        let Ok(nonce) = entropy::number() else { return };
        if lock(&self.nodes.memory).take().is_none() {
            return;
        }
        let now = self.clock.since_boot();
        self.machine = SiteView::new(self.nodes.me, self.nodes.all, Memory::Blank(nonce), now);
        self.waiting.clear();
        // Behind what is on its way: the disk does what it is told in order.
        drop(self.keep(None));
        self.storing = None;
        self.nodes.has_caught_up.store(false, Ordering::Release);
        (self.look, self.left) = (Look::default(), Seats::NONE);
        self.input(Input::Wake);
    }
}
