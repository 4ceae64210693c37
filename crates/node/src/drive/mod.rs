//! Runs the federation machine on one thread: feeds it what happens, carries out what it wants.
//!
//! Why here: the machine is pure and reads the store synchronously, so it gets a thread of its own instead of
//! holding up the runtime. Invariants: outputs are carried out in order; every Apply, Fresh, Keep and Drop is
//! answered by exactly one Applied; what a peer may have waiting here is bounded by permits that travel with it; a panic ends
//! the thread and is told: a site without its machine replicates nothing, and is to end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::BucketId;
use skerry_federation::{Answer, Federation, Input, Message, Output, Replica, Ticket};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use crate::clock::Clock;

mod effects;
pub(crate) mod live;
mod news;
pub(crate) mod replica;
pub(crate) mod stored;

use news::News;

pub(crate) use effects::{Effects, Give};

/// What the drive thread is told.
enum Event {
    Input(Input),
    /// There is news.
    News,
    Received(Input, OwnedSemaphorePermit),
    Locate(BucketId, Option<Bytes>, oneshot::Sender<Answer>),
    Ask(Ask),
    Stop,
}

/// A question to the machine.
type Ask = Box<dyn FnOnce(&Federation, &dyn Replica) + Send>;

/// Speaks to the drive thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Drive {
    events: Sender<Event>,
    news: Arc<News>,
    fell: watch::Receiver<Option<String>>,
}

/// Where the store is read for one call of the machine.
pub(crate) trait Replicas: Send + 'static {
    /// Reads all from one snapshot.
    fn with(&self, read: &mut dyn FnMut(&dyn Replica));
}

/// The end of the channel that [`run`] serves.
pub(crate) struct Inbox(Receiver<Event>, Arc<News>, watch::Sender<Option<String>>);

#[cfg(test)]
impl Inbox {
    /// Of what waits what is news of a link, and what a message, in order.
    pub(crate) fn waiting(&self) -> Vec<&'static str> {
        let word = |event| match event {
            Event::Input(Input::LinkUp(_)) => Some("link"),
            Event::Received(..) => Some("message"),
            _ => None,
        };
        self.0.try_iter().filter_map(word).collect()
    }
}

/// A drive whose thread is not running yet: inputs wait.
#[expect(
    clippy::disallowed_methods,
    reason = "must never block the commit thread; bounded by what feeds it: permits of peers, open requests, commits"
)]
pub(crate) fn new() -> (Drive, Inbox) {
    let (events, inbox) = channel();
    let (tell, fell) = watch::channel(None);
    let news = Arc::new(News::default());
    (Drive { events, news: news.clone(), fell }, Inbox(inbox, news, tell))
}

impl Drive {
    /// Tells the machine; nothing happens when the drive has stopped.
    pub(crate) fn tell(&self, input: Input) {
        self.events.send(Event::Input(input)).ok();
    }

    /// A write to this bucket is durable: who listens is told soon.
    pub(crate) fn durable(&self, bucket: BucketId) {
        if self.news.note(bucket) {
            self.events.send(Event::News).ok();
        }
    }

    /// Hands over a message of a peer with the permit that bounds how many may wait.
    pub(crate) fn received(&self, from: skerry_base::SiteId, message: Message, permit: OwnedSemaphorePermit) {
        self.events.send(Event::Received(Input::Received { from, message }, permit)).ok();
    }

    /// Who is a member of this bucket, and what the nearest is to give, if anything? None when the drive has stopped.
    pub(crate) async fn locate(&self, bucket: BucketId, wanted: Option<Bytes>) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.events.send(Event::Locate(bucket, wanted, answer)).ok()?;
        answered.await.ok()
    }

    /// Reads something of the machine; none when the drive has stopped.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Federation, &dyn Replica) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let ask = move |machine: &Federation, replica: &dyn Replica| {
            answer.send(read(machine, replica)).ok();
        };
        self.events.send(Event::Ask(Box::new(ask))).ok()?;
        answered.await.ok()
    }

    /// What the panic said that ended the thread, if one did.
    pub(crate) fn fell(&self) -> Option<String> {
        self.fell.borrow().clone()
    }

    /// Waits for one; for ever when the thread ends as it should.
    pub(crate) async fn falls(&self) -> String {
        let mut fell = self.fell.clone();
        let why = fell.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// Ends the thread once what was told before is done.
    pub(crate) fn stop(&self) {
        self.events.send(Event::Stop).ok();
    }
}

/// Serves the inbox until told to stop. Blocks: give it a thread.
pub(crate) fn run(
    inbox: Inbox,
    machine: Federation,
    clock: Clock,
    replicas: impl Replicas,
    effects: impl Effects,
) {
    let Inbox(events, news, tell) = inbox;
    // The machine may be half-way through a change: nothing of it is used again.
    let served = catch_unwind(AssertUnwindSafe(|| serve(events, news, machine, clock, replicas, effects)));
    if let Err(panic) = served {
        let why = crate::tasks::said(panic.as_ref()).to_owned();
        tracing::error!(
            why,
            "the federation machine panicked, which is a bug to be reported: this site replicates nothing more and has to be \
             started anew"
        );
        tell.send_replace(Some(why));
    }
}

fn serve(
    inbox: Receiver<Event>,
    news: Arc<News>,
    machine: Federation,
    clock: Clock,
    replicas: impl Replicas,
    effects: impl Effects,
) {
    let mut driver =
        Driver { machine, news, clock, replicas, effects, questions: BTreeMap::new(), tickets: 0 };
    driver.input(Input::Wake);
    loop {
        match inbox.recv_timeout(driver.pause()) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(event) => driver.event(event),
            Err(RecvTimeoutError::Timeout) => driver.input(Input::Wake),
        }
        for _ in 0..TOGETHER {
            match inbox.try_recv() {
                Ok(Event::Stop) => return,
                Ok(event) => driver.event(event),
                Err(_) => break,
            }
        }
        driver.flush();
    }
}

/// Events taken before durable writes are told.
const TOGETHER: usize = 256;

/// The longest sleep: also bounds how stale the gauges are.
const PAUSE_MAX: Duration = Duration::from_secs(60);

struct Driver<R, E> {
    machine: Federation,
    /// What the machine was not told of yet.
    news: Arc<News>,
    clock: Clock,
    replicas: R,
    effects: E,
    questions: BTreeMap<Ticket, oneshot::Sender<Answer>>,
    tickets: u64,
}

impl<R: Replicas, E: Effects> Driver<R, E> {
    fn pause(&self) -> Duration {
        let until = |wake: skerry_base::Instant| wake.since(self.clock.now());
        let wakes = [self.machine.next_wake(), self.news.next()];
        wakes.into_iter().flatten().min().map_or(PAUSE_MAX, until).min(PAUSE_MAX)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Input(input) => self.input(input),
            Event::Received(input, permit) => {
                self.input(input);
                drop(permit);
            }
            Event::Locate(bucket, wanted, answer) => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                self.questions.insert(ticket, answer);
                self.input(match wanted {
                    Some(wanted) => Input::Seek { ticket, bucket, wanted },
                    None => Input::Locate { ticket, bucket },
                });
            }
            Event::Ask(ask) => self.ask(ask),
            Event::News | Event::Stop => {}
        }
    }

    fn flush(&mut self) {
        for bucket in self.news.due(self.clock.now()) {
            self.input(Input::Durable { bucket });
        }
    }

    fn ask(&self, ask: Ask) {
        let mut ask = Some(ask);
        self.replicas.with(&mut |replica| {
            if let Some(ask) = ask.take() {
                ask(&self.machine, replica);
            }
        });
    }

    fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        let mut input = Some(input);
        let (machine, now) = (&mut self.machine, self.clock.now());
        self.replicas.with(&mut |replica| {
            if let Some(input) = input.take() {
                machine.handle(input, now, replica, &mut out);
            }
        });
        out.into_iter().for_each(|output| self.output(output));
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Send { to, message } => self.effects.send(to, message),
            Output::Apply(apply) => self.effects.apply(apply),
            Output::Fresh(fresh) => self.effects.fresh(fresh),
            Output::Keep(keep) => self.effects.keep(keep),
            Output::Drop(dead) => self.effects.drop_dead(dead),
            Output::Located { ticket, answer } => {
                if let Some(question) = self.questions.remove(&ticket) {
                    question.send(answer).ok();
                }
            }
            Output::Give { to, bucket, wanted } => self.effects.give(Give { to, bucket, wanted }),
            Output::MemberOf { site, bucket, member } => self.effects.member_of(site, bucket, member),
            Output::SiteAlive(site) => self.effects.alive(site, true),
            Output::SiteDead(site) => self.effects.alive(site, false),
            Output::Rests { site, every, paid } => self.effects.rests(site, every, paid),
            Output::Report(report) => self.effects.report(report),
            Output::Violation(what) => tracing::error!(what, "an invariant of the federation machine broke"),
        }
    }
}
