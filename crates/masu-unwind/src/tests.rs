//! Compares every row of every loaded unwinding table with gimli's reading; and walks real stacks.

use crate::cfi::{self, END, INDIRECT, LOST, Rule, SAME, SIGNAL};
use crate::module::Module;
use crate::registers::{FRAME, KEPT, RETURN, STACK};
use crate::tables::Entry;
use crate::{maps, walk};
use gimli::{BaseAddresses, CfaRule, EndianSlice, NativeEndian, RegisterRule, UnwindSection as _};
use object::{Object as _, ObjectSection as _};
use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

/// The loaded files and their addresses.
fn loaded() -> Vec<(String, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").expect("readable");
    let files = maps.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = words.get(5).filter(|file| file.starts_with('/'))?;
        let start = usize::from_str_radix(words[0].split_once('-')?.0, 16).ok()?;
        (words[2] == "00000000").then(|| ((*file).to_owned(), start))
    });
    files.collect()
}

/// A row: base, offset and indirection of the CFA, and for each register whether it is relative to the frame pointer,
/// and the offset.
type Row = (u8, i64, bool, Vec<Option<(bool, i64)>>);

/// Returns gimli's version of a row in this crate's terms; `None` if it has no supported form.
fn expected(
    row: &gimli::UnwindTableRow<usize>,
    frames: &gimli::EhFrame<EndianSlice<NativeEndian>>,
) -> Option<Row> {
    let base = |register: u16| {
        if u64::from(register) == STACK {
            return Some(0);
        }
        KEPT.iter().position(|&kept| u16::from(kept) == register).map(|i| i as u8 + 1)
    };
    let simple = |expression: gimli::UnwindExpression<usize>| {
        let mut bytes = expression.get(frames).ok()?.0.slice().to_vec();
        let register = u16::from(bytes.remove(0).checked_sub(0x70)?);
        let mut slice = EndianSlice::new(&bytes, NativeEndian);
        let offset = gimli::Reader::read_sleb128(&mut slice).ok()?;
        match slice.slice() {
            [] => Some((register, offset, false)),
            [0x06] => Some((register, offset, true)),
            _ => None,
        }
    };
    let (base, offset, indirect) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => (base(register.0)?, *offset, false),
        CfaRule::Expression(expression) => {
            let (register, offset, indirect) = simple(*expression)?;
            (base(register)?, offset, indirect)
        }
    };
    let mut kept = Vec::new();
    for register in KEPT.iter().map(|&kept| u16::from(kept)).chain([RETURN as u16]) {
        kept.push(match row.register(gimli::Register(register)) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
            Some(RegisterRule::Offset(offset)) => Some((false, offset)),
            Some(RegisterRule::Expression(expression)) => match simple(expression) {
                Some((register, offset, false)) if base_is_frame(register) => Some((true, offset)),
                _ => Some((false, i64::from(LOST) * 8)),
            },
            _ => Some((false, i64::from(LOST) * 8)),
        });
    }
    Some((base, offset, indirect, kept))
}

fn base_is_frame(register: u16) -> bool {
    register == u16::from(KEPT[FRAME])
}

#[test]
fn every_row_is_what_gimli_reads() {
    let _alone = maps::tests::ALONE.lock();
    for name in [
        "libstdc++.so.6",
        "libm.so.6",
        "libcrypto.so.3",
        "libpython3.11.so.1.0",
        "libruby-3.1.so.3.1",
    ] {
        let name = CString::new(name).unwrap();
        // SAFETY: libraries that can be loaded anywhere; a missing one does not matter.
        unsafe { dlopen(name.as_ptr(), 2) };
    }
    let mut rows = 0;
    let mut unknown = 0;
    for (path, start) in loaded() {
        let Ok(bytes) = fs::read(&path) else { continue };
        let Ok(file) = object::File::parse(&*bytes) else { continue };
        let Some(section) = file.section_by_name(".eh_frame") else { continue };
        let data = section.data().expect("readable");
        let frames = gimli::EhFrame::new(data, NativeEndian);
        let bases = BaseAddresses::default().set_eh_frame(section.address());
        let mut shared = std::collections::HashMap::new();
        let mut context = gimli::UnwindContext::new();
        let mut entries = frames.entries(&bases);
        while let Some(entry) = entries.next().expect("readable") {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial
                .parse(|frames, bases, offset| {
                    let cie = shared
                        .entry(offset.0)
                        .or_insert_with(|| frames.cie_from_offset(bases, offset));
                    cie.clone()
                })
                .expect("readable");
            if fde.len() == 0 {
                continue;
            }
            let at = start + fde.initial_address() as usize;
            let module = Module::of(at, &mut true).unwrap_or_else(|| panic!("{path} has {at:x}"));
            assert_eq!(module.start, start, "{path}");
            let ours = Entry::of(at, &module);
            let ours = ours.unwrap_or_else(|| panic!("{path}: no entry for {at:x}"));
            assert_eq!(ours.is_signal, fde.is_signal_trampoline());
            let mut table = fde.rows(&frames, &bases, &mut context).expect("readable");
            while let Some(row) = table.next_row().expect("readable") {
                rows += 1;
                let pc = start + row.start_address() as usize;
                let rule = cfi::rule(&ours, pc);
                if ours.is_signal {
                    assert!(rule.unwrap().flags & SIGNAL != 0);
                    continue;
                }
                match (expected(row, &frames), rule) {
                    (Some(expected), Some(rule)) => same(&expected, &rule, pc, &path),
                    (None, None) => unknown += 1,
                    (expected, rule) => panic!("{path} {pc:x}: {expected:?} {rule:?}"),
                }
            }
        }
    }
    println!("{rows} rows, {unknown} of them of no known form");
    assert!(rows > 10_000 && unknown * 200 < rows, "{rows} rows, {unknown} of no known form");
}

fn same(expected: &Row, rule: &Rule, pc: usize, path: &str) {
    let (base, offset, indirect, kept) = expected;
    assert_eq!((rule.base, i64::from(rule.offset)), (*base, *offset), "{path} {pc:x}");
    assert_eq!(rule.flags & INDIRECT != 0, *indirect, "{path} {pc:x}");
    let again = Rule::of(rule.words());
    assert_eq!(again, *rule);
    for (i, expected) in kept.iter().enumerate() {
        let found = if i < KEPT.len() { rule.of_kept(i) } else { (false, rule.back) };
        if i == KEPT.len() && !cfg!(target_arch = "x86_64") {
            continue;
        }
        let found = (found.1 != SAME).then_some((found.0, i64::from(found.1) * 8));
        assert_eq!(found, *expected, "{path} {pc:x}: register {i}");
    }
    if rule.flags & END != 0 {
        assert_eq!(rule.back, SAME);
    }
}

#[test]
fn the_kernel_s_list_says_what_the_loader_says() {
    let _alone = maps::tests::ALONE.lock();
    for at in [
        walk as *const () as usize,
        fs::read::<&str> as *const () as usize,
        dlopen as *const () as usize,
        dlclose as *const () as usize,
    ] {
        let (by_loader, by_kernel) =
            (Module::of(at, &mut true).unwrap(), maps::find(at, &mut true).unwrap());
        assert_eq!(by_loader.start, by_kernel.start);
        assert_eq!(by_loader.header, by_kernel.header);
        // Found a second time, without a lookup.
        assert_eq!(maps::find(at, &mut true), Some(by_kernel));
        assert!(
            !by_kernel.is_library()
                || by_kernel.start
                    != Module::of(walk as *const () as usize, &mut true).unwrap().start
        );
    }
    let local = 0;
    assert_eq!(maps::find(&raw const local as usize, &mut true), None);
}

/// A file that is mapped as it is, and not by the loader, need not have its tables where it says.
#[test]
fn tables_that_cannot_be_read_are_none() {
    let _alone = maps::tests::ALONE.lock();
    unsafe extern "C" {
        fn mmap(at: usize, len: usize, may: c_int, flags: c_int, file: c_int, from: i64)
        -> *mut u8;
    }
    let mut bytes = [0u8; 4096];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"\x7fELF");
    put(32, &64u64.to_le_bytes());
    put(54, &[56, 0, 2]);
    // A segment that can be read, and tables far behind it.
    put(64, &[1, 0, 0, 0, 4]);
    put(64 + 40, &4096u64.to_le_bytes());
    put(120, &0x6474_e550_u32.to_le_bytes());
    put(120 + 16, &(1u64 << 46).to_le_bytes());
    put(120 + 40, &12u64.to_le_bytes());
    let path = std::env::temp_dir().join(format!("masu-unwind-flat-{}", std::process::id()));
    fs::write(&path, bytes).expect("written");
    let file = fs::File::open(&path).expect("a file");
    // SAFETY: a fresh mapping.
    let at = unsafe { mmap(0, 4096, 1, 2, file.as_raw_fd(), 0) };
    assert_ne!(at.addr(), usize::MAX, "mmap");
    assert_eq!(maps::find(at.addr() + 2048, &mut true), None);
    fs::remove_file(path).expect("removed");
}

#[inline(never)]
fn deep(n: usize, room: &mut [MaybeUninit<usize>]) -> &[usize] {
    let found = if n == 0 { walk(room) } else { deep(n - 1, room) };
    black_box(found)
}

#[test]
fn a_stack_is_as_deep_as_it_is() {
    let (mut room, mut more) = ([MaybeUninit::uninit(); 256], [MaybeUninit::uninit(); 256]);
    let first = deep(0, &mut room);
    let flat = first.len();
    let frames = deep(100, &mut more);
    let n = frames.len();
    assert_eq!(n, flat + 100);
    // The walk's frame and the innermost call, then a hundred that return to the same place.
    let mut same = frames[2..n].iter();
    let again = *same.next().unwrap();
    assert!(frames[2..101].iter().all(|&frame| frame == again), "{frames:x?}");
    assert_eq!(frames[n - 1], first[flat - 1], "both begin at the thread's start");
    assert!(flat > 5, "{flat}");
    // Room for fewer frames than there are: the innermost.
    let mut few = [MaybeUninit::uninit(); 10];
    assert_eq!(deep(100, &mut few).len(), 10);
}

/// Two callers whose stacks differ in one word, and one that differs in the depth below it.
#[inline(never)]
fn here(room: &mut [MaybeUninit<usize>]) -> Vec<usize> {
    black_box(walk(room)).to_vec()
}

#[inline(never)]
fn between(room: &mut [MaybeUninit<usize>], n: usize) -> Vec<usize> {
    let found = if n == 0 { here(room) } else { between(room, n - 1) };
    black_box(found)
}

#[test]
fn a_stack_that_was_walked_before_is_told_from_another_one() {
    let mut room = [MaybeUninit::uninit(); 127];
    let mut first: Vec<Option<Vec<usize>>> = vec![None; 12];
    for round in 0..50 {
        for (i, first) in first.iter_mut().enumerate() {
            // Two places in this function, and six depths.
            let depth = i / 2;
            // Two places that return to different addresses: neither call can be taken for the
            // other's.
            let found = if i % 2 == 0 {
                black_box(between(&mut room, depth))
            } else {
                between(&mut room, black_box(depth))
            };
            match first {
                Some(first) => assert_eq!(*first, found, "round {round}, stack {i}"),
                None => *first = Some(found),
            }
        }
    }
    let first: Vec<_> = first.into_iter().flatten().collect();
    for i in (0..12).step_by(2) {
        let (a, b) = (&first[i], &first[i + 1]);
        let differ = a.iter().zip(b).filter(|(a, b)| a != b).count();
        assert_eq!((a.len(), differ), (b.len(), 1), "{a:x?} {b:x?}");
        assert!(i == 0 || a.len() == first[i - 2].len() + 1);
    }
}

#[test]
fn a_signal_s_handler_shows_what_it_interrupted() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    static FRAMES: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
    extern "C" fn handler(_: c_int) {
        let mut room = [MaybeUninit::uninit(); 64];
        let frames = walk(&mut room);
        for (to, frame) in FRAMES.iter().zip(frames) {
            to.store(*frame, Ordering::Relaxed);
        }
        DEPTH.store(frames.len(), Ordering::Relaxed);
    }
    unsafe extern "C" {
        fn signal(signal: c_int, handler: extern "C" fn(c_int)) -> usize;
        fn raise(signal: c_int) -> c_int;
    }
    // SAFETY: SIGUSR2, which is otherwise unused here.
    unsafe {
        signal(12, handler);
        raise(12);
    }
    let mut room = [MaybeUninit::uninit(); 64];
    let frames = walk(&mut room);
    let n = frames.len();
    let depth = DEPTH.load(Ordering::Relaxed);
    assert!(depth > n, "{depth} {n}");
    // The outer frames are those of this test.
    for back in 2..n {
        assert_eq!(FRAMES[depth - back].load(Ordering::Relaxed), frames[n - back], "{back}");
    }
}

#[test]
fn what_cannot_be_read_is_not() {
    assert!(!crate::sys::can_be_read(0));
    assert!(!crate::sys::can_be_read(8));
    assert!(!crate::sys::can_be_read(usize::MAX - 7));
    let word = 7usize;
    let at = &raw const word as usize;
    assert!(crate::sys::can_be_read(at));
    let mut stack = crate::memory::Stack::at(at);
    // The test's thread has its own words at the upper end of its stack, and they are mapped.
    let end = crate::sys::thread_pointer();
    assert!(stack.goes_on(at, at + 8) && stack.goes_on(at, end - 8) && !stack.goes_on(at, end));
    assert_eq!((stack.word(at), stack.word(at + 1), stack.word(16)), (Some(7), None, None));
}

/// What is left of code says where its caller is, if all of it is as expected.
#[cfg(target_arch = "x86_64")]
#[test]
fn code_that_only_returns_says_how_large_its_frame_is() {
    let decode = |code: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..code.len()].copy_from_slice(code);
        crate::epilogue::decode(u64::from_le_bytes(bytes))
    };
    let size = |code: &[u8]| decode(code).map(|rule| (rule.offset, rule.back));
    assert_eq!(size(&[0xc3]), Some((8, -1)));
    // add $8, %rsp; ret. CPython's trampoline.
    assert_eq!(size(&[0x48, 0x83, 0xc4, 8, 0xc3]), Some((16, -1)));
    assert_eq!(size(&[0x48, 0x83, 0xc4, 0x78, 0xc3, 0xcc]), Some((128, -1)));
    // It goes on, shrinks the stack, is too long, or restores what a function need not preserve.
    for code in [
        &[0x48, 0x83, 0xc4, 8, 0xff, 0xd1][..],
        &[0x48, 0x83, 0xc4, 0x88, 0xc3],
        &[0x48, 0x83, 0xc4],
        &[0x5b, 0x5d, 0x41, 0x5c, 0x41, 0x5d, 0x41, 0x5e],
        &[0x41, 0x50, 0xc3],
        &[0xc9, 0xc3],
    ] {
        assert_eq!(size(code), None, "{code:x?}");
    }
    // pop %rbx; pop %rbp; pop %r12; ret: their words are the lowest three of the frame.
    let popped = decode(&[0x5b, 0x5d, 0x41, 0x5c, 0xc3]).expect("a rule");
    let kept: Vec<_> = (0..3).map(|i| popped.of_kept(i)).collect();
    assert_eq!((popped.offset, kept), (32, vec![(false, -4), (false, -3), (false, -2)]));
    assert_eq!(popped.of_kept(3).1, SAME);
}

/// A stack goes on behind code that was generated at run time and keeps no frame pointer, also at the end of its page.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_trampoline_without_a_table_does_not_end_the_stack() {
    type Callee = extern "C" fn(*mut Vec<usize>);
    extern "C" fn callee(found: *mut Vec<usize>) {
        let mut room = [MaybeUninit::uninit(); 256];
        // SAFETY: the test's own vector.
        unsafe { *found = black_box(walk(&mut room)).to_vec() };
    }
    unsafe extern "C" {
        fn mmap(at: usize, len: usize, may: c_int, flags: c_int, file: c_int, from: i64)
        -> *mut u8;
        fn munmap(at: *mut u8, len: usize) -> c_int;
    }
    // endbr64; push %rbp; push %rbx; sub $8, %rsp; xor %ebp, %ebp; call *%rsi; add $8, %rsp; pop %rbx; pop %rbp; ret:
    // a frame pointer of 0 leads nowhere.
    const CODE: [u8; 21] = [
        0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x53, 0x48, 0x83, 0xec, 8, 0x31, 0xed, 0xff, 0xd6, 0x48,
        0x83, 0xc4, 8, 0x5b, 0x5d, 0xc3,
    ];
    // SAFETY: fresh memory, private and executable, without its second page.
    let page = unsafe { mmap(0, 8192, 7, 0x22, -1, 0) };
    assert_ne!(page.addr(), usize::MAX, "mmap");
    // SAFETY: as above.
    assert_eq!(unsafe { munmap(page.add(4096), 4096) }, 0);
    for at in [0, 4096 - CODE.len()] {
        // SAFETY: the code fits, and is a function of these arguments that keeps what functions have to keep.
        let call: extern "C" fn(*mut Vec<usize>, Callee) = unsafe {
            page.add(at).copy_from_nonoverlapping(CODE.as_ptr(), CODE.len());
            core::mem::transmute(page.add(at))
        };
        let mut found = Vec::new();
        call(&raw mut found, callee);
        let mut room = [MaybeUninit::uninit(); 256];
        let own = walk(&mut room);
        let at = found.iter().position(|&frame| frame.wrapping_sub(page.addr()) < 4096);
        // Behind it come this function, at another place, and its callers.
        let behind = &found[at.expect("the trampoline") + 2..];
        assert_eq!(behind, &own[own.len() - behind.len()..]);
        assert!(behind.len() + 2 >= own.len() && behind.len() > 5, "{found:x?} {own:x?}");
    }
}

/// A plugin that is built again, with a larger buffer, and loaded again in the same place.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[test]
fn a_plugin_that_was_built_again_is_not_walked_with_its_old_rules() {
    let _alone = maps::tests::ALONE.lock();
    type Entry = extern "C" fn(extern "C" fn(*mut Vec<usize>), *mut Vec<usize>);
    extern "C" fn callee(found: *mut Vec<usize>) {
        let mut room = [MaybeUninit::uninit(); 256];
        // SAFETY: the test's own vector.
        unsafe { *found = black_box(walk(&mut room)).to_vec() };
    }
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    const SOURCE: &str = "void entry(void (*f)(void *), void *p) {
        volatile char room[SIZE]; room[0] = 1; f(p); room[SIZE - 1] = 1; }";
    let directory = std::env::temp_dir().join(format!("masu-unwind-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let source = directory.join("plugin.c");
    fs::write(&source, SOURCE).expect("written");
    for id in ["sha1", "none"] {
        let mut entries = Vec::new();
        for size in [40, 104, 40] {
            let plugin = directory.join(format!("{id}{size}.so"));
            let mut cc = std::process::Command::new("cc");
            cc.args(["-O2", "-fomit-frame-pointer", "-fPIC", "-shared", "-o"]).arg(&plugin);
            cc.arg(format!("-DSIZE={size}")).arg(format!("-Wl,--build-id={id}")).arg(&source);
            assert!(cc.status().expect("a compiler").success());
            let name = CString::new(plugin.to_str().expect("a name")).unwrap();
            // SAFETY: a plugin with a function of this type, which is not called after it is unloaded.
            let (handle, entry) = unsafe {
                let handle = dlopen(name.as_ptr(), 2);
                assert!(!handle.is_null(), "{name:?}");
                let entry = dlsym(handle, c"entry".as_ptr());
                (handle, core::mem::transmute::<*mut c_void, Entry>(entry))
            };
            let mut found = Vec::new();
            entry(callee, &raw mut found);
            // SAFETY: opened above.
            unsafe { dlclose(handle) };
            let mut room = [MaybeUninit::uninit(); 256];
            let own = walk(&mut room);
            let at = entry as *const () as usize;
            let place = found.iter().position(|frame| (at..at + 256).contains(frame));
            // Behind the plugin come this function, at another place, and its callers.
            let behind = &found[place.expect("the plugin") + 2..];
            assert_eq!(behind, &own[own.len() - behind.len()..], "{id} {size}");
            assert!(behind.len() + 2 >= own.len() && behind.len() > 5, "{id} {size}: {found:x?}");
            entries.push(at);
        }
        println!("{id}: loaded at {entries:x?}");
    }
    fs::remove_dir_all(&directory).expect("removed");
}
