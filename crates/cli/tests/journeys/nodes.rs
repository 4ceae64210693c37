//! A site of three real nodes: they form its view; one is killed, one hangs, one comes back with an emptied disk or with
//! an old one. And one of two, of which one is lost for good.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::boxes::{Box, configure, init};
use crate::island::{free_port, run, signal, told, wait_for};

/// What a view may take on a busy machine: the site's own bound is 2 s.
const STALL: Duration = Duration::from_secs(10);

/// The nodes of the site lisbon, running or not.
struct Site {
    directories: Vec<PathBuf>,
    nodes: Vec<Option<Box>>,
}

impl Site {
    /// The first node from nothing, the others by invitation; all with a view.
    fn new(at: &Path, seats: usize) -> Self {
        let directories: Vec<PathBuf> =
            ["lisbon", "lisbon-2", "lisbon-3"][..seats].iter().map(|name| at.join(name)).collect();
        let port = free_port();
        for (number, directory) in directories.iter().enumerate() {
            configure(directory, port + number as u16, &format!("[site]\nseats = {seats}\n"));
        }
        let (code, _, err) = init(&directories[0], &at.join("root"), &[]);
        assert_eq!(code, 0, "{err}");
        let mut site = Self { directories, nodes: Vec::new() };
        site.nodes.push(Some(Box::start(&site.directories[0])));
        for number in 1..seats {
            site.nodes.push(None);
            site.join(&format!("lisbon-{}", number + 1), number, &[]);
        }
        let all: Vec<usize> = (0..seats).collect();
        site.until("all hold a lease", &all, &all);
        site
    }

    /// A machine with an empty disk takes a seat.
    fn join(&mut self, name: &str, number: usize, more: &[&str]) {
        let token = self.invite(name, number, more).unwrap();
        let joined = told(&run(&["join", &token, "--dir", self.path(number)]));
        assert_eq!(joined.0, 0, "{joined:?}");
        self.start(number);
    }

    /// The machine of a seat is destroyed, with its key.
    fn burn(&mut self, number: usize) {
        self.kill(number);
        let file = self.directories[number].join("skerry.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_dir_all(&self.directories[number]).unwrap();
        std::fs::create_dir(&self.directories[number]).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn path(&self, number: usize) -> &str {
        self.directories[number].to_str().unwrap()
    }

    fn invite(&self, name: &str, seat: usize, more: &[&str]) -> Result<String, String> {
        let seat = seat.to_string();
        let line = ["invite", name, "--node-of", "lisbon", "--seat", &seat, "--json", "--dir", self.path(0)];
        let (code, out, err) = told(&run(&[&line, more].concat()));
        if code != 0 {
            return Err(err);
        }
        let answer: Value = serde_json::from_str(&out).unwrap();
        Ok(answer["token"].as_str().unwrap().to_owned())
    }

    /// What a node says of the site's nodes.
    fn view(&self, number: usize) -> Option<Value> {
        let answer = told(&run(&["status", "--json", "--timeout", "2s", "--dir", self.path(number)]));
        let answer: Value = serde_json::from_str(&answer.1).ok()?;
        Some(answer["sites"][0]["status"]["nodes"].clone()).filter(|nodes| !nodes.is_null())
    }

    /// Waits until these nodes hold leases of one view in which exactly those seats are live; gives its epoch.
    fn until(&self, what: &str, nodes: &[usize], live: &[usize]) -> u64 {
        let begun = Instant::now();
        let mut last = Vec::new();
        let epoch = wait_for_or(what, &mut last, |last| {
            last.clear();
            for number in nodes {
                last.push(self.view(*number)?);
            }
            let agrees = |view: &Value| {
                let roles = view["nodes"].as_array().unwrap().iter();
                let found: Vec<usize> =
                    roles.enumerate().filter(|(_, of)| of["role"] == "live").map(|(n, _)| n).collect();
                view["standing"] == "leased" && found == live && view["epoch"] == last[0]["epoch"]
            };
            last.iter().all(agrees).then(|| last[0]["epoch"].as_u64().unwrap())
        });
        println!("{what}: {:?} (epoch {epoch})", begun.elapsed());
        epoch
    }

    fn pid(&self, number: usize) -> u32 {
        self.nodes[number].as_ref().unwrap().process.id()
    }

    fn kill(&mut self, number: usize) {
        signal(self.pid(number), "KILL");
        self.nodes[number] = None;
    }

    fn stop(&mut self, number: usize) {
        self.nodes[number].take().unwrap().stop();
    }

    fn start(&mut self, number: usize) {
        self.nodes[number] = Some(Box::start(&self.directories[number]));
    }
}

/// [`wait_for`], with what was seen last if it never comes.
fn wait_for_or(
    what: &str,
    last: &mut Vec<Value>,
    mut probe: impl FnMut(&mut Vec<Value>) -> Option<u64>,
) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    wait_for(what, || {
        let found = probe(last);
        assert!(found.is_some() || Instant::now() < deadline, "waited too long until {what}: {last:?}");
        found
    })
}

#[test]
fn three_nodes_agree_on_who_counts_through_a_kill_a_hang_and_an_emptied_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), 3);

    // One is killed: the others go on without it, and take it back.
    let begun = Instant::now();
    site.kill(2);
    site.until("without the one that was killed", &[0, 1], &[0, 1]);
    assert!(begun.elapsed() < STALL, "{:?}", begun.elapsed());
    site.start(2);
    let back = site.until("the killed one is back", &[0, 1, 2], &[0, 1, 2]);

    // One hangs: the kernel keeps its connections, only its answers are missing.
    let begun = Instant::now();
    signal(site.pid(1), "STOP");
    let without = site.until("without the one that hangs", &[0, 2], &[0, 2]);
    assert!(begun.elapsed() < STALL && without > back, "{:?}", begun.elapsed());
    signal(site.pid(1), "CONT");
    site.until("the one that hung is back", &[0, 1, 2], &[0, 1, 2]);

    // Its disk is emptied: it remembers no promise, and the others take it in as a new machine.
    site.stop(2);
    site.until("without the one with the emptied disk", &[0, 1], &[0, 1]);
    std::fs::remove_dir_all(site.directories[2].join("data")).unwrap();
    site.start(2);
    let whole = site.until("the one with the emptied disk is back", &[0, 1, 2], &[0, 1, 2]);

    // All are switched off and on: the view is where it was, or later.
    (0..3).for_each(|number| site.stop(number));
    (0..3).for_each(|number| site.start(number));
    assert!(site.until("after a power cut", &[0, 1, 2], &[0, 1, 2]) >= whole);
    (0..3).for_each(|number| site.stop(number));
}

#[test]
fn of_two_nodes_one_that_is_gone_for_good_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), 2);

    // It is destroyed: an operator says so, and the other one is the site by itself until another machine is there.
    site.burn(1);
    let expelled = told(&run(&["site", "expel", "lisbon-2", "--yes", "--dir", site.path(0)]));
    assert_eq!(expelled.0, 0, "{expelled:?}");
    site.until("the one that is left", &[0], &[0]);
    site.stop(0);
    site.start(0);
    site.until("it remembers", &[0], &[0]);
    site.join("lisbon-3", 1, &[]);
    site.until("another machine has the seat", &[0, 1], &[0, 1]);

    // The next one is there before anybody says what became of it.
    site.burn(1);
    site.join("lisbon-4", 1, &["--replace"]);
    site.until("the next one", &[0, 1], &[0, 1]);

    // That one is destroyed and expelled: the one that it replaced does not have the seat again.
    site.burn(1);
    let expelled = told(&run(&["site", "expel", "lisbon-4", "--yes", "--dir", site.path(0)]));
    assert_eq!(expelled.0, 0, "{expelled:?}");
    site.until("the one that is left, again", &[0], &[0]);
    site.join("lisbon-5", 1, &[]);
    site.until("the last one", &[0, 1], &[0, 1]);

    // And the first one's disk is emptied.
    site.stop(0);
    std::fs::remove_dir_all(site.directories[0].join("data")).unwrap();
    site.start(0);
    site.until("the first one is taken in by the second", &[0, 1], &[0, 1]);
    (0..2).for_each(|number| site.stop(number));
}

#[test]
fn a_disk_that_was_put_back_is_found_out_and_a_seat_is_not_given_twice() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), 3);

    // A filled seat is nobody else's, unless it is said; a seat has a number; a further node is no site.
    let refused = site.invite("lisbon-4", 1, &[]).unwrap_err();
    assert!(refused.contains("is filled by lisbon-2"), "{refused}");
    assert!(site.invite("lisbon-4", 7, &[]).unwrap_err().contains("1..=3"));
    assert!(site.invite("lisbon-4", 3, &["--replace"]).unwrap_err().contains("no seat 3"));

    // A snapshot of a node's disk, and then a promise that the snapshot does not have.
    site.stop(2);
    let (data, snapshot) = (site.directories[2].join("data"), directory.path().join("snapshot"));
    copy(&data, &snapshot);
    site.until("without the one that is copied", &[0, 1], &[0, 1]);
    site.start(2);
    let before = site.until("the copied one is back", &[0, 1, 2], &[0, 1, 2]);
    site.stop(2);
    std::fs::remove_dir_all(&data).unwrap();
    copy(&snapshot, &data);
    site.start(2);
    // It is let in only as a machine without memory: by views that give its seat anew.
    let after = site.until("the one that was put back is a new machine", &[0, 1, 2], &[0, 1, 2]);
    assert!(after >= before + 2, "{before} {after}");

    // The number of seats stays, and a further node does not run as a site of its own.
    site.stop(1);
    let file = site.directories[1].join("skerry.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (seats, reason) in [("2", "this site has had 3 seats"), ("1", "fills seat 1"), ("5", "from 1 to 4")] {
        std::fs::write(&file, text.replace("seats = 3", &format!("seats = {seats}"))).unwrap();
        let (code, out, err) = told(&run(&["server", site.path(1)]));
        assert!(code != 0 && (out.contains(reason) || err.contains(reason)), "{out}{err}");
    }
    std::fs::write(&file, text).unwrap();
    site.start(1);
    site.until("all are whole at the end", &[0, 1, 2], &[0, 1, 2]);
    (0..3).for_each(|number| site.stop(number));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
