//! The processor's own counters for a child: cycles and instructions in user mode.
//!
//! On a machine that others use too, these are the steadiest figures there are: waiting
//! for a processor does not count, and instructions hardly vary at all. They are opened
//! on this thread, inherited by the child, and start when the child executes its program.
//! Where the kernel or the machine has none, there are no figures and no rows.
//!
//! They are not free: the kernel saves and sets them whenever a thread gives way to another, and in a
//! virtual machine each access to such a register may be the host's business. There a context
//! switch of 0.4 µs was seen to take 16, so that programs whose threads wait for each other took twice
//! their time. A run that is timed therefore has counters only if it hardly switches.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// What is counted: a kind of event, and which.
type Event = (u32, u64);
/// Of the processor (`PERF_TYPE_HARDWARE`).
const CYCLES: Event = (0, 0);
const INSTRUCTIONS: Event = (0, 1);

/// Counters that wait for the next child of this thread.
pub struct Counters {
    cycles: Option<File>,
    instructions: Option<File>,
}

impl Counters {
    /// Opens them.
    pub fn open() -> Self {
        Counters { cycles: counter(CYCLES), instructions: counter(INSTRUCTIONS) }
    }

    /// Cycles and instructions of the children that have ended since.
    pub fn read(self) -> (Option<u64>, Option<u64>) {
        (count(self.cycles), count(self.instructions))
    }
}

fn count(counter: Option<File>) -> Option<u64> {
    let mut bytes = [[0; 8]; 3];
    counter?.read_exact(bytes.as_flattened_mut()).ok()?;
    let [count, enabled, running] = bytes.map(u64::from_ne_bytes);
    whole(count, enabled, running)
}

/// The whole count. Where there are more counters than the processor has, as with a watchdog or another `perf`, they
/// take turns: one that was enabled for some time has been running for a part of it, and has counted in that part only.
fn whole(count: u64, enabled: u64, running: u64) -> Option<u64> {
    let scaled = (u128::from(count) * u128::from(enabled)).checked_div(running.into())?;
    u64::try_from(scaled).ok().filter(|&count| count > 0)
}

/// The first version of the kernel's `struct perf_event_attr`, which all later ones begin with.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config1: u64,
}

/// Bits of the flags.
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;
/// What is read beside the count: how long it was enabled, and how long it was running, in nanoseconds.
const BOTH_TIMES: u64 = 1 << 0 | 1 << 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// A counter of user mode; this thread itself never starts it.
fn counter((kind, config): Event) -> Option<File> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: BOTH_TIMES,
        flags: DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | ENABLE_ON_EXEC,
        ..Attributes::default()
    };
    const THIS_THREAD: libc::pid_t = 0;
    const ANY_PROCESSOR: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: the kernel reads the attributes, as many bytes as they say, which outlive the call.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            THIS_THREAD,
            ANY_PROCESSOR,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    let descriptor = i32::try_from(descriptor).ok().filter(|&descriptor| descriptor >= 0)?;
    // SAFETY: the kernel has just opened it for this call's caller.
    Some(unsafe { File::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_took_turns_is_scaled_up() {
        assert_eq!(whole(1000, 30, 30), Some(1000));
        assert_eq!(whole(1000, 30, 10), Some(3000));
        assert_eq!(whole(1000, 30, 0), None, "it never had its turn");
        assert_eq!(whole(0, 30, 30), None);
    }

    /// By an event of the kernel's, which virtual machines have too: the processor time of the program, not of this thread.
    #[test]
    fn a_child_is_counted_from_its_program_on() {
        const TASK_CLOCK: Event = (1, 1);
        let Some(counter) = counter(TASK_CLOCK) else {
            println!("this kernel lets nobody count");
            return;
        };
        let mut peek = counter.try_clone().expect("another descriptor");
        let mut bytes = [0; 24];
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 20 {}
        peek.read_exact(&mut bytes).expect("three numbers");
        assert_eq!(bytes, [0; 24], "this thread is counted");
        let mut child = std::process::Command::new("sh");
        let loops = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        assert!(child.args(["-c", loops]).status().expect("it runs").success());
        let nanoseconds = count(Some(counter)).expect("the child's");
        assert!((100_000..=20_000_000_000).contains(&nanoseconds), "{nanoseconds}");
    }
}
