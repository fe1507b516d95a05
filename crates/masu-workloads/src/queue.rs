//! A bounded queue with many ends, closed when every producer is done.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

/// Holds at most so many parcels; whoever finds it full or empty waits.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    most: usize,
}

struct State<T> {
    parcels: VecDeque<T>,
    producers: usize,
}

impl<T> Queue<T> {
    /// An empty queue for `most` parcels of so many producers.
    pub fn new(producers: usize, most: usize) -> Self {
        let parcels = VecDeque::with_capacity(most);
        Queue { state: Mutex::new(State { parcels, producers }), changed: Condvar::new(), most }
    }

    /// Adds a parcel as soon as there is room.
    pub fn push(&self, parcel: T) {
        let state = self.state.lock().unwrap();
        let mut state =
            self.changed.wait_while(state, |state| state.parcels.len() == self.most).unwrap();
        state.parcels.push_back(parcel);
        self.changed.notify_all();
    }

    /// One producer is done.
    pub fn close(&self) {
        self.state.lock().unwrap().producers -= 1;
        self.changed.notify_all();
    }

    /// The oldest parcel, or nothing once all producers are done.
    pub fn pop(&self) -> Option<T> {
        let state = self.state.lock().unwrap();
        let waiting = |state: &mut State<T>| state.parcels.is_empty() && state.producers > 0;
        let mut state = self.changed.wait_while(state, waiting).unwrap();
        let parcel = state.parcels.pop_front();
        self.changed.notify_all();
        parcel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_queue_is_emptied_in_order() {
        let queue = Queue::new(1, 4);
        (0..3).for_each(|number| queue.push(number));
        queue.close();
        assert_eq!([0; 4].map(|_| queue.pop()), [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn a_full_queue_holds_its_producer_back() {
        let queue = Queue::new(1, 2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..1000).for_each(|number| queue.push(number));
                queue.close();
            });
            let mut expected = 0;
            while let Some(number) = queue.pop() {
                assert_eq!(number, expected);
                assert!(queue.state.lock().unwrap().parcels.len() <= 2);
                expected += 1;
            }
            assert_eq!(expected, 1000);
        });
    }
}
