//! Trees of files, as found on machines and in containers.

extern crate std;
use super::{memory_limit, processors, stalled};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{format, fs};

static ROOT: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static ONE: Mutex<()> = Mutex::new(());

/// The directory that replaces `/`, or nothing.
pub fn root() -> &'static [u8] {
    let at = ROOT.load(Ordering::Acquire);
    if at.is_null() {
        return b"";
    }
    // SAFETY: a string that `Fake` has leaked.
    unsafe { core::ffi::CStr::from_ptr(at.cast()) }.to_bytes()
}

/// A tree of files in a separate directory, in force until it is dropped, one at a time.
pub struct Fake {
    directory: PathBuf,
    _one: MutexGuard<'static, ()>,
}

impl Fake {
    pub fn new(files: &[(&str, &str)]) -> Fake {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("masu-cgroup-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let path = std::ffi::CString::new(directory.to_str().unwrap()).unwrap();
        ROOT.store(path.into_raw().cast(), Ordering::Release);
        let fake = Fake { directory, _one: one };
        files.iter().for_each(|(path, text)| fake.write(path, text));
        fake
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.directory.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        ROOT.store(core::ptr::null_mut(), Ordering::Release);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn a_container_with_its_own_namespace() {
    let fake = Fake::new(&[
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/memory.max", "268435456\n"),
        ("sys/fs/cgroup/memory.high", "max\n"),
        ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        (
            "sys/fs/cgroup/memory.pressure",
            "some avg10=1.00 avg60=0 avg300=0 total=77\nfull total=5\n",
        ),
    ]);
    assert_eq!(memory_limit(), Some(256 << 20));
    assert_eq!(processors(), Some(2));
    assert_eq!(stalled(), Some(77));
    fake.write("sys/fs/cgroup/memory.high", "134217728\n");
    fake.write("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_eq!(memory_limit(), Some(128 << 20));
    assert_eq!(processors(), None);
}

#[test]
fn the_least_limit_on_the_way_up_counts() {
    let fake = Fake::new(&[
        ("proc/self/cgroup", "0::/a.slice/b.service\n"),
        ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
        ("sys/fs/cgroup/a.slice/memory.max", "1048576\n"),
        ("sys/fs/cgroup/a.slice/b.service/cpu.max", "400000 100000\n"),
        ("sys/fs/cgroup/a.slice/cpu.max", "50000 100000\n"),
        ("proc/pressure/memory", "some avg10=0.00 total=9\n"),
    ]);
    assert_eq!(memory_limit(), Some(1 << 20));
    assert_eq!(processors(), Some(1));
    assert_eq!(stalled(), Some(9));
    fake.write("sys/fs/cgroup/a.slice/b.service/memory.max", "4096\n");
    assert_eq!(memory_limit(), Some(4096));
}

#[test]
fn version_1_with_the_hosts_path_inside_a_container() {
    let fake = Fake::new(&[
        ("proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ]);
    assert_eq!(memory_limit(), Some(512 << 20));
    assert_eq!(processors(), Some(3));
    assert_eq!(stalled(), None);
    fake.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    fake.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    assert_eq!(memory_limit(), None);
    assert_eq!(processors(), None);
}

#[test]
fn what_cannot_be_read_is_no_limit() {
    let fake = Fake::new(&[]);
    assert_eq!((memory_limit(), processors(), stalled()), (None, None, None));
    fake.write("proc/self/cgroup", "nonsense\n0::\n:::\n");
    fake.write("sys/fs/cgroup/memory.max", "12three\n");
    fake.write("sys/fs/cgroup/cpu.max", "100000 0\n");
    fake.write("proc/pressure/memory", "some total=\n");
    assert_eq!((memory_limit(), processors(), stalled()), (None, None, None));
    // Longer than any path that is read.
    fake.write("proc/self/cgroup", &format!("0::/{}\n", "x".repeat(600)));
    fake.write("sys/fs/cgroup/memory.max", "4096\n");
    assert_eq!(memory_limit(), Some(4096));
}
