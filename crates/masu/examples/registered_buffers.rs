//! Registers a pool's region with the kernel once, and reads a file into buffers by their index:
//! `cargo run --example registered_buffers [FILE]`.
//!
//! The kernel pins the pages of registered buffers, and then neither looks them up nor maps them for
//! each request. All buffers of a pool are one contiguous region that never moves, so one registration
//! of one `iovec` is enough. Where io_uring is forbidden, as in many containers, the example says so.

use io_uring::{IoUring, opcode, types::Fd};
use masu::BufferPool;
use std::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const BUFFERS: usize = 8;
const SIZE: usize = 4096;

/// A ring with a pool's region as its registered buffer 0.
fn ring(pool: &BufferPool) -> io::Result<IoUring> {
    let ring = IoUring::new(BUFFERS as u32)?;
    let (start, bytes) = pool.region();
    let region = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: bytes };
    // SAFETY: the region is the pool's, which callers keep longer than the ring.
    unsafe { ring.submitter().register_buffers(&[region])? };
    Ok(ring)
}

/// The first bytes of a file, as many as the pool has room for, all read by one call.
fn head(ring: &mut IoUring, pool: &BufferPool, path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let file = File::open(path)?;
    // Buffers that the kernel writes to stay leased until it has said that it is done.
    let mut leases: Vec<_> = std::iter::from_fn(|| pool.lease()).collect();
    let mut lengths = vec![0; leases.len()];
    for (i, lease) in leases.iter_mut().enumerate() {
        let read = opcode::ReadFixed::new(Fd(file.as_raw_fd()), lease.as_mut_ptr(), SIZE as u32, 0)
            .offset((i * SIZE) as u64)
            .build()
            .user_data(i as u64);
        // SAFETY: the lease is kept until the request, waited for below, is done; should waiting fail, for ever.
        // The buffer's memory is there as long, for the pool outlives the ring.
        unsafe { ring.submission().push(&read)? };
    }
    if let Err(error) = ring.submit_and_wait(leases.len()) {
        // The kernel may still write to the buffers: nobody else may have them.
        std::mem::forget(leases);
        return Err(error.into());
    }
    // All of them, whichever failed: a later call would take those that are left for its own, and its buffers for done.
    let mut failed = None;
    for done in ring.completion() {
        match usize::try_from(done.result()) {
            Ok(length) => lengths[done.user_data() as usize] = length,
            Err(_) => failed = Some(io::Error::from_raw_os_error(-done.result())),
        }
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    Ok(leases.iter().zip(lengths).flat_map(|(lease, length)| lease[..length].to_vec()).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path =
        std::env::args_os().nth(1).map_or_else(std::env::current_exe, |p| Ok(PathBuf::from(p)))?;
    // Declared first, so dropped last: the ring goes before the region it knows.
    let pool = BufferPool::new(BUFFERS, SIZE);
    let mut ring = match ring(&pool) {
        Ok(ring) => ring,
        Err(error) => {
            println!("io_uring or the registration is not to be had here: {error}");
            return Ok(());
        }
    };
    let bytes = head(&mut ring, &pool, &path)?;
    println!("{} bytes of {} in registered buffers", bytes.len(), path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn what_the_kernel_writes_into_registered_buffers_is_the_file() {
        let pool = BufferPool::new(BUFFERS, SIZE);
        let Ok(mut ring) = ring(&pool) else { return main().expect("it says so") };
        // A directory cannot be read; that leaves nothing behind.
        assert!(head(&mut ring, &pool, Path::new("/")).is_err());
        let path = std::env::current_exe().expect("this program");
        let bytes = head(&mut ring, &pool, &path).expect("a file that is running");
        let file = std::fs::read(path).expect("the same");
        assert!(bytes.len() == BUFFERS * SIZE && file.starts_with(&bytes));
        assert!(pool.lease().is_some());
    }
}
