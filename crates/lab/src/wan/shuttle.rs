//! The one thread that carries packets between the hosts' devices, when the network says that they are due.
//!
//! It sleeps until a device has packets or something is due. When packets come fast it looks every 50 µs instead of
//! being woken for each: a fraction of the processor time. A host whose card is busy
//! is not read until the card is nearly free, so its own kernel feels the rate as it would feel a real card's.
//!
//! Invariants: a command is answered after it took effect, so nothing arrives over a link once its cut is
//! answered; the thread never runs longer than the kernel lets a real-time thread run.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::thread::{nanosleep, set_current_timer_slack};
use skerry_scenario::link::Link;

use super::figures::{Health, Traffic};
use super::network::{Delivery, Network};
use super::packet::READ_MAX;
use super::station::Station;

/// Packets per second, in and out, above which the thread looks every [`LOOK`] instead of waking for each.
const BUSY_PER_SECOND: u64 = 6_000;
const LOOK: Duration = Duration::from_micros(50);
/// Packets per second below which the thread is awake [`AWAKE`] before one is due: the kernel wakes a little late.
const QUIET_PER_SECOND: u64 = 2_000;
const AWAKE: Duration = Duration::from_micros(50);
const PACE_WINDOW: Duration = Duration::from_millis(10);
/// A sender's card may have so much before it is not read any more.
const CARD_AHEAD_NS: u64 = 1_000_000;
/// Packets of one host before the next has its turn.
const TURN: usize = 16;
/// The kernel stops real-time threads for 50 ms of each second unless they rest: 5 in 100.
const RUN_AT_MOST: Duration = Duration::from_millis(9);
const REST: Duration = Duration::from_micros(600);
/// Waiting commands.
const COMMANDS_MAX: usize = 16;
const WAKE: u64 = u64::MAX;

/// What the owner asks of the thread.
pub(super) enum Command {
    Cut { from: usize, to: usize, is_cut: bool },
    Link { from: usize, to: usize, link: Link },
    Stop,
}

/// What the thread answers.
pub(super) struct Figures {
    pub(super) traffic: Traffic,
    pub(super) health: Health,
}

type Asked = (Vec<Command>, SyncSender<Option<Figures>>);

/// The owner's end.
pub(super) struct Shuttle {
    asks: SyncSender<Asked>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Shuttle {
    /// Starts the thread.
    pub(super) fn start(
        network: Network,
        stations: Arc<Vec<Station>>,
        sites: Vec<String>,
    ) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (asks, asked) = sync_channel(COMMANDS_MAX);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for (number, station) in stations.iter().enumerate() {
            epoll::add(&poll, station.device(), epoll::EventData::new_u64(number as u64), edge)?;
        }
        let hosts = stations.len();
        let worker = Worker {
            network,
            stations,
            sites,
            poll,
            wake: Arc::clone(&wake),
            asked,
            origin: Instant::now(),
            readable: VecDeque::new(),
            is_queued: vec![false; hosts],
            resting: Vec::new(),
            buffer: vec![0; READ_MAX],
            write_errors: 0,
            pace: Pace::new(),
            is_realtime: false,
        };
        let builder = std::thread::Builder::new().name("wan".into());
        let thread = builder.spawn(move || worker.run())?;
        Ok(Self { asks, wake, thread: Some(thread) })
    }

    /// Carries out commands; none if the thread is gone.
    pub(super) fn ask(&self, commands: Vec<Command>) -> Option<Figures> {
        let (answer, answered) = sync_channel(1);
        self.asks.send((commands, answer)).ok()?;
        // The counter of an eventfd can not overflow here.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        answered.recv().ok().flatten()
    }
}

impl Drop for Shuttle {
    fn drop(&mut self) {
        self.ask(vec![Command::Stop]);
        if let Some(thread) = self.thread.take() {
            // It ended, or it panicked and said so.
            let _ = thread.join();
        }
    }
}

struct Worker {
    network: Network,
    stations: Arc<Vec<Station>>,
    sites: Vec<String>,
    poll: OwnedFd,
    wake: Arc<OwnedFd>,
    asked: Receiver<Asked>,
    origin: Instant,
    /// Hosts that may have packets.
    readable: VecDeque<usize>,
    is_queued: Vec<bool>,
    /// Hosts whose card is busy, and until when.
    resting: Vec<(u64, usize)>,
    buffer: Vec<u8>,
    write_errors: u64,
    pace: Pace,
    is_realtime: bool,
}

/// How fast packets come and go, and how long the thread ran without a rest.
struct Pace {
    window: Instant,
    packets: u64,
    per_second: u64,
    rested: Instant,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self { window: now, packets: 0, per_second: 0, rested: now }
    }

    /// Looks again at the rate once per window.
    fn turn(&mut self, now: Instant) {
        let passed = now - self.window;
        if passed >= PACE_WINDOW {
            let rate = u128::from(self.packets) * 1_000_000_000 / passed.as_nanos();
            self.per_second = u64::try_from(rate).unwrap_or(u64::MAX);
            self.packets = 0;
            self.window = now;
        }
    }
}

impl Worker {
    fn run(mut self) {
        self.is_realtime = super::priority::raise();
        // A sleep that ends late makes every packet late; the default slack is 50 µs.
        let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
        loop {
            self.wait();
            if self.obey() {
                return;
            }
            self.resume();
            self.fetch();
            self.deliver();
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX / 4)
    }

    /// Sleeps until something is to be done.
    fn wait(&mut self) {
        let started = Instant::now();
        self.pace.turn(started);
        if started - self.pace.rested > RUN_AT_MOST {
            let _ = nanosleep(&timespec(REST));
        }
        if !self.readable.is_empty() {
            self.gather(Some(Duration::ZERO));
        } else if self.pace.per_second > BUSY_PER_SECOND {
            let _ = nanosleep(&timespec(LOOK));
            self.gather(Some(Duration::ZERO));
        } else {
            let timeout = self.until_due();
            self.gather(timeout);
        }
        let ended = Instant::now();
        if ended - started > LOOK / 2 {
            self.pace.rested = ended;
        }
    }

    /// How long nothing is to be done; none if for ever.
    fn until_due(&self) -> Option<Duration> {
        let now = self.now();
        let after = |moment: u64| Duration::from_nanos(moment.saturating_sub(now));
        let awake = if self.pace.per_second < QUIET_PER_SECOND { AWAKE } else { Duration::ZERO };
        let delivery = self.network.next_delivery().map(|moment| after(moment).saturating_sub(awake));
        let resting = self.resting.iter().map(|(until, _)| *until);
        let others = resting.chain(self.network.next_step()).map(after);
        others.chain(delivery).min()
    }

    /// Asks the kernel which devices have packets.
    fn gather(&mut self, timeout: Option<Duration>) {
        let mut events = Vec::with_capacity(64);
        // Interrupted is as good as nothing happened, here and below.
        if timeout != Some(Duration::ZERO) {
            // The library's epoll rounds time-outs up to milliseconds; its poll does not.
            let timeout = timeout.map(timespec);
            let _ = poll(&mut [PollFd::new(&self.poll, PollFlags::IN)], timeout.as_ref());
        }
        let at_once = timespec(Duration::ZERO);
        let _ = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
        for event in events {
            let host = event.data.u64();
            if host == WAKE {
                let _ = rustix::io::read(&*self.wake, &mut [0; 8][..]);
            } else {
                self.queue(host as usize);
            }
        }
    }

    fn queue(&mut self, host: usize) {
        let is_resting = self.resting.iter().any(|(_, resting)| *resting == host);
        if let Some(is_queued) = self.is_queued.get_mut(host).filter(|queued| !**queued && !is_resting) {
            *is_queued = true;
            self.readable.push_back(host);
        }
    }

    /// Hosts whose card is free again are read again.
    fn resume(&mut self) {
        let now = self.now();
        let (rested, resting) = self.resting.drain(..).partition(|(until, _)| *until <= now);
        self.resting = resting;
        let rested: Vec<(u64, usize)> = rested;
        for (_, host) in rested {
            self.queue(host);
        }
    }

    /// Reads one turn of every host that may have packets.
    fn fetch(&mut self) {
        for _ in 0..self.readable.len() {
            let Some(host) = self.readable.pop_front() else { return };
            if let Some(is_queued) = self.is_queued.get_mut(host) {
                *is_queued = false;
            }
            if self.read_turn(host) {
                self.queue(host);
            }
        }
    }

    /// Reads up to a turn; whether there may be more.
    fn read_turn(&mut self, host: usize) -> bool {
        for _ in 0..TURN {
            let now = self.now();
            let backlog = self.network.backlog(host, now);
            if backlog > CARD_AHEAD_NS {
                self.resting.push((now + backlog - CARD_AHEAD_NS / 2, host));
                return false;
            }
            let Some(station) = self.stations.get(host) else { return false };
            match rustix::io::read(station.device(), &mut self.buffer[..]) {
                Ok(length) => {
                    self.pace.packets += 1;
                    self.network.enter(now, host, self.buffer.get(..length).unwrap_or_default());
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn deliver(&mut self) {
        let mut now = self.now();
        self.network.advance(now);
        while let Some(Delivery { host, frame }) = self.network.due(now) {
            let written = self.stations.get(host).map(|station| rustix::io::write(station.device(), &frame));
            if !matches!(written, Some(Ok(_))) {
                self.write_errors += 1;
            }
            self.pace.packets += 1;
            now = self.now();
            self.network.advance(now);
        }
    }

    /// Carries out what was asked; whether to end.
    fn obey(&mut self) -> bool {
        while let Ok((commands, answer)) = self.asked.try_recv() {
            for command in commands {
                match command {
                    Command::Cut { from, to, is_cut } => self.network.set_cut(from, to, is_cut),
                    Command::Link { from, to, link } => self.network.set_link(from, to, link),
                    Command::Stop => return true,
                }
            }
            // Whoever asked and went away does not want to know.
            let _ = answer.send(Some(self.figures()));
        }
        false
    }

    fn figures(&self) -> Figures {
        let counts = &self.network.counts;
        let health = Health {
            memory_drops: counts.memory_drops,
            write_errors: self.write_errors,
            strays: counts.strays,
            queue_drops: counts.queue_drops,
            late_p99_us: counts.lateness.percentile_us(99),
            late_max_us: counts.lateness.max_us(),
            realtime: self.is_realtime,
            ..Health::default()
        };
        Figures { traffic: self.network.traffic(&self.sites), health }
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}
