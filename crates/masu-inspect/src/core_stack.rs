//! The stack of a thread in a core file, by the unwinding tables of the files that were mapped.
//!
//! A stack is correct as far as it goes: it ends at the first frame about which nothing is known.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, Evaluation,
    EvaluationResult, Format, LittleEndian, Location, Pointer, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, Value,
};
use object::Endianness;
use object::elf::{FileHeader64, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::core_file::{Core, Thread};
use crate::tables::u64_at;

/// Maximum number of frames.
const MOST: usize = 256;
/// Maximum plausible size of a file's unwinding tables.
const LARGEST: u64 = 1 << 30;
/// Number of registers that tables can name, return address included.
const REGISTERS: usize = 33;
/// Maximum number of steps of an expression: a damaged one may go back for ever.
const STEPS: u32 = 1000;

/// The registers of a frame, by the numbers that unwinding tables give them.
pub(crate) type Registers = [Option<u64>; REGISTERS];

/// The number of the stack pointer, and of the register in which a call leaves the return address: on x86-64 it is on the
/// stack.
const STACK: u16 = if cfg!(target_arch = "x86_64") {
    7
} else if cfg!(target_arch = "aarch64") {
    31
} else {
    2
};
const LINK: Option<u16> = if cfg!(target_arch = "x86_64") {
    None
} else if cfg!(target_arch = "aarch64") {
    Some(30)
} else {
    Some(1)
};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Returns the registers in `NT_PRSTATUS`, whose first one is at `start`, and the program counter.
pub(crate) fn registers(note: &[u8], start: u64) -> (Registers, u64) {
    /// The place in the note of each register, and of the program counter.
    #[cfg(target_arch = "x86_64")]
    const PLACES: (&[u64], u64) = (&[10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0], 16);
    #[cfg(not(target_arch = "x86_64"))]
    const PLACES: (&[u64], u64) = {
        const ALL: [u64; 32] = {
            let mut all = [0; 32];
            let mut i = 0;
            while i < 32 {
                all[i] = i as u64;
                i += 1;
            }
            all
        };
        // RISC-V has the program counter in the place of the register that is always zero.
        (&ALL, if cfg!(target_arch = "aarch64") { 32 } else { 0 })
    };
    let word = |place: u64| u64_at(note, start + place * 8);
    let mut registers = [None; REGISTERS];
    for (register, &place) in registers.iter_mut().zip(PLACES.0) {
        *register = Some(word(place));
    }
    (registers, word(PLACES.1))
}

/// The unwinding tables of a mapped file.
struct Module {
    /// The addresses of its code.
    code: (u64, u64),
    header: (u64, Vec<u8>),
    frames: (u64, Vec<u8>),
}

/// The state at a frame.
struct Frame {
    registers: Registers,
    counter: u64,
    /// The counter is of the next instruction, not a return address.
    is_exact: bool,
}

/// Returns the return addresses of a thread's stack, innermost first. For an interrupted function it is the address one past
/// where it stopped.
pub(crate) fn stack(core: &Core, thread: &Thread) -> Vec<u64> {
    let mut modules: Vec<Module> = Vec::new();
    let mut frame = Frame { registers: thread.registers, counter: thread.counter, is_exact: true };
    let mut frames = Vec::new();
    while frames.len() < MOST && frame.counter > 1 {
        frames.push(frame.counter.wrapping_add(u64::from(frame.is_exact)));
        // A call may be the last instruction of its function.
        let place = frame.counter.wrapping_sub(u64::from(!frame.is_exact));
        let has = |module: &Module| (module.code.0..module.code.1).contains(&place);
        let known = match modules.iter().position(has) {
            Some(known) => Some(known),
            None => Module::of(core, place).map(|module| {
                modules.push(module);
                modules.len() - 1
            }),
        };
        let caller = match known {
            Some(known) => modules[known].caller(core, &frame, place),
            // A call to where no code is has only just begun.
            None if frames.len() == 1 => frame.called(core),
            None => None,
        };
        let Some(caller) = caller else { break };
        // Each caller's frame lies above: else a damaged stack would never end.
        let of = |frame: &Frame| frame.registers[usize::from(STACK)];
        if of(&caller) <= of(&frame) && !caller.is_exact && frames.len() > 1 {
            break;
        }
        frame = caller;
    }
    frames
}

fn word(core: &Core, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    core.read(at, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Returns an address without a signature in its upper bits.
fn unsigned(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & ((1 << 48) - 1) } else { address }
}

impl Frame {
    /// Returns the caller of code that has not begun.
    fn called(&self, core: &Core) -> Option<Frame> {
        let mut registers = self.registers;
        let counter = match LINK {
            Some(link) => registers[usize::from(link)]?,
            None => {
                let top = registers[usize::from(STACK)]?;
                registers[usize::from(STACK)] = Some(top.wrapping_add(8));
                word(core, top)?
            }
        };
        let counter = unsigned(counter);
        let is_code = core.code_at(counter.wrapping_sub(1)).is_some();
        is_code.then_some(Frame { registers, counter, is_exact: false })
    }
}

impl Module {
    /// Reads the tables of the file that an address belongs to.
    fn of(core: &Core, place: u64) -> Option<Module> {
        let code = core.code_at(place)?;
        let start = core.start_of(code)?;
        let read = |at: u64, len: u64| {
            let mut bytes = vec![0; usize::try_from(len).ok().filter(|_| len <= LARGEST)?];
            core.read(at, &mut bytes).ok()?;
            Some(bytes)
        };
        let head = masu_profile::files::head(|len| read(start, len))?;
        let parsed = FileHeader64::<Endianness>::parse(&*head).ok()?;
        let endian = parsed.endian().ok()?;
        let segments = parsed.program_headers(endian, &*head).ok()?;
        let loaded = || segments.iter().filter(|it| it.p_type(endian) == PT_LOAD);
        let first = loaded().find(|it| it.p_offset(endian) == 0)?;
        let shift = start.wrapping_sub(first.p_vaddr(endian));
        let tables = segments.iter().find(|it| it.p_type(endian) == PT_GNU_EH_FRAME)?;
        let at = tables.p_vaddr(endian).wrapping_add(shift);
        let header = read(at, tables.p_memsz(endian))?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(at);
        let parsed = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8).ok()?;
        let Pointer::Direct(frames) = parsed.eh_frame_ptr() else { return None };
        let end = loaded().find_map(|it| {
            let from = it.p_vaddr(endian).wrapping_add(shift);
            let end = from.checked_add(it.p_filesz(endian))?;
            (from..end).contains(&frames).then_some(end)
        })?;
        let frames = (frames, read(frames, end - frames)?);
        Some(Module { code: code.range, header: (at, header), frames })
    }

    /// Returns the caller of a frame.
    fn caller(&self, core: &Core, frame: &Frame, place: u64) -> Option<Frame> {
        let bases =
            BaseAddresses::default().set_eh_frame_hdr(self.header.0).set_eh_frame(self.frames.0);
        let header = EhFrameHdr::new(&self.header.1, LittleEndian).parse(&bases, 8).ok()?;
        let frames = EhFrame::new(&self.frames.1, LittleEndian);
        let entry =
            header.table()?.fde_for_address(&frames, &bases, place, EhFrame::cie_from_offset);
        let entry = entry.ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&frames, &bases, &mut context, place).ok()?;
        let old = |register: Register| *frame.registers.get(usize::from(register.0))?;
        let compute = |expression: &UnwindExpression<usize>, initial| {
            let expression = expression.get(&frames).ok()?;
            let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
            evaluate(core, expression.evaluation(encoding), initial, &old)
        };
        let base = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                old(*register)?.checked_add_signed(*offset)?
            }
            CfaRule::Expression(expression) => compute(expression, None)?,
        };
        let link = entry.cie().return_address_register();
        let mut registers = frame.registers;
        registers[usize::from(STACK)] = Some(base);
        let mut found = LINK.and_then(|link| frame.registers[usize::from(link)]);
        for (register, rule) in row.registers() {
            let value = match rule {
                RegisterRule::SameValue => old(*register),
                RegisterRule::Offset(offset) => {
                    base.checked_add_signed(*offset).and_then(|at| word(core, at))
                }
                RegisterRule::ValOffset(offset) => base.checked_add_signed(*offset),
                RegisterRule::Register(other) => old(*other),
                RegisterRule::Expression(at) => {
                    compute(at, Some(base)).and_then(|at| word(core, at))
                }
                RegisterRule::ValExpression(value) => compute(value, Some(base)),
                RegisterRule::Constant(value) => Some(*value),
                _ => None,
            };
            if *register == link {
                found = value;
            }
            if let Some(kept) = registers.get_mut(usize::from(register.0)) {
                *kept = value;
            }
        }
        let counter = unsigned(found?);
        Some(Frame { registers, counter, is_exact: entry.is_signal_trampoline() })
    }
}

/// Returns the value of an expression.
fn evaluate(
    core: &Core,
    mut evaluation: Evaluation<Bytes<'_>>,
    initial: Option<u64>,
    register: &dyn Fn(Register) -> Option<u64>,
) -> Option<u64> {
    evaluation.set_max_iterations(STEPS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(word(core, address)?)).ok()?
            }
            EvaluationResult::RequiresRegister { register: which, .. } => {
                evaluation.resume_with_register(Value::Generic(register(which)?)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn an_expression_that_leads_back_ends() {
        let core = Core::of(File::open("/proc/self/exe").unwrap());
        let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
        // `DW_OP_skip`, to itself.
        let expression = EndianSlice::new(&[0x2f, 0xfd, 0xff], LittleEndian);
        assert_eq!(evaluate(&core, Evaluation::new(expression, encoding), None, &|_| None), None);
    }
}
