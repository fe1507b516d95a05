//! async-tasks: tasks that wait for each other and go on on whichever thread is free.
//!
//! An executor with four threads runs thousands of connections. Each is a task that sends
//! requests to one of a few services, tasks themselves, and waits for the answer; at every
//! wait it may move to another thread. So requests, answers and the tasks' own state are
//! allocated by one thread and freed by another, with no pattern in it.

#[cfg(feature = "work")]
mod work;

use super::Workload;

#[cfg(not(feature = "work"))]
use super::left_out as run;
#[cfg(feature = "work")]
use work::run;

/// See the module's first line.
pub const ASYNC_TASKS: Workload = Workload {
    name: "async-tasks",
    about: "4 threads, 2,000 tasks send requests to 16 others and wait",
    sleeps: false,
    brief: 0.35,
    run,
};
