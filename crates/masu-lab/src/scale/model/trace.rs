//! A trace: what the threads of a workload asked their allocator for, in one order.

use std::collections::{HashMap, VecDeque};

use anyhow::{Result, ensure};
use masu_core::size_class::MEDIUM_MAX;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A block of so many bytes.
    Alloc {
        /// Its number.
        block: u32,
        /// Bytes.
        size: u32,
    },
    /// The end of a block.
    Free {
        /// Its number.
        block: u32,
    },
    /// The thread has ended, and another one goes on in its place.
    Replace,
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Who called, from 0.
    pub thread: u16,
    /// What for.
    pub op: Op,
}

/// What a workload asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The workload's name.
    pub workload: String,
    /// Threads that call.
    pub threads: usize,
    /// Blocks that are ever allocated.
    pub blocks: usize,
    /// The calls, in the order in which they happened.
    pub events: Vec<Event>,
}

/// Bytes of one record as `masu-trace` writes it: address, size (none for a free), thread.
const RECORD: usize = 16;
/// Blocks beyond this are no business of the parts that are modelled.
const LARGEST: u32 = MEDIUM_MAX as u32;

impl Trace {
    /// Reads what `masu-trace` wrote. Threads that never run at the same time (the next starts
    /// after the last call of the one before) count as one that is replaced; those that hardly call
    /// at all, such as the one that only starts the others, count as part of one that does.
    pub fn parse(workload: &str, bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.len().is_multiple_of(RECORD), "the trace is cut off");
        let records: Vec<(u64, u32, u32)> = bytes.chunks_exact(RECORD).map(record).collect();
        let places = places(&records);
        let (mut live, mut blocks, mut events) = (HashMap::new(), 0u32, Vec::new());
        let mut there = HashMap::new();
        for (address, size, number) in &records {
            let thread = places[number];
            if there.insert(thread, *number).is_some_and(|before| before != *number) {
                events.push(Event { thread, op: Op::Replace });
            }
            if *size == 0 {
                if let Some(block) = live.remove(address) {
                    events.push(Event { thread, op: Op::Free { block } });
                }
            } else if *size <= LARGEST {
                live.insert(*address, blocks);
                events.push(Event { thread, op: Op::Alloc { block: blocks, size: *size } });
                blocks += 1;
            }
        }
        ensure!(!events.is_empty(), "the trace is empty");
        let threads = merge_idle(&mut events);
        Ok(Trace { workload: workload.into(), threads, blocks: blocks as usize, events })
    }

    /// The same where threads that free others' blocks are so many blocks behind, as when a queue between
    /// them is full: while a trace is recorded, threads take turns, and queues stay short.
    pub fn behind(&self, blocks: usize) -> Self {
        let mut makers = vec![0; self.blocks];
        let mut waiting = vec![VecDeque::new(); self.threads];
        let mut events = Vec::new();
        for event in &self.events {
            match event.op {
                Op::Alloc { block, .. } => makers[block as usize] = event.thread,
                Op::Free { block } if makers[block as usize] != event.thread => {
                    let queue = &mut waiting[usize::from(event.thread)];
                    queue.push_back(*event);
                    if queue.len() > blocks {
                        events.extend(queue.pop_front());
                    }
                    continue;
                }
                _ => {}
            }
            events.push(*event);
        }
        events.extend(waiting.into_iter().flatten());
        Trace { events, workload: format!("{}, queue full", self.workload), ..*self }
    }

    /// Its first calls, where there are more.
    pub fn first(&self, calls: usize) -> Self {
        let events: Vec<Event> = self.events.iter().copied().take(calls).collect();
        let made = |event: &Event| matches!(event.op, Op::Alloc { .. });
        let blocks = events.iter().filter(|event| made(event)).count();
        Trace { workload: self.workload.clone(), threads: self.threads, blocks, events }
    }
}

/// Numbers the threads that make at least a twentieth of the busiest one's calls anew, and gives
/// the calls of the others to them in turn; how many threads there are then.
fn merge_idle(events: &mut Vec<Event>) -> usize {
    let mut calls =
        vec![0usize; events.iter().map(|e| usize::from(e.thread)).max().unwrap_or(0) + 1];
    let called = events.iter().filter(|event| event.op != Op::Replace);
    called.for_each(|event| calls[usize::from(event.thread)] += 1);
    let busiest = calls.iter().copied().max().unwrap_or(0);
    let mut busy = 0u16;
    let mut numbers: Vec<Option<u16>> = Vec::new();
    for count in &calls {
        let is_busy = count * 20 >= busiest;
        numbers.push(is_busy.then_some(busy));
        busy += u16::from(is_busy);
    }
    events.retain(|event| event.op != Op::Replace || numbers[usize::from(event.thread)].is_some());
    for event in events {
        let old = usize::from(event.thread);
        event.thread = numbers[old].unwrap_or((old % usize::from(busy)) as u16);
    }
    usize::from(busy)
}

fn record(bytes: &[u8]) -> (u64, u32, u32) {
    let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (u64::from(four(0)) | u64::from(four(4)) << 32, four(8), four(12))
}

/// A place for each thread; a place is free again after its thread's last call.
fn places(records: &[(u64, u32, u32)]) -> HashMap<u32, u16> {
    let mut last = HashMap::new();
    for (at, (_, _, thread)) in records.iter().enumerate() {
        last.insert(*thread, at);
    }
    let (mut places, mut free, mut next) = (HashMap::new(), Vec::new(), 0u16);
    for (at, (_, _, thread)) in records.iter().enumerate() {
        let place = *places.entry(*thread).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        });
        if last[thread] == at {
            free.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(records: &[(u64, u32, u32)]) -> Vec<u8> {
        let one = |(address, size, thread): &(u64, u32, u32)| {
            [&address.to_le_bytes()[..], &size.to_le_bytes(), &thread.to_le_bytes()].concat()
        };
        records.iter().flat_map(one).collect()
    }

    #[test]
    fn addresses_become_blocks() {
        let huge = LARGEST + 1;
        let records = [(0x10, 8, 0), (0x20, huge, 0), (0x10, 0, 1), (0x10, 16, 0), (0x99, 0, 0)];
        let trace = Trace::parse("x", &bytes(&records)).unwrap();
        assert_eq!((trace.threads, trace.blocks), (2, 2));
        let event = |thread, op| Event { thread, op };
        assert_eq!(
            trace.events,
            [
                event(0, Op::Alloc { block: 0, size: 8 }),
                event(1, Op::Free { block: 0 }),
                event(0, Op::Alloc { block: 1, size: 16 }),
            ]
        );
    }

    #[test]
    fn the_first_calls_are_a_trace() {
        let records = [(1, 8, 0), (2, 8, 0), (1, 0, 0), (3, 8, 0)];
        let trace = Trace::parse("x", &bytes(&records)).unwrap();
        let first = trace.first(3);
        assert_eq!((first.events.len(), first.blocks, first.threads), (3, 2, 1));
        assert_eq!(trace.first(9), trace);
    }

    #[test]
    fn whoever_is_behind_frees_the_same_blocks_later() {
        let records = [(1, 8, 0), (1, 0, 1), (2, 8, 0), (2, 0, 1), (3, 8, 0), (3, 0, 0), (4, 8, 1)];
        let trace = Trace::parse("x", &bytes(&records)).unwrap().behind(1);
        let freed = |event: &Event| match event.op {
            Op::Free { block } => Some((event.thread, block)),
            _ => None,
        };
        let order: Vec<_> = trace.events.iter().map(freed).collect();
        let (first, own, last) = (Some((1, 0)), Some((0, 2)), Some((1, 1)));
        assert_eq!(order, [None, None, first, None, own, None, last]);
    }

    #[test]
    fn a_thread_takes_the_place_of_one_that_ended() {
        let records = [(1, 8, 0), (2, 8, 5), (3, 8, 5), (4, 8, 6), (5, 8, 7), (6, 8, 6), (7, 8, 0)];
        let trace = Trace::parse("x", &bytes(&records)).unwrap();
        let replaced = |event: &Event| event.op == Op::Replace;
        let calls = trace.events.iter().filter(|event| !replaced(event));
        let threads: Vec<u16> = calls.map(|event| event.thread).collect();
        assert_eq!(threads, [0, 1, 1, 1, 2, 1, 0]);
        let at = trace.events.iter().position(replaced).unwrap();
        assert_eq!(trace.events[at].thread, 1);
        assert_eq!(trace.events.iter().filter(|event| replaced(event)).count(), 1);
    }

    #[test]
    fn a_thread_that_hardly_calls_is_part_of_another() {
        let mut records = vec![(1, 8, 0)];
        records.extend((2..200).map(|address| (address, 8, 1 + address as u32 % 2)));
        records.push((200, 8, 0));
        assert_eq!(Trace::parse("x", &bytes(&records)).unwrap().threads, 2);
    }

    #[test]
    fn rubbish_is_refused() {
        assert!(Trace::parse("x", &[0; 15]).is_err());
        assert!(Trace::parse("x", &[]).is_err());
    }
}
