//! Shows what `Box::new` and the drop of a box compile to in a release build:
//! `objdump -d target/release/examples/boxes --disassemble=make_box`.

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// A box of six words.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn make_box(word: u64) -> Box<[u64; 6]> {
    Box::new([word; 6])
}

/// The end of one.
#[allow(clippy::boxed_local, reason = "the box is what this is about")]
#[unsafe(no_mangle)]
#[inline(never)]
pub fn drop_box(_boxed: Box<[u64; 6]>) {}

fn main() {
    let boxes: Vec<_> = (0..1000).map(make_box).collect();
    let sum: u64 = boxes.iter().map(|boxed| boxed[5]).sum();
    boxes.into_iter().for_each(drop_box);
    println!("{sum}");
}
