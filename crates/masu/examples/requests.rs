//! A heap for each request, used like a bump allocator: everything that a request allocates is freed with it, at once,
//! whether the code knows of heaps (`parse`) or not (`respond`, in a scope).
//!
//! `cargo run --example requests`

use masu::allocator_api2::boxed::Box;
use masu::allocator_api2::vec::Vec;
use masu::heap::HeapError;
use masu::{Heap, scope};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// A tree, all of it in the heap.
enum Json<'h> {
    Number(i64),
    List(Vec<Box<Json<'h>, &'h Heap>, &'h Heap>),
}

/// Reads lists of numbers, such as `[1 [2 3]]`.
fn parse<'h>(words: &mut impl Iterator<Item = &'h str>, heap: &'h Heap) -> Option<Json<'h>> {
    match words.next()? {
        "[" => {
            let mut list = Vec::new_in(heap);
            while let Some(value) = parse(words, heap) {
                list.push(Box::new_in(value, heap));
            }
            Some(Json::List(list))
        }
        "]" => None,
        number => number.parse().ok().map(Json::Number),
    }
}

fn sum(value: &Json<'_>) -> i64 {
    match value {
        Json::Number(number) => *number,
        Json::List(list) => list.iter().map(|value| sum(value)).sum(),
    }
}

/// Knows nothing of heaps.
fn respond(sum: i64) -> String {
    let words: std::vec::Vec<String> = ["the", "sum", "is"].map(String::from).into();
    format!("{} {sum}", words.join(" "))
}

/// Serves one request in a heap that is used again for the next.
fn serve(heap: &mut Heap, request: &str) -> Result<String, HeapError> {
    let answer = {
        let tree = parse(&mut request.split_whitespace(), heap);
        let total = tree.as_ref().map_or(0, sum);
        // No destructor needs to run: what the tree holds is the heap's.
        std::mem::forget(tree);
        scope(heap, || respond(total))
    };
    heap.reset()?;
    Ok(answer)
}

fn main() -> Result<(), HeapError> {
    let mut heap = Heap::builder().name("request").hard_limit(16 << 20).build()?;
    for request in ["[ 1 2 [ 3 4 ] ]", "[ 10 [ [ 20 ] ] ]"] {
        println!("{request}: {}", serve(&mut heap, request)?);
    }
    Ok(())
}

#[test]
fn a_request_leaves_nothing_in_the_heap() {
    let mut heap = Heap::new().unwrap();
    for n in 0..100 {
        let answer = serve(&mut heap, &format!("[ {n} [ {n} 1 ] ]")).unwrap();
        assert_eq!(answer, format!("the sum is {}", 2 * n + 1));
        assert_eq!(heap.stats().blocks, 0);
    }
}
