//! Tests with a process whose memory lies: this one, with a copy of masu's words that nobody uses.

use masu_core::outside::{Layout, MAGIC, PLACES, PROCESSOR_CACHES, Place};

use crate::account::Account;
use crate::engine::Engine;
use crate::error::Error;
use crate::locked::Locked;
use crate::memory::Memory;
use crate::{hardened, heaps, hooked, inside, statistics};

/// Bytes for each variable, the largest of which are arrays.
const ROOM: usize = 64 << 10;
/// Bytes of address space for the window and the tables below it.
const WINDOW: usize = 12 << 30;
/// A length that no counter has.
const FAR_TOO_MANY: u64 = 0x7fff_ffff_ffff;

/// The copy.
struct Forged {
    memory: Memory,
    words: u64,
    window: u64,
}

fn mapping(bytes: usize) -> u64 {
    // SAFETY: fresh memory, at an address that the kernel chooses.
    let at = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0)
    };
    assert_ne!(at, libc::MAP_FAILED);
    at as u64
}

impl Drop for Forged {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and used by nothing else.
        unsafe {
            libc::munmap(self.words as *mut _, (PLACES + 1) * ROOM);
            libc::munmap(self.window as *mut _, WINDOW);
        }
    }
}

impl Forged {
    /// A copy that has allocated nothing.
    fn new(layout: &Layout) -> Forged {
        let memory = Memory::of(std::process::id()).expect("ourselves");
        let forged =
            Forged { memory, words: mapping((PLACES + 1) * ROOM), window: mapping(WINDOW) };
        forged.half(forged.words, MAGIC);
        for which in 1..PLACES {
            forged.half(forged.words + 4 * which as u64, (which * ROOM) as u32);
        }
        for (at, word) in (0..).zip(layout.words()) {
            forged.word(forged.at(Place::Layout) + 8 * at, word);
        }
        forged
    }

    /// One that has the first chunk of a window.
    fn with_window() -> Forged {
        let (forged, l) = (Forged::new(&Layout::HERE), Layout::HERE);
        forged.set(Place::Base, forged.base());
        forged.set(Place::Capacity, 1 << 30);
        forged.set(Place::Limit, l.chunk);
        forged.set(Place::Ends, 1);
        forged
    }

    fn base(&self) -> u64 {
        (self.window + Layout::HERE.below).next_multiple_of(Layout::HERE.chunk)
    }

    fn at(&self, which: Place) -> u64 {
        self.words + (which as usize * ROOM) as u64
    }

    fn word(&self, at: u64, word: u64) {
        self.memory.write_word(at, word).expect("ours");
    }

    fn half(&self, at: u64, word: u32) {
        self.memory.write(at, word).expect("ours");
    }

    fn set(&self, which: Place, word: u64) {
        self.word(self.at(which), word);
    }

    fn engine(&self) -> Result<Engine, Error> {
        Engine::at(&self.memory, self.words, (0, 0))
    }

    /// What all readers say.
    fn read(&self) -> Result<Account, Error> {
        let engine = self.engine()?;
        let mut account = Account::of(0, String::new(), &[]);
        statistics::of(&self.memory, &engine)?;
        inside::add(&self.memory, &engine, &Locked::default(), &mut account)?;
        hardened::add(&self.memory, &engine, &mut account)?;
        hardened::nearest(&self.memory, &engine, self.words)?;
        hooked::add(&self.memory, &engine, &mut account)?;
        engine.samples(&self.memory)?;
        Ok(account)
    }

    fn is_damaged(&self) -> bool {
        matches!(self.read(), Err(Error::Damaged(_)))
    }
}

#[test]
fn what_is_forged_well_is_read() {
    let nothing = Forged::new(&Layout::HERE).read().expect("no memory");
    assert!(nothing.allocated == 0 && nothing.parts.iter().all(|part| part.bytes == 0));
    Forged::with_window().read().expect("an empty window");
}

#[test]
fn a_layout_that_divides_by_zero_is_refused() {
    let zeros: [fn(&mut Layout); 6] = [
        |l| l.heap_stride = 0,
        |l| l.granule = 0,
        |l| l.arena_stride = 0,
        |l| l.span_stride = 1 << 34,
        |l| l.last_class = 1 << 20,
        |l| l.shape_len = 1 << 40,
    ];
    for zero in zeros {
        let mut layout = Layout::HERE;
        zero(&mut layout);
        assert!(Forged::new(&layout).is_damaged());
    }
}

#[test]
fn counters_are_no_larger_than_what_they_count() {
    let places = [
        Place::ProcessorCachesInUse,
        Place::Heaps,
        Place::Arenas,
        Place::Limit,
        Place::Capacity,
        Place::Ends,
        Place::HardenedCachesOpen,
    ];
    for which in places {
        let forged = Forged::with_window();
        forged.set(which, FAR_TOO_MANY);
        assert!(forged.is_damaged(), "{which:?}");
    }
    let forged = Forged::with_window();
    let engine = forged.engine().expect("its words");
    forged.set(Place::ProcessorCachesInUse, PROCESSOR_CACHES as u64);
    heaps::processor_caches(&forged.memory, &engine).expect("as many as can be");
    forged.set(Place::ProcessorCachesInUse, PROCESSOR_CACHES as u64 + 1);
    assert!(matches!(heaps::processor_caches(&forged.memory, &engine), Err(Error::Damaged(_))));
}

#[test]
fn addresses_at_the_end_of_memory_are_refused() {
    for which in [Place::Base, Place::ProfArea, Place::GuardBase, Place::Capacity, Place::Unwinder]
    {
        let forged = Forged::with_window();
        forged.set(which, u64::MAX);
        assert!(forged.is_damaged(), "{which:?}");
    }
    let forged = Forged::with_window();
    forged.set(Place::Base, 4096);
    assert!(forged.is_damaged(), "no room for the tables below it");
}

#[test]
fn a_list_of_hooked_chunks_that_leads_back_ends() {
    let (forged, l) = (Forged::with_window(), Layout::HERE);
    forged.half(forged.at(Place::Arenas), 1);
    let (arena, record) = (forged.base() - l.arenas_below, forged.at(Place::Version) + 64);
    forged.word(arena + l.arena_hooked_mapped, u64::MAX);
    forged.word(arena + l.arena_hooked_chunks, record);
    forged.word(record + l.hooked_chunk_at, forged.base());
    forged.word(record + l.hooked_chunk_next, record);
    let engine = forged.engine().expect("its words");
    let mut account = Account::of(0, String::new(), &[]);
    let found = hooked::add(&forged.memory, &engine, &mut account).expect("a list");
    let (page, end) = (record / l.unit * l.unit, record + l.hooked_chunk_len);
    let records = (page, end.next_multiple_of(l.unit));
    assert_eq!(found, [(forged.base(), forged.base() + l.chunk), records]);
}

#[test]
fn a_pool_of_blocks_without_bytes_has_no_slabs() {
    let (forged, l) = (Forged::with_window(), Layout::HERE);
    let (shapes, pools) = (forged.at(Place::HardenedShapes), forged.base());
    forged.half(shapes + l.shape_stride, 16);
    forged.half(shapes + l.shape_metadata, 64);
    forged.word(forged.at(Place::HardenedPlace) + l.place_pools, pools);
    forged.word(forged.at(Place::HardenedPlace) + l.place_arenas, 1);
    forged.word(pools + l.pool_start, forged.words);
    forged.word(pools + l.pool_opened, ROOM as u64);
    let engine = forged.engine().expect("its words");
    let found = hardened::nearest(&forged.memory, &engine, forged.words + 5);
    assert_eq!(found.expect("a pool"), None);
}

#[test]
fn a_slab_has_as_many_slots_as_it_has_states() {
    let (forged, l) = (Forged::with_window(), Layout::HERE);
    let (shapes, pools) = (forged.at(Place::HardenedShapes), forged.base());
    forged.half(shapes + l.shape_stride, 16);
    forged.half(shapes + l.shape_metadata, 1);
    forged.half(shapes + l.shape_slots, 0xffff);
    forged.word(forged.at(Place::HardenedPlace) + l.place_pools, pools);
    forged.word(forged.at(Place::HardenedPlace) + l.place_arenas, 1);
    forged.word(pools + l.pool_start, forged.words);
    forged.word(pools + l.pool_opened_metadata, 1 << 32);
    forged.half(pools + l.pool_used, u32::MAX);
    assert!(forged.is_damaged());
}

#[test]
fn the_text_of_a_version_controls_no_terminal() {
    let forged = Forged::new(&Layout::HERE);
    forged.set(Place::Version, u64::from_le_bytes(*b"1\x1b[2J\n\x9b\x7f"));
    assert_eq!(forged.engine().expect("its words").masu, "1?[2J???");
    forged.set(Place::Layout, 1);
    let error = forged.engine().expect_err("another version").to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}
