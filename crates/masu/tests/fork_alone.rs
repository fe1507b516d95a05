//! A process whose only thread allocates while a signal handler forks: the fork handlers take no locks, since the
//! interrupted thread may hold them. Without the test harness, which has threads.

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

// musl does not say that there is one thread.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(masu_elsewhere))))]
fn main() {}

#[cfg(all(target_os = "linux", target_env = "gnu", not(masu_elsewhere)))]
fn main() {
    linux::in_a_child(linux::a_signal_handler_forks_while_the_only_thread_allocates);
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(masu_elsewhere)))]
mod common;

#[cfg(all(target_os = "linux", target_env = "gnu", not(masu_elsewhere)))]
mod linux {
    use std::hint::black_box;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    static FORKS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn fork_and_wait(_signal: i32) {
        let mut status = -1;
        // SAFETY: the child exits at once; the rest is what a signal handler may call.
        unsafe {
            let error = *libc::__errno_location();
            match libc::fork() {
                0 => libc::_exit(0),
                child => libc::waitpid(child, &mut status, 0),
            };
            *libc::__errno_location() = error;
        }
        FORKS.fetch_add(usize::from(status == 0), Ordering::Relaxed);
    }

    fn interrupt_every(microseconds: i64) {
        let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
        let timer = libc::itimerval { it_interval: time, it_value: time };
        // SAFETY: a timer that is read.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, null_mut()) };
    }

    /// Runs a test where a hang is noticed.
    pub fn in_a_child(test: fn()) {
        // SAFETY: there is one thread.
        match unsafe { libc::fork() } {
            0 => {
                test();
                std::process::exit(super::common::DONE)
            }
            child => super::common::wait(child),
        }
    }

    pub fn a_signal_handler_forks_while_the_only_thread_allocates() {
        // SAFETY: the handler does what handlers may do.
        unsafe { libc::signal(libc::SIGALRM, fork_and_wait as *const () as usize) };
        let begun = Instant::now();
        interrupt_every(2000);
        // On a busy machine each fork may take long.
        let has_few = || FORKS.load(Ordering::Relaxed) < 5 && begun.elapsed().as_secs() < 20;
        while begun.elapsed() < Duration::from_millis(700) || has_few() {
            // A lock is held most of the time.
            for _ in 0..2000 {
                drop(black_box(Vec::<u8>::with_capacity(3 << 20)));
                drop(black_box(Vec::<u8>::with_capacity(20_000)));
            }
        }
        interrupt_every(0);
        let forks = FORKS.load(Ordering::Relaxed);
        assert!(forks >= 5, "{forks} forks");
    }
}
