//! A site whose machines, its clients among them, have a logical processor of their own: all others together cannot keep it waiting
//! for one.
//!
//! Invariants: all of the run but that site, the emulator of the network too, is left the other processors; what a machine refuses
//! ends the run, for then the scenario means nothing; dropped, the lab may run everywhere again.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::error::RunError;

/// Looks at the threads of a process, at most: one that starts some all the time is as it is.
const LOOKS: u32 = 20;

/// Who has which processors.
#[derive(Debug)]
pub(super) struct Apart {
    site: usize,
    own: CpuSet,
    all: CpuSet,
}

impl Apart {
    /// Leaves the first processor that this process may use to a site. What it starts from now on has the others.
    pub(super) fn of(name: &str, sites: &[String]) -> Result<Self, RunError> {
        let Some(site) = sites.iter().position(|site| site == name) else {
            let sites = sites.join(", ");
            return Err(RunError::Plan(format!("own_processor names {name:?}; the sites are {sites}")));
        };
        let all = sched_getaffinity(None).map_err(|error| refused(error.into()))?;
        let Some((own, others)) = split(&all) else {
            return Err(RunError::Processor("it takes two processors, and the lab may use one".into()));
        };
        put(std::process::id(), &others).map_err(refused)?;
        Ok(Self { site, own, all })
    }

    /// A process has started at a site.
    pub(super) fn started(&self, site: usize, pid: u32) -> Result<(), RunError> {
        if site == self.site { put(pid, &self.own).map_err(refused) } else { Ok(()) }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It could have them before.
        let _ = put(std::process::id(), &self.all);
    }
}

fn refused(error: io::Error) -> RunError {
    RunError::Processor(error.to_string())
}

/// The first and the others; none if there are not two.
fn split(all: &CpuSet) -> Option<(CpuSet, CpuSet)> {
    let mut there = (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor));
    let first = there.next()?;
    let (mut own, mut others) = (CpuSet::new(), *all);
    own.set(first);
    others.unset(first);
    there.next().map(|_| (own, others))
}

/// All threads that a process has; those that they start have the same. Looked at until none is new: one that was not put yet may
/// have started another.
fn put(pid: u32, processors: &CpuSet) -> io::Result<()> {
    let mut before = Vec::new();
    for _ in 0..LOOKS {
        let threads = once(pid, processors)?;
        if threads == before {
            break;
        }
        before = threads;
    }
    Ok(())
}

/// One look; who is there, in order.
fn once(pid: u32, processors: &CpuSet) -> io::Result<Vec<Pid>> {
    let mut threads = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = thread?.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        match sched_setaffinity(Some(thread), processors) {
            Ok(()) => threads.push(thread),
            // It has ended meanwhile.
            Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    threads.sort_by_key(|thread| thread.as_raw_nonzero());
    Ok(threads)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::Command;

    use super::*;

    fn processors(of: Option<Pid>) -> u32 {
        sched_getaffinity(of).unwrap().count()
    }

    #[test]
    fn one_processor_is_split_off_and_a_single_one_is_not() {
        let mut all = CpuSet::new();
        assert!(split(&all).is_none());
        all.set(3);
        assert!(split(&all).is_none());
        all.set(5);
        all.set(7);
        let (own, others) = split(&all).unwrap();
        assert!(own.is_set(3) && own.count() == 1);
        assert!(others.is_set(5) && others.is_set(7) && others.count() == 2);
    }

    #[test]
    fn a_site_that_is_not_there_is_refused() {
        let refused = Apart::of("site-9", &["site-1".into(), "site-2".into()]).unwrap_err().to_string();
        assert!(refused.contains("site-9") && refused.contains("site-1, site-2"), "{refused}");
    }

    #[test]
    fn a_process_is_put_where_it_belongs_and_one_that_has_ended_is_refused() {
        let mut child = Command::new("sleep").arg("300").spawn().unwrap();
        let all = sched_getaffinity(None).unwrap();
        let (own, _) = split(&all).unwrap_or((all, all));
        put(child.id(), &own).unwrap();
        assert_eq!(processors(Pid::from_raw(child.id().cast_signed())), own.count());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(put(child.id(), &own).is_err());
    }
}
