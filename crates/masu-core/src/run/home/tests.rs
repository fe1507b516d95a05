use super::*;
use crate::ledger::MORE_SHARDS;
use crate::own_process::alone;
use crate::region;
use crate::run::pool;

/// Seats of so many heaps that lie in a row.
fn seats(many: usize) -> Vec<Seat> {
    let seat = |place| {
        let seat = Seat::new();
        seat.begin(place);
        seat
    };
    (0..many).map(seat).collect()
}

#[test]
fn on_one_node_homes_stay_where_heaps_lie() {
    let nodes = Nodes::new();
    for (place, seat) in seats(9).iter().enumerate() {
        seat.settle_on(0, &nodes);
        assert_eq!(seat.home(), Home::of(place));
    }
}

/// However the threads are spread over two nodes: no shard has threads of both, and none has two threads as long as one
/// of its node has none.
#[test]
fn a_shard_serves_threads_of_one_node() {
    const SHARDS: usize = 8;
    let nodes = Nodes::new();
    let seats = seats(SHARDS);
    let on = |thread: usize| usize::from([1, 2, 4, 7].contains(&thread));
    for (thread, seat) in seats.iter().enumerate() {
        seat.settle_on(on(thread), &nodes);
    }
    // The first one did not know yet that there are two.
    assert_eq!(seats[0].bits.get(), 0);
    for (thread, seat) in seats.iter().enumerate() {
        let before = seat.home();
        seat.settle_on(on(thread), &nodes);
        assert_eq!(seat.home() == before, thread != 0, "{thread}");
    }
    let mut threads = [const { Vec::new() }; SHARDS];
    for (thread, seat) in seats.iter().enumerate() {
        threads[seat.home().among(SHARDS - 1)].push(on(thread));
    }
    assert_eq!(threads, [0, 1, 0, 1, 0, 1, 0, 1].map(|node| vec![node]));
}

#[test]
fn a_thread_that_moved_to_another_node_moves_its_home() {
    let nodes = Nodes::new();
    let seats = seats(2);
    for node in [3, 1, 2, 0, 3] {
        seats[1].settle_on(node, &nodes);
        assert_eq!(seats[1].home().among(3), node);
    }
    assert_eq!(seats[1].home(), Home::of(4 + 3), "the second one there");
    assert_eq!(seats[0].home(), Home::of(0));
}

#[test]
fn chunks_are_near_on_the_node_of_their_shard() {
    alone!(chunks_are_near_on_the_node_of_their_shard, || {
        region::init().unwrap();
        assert!(region::map_shards(4));
        MORE_SHARDS.store(3, Ordering::Relaxed);
        let chunk_of = |home| {
            let (at, _) = pool::take(1, 1, home).unwrap();
            (region::offset(at as *const u8) / region::CHUNK) as u32
        };
        let near = |of, home| Home::of(of).is_near(chunk_of(Home::of(home)));
        assert!(near(0, 3) && !are_nodes(), "on one node all are");
        NODES.seen(1);
        assert_eq!([0, 1, 2, 3].map(|home| near(2, home)), [true, false, true, false]);
        assert_eq!([0, 1, 2, 3].map(|home| near(5, home)), [false, true, false, true]);
        NODES.seen(3);
        assert_eq!([0, 1, 2, 3].map(|home| near(5, home)), [false, true, false, false]);
    });
}

/// As many as there are, they do not all wait for the first shard's lock.
#[test]
fn a_thread_without_a_heap_takes_from_the_shard_of_its_processor() {
    alone!(a_thread_without_a_heap_takes_from_the_shard_of_its_processor, || {
        region::init().unwrap();
        assert!(region::map_shards(2));
        MORE_SHARDS.store(1, Ordering::Relaxed);
        for processor in 0..2 {
            if cpu::tests::is_moved_to(processor) {
                let at = crate::run::alloc(None, 1, 1, 0);
                assert_eq!(number_of((region::offset(at) / region::CHUNK) as u32), processor);
            }
        }
    });
}
