//! The machine code of the fast paths, and what the release build must not contain.
//!
//! A fast path is what a hit executes: from the function's first instruction straight on, past every
//! conditional jump, to the `ret`. Its length is committed in `golden/fast_paths.txt`, so that changes show as a
//! difference. `MASU_BLESS=1` writes the table anew.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeSet;
use std::fs;

use masu_tests::{Compile, LARGEST_LIBRARY, Run, is_masu, library, scratch, source};

/// The functions of the table, and the most instructions that a hit may take where a limit is promised.
const FAST_PATHS: &[(&str, Option<usize>)] = &[
    ("malloc", Some(15)),
    ("free", Some(22)),
    ("malloc_usable_size", Some(18)),
    ("calloc", None),
    ("realloc", None),
];

/// What the library may ask of the process that it is loaded into.
const UNDEFINED: &[&str] =
    &["__errno_location", "bcmp", "fwrite", "memcpy", "memmove", "memset", "strlen"];

/// What it uses if it is there.
const UNDEFINED_WEAK: &[&str] = &[
    "__libc_single_threaded",
    "_dl_find_object",
    "_ZNSt9bad_allocD1Ev",
    "_ZSt15get_new_handlerv",
    "_ZTISt9bad_alloc",
    "_ZTVSt9bad_alloc",
    "__cxa_allocate_exception",
    "__cxa_begin_catch",
    "__cxa_end_catch",
    "__cxa_throw",
    "__gxx_personality_v0",
    "__register_atfork",
    "__rseq_offset",
    "__rseq_size",
    "dlsym",
    "environ",
    "getauxval",
    "malloc_conf",
    "pidfd_getfd",
    "pthread_atfork",
    "pthread_key_create",
    "pthread_setspecific",
    "sbrk",
    "sigaction",
];

/// The output of a tool over the library; for other allocators `None`, and a message.
fn inspect(tool: &str, arguments: &[&str]) -> Option<String> {
    if !is_masu() {
        println!("only masu is held to this");
        return None;
    }
    let path = library().expect("masu is a library");
    Some(Run::new(tool).bare().args(arguments).arg(path).run().success().stdout)
}

/// One instruction, as objdump prints it.
#[derive(Clone, Debug)]
struct Instruction {
    address: u64,
    mnemonic: String,
    operands: String,
}

impl Instruction {
    /// `    89ec:\tcmp    $0x2000,%rdi   # comment`
    fn parse(line: &str) -> Option<Self> {
        let (address, text) = line.trim_start().split_once(":\t")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let text = text.split('#').next()?.trim();
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
        let (mnemonic, operands) = (mnemonic.to_owned(), operands.trim().to_owned());
        Some(Instruction { address, mnemonic, operands })
    }

    fn is_jump(&self) -> bool {
        self.mnemonic.starts_with('j')
    }

    fn touches_memory(&self) -> bool {
        self.mnemonic != "lea" && (self.operands.contains('(') || self.operands.contains("%fs:"))
    }

    /// The target of a direct jump.
    fn target(&self) -> Option<u64> {
        u64::from_str_radix(self.operands.split_whitespace().next()?, 16).ok()
    }
}

/// How a fast path ends.
#[derive(PartialEq, Eq, Debug)]
enum End {
    Return,
    /// A jump to another function.
    TailCall,
}

/// The instructions that a hit executes in `code`, one function's.
fn follow(code: &[Instruction]) -> (Vec<Instruction>, End) {
    let mut path = Vec::new();
    let mut at = 0;
    loop {
        let instruction = code.get(at).expect("the path leaves the function");
        path.push(instruction.clone());
        assert!(path.len() < 1000, "the path does not end");
        match instruction.mnemonic.as_str() {
            "ret" => return (path, End::Return),
            "jmp" => match code.iter().position(|i| Some(i.address) == instruction.target()) {
                Some(inside) => at = inside,
                None => return (path, End::TailCall),
            },
            _ => at += 1,
        }
    }
}

/// What is wrong with a fast path, apart from its length.
fn faults(name: &str, path: &[Instruction], end: &End) -> Vec<String> {
    let mut faults = Vec::new();
    for i in path {
        if i.mnemonic.starts_with("call") || i.mnemonic.starts_with("lock") {
            faults.push(format!("{name} has a {} {}", i.mnemonic, i.operands));
        }
    }
    if *end == End::TailCall {
        faults.push(format!("{name} goes on in another function"));
    }
    faults
}

/// The function's code. It is looked up by address, as one function has several names.
fn disassemble(name: &str) -> Option<Vec<Instruction>> {
    let symbols = inspect("nm", &["--dynamic", "--print-size"])?;
    let row = symbols.lines().find(|line| line.split(' ').nth(3) == Some(name));
    let mut row = row.unwrap_or_else(|| panic!("no {name}: {symbols}")).split(' ');
    let mut number =
        || u64::from_str_radix(row.next().expect("a column"), 16).expect("hexadecimal");
    let (start, size) = (number(), number());
    let from = format!("--start-address={start}");
    let to = format!("--stop-address={}", start + size);
    let listing = inspect("objdump", &["-d", "--no-show-raw-insn", &from, &to])?;
    let code: Vec<_> = listing.lines().filter_map(Instruction::parse).collect();
    assert_eq!(code.first().map(|i| i.address), Some(start), "no code of {name}: {listing}");
    Some(code)
}

#[test]
fn fast_paths_are_as_long_as_the_table_says() {
    let table = source("golden/fast_paths.txt");
    let mut lines = vec!["# function             instructions  jumps  memory accesses".to_owned()];
    let mut wrong = Vec::new();
    for &(name, most) in FAST_PATHS {
        let Some(code) = disassemble(name) else { return };
        let (path, end) = follow(&code);
        wrong.extend(faults(name, &path, &end));
        if most.is_some_and(|most| path.len() > most) {
            wrong.push(format!("{name} takes {} instructions, more than {most:?}", path.len()));
        }
        let jumps = path.iter().filter(|i| i.is_jump()).count();
        let accesses = path.iter().filter(|i| i.touches_memory()).count();
        lines.push(format!("{name:<22} {:>12} {jumps:>6} {accesses:>16}", path.len()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let found = lines.join("\n") + "\n";
    if std::env::var_os("MASU_BLESS").is_some() {
        fs::write(&table, &found).expect("the table is writable");
    }
    let committed = fs::read_to_string(&table).unwrap_or_default();
    assert_eq!(found, committed, "the fast paths have changed; if for the better, MASU_BLESS=1");
}

#[test]
fn no_panic_and_no_formatting_is_linked_in() {
    let Some(symbols) = inspect("nm", &["--no-demangle"]) else { return };
    assert!(symbols.contains(" malloc\n"), "the library has no symbols to look at");
    let strays: Vec<_> = symbols.lines().filter(|line| is_panic(line)).collect();
    assert!(strays.is_empty(), "{}", strays.join("\n"));
}

/// Whether a mangled name, of either scheme, lies in `core::panicking` or `core::fmt`.
fn is_panic(symbol: &str) -> bool {
    symbol.contains("4core9panicking") || symbol.contains("4core3fmt") || {
        let core = symbol.split("_4core").nth(1).unwrap_or_default();
        core.starts_with("9panicking") || core.starts_with("3fmt")
    }
}

#[test]
fn nothing_else_is_asked_of_the_process() {
    let Some(symbols) = inspect("nm", &["--dynamic", "--undefined-only"]) else { return };
    let of = |kind: &str| -> BTreeSet<&str> {
        let rows = symbols.lines().filter_map(|line| line.trim().split_once(' '));
        let names = rows.filter(|(k, _)| *k == kind).map(|(_, name)| name);
        names.map(|name| name.split('@').next().expect("a name")).collect()
    };
    let (strong, weak) = (of("U"), of("w"));
    assert!(strong.contains("memcpy"), "nothing was read: {symbols}");
    let strays: Vec<_> = strong
        .iter()
        .filter(|name| !UNDEFINED.contains(name))
        .chain(weak.iter().filter(|name| !UNDEFINED_WEAK.contains(name)))
        .collect();
    assert!(strays.is_empty(), "{strays:?}");
}

#[test]
fn the_library_is_small() {
    let directory = scratch();
    let stripped = directory.path().join("stripped.so");
    let to = stripped.to_str().expect("UTF-8");
    if inspect("strip", &["-o", to]).is_some() {
        let size = fs::metadata(&stripped).expect("strip wrote it").len();
        assert!(size <= LARGEST_LIBRARY, "{size} bytes, more than {LARGEST_LIBRARY}");
    }
}

/// The reader itself, on code that breaks the rules.
#[test]
fn bad_paths_are_seen() {
    let code = |text: &str| text.lines().filter_map(Instruction::parse).collect::<Vec<_>>();
    let good = code(
        " 10:\ttest   %rdi,%rdi\n 13:\tje     80 <slow>\n 19:\tmov    (%rdi),%rax\n 1c:\tret\n 1d:\tcall   90 <cold>",
    );
    let (path, end) = follow(&good);
    assert_eq!((path.len(), &end), (4, &End::Return));
    assert_eq!(faults("good", &path, &end), Vec::<String>::new());
    assert!(path[2].touches_memory() && !path[0].touches_memory());

    let calls = code(
        " 10:\tcall   80 <other>\n 15:\tlock cmpxchg %rcx,(%rdi)\n 1a:\tjmp    1c <f+0xc>\n 1b:\tnop\n 1c:\tjmp    80 <other>",
    );
    let (path, end) = follow(&calls);
    assert_eq!(path.len(), 4);
    assert_eq!(faults("calls", &path, &end).len(), 3);

    assert!(is_panic("_RNvNtCsgEmfK2I1SDS_4core9panicking9panic_fmt"));
    assert!(is_panic("_ZN4core9panicking5panic17h0123456789abcdefE"));
    assert!(is_panic("_RNvNtCs1_4core3fmt5write"));
    assert!(!is_panic("_ZN9masu_core4heap4free4pushE"));
}

/// The library names no C library, and so no versions of its functions: `memcpy` would be the one from before glibc
/// 2.14, for processors of 2003.
#[test]
fn realloc_copies_by_memmove() {
    if !is_masu() {
        return; // other allocators copy as they like
    }
    let program = Compile::c("c/copies.c").flag("-rdynamic").build();
    Run::program(&program).run().success();
}
