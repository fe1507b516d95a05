//! Many threads: asleep, short-lived, or simply many.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use crate::blocks::{Chain, allocate, by_bytes, release};
use crate::marks::mark;
use crate::returning::sleep;

/// How many sizes each thread uses.
const CLASSES: usize = 20;

/// 20 sizes from 16 to `largest`, evenly spaced on a logarithmic scale.
fn sizes(largest: usize) -> [usize; CLASSES] {
    let step = (largest as f64 / 16.0).ln() / (CLASSES - 1) as f64;
    std::array::from_fn(|i| (16.0 * (step * i as f64).exp()).round() as usize)
}

/// Each thread fills `bytes` in each of 20 classes, frees all, and sleeps.
/// Marks: `peak`, `freed`.
pub fn sleepers(threads: usize, bytes: usize) {
    let step = Arc::new(Barrier::new(threads + 1));
    for _ in 0..threads {
        let step = step.clone();
        thread::spawn(move || {
            let mut chains: [Chain; CLASSES] = Default::default();
            for (chain, size) in chains.iter_mut().zip(sizes(8192)) {
                chain.fill(bytes, || size);
            }
            step.wait();
            step.wait();
            chains.iter_mut().for_each(Chain::free_all);
            step.wait();
            sleep();
        });
    }
    step.wait();
    mark("peak", threads * CLASSES * bytes);
    step.wait();
    step.wait();
    mark("freed", 0);
}

/// One after the other, each thread allocates and frees 1 MiB in blocks of 64 KiB, several times
/// over, and sleeps. Mark: `freed`.
pub fn medium(threads: usize) {
    for _ in 0..threads {
        let done = Arc::new(Barrier::new(2));
        let worker_done = done.clone();
        thread::spawn(move || {
            for _ in 0..512 {
                let mut chain = Chain::default();
                chain.fill(1 << 20, || 64 << 10);
            }
            worker_done.wait();
            sleep();
        });
        done.wait();
    }
    mark("freed", 0);
}

/// Producers allocate batches, consumers free them some batches later; a producer that made 16
/// batches ends and another takes its place. Mark: `steady`, with the amount on its way.
pub fn relay(pairs: usize, on_its_way: usize, through: usize) {
    const BATCH: usize = 1 << 20;
    let window = on_its_way / pairs / BATCH;
    let batches = through / pairs / BATCH;
    let finished = Arc::new(Barrier::new(pairs + 1));
    for pair in 0..pairs {
        let (send, receive) = mpsc::channel::<Chain>();
        let (credit, granted) = mpsc::channel::<()>();
        (0..window).for_each(|_| credit.send(()).expect("a producer"));
        let finished = finished.clone();
        // The consumer, which outlives the producers.
        thread::spawn(move || {
            let mut waiting = VecDeque::new();
            for _ in 0..batches {
                waiting.push_back(receive.recv().expect("producers go on"));
                if waiting.len() == window {
                    waiting.pop_front();
                    let _ = credit.send(());
                }
            }
            finished.wait();
            sleep();
        });
        // Starts one producer after the other.
        thread::spawn(move || {
            let granted = Arc::new(Mutex::new(granted));
            for generation in 0..batches / 16 {
                let (send, granted) = (send.clone(), granted.clone());
                let producer = thread::spawn(move || {
                    let seed = (pair << 32 | generation) as u64;
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..16 {
                        granted.lock().expect("alone").recv().expect("a consumer");
                        let mut batch = Chain::default();
                        batch.fill(BATCH, || by_bytes(&mut random, 16, 64 << 10));
                        send.send(batch).expect("a consumer");
                    }
                });
                producer.join().expect("no thread panics");
            }
            sleep();
        });
    }
    finished.wait();
    mark("steady", pairs * (window - 1) * BATCH);
}

/// A block freed by a thread-local destructor, after the thread's own code is over.
struct LastBlock(Cell<*mut u8>);

impl Drop for LastBlock {
    fn drop(&mut self) {
        if !self.0.get().is_null() {
            // SAFETY: the cell holds a block from `allocate`, released only here.
            unsafe { release(self.0.get()) };
        }
    }
}

thread_local! {
    static LAST: LastBlock = const { LastBlock(Cell::new(ptr::null_mut())) };
}

/// Threads in waves of 16: each frees what the thread before it left, allocates a few blocks of
/// several classes, frees half of them and leaves the rest. Marks: `fifth`, five times.
pub fn churn(threads: usize) {
    const WAVE: usize = 16;
    let slots: Arc<[Mutex<Chain>; WAVE]> = Arc::default();
    let waves = threads / WAVE;
    for wave in 0..waves {
        let running: [_; WAVE] = std::array::from_fn(|i| {
            let slots = slots.clone();
            let mut random = fastrand::Rng::with_seed((wave * WAVE + i) as u64);
            let thread = thread::Builder::new().stack_size(64 << 10);
            let body = move || {
                LAST.with(|last| last.0.set(allocate(random.usize(16..2048))));
                let inherited = std::mem::take(&mut *slots[i].lock().expect("no thread panics"));
                let (mut left, mut own) = (Chain::default(), Chain::default());
                for _ in 0..6 {
                    left.push(random.usize(16..4096));
                    own.push(random.usize(16..4096));
                }
                own.push(random.usize(16 << 10..128 << 10));
                drop(inherited);
                *slots[i].lock().expect("no thread panics") = left;
            };
            thread.spawn(body).expect("a thread can be made")
        });
        running.into_iter().for_each(|t| t.join().expect("no thread panics"));
        if (wave + 1) % (waves / 5) == 0 {
            mark("fifth", slots.iter().map(|s| s.lock().expect("free").bytes()).sum());
        }
    }
}

/// Threads of [`crowd`] that are asleep.
static ASLEEP: AtomicUsize = AtomicUsize::new(0);

/// `threads` live threads with small stacks, each holding one block of 20 sizes up to `largest`.
/// Mark: `asleep`.
pub fn crowd(threads: usize, largest: usize) {
    extern "C" fn body(largest: *mut libc::c_void) -> *mut libc::c_void {
        for size in sizes(largest.addr()) {
            allocate(size);
        }
        ASLEEP.fetch_add(1, Ordering::Release);
        loop {
            // SAFETY: pause has no preconditions.
            unsafe { libc::pause() };
        }
    }

    // Made without the standard library, which would give each a guard page and a signal stack.
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: init writes the attributes, which are used only thereafter; the sizes are legal; the
    // body takes a number as its argument and lives as long as the program.
    unsafe {
        assert_eq!(libc::pthread_attr_init(attributes.as_mut_ptr()), 0);
        assert_eq!(libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), 64 << 10), 0);
        assert_eq!(libc::pthread_attr_setguardsize(attributes.as_mut_ptr(), 0), 0);
        for _ in 0..threads {
            // A number or a pointer, depending on the C library.
            let mut id = std::mem::MaybeUninit::uninit();
            let argument = ptr::without_provenance_mut(largest);
            let made = libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), body, argument);
            assert_eq!(made, 0);
        }
    }
    while ASLEEP.load(Ordering::Acquire) < threads {
        thread::yield_now();
    }
    mark("asleep", threads * sizes(largest).iter().sum::<usize>());
}
