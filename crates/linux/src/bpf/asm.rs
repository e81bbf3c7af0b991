//! Assembler of eBPF instructions (RFC 9669) with labels and checked jumps.

/// A register. `R10` is the read-only address of the end of the 512-byte stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Width {
    /// 4 bytes.
    Word = 0x00,
    /// 2 bytes.
    Half = 0x08,
    /// 1 byte.
    Byte = 0x10,
    /// 8 bytes.
    Double = 0x18,
}

/// A 64-bit arithmetic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    Xor = 0xa0,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// Condition of a jump; comparisons are unsigned and of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum If {
    /// Equal.
    Equal = 0x10,
    /// Greater.
    Greater = 0x20,
    /// Greater or equal.
    NotLess = 0x30,
    /// Any bit in common.
    AnyBit = 0x40,
    /// Not equal.
    Differs = 0x50,
    /// Less.
    Less = 0xa0,
}

/// Second operand of an operation or a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A number, extended with its sign.
    Value(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Self {
        Operand::Value(value)
    }
}

/// A kernel function (`enum bpf_func_id` of `linux/bpf.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    KtimeGetNs = 5,
    PrandomU32 = 7,
    SkbStoreBytes = 9,
    L3CsumReplace = 10,
    SkbLoadBytes = 26,
    GetHashRecalc = 34,
    SkbPullData = 39,
    SetHash = 48,
    SkbEcnSetCe = 97,
}

/// One instruction of 8 bytes, in the byte order of this machine.
pub type Instruction = [u8; 8];

/// A place in a program, bound once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// Error of an assembled program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AsmError {
    /// A label has no place.
    #[error("instruction {at} jumps to a label that has no place")]
    Unbound {
        /// Position of the jump.
        at: usize,
    },
    /// A label has two places.
    #[error("a label has two places; the second is instruction {at}")]
    BoundTwice {
        /// Second place.
        at: usize,
    },
    /// A jump leads backwards or farther than 32,767 instructions.
    #[error("instruction {at} jumps by {by}; expected 0 to 32767")]
    Distance {
        /// Position of the jump.
        at: usize,
        /// Distance in instructions.
        by: i64,
    },
    /// The last instruction does not leave the program.
    #[error("the program has no exit at its end")]
    NoExit,
}

/// A program under construction.
#[derive(Clone, Default, Debug)]
pub struct Assembler {
    code: Vec<Instruction>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    twice: Option<usize>,
}

const EXIT: u8 = 0x95;

impl Assembler {
    /// Returns an empty program.
    pub fn new() -> Self {
        Assembler::default()
    }

    /// Returns a label without a place.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Gives a label the place of the next instruction.
    pub fn bind(&mut self, label: Label) {
        let next = self.code.len();
        if self.places[label.0].replace(next).is_some() {
            self.twice.get_or_insert(next);
        }
    }

    /// Appends `dst = dst op operand`.
    pub fn op(&mut self, op: Op, dst: Reg, operand: impl Into<Operand>) {
        let (source, src, value) = parts(operand.into());
        self.emit(0x07 | op as u8 | source, dst, src, 0, value);
    }

    /// Appends `dst = operand`.
    pub fn set(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.op(Op::Move, dst, operand);
    }

    /// Appends `dst = *(base + offset)`, extended with zeros.
    pub fn load(&mut self, width: Width, dst: Reg, base: Reg, offset: i16) {
        self.emit(0x61 | width as u8, dst, base, offset, 0);
    }

    /// Appends `*(base + offset) = operand`.
    pub fn store(&mut self, width: Width, base: Reg, offset: i16, operand: impl Into<Operand>) {
        match operand.into() {
            Operand::Reg(src) => self.emit(0x63 | width as u8, base, src, offset, 0),
            Operand::Value(value) => self.emit(0x62 | width as u8, base, Reg::R0, offset, value),
        }
    }

    /// Appends an atomic `*(base + offset) += src` of 64 bits.
    pub fn atomic_add(&mut self, base: Reg, offset: i16, src: Reg) {
        self.emit(0xdb, base, src, offset, 0);
    }

    /// Appends the same with the earlier number as the new content of `src` (Linux 5.12).
    pub fn atomic_fetch_add(&mut self, base: Reg, offset: i16, src: Reg) {
        self.emit(0xdb, base, src, offset, 1);
    }

    /// Appends an atomic exchange of `*(base + offset)` for `src` if it equals `R0`.
    ///
    /// `R0` gets the earlier number (Linux 5.12).
    pub fn compare_exchange(&mut self, base: Reg, offset: i16, src: Reg) {
        self.emit(0xdb, base, src, offset, 0xf1);
    }

    /// Appends `dst =` the address of a map, by its file descriptor.
    pub fn map(&mut self, dst: Reg, fd: i32) {
        const PSEUDO_MAP_FD: Reg = Reg::R1;
        self.emit(0x18, dst, PSEUDO_MAP_FD, 0, fd);
        self.emit(0, Reg::R0, Reg::R0, 0, 0);
    }

    /// Appends a jump.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05, Reg::R0, Reg::R0, 0, 0);
    }

    /// Appends a jump under a condition.
    pub fn jump_if(&mut self, dst: Reg, condition: If, operand: impl Into<Operand>, to: Label) {
        let (source, src, value) = parts(operand.into());
        self.jumps.push((self.code.len(), to));
        self.emit(0x05 | condition as u8 | source, dst, src, 0, value);
    }

    /// Appends a call with arguments in `R1` to `R5` and the result in `R0`.
    pub fn call(&mut self, helper: Helper) {
        self.emit(0x85, Reg::R0, Reg::R0, 0, helper as i32);
    }

    /// Appends the end of a path: the program's result is `R0`.
    pub fn exit(&mut self) {
        self.emit(EXIT, Reg::R0, Reg::R0, 0, 0);
    }

    /// Returns the instructions with the distances of all jumps.
    ///
    /// # Errors
    /// A label with no or two places, a jump backwards or too far, or a program without an exit at its end.
    pub fn finish(mut self) -> Result<Vec<Instruction>, AsmError> {
        if let Some(at) = self.twice {
            return Err(AsmError::BoundTwice { at });
        }
        if self.code.last().is_none_or(|last| last[0] != EXIT) {
            return Err(AsmError::NoExit);
        }
        for (at, label) in self.jumps {
            let place = self.places[label.0].ok_or(AsmError::Unbound { at })?;
            let by = place as i64 - at as i64 - 1;
            let distance = i16::try_from(by).ok().filter(|d| *d >= 0 && place < self.code.len());
            let distance = distance.ok_or(AsmError::Distance { at, by })?;
            self.code[at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        Ok(self.code)
    }

    fn emit(&mut self, code: u8, dst: Reg, src: Reg, offset: i16, value: i32) {
        let (dst, src) = (dst as u8, src as u8);
        // RFC 9669 §3.1: the half that comes first is the destination on little-endian machines.
        let registers =
            if cfg!(target_endian = "little") { src << 4 | dst } else { dst << 4 | src };
        let ([o0, o1], [v0, v1, v2, v3]) = (offset.to_ne_bytes(), value.to_ne_bytes());
        self.code.push([code, registers, o0, o1, v0, v1, v2, v3]);
    }
}

fn parts(operand: Operand) -> (u8, Reg, i32) {
    match operand {
        Operand::Reg(src) => (0x08, src, 0),
        Operand::Value(value) => (0x00, Reg::R0, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_equal_the_encoding_of_the_kernels_macros() {
        // From BPF_MOV64_REG, BPF_ALU64_IMM, BPF_LDX_MEM, BPF_ST_MEM, BPF_STX_MEM, BPF_ATOMIC_OP, BPF_LD_MAP_FD,
        // BPF_JMP_IMM, BPF_JMP_REG, BPF_EMIT_CALL and BPF_EXIT_INSN of linux/filter.h.
        let mut a = Assembler::new();
        let out = a.label();
        a.set(Reg::R6, Reg::R1);
        a.op(Op::And, Reg::R8, -2);
        a.load(Width::Half, Reg::R8, Reg::R10, -12);
        a.store(Width::Double, Reg::R10, -24, 7);
        a.store(Width::Byte, Reg::R10, -63, Reg::R1);
        a.atomic_fetch_add(Reg::R9, 8, Reg::R2);
        a.compare_exchange(Reg::R8, 0, Reg::R5);
        a.op(Op::Mul, Reg::R1, Reg::R2);
        a.map(Reg::R1, 0x0102);
        a.jump_if(Reg::R0, If::Equal, 3, out);
        a.jump_if(Reg::R1, If::Less, Reg::R2, out);
        a.call(Helper::SkbLoadBytes);
        a.bind(out);
        a.exit();
        let expected: [Instruction; 14] = [
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
            [0x57, 0x08, 0, 0, 0xfe, 0xff, 0xff, 0xff],
            [0x69, 0xa8, 0xf4, 0xff, 0, 0, 0, 0],
            [0x7a, 0x0a, 0xe8, 0xff, 7, 0, 0, 0],
            [0x73, 0x1a, 0xc1, 0xff, 0, 0, 0, 0],
            [0xdb, 0x29, 8, 0, 1, 0, 0, 0],
            [0xdb, 0x58, 0, 0, 0xf1, 0, 0, 0],
            [0x2f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x18, 0x11, 0, 0, 2, 1, 0, 0],
            [0; 8],
            [0x15, 0x00, 2, 0, 3, 0, 0, 0],
            [0xad, 0x21, 1, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 26, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(a.finish().unwrap(), expected);
    }

    #[test]
    fn impossible_jumps_are_refused() {
        let mut a = Assembler::new();
        let (nowhere, back) = (a.label(), a.label());
        a.bind(back);
        a.set(Reg::R0, 0);
        let mut unbound = a.clone();
        unbound.jump(nowhere);
        unbound.exit();
        assert_eq!(unbound.finish(), Err(AsmError::Unbound { at: 1 }));
        let mut backwards = a.clone();
        backwards.jump(back);
        backwards.exit();
        assert_eq!(backwards.finish(), Err(AsmError::Distance { at: 1, by: -2 }));
        let mut far = a.clone();
        far.jump(nowhere);
        (0..40_000).for_each(|_| far.set(Reg::R0, 0));
        far.bind(nowhere);
        far.exit();
        assert_eq!(far.finish(), Err(AsmError::Distance { at: 1, by: 40_000 }));
        let mut past = a.clone();
        past.jump(nowhere);
        past.exit();
        past.bind(nowhere);
        assert_eq!(past.finish(), Err(AsmError::Distance { at: 1, by: 1 }));
        let mut twice = a.clone();
        twice.bind(back);
        twice.exit();
        assert_eq!(twice.finish(), Err(AsmError::BoundTwice { at: 1 }));
        assert_eq!(a.finish(), Err(AsmError::NoExit));
    }
}
