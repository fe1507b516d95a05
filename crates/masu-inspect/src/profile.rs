//! The profile of a process, switched on and off and read from outside.
//!
//! A reading is consistent if the engine's count of changes is the same before and after. A process that samples all
//! the time may never allow that; then the last attempt counts, in which a few samples may be incomplete.

use std::fs::File;
use std::time::Duration;

use masu_core::outside::{Place, Word, ask};
use rustix::fs::{FlockOperation, flock};

use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;
use crate::tables::{u16_at, u32_at, u64_at};

/// Attempts at a changing table.
const ATTEMPTS: usize = 20;

/// The right to switch a process's profile: one command has it at a time, and it ends with the command.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "its lock lasts as long")] File);

impl Claim {
    /// Claims a process. `None` if another command has claimed it.
    ///
    /// # Errors
    /// If the process does not exist.
    pub fn of(process: u32) -> Result<Option<Claim>, Error> {
        let folder =
            File::open(format!("/proc/{process}")).map_err(|_| Error::NoProcess(process))?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Claim(folder))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            // If locks are unavailable, no other command has one.
            Err(_) => Ok(Some(Claim(folder))),
        }
    }
}

/// Whether a process takes a profile, and who started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Average bytes between sample points; 0 means off.
    pub rate: u64,
    /// The number of its start; 0 if the process has not noticed it so far.
    pub session: u32,
    /// The command that switched it on; 0 if the program did.
    pub guest: u32,
}

/// What a call stack has allocated, of one size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Site {
    /// The small class of its blocks, if they are small.
    pub class: Option<usize>,
    /// Bytes of a block: exact for small ones, otherwise the power of two below.
    pub size: u64,
    /// Number of samples.
    pub samples: u64,
    /// The sum of the squared numbers of blocks that they stand for.
    pub squares: f64,
    /// Everything that was allocated.
    pub allocated: Amount,
    /// The part of it that is live.
    pub live: Amount,
    /// The live part at the peak.
    pub peak: Amount,
    /// Total milliseconds that freed blocks lived.
    pub lived: u64,
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
}

/// Blocks in 65,536ths, and the bytes requested in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// See above.
    pub objects: u64,
    /// See above.
    pub bytes: u64,
}

impl Amount {
    /// Returns the number of blocks.
    pub fn blocks(self) -> f64 {
        self.objects as f64 / 65536.0
    }
}

/// A live sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its block.
    pub address: u64,
    /// What it stands for.
    pub amount: Amount,
    /// When it was taken, in milliseconds.
    pub born: u64,
    /// Its site.
    pub site: usize,
    /// Where its block would be if it were not a sample.
    pub home: Home,
}

/// Where a sample's block would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Where it is now.
    Here,
    /// In the span of this granule.
    Granule(u64),
    /// Unknown.
    Unknown,
}

/// A profile at one moment.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// When it began, in milliseconds.
    pub begun: u64,
    /// Samples that could not be stored.
    pub dropped: u64,
    /// Call stacks.
    pub sites: Vec<Site>,
    /// Live samples.
    pub live: Vec<Sample>,
}

impl Engine {
    /// Whether it was built with the profile.
    pub fn has_profile(&self) -> bool {
        self.layout.prof_is_there != 0
    }

    /// Whether a profile is taken.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn profile_state(&self, memory: &Memory) -> Result<State, Error> {
        let half = |word| memory.array(self.switch(word)).map(u32::from_ne_bytes);
        Ok(State {
            rate: memory.word(self.switch(Word::Rate))?,
            session: half(Word::Session)?,
            guest: half(Word::Guest)?,
        })
    }

    fn switch(&self, word: Word) -> u64 {
        let l = &self.layout;
        let offset = match word {
            Word::Rate => l.switch_rate,
            Word::Session => l.switch_session,
            Word::Guest => l.switch_guest,
        };
        self.address(Place::ProfSwitch) + offset
    }

    fn set(&self, memory: &Memory, word: Word, value: u64) -> Result<(), Error> {
        match word {
            Word::Rate => memory.write_word(self.switch(word), value),
            Word::Session | Word::Guest => memory.write(self.switch(word), value as u32),
        }
    }

    /// Switches the profile on, in the name of this process. The engine takes part from its next slow path on, and then
    /// has a session.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn start_profile(&self, memory: &Memory, rate: u64) -> Result<(), Error> {
        ask(std::process::id(), rate, |word, value| self.set(memory, word, value))
    }

    /// Switches the profile off, unless the program has started one itself meanwhile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stop_profile(&self, memory: &Memory) -> Result<(), Error> {
        if self.profile_state(memory)?.guest != std::process::id() {
            return Ok(());
        }
        self.set(memory, Word::Rate, 0)?;
        self.set(memory, Word::Guest, 0)
    }

    /// Reads the profile.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn samples(&self, memory: &Memory) -> Result<Samples, Error> {
        for attempt in 1.. {
            let before = memory.word(self.address(Place::ProfChanges))?;
            let samples = self.samples_once(memory)?;
            let after = memory.word(self.address(Place::ProfChanges))?;
            if before == after && before % 2 == 0 || attempt == ATTEMPTS {
                return Ok(samples);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        unreachable!("the last attempt returns")
    }

    fn samples_once(&self, memory: &Memory) -> Result<Samples, Error> {
        let l = &self.layout;
        let word = |which| memory.word(self.address(which));
        let area = word(Place::ProfArea)?;
        let mut samples = Samples {
            begun: word(Place::ProfBegun)?,
            dropped: word(Place::ProfDropped)?,
            ..Samples::default()
        };
        if area == 0 {
            return Ok(samples);
        }
        let (end, peak) = (word(Place::ProfSites)?, word(Place::ProfPeak)?);
        let records = word(Place::ProfRecords)?.saturating_mul(l.prof_record_stride);
        // The records lie before the sites, which are the last of its mapping.
        let room = (l.prof_sites - l.prof_records, l.prof_length - l.prof_sites);
        if records > room.0 || end > room.1 {
            return Err(Error::Damaged(memory.process));
        }
        let sites = memory.filled(area + l.prof_sites, end)?;
        let records = memory.filled(area + l.prof_records, records)?;
        let mut numbers = std::collections::HashMap::new();
        let mut at = l.prof_first_site;
        while at + l.prof_site_len <= end {
            let frames = u16_at(&sites, at + l.prof_depth);
            if at + l.prof_site_len + frames * 8 > end {
                break;
            }
            numbers.insert(at / 8, samples.sites.len());
            samples.sites.push(self.site(&sites, at, frames, peak));
            at += l.prof_site_len + frames * 8;
        }
        fit(&mut samples.sites, word(Place::ProfTop)?);
        for record in records.chunks_exact(l.prof_record_stride as usize) {
            let address = u64_at(record, l.prof_address);
            let site = numbers.get(&u32_at(record, l.prof_site));
            if let Some(&site) = site.filter(|_| address != 0) {
                let amount = Amount {
                    objects: u64_at(record, l.prof_objects),
                    bytes: u64_at(record, l.prof_bytes),
                };
                let home = match u32_at(record, l.prof_home) {
                    0 => Home::Here,
                    none if none == l.prof_no_home => Home::Unknown,
                    granule => Home::Granule(granule - 1),
                };
                let born = u64_at(record, l.prof_born);
                samples.live.push(Sample { address, amount, born, site, home });
            }
        }
        Ok(samples)
    }

    fn site(&self, sites: &[u8], at: u64, frames: u64, last_peak: u64) -> Site {
        let l = &self.layout;
        let amount = |field| Amount {
            objects: u64_at(sites, at + field),
            bytes: u64_at(sites, at + field + 8),
        };
        let kind = u16_at(sites, at + l.prof_kind);
        let class = (kind < l.prof_large_kinds).then_some(kind as usize);
        let large = || 1 << (kind.saturating_sub(l.prof_large_kinds) & 63);
        let is_of_peak = u64_at(sites, at + l.prof_peak) == last_peak;
        let frames = (0..frames).map(|i| u64_at(sites, at + l.prof_site_len + i * 8));
        Site {
            class,
            size: class.map_or_else(large, |class| l.sizes.get(class).copied().unwrap_or(0)),
            samples: u64_at(sites, at + l.prof_samples),
            squares: f64::from_bits(u64_at(sites, at + l.prof_squares)),
            allocated: amount(l.prof_allocated),
            live: amount(l.prof_live),
            peak: amount(if is_of_peak { l.prof_at_peak } else { l.prof_live }),
            lived: u64_at(sites, at + l.prof_lived),
            frames: frames.collect(),
        }
    }
}

/// Makes what was live at the peak no more than was possible.
fn fit(sites: &mut [Site], most: u64) {
    let sum: u64 = sites.iter().map(|site| site.peak.bytes).sum();
    if sum > most {
        let part = |n: u64| (n as f64 * most as f64 / sum as f64) as u64;
        for Site { peak, .. } in sites {
            *peak = Amount { objects: part(peak.objects), bytes: part(peak.bytes) };
        }
    }
}
