//! Limits on the memory of the whole program: what collections see of them.

use masu::{Config, Configured, Masu, Policy, limit};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[global_allocator]
static GLOBAL: Configured =
    Masu::with_config(Config::new().policy(Policy::LowMemory).limit_hard(256 << 20).decay_ms(7));

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// One test, since the limits are the process's.
#[test]
fn a_collection_meets_the_limit_and_the_program_goes_on() {
    assert_eq!(masu::ctl::decay::read(), Ok(Some(7)), "what is set wins over the policy");
    assert_eq!(masu::ctl::retain_full::read(), Ok(4), "the policy's");
    let before = limit::used();
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    let refused = loop {
        let mut more = Vec::new();
        if let Err(refused) = more.try_reserve_exact(3 << 20) {
            break refused;
        }
        more.resize(3 << 20, 1);
        bytes.push(more);
        assert!(bytes.len() < 1000, "no limit");
    };
    let held = bytes.len() * (3 << 20);
    assert!(held > 200 << 20 && held <= 256 << 20, "{held} bytes");
    assert!(limit::used() >= before + held && limit::used() <= 256 << 20);
    // The reserve is for a text or a message.
    assert!(format!("{refused} after {held} bytes").contains("memory"));
    drop(bytes);

    limit::set_hard(None);
    limit::set_soft(Some(64 << 20));
    limit::on_soft_limit(|used, limit| {
        assert!(used > limit && limit == 64 << 20, "{used} of {limit}");
        drop(vec![0u8; 100_000]);
        CALLS.fetch_add(1, Relaxed);
    });
    let many: Vec<Box<[u8; 1000]>> = (0..100_000).map(|_| Box::new([1; 1000])).collect();
    assert_eq!(CALLS.load(Relaxed), 1);
    drop(many);
    limit::set_soft(None);
    drop(vec![1u8; 200 << 20]);
    assert_eq!(CALLS.load(Relaxed), 1);
}
