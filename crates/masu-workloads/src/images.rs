//! images: pictures loaded, scaled down, cut into tiles and dropped, on two threads.
//!
//! Buffers of 1 to 14 MB for the pictures and their rows in floating point, hundreds of
//! kilobytes for the smaller copies, 16 KiB for the tiles; what image services allocate
//! for each upload.

use super::team;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const IMAGES: Workload = Workload {
    name: "images",
    about: "2 threads, pictures of 1..14 MB scaled down and cut into 16 KiB tiles",
    sleeps: false,
    brief: 0.12,
    run,
};

const THREADS: usize = 2;
const PICTURES: usize = 160;
const CHANNELS: usize = 4;
const TILE: usize = 64;
const WIDTHS: [usize; 6] = [640, 800, 1024, 1280, 1600, 2160];

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

fn run(input: &Input) -> Outcome {
    Outcome::of(team::sum_of(THREADS, |number| work(input, number)))
}

fn work(input: &Input, number: u64) -> u64 {
    let mut rng = input.rng(number);
    let mut recorder = input.recorder();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(PICTURES / THREADS) {
        let width = WIDTHS[rng.usize(..WIDTHS.len())];
        let (colour, height) = (rng.u8(..), width * 3 / 4);
        checksum = checksum.rotate_left(1) ^ recorder.time(|| handle(width, height, colour));
    }
    checksum
}

/// What is done with one upload.
fn handle(width: usize, height: usize, colour: u8) -> u64 {
    let picture = Picture::new(width, height, colour);
    let copies: Vec<Picture> = [2, 4, 8].into_iter().map(|by| picture.scaled_down(by)).collect();
    for copy in &copies {
        let same = copy.pixels[0] == picture.pixels[0];
        assert!(same, "a corner has another colour in the smaller copy");
    }
    drop(picture);
    let tiles = copies.iter().flat_map(Picture::tiles);
    tiles.map(|tile| tile.iter().map(|&byte| u64::from(byte)).sum::<u64>()).sum()
}

impl Picture {
    /// A gradient: cheap to make, and every byte is written.
    fn new(width: usize, height: usize, colour: u8) -> Self {
        let mut pixels = vec![0; width * height * CHANNELS];
        for (y, row) in pixels.chunks_exact_mut(width * CHANNELS).enumerate() {
            row.fill(colour.wrapping_add((y / 16) as u8));
        }
        Picture { width, height, pixels }
    }

    /// A copy in which each pixel is the mean of `by` neighbours in a row.
    fn scaled_down(&self, by: usize) -> Picture {
        let (width, height) = (self.width / by, self.height / by);
        let mut pixels = Vec::with_capacity(width * height * CHANNELS);
        let mut sums = vec![0f32; width * CHANNELS];
        for y in 0..height {
            sums.fill(0.0);
            let row = &self.pixels[y * by * self.width * CHANNELS..][..self.width * CHANNELS];
            for (place, pixel) in row.chunks_exact(CHANNELS).enumerate().take(width * by) {
                for (channel, byte) in pixel.iter().enumerate() {
                    sums[place / by * CHANNELS + channel] += f32::from(*byte);
                }
            }
            pixels.extend(sums.iter().map(|sum| (sum / by as f32) as u8));
        }
        Picture { width, height, pixels }
    }

    /// Squares of the picture, each a buffer of its own.
    fn tiles(&self) -> Vec<Vec<u8>> {
        let mut tiles = Vec::new();
        for y in (0..self.height.saturating_sub(TILE - 1)).step_by(TILE) {
            for x in (0..self.width.saturating_sub(TILE - 1)).step_by(TILE) {
                let mut tile = Vec::with_capacity(TILE * TILE * CHANNELS);
                for row in y..y + TILE {
                    let start = (row * self.width + x) * CHANNELS;
                    tile.extend_from_slice(&self.pixels[start..][..TILE * CHANNELS]);
                }
                tiles.push(tile);
            }
        }
        tiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_one_colour_keeps_it() {
        let picture = Picture::new(256, 192, 7);
        let copy = picture.scaled_down(2);
        assert_eq!((copy.width, copy.height, copy.pixels.len()), (128, 96, 128 * 96 * 4));
        assert_eq!(copy.pixels[..128 * 4], [7; 128 * 4]);
        assert_eq!(copy.tiles().len(), 2);
    }
}
