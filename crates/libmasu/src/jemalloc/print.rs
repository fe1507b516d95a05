//! `malloc_stats_print`: all statistics, as text or as JSON.
//!
//! `config.*` and `opt.*` are printed by walking the tree of names, so the output matches
//! `mallctl`; figures are those of a new epoch.
//!
//! Letters in `opts`: `J` selects JSON; `g` omits what never changes; `m` and `a` omit the merged
//! arenas and each individual one (there is one, which is both); `b` omits bins. `d`, `l`, `x`, `e`
//! and `h` omit parts that do not exist anyway.
//!
//! Invariants:
//!
//! 1. A value of the kind *string* is the address of a string that lives for ever ([`Call::string`]).

use super::call::{Call, INDICES, Kind};
use super::{arenas, figures, tree};
use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering};
use masu_core::text::Text;

/// A function that writes a string.
type Write = unsafe extern "C" fn(*mut c_void, *const c_char);

/// Where messages go by default; null means standard error. Programs set this variable.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "jemalloc's name")]
pub static malloc_message: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The text's first lines. A static, so that it has a symbol name that says where it belongs.
static HEADING: [u8; LINES.len()] = *LINES.as_bytes().first_chunk().unwrap();
const LINES: &str = concat!(
    "___ Begin jemalloc statistics ___\n",
    "These are masu's (",
    env!("CARGO_PKG_VERSION"),
    "), through jemalloc's interface\n"
);

/// What passes text on as strings, or writes it to standard error.
///
/// # Safety
/// `write` must be callable with `to`.
unsafe fn sink(write: Option<Write>, to: *mut c_void) -> impl FnMut(&[u8]) {
    move |bytes| match write {
        // SAFETY: passed on.
        Some(write) => unsafe { pass(write, to, bytes) },
        None => masu_core::write_stderr(bytes),
    }
}

/// Writes a message where the program wants jemalloc's.
pub fn say(write: impl FnOnce(&mut Text)) {
    // SAFETY: invariant 1 of `libmasu`: jemalloc's variable holds null or a function that takes null as its first
    // argument.
    let mut sink = unsafe { sink(message(), core::ptr::null_mut()) };
    write(&mut Text::new(&mut sink));
}

/// [`malloc_message`] as the program sees it, which may be a copy in the executable.
fn message() -> Option<Write> {
    let variable: *const AtomicPtr<c_void>;
    // SAFETY: invariant 1 of `libmasu`: loads the variable's address from the global offset table, and what it holds
    // is null or such a function.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {0}, qword ptr [rip + malloc_message@GOTPCREL]",
            out(reg) variable, options(pure, nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("adrp {0}, :got:malloc_message", "ldr {0}, [{0}, :got_lo12:malloc_message]",
            out(reg) variable, options(pure, nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("lga {0}, malloc_message",
            out(reg) variable, options(pure, nomem, nostack, preserves_flags));
        let write = (*variable).load(Ordering::Relaxed);
        // The symbol's own address, where the linker has resolved it: the same variable.
        let write = if write.is_null() { malloc_message.load(Ordering::Relaxed) } else { write };
        if write.is_null() { None } else { Some(transmute::<*mut c_void, Write>(write)) }
    }
}

/// Prints statistics through `write`, which gets `to` as its first argument; if it is null, through
/// `malloc_message`, or on standard error.
///
/// # Safety
/// `write` must be null or callable that way; `opts` must be null or a string.
#[unsafe(no_mangle)]
#[unsafe(link_section = "masu_door")]
pub unsafe extern "C" fn malloc_stats_print(
    write: Option<Write>,
    to: *mut c_void,
    opts: *const c_char,
) {
    let opts: &[u8] =
        // SAFETY: as the caller says, a string.
        if opts.is_null() { b"" } else { unsafe { CStr::from_ptr(opts) }.to_bytes() };
    // SAFETY: as the caller says, its function; or by invariant 1 of `libmasu` the program's, which takes any first
    // argument.
    let mut sink = unsafe { sink(write.or_else(message), to) };
    figures::renew();
    let mut report = Report { text: Text::new(&mut sink), json: opts.contains(&b'J'), first: true };
    report.whole(opts);
}

/// Passes bytes on as strings.
///
/// # Safety
/// `write` must be callable with `to`.
unsafe fn pass(write: Write, to: *mut c_void, bytes: &[u8]) {
    let mut string = [0u8; 257];
    for chunk in bytes.chunks(string.len() - 1) {
        let len = chunk.len();
        if let Some((start, end)) = string.split_at_mut_checked(len) {
            start.copy_from_slice(chunk);
            end.iter_mut().take(1).for_each(|b| *b = 0);
        }
        // SAFETY: as the caller says, callable that way; the string ends with a zero.
        unsafe { write(to, string.as_ptr().cast()) };
    }
}

/// A report being written.
struct Report<'a> {
    text: Text<'a>,
    json: bool,
    /// Whether the next member of a JSON object is its first.
    first: bool,
}

impl Report<'_> {
    fn whole(&mut self, opts: &[u8]) {
        let with = |letter: u8| !opts.contains(&letter);
        self.title("{\"jemalloc\":{", "");
        if !self.json {
            self.text.bytes(&HEADING);
        }
        self.first = true;
        if with(b'g') {
            self.section("version", true);
            self.object("config", "Build-time option settings");
            self.object("opt", "Run-time option settings");
            self.title(",\"arenas\":{", "Arenas\n");
            self.first = true;
            self.section("arenas.", true);
            self.title(",\"bin\":", "");
            self.bins(true);
            self.title("}", "");
            self.first = false;
        }
        if self.json {
            self.object("stats", "");
        } else {
            self.summary();
        }
        if with(b'm') || with(b'a') {
            let comma = if self.first { "" } else { "," };
            self.title(comma, "");
            self.title("\"stats.arenas\":{\"merged\":{", "Merged arenas stats:\n");
            self.first = true;
            self.section("stats.arenas.#.", false);
            if with(b'b') {
                self.title(",\"bins\":", "");
                self.bins(false);
            }
            self.title("}}", "");
        }
        self.title("}}\n", "--- End jemalloc statistics ---\n");
        self.text.flush();
    }

    /// Writes what differs between JSON and text.
    #[inline(never)]
    fn title(&mut self, json: &str, text: &str) {
        self.text.str(if self.json { json } else { text });
    }

    /// Writes the one line that scripts look for.
    fn summary(&mut self) {
        let s = figures::latest();
        let mut before = "Allocated: ";
        for (value, after) in [
            (s.allocated, ", active: "),
            (s.active, ", metadata: "),
            (s.metadata, ", resident: "),
            (s.resident, ", mapped: "),
            (s.mapped, ", retained: "),
            (s.retained, ""),
        ] {
            self.text.str(before).decimal(value as u64);
            before = after;
        }
        self.text.line();
    }

    /// Prints the names below `name`.
    #[inline(never)]
    fn object(&mut self, name: &str, title: &str) {
        self.title(if self.first { "\"" } else { ",\"" }, title);
        self.title(name, "\n");
        self.title("\":{", "");
        self.first = true;
        let mut prefix = [0u8; 8];
        let bytes = name.bytes().chain(*b".");
        let len = bytes.zip(&mut prefix).map(|(byte, to)| *to = byte).count();
        self.section(core::str::from_utf8(prefix.get(..len).unwrap_or(&[])).unwrap_or(""), true);
        self.title("}", "");
        self.first = false;
    }

    /// Prints the names of the tree that begin with `prefix` and have no further number. Names that
    /// perform an action instead of returning a value are left out.
    fn section(&mut self, prefix: &str, full_names: bool) {
        let mut start = 0;
        for (row, len) in super::names::lengths().enumerate() {
            let full = tree::TEXT.get(start..start + len).unwrap_or(&[]);
            let full = core::str::from_utf8(full).unwrap_or("");
            start += len;
            let Some(last) = full.strip_prefix(prefix) else { continue };
            if last.contains('#') || matches!(last, "create" | "lookup" | "mutexes.reset") {
                continue;
            }
            let last = if last.is_empty() { full } else { last };
            self.value(row, if self.json || !full_names { last } else { full });
        }
    }

    /// Prints the size classes of small blocks, or their contents.
    #[inline(never)]
    fn bins(&mut self, general: bool) {
        if general && !self.json {
            return;
        }
        self.title("[", "bins:        size    curslabs     curregs\n");
        let mut before = "{";
        for bin in figures::bins(arenas::ALL) {
            if self.json {
                self.text.str(before);
                before = ",{";
                self.first = true;
                if general {
                    self.number("size", bin.size);
                    self.number("nregs", tree::SPAN.checked_div(bin.size).unwrap_or(0));
                    self.number("slab_size", tree::SPAN);
                } else {
                    self.number("nmalloc", bin.allocated());
                    self.number("ndalloc", bin.freed);
                    self.number("curregs", bin.blocks);
                    self.number("curslabs", bin.spans);
                }
                self.text.str("}");
            } else if bin.spans != 0 {
                self.text.tab(5);
                for n in [bin.size, bin.spans, bin.blocks] {
                    self.text.right(masu_core::text::decimal(n as u64).as_str(), 12);
                }
                self.text.line();
            }
        }
        self.title("]", "");
        self.first = false;
    }

    #[inline(never)]
    fn number(&mut self, name: &str, value: usize) {
        self.name(name);
        self.text.decimal(value as u64);
    }

    /// Prints the value that a read of `row` returns.
    fn value(&mut self, row: usize, name: &str) {
        let (mut old, mut len) = (0u64, size_of::<u64>());
        // SAFETY: invariant 1 of `jemalloc::call`: the places are local, and large enough for any value.
        let call = unsafe {
            let old = (&raw mut old).cast();
            Call::new(old, &mut len, core::ptr::null(), 0, [arenas::ALL; INDICES])
        };
        // A shorter value is reported as an error, but is stored nonetheless.
        let _ = tree::perform(row, &call);
        let kind = call.kind();
        if kind == Kind::None {
            return;
        }
        self.name(name);
        match kind {
            Kind::None => {}
            Kind::Flag => {
                self.text.str(if old & 1 != 0 { "true" } else { "false" });
            }
            Kind::Unsigned => {
                self.text.decimal(old);
            }
            Kind::Signed => {
                let n = old as i64;
                self.text.str(if n < 0 { "-" } else { "" }).decimal(n.unsigned_abs());
            }
            Kind::String => {
                // SAFETY: invariant 1 of `jemalloc::print`: the value that was stored is a string that lives for
                // ever.
                let string = unsafe { CStr::from_ptr(old as *const c_char) };
                self.text.str("\"").bytes(string.to_bytes()).str("\"");
            }
        }
        self.title("", "\n");
    }

    /// Begins a member: its name.
    #[inline(never)]
    fn name(&mut self, name: &str) {
        if self.json {
            self.text.str(if self.first { "\"" } else { ",\"" });
            self.text.str(name).str("\":");
            self.first = false;
        } else {
            self.text.str("  ").str(name).str(": ");
        }
    }
}
