//! Priority of the shuttle's thread: real time if the system lets us, else the highest of the ordinary.

use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// Above ordinary processes, below the kernel's own threads.
const REALTIME: u8 = 10;
const NICE: i32 = -20;

/// Raises the calling thread; whether it has real-time priority.
pub(super) fn raise() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let wanted = ThreadPriorityValue::try_from(REALTIME).map(ThreadPriority::Crossplatform);
    let is_realtime =
        wanted.is_ok_and(|wanted| set_thread_priority_and_policy(thread_native_id(), wanted, policy).is_ok());
    if !is_realtime {
        // Refused without privileges: then lateness shows it, and the figures say so.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
    is_realtime
}
