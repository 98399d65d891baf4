//! Statements into a [`Program`].

mod arithmetic;
mod compare;
mod control;
mod convert;
mod floating;
mod half;
mod integer;
mod logic;
mod matrix;
mod mbarrier;
mod memory;
mod op;
mod scope;
mod warp;

use std::collections::HashMap;

use self::op::{Op, Reject, Type};
use self::scope::{Binding, Scopes};
use crate::parse::ast::{File, Function, Instruction, Number, Operand, Place, Span, Statement};
use crate::parse::{ParseError, error_at};
use crate::program::{
    Address, Code, Condition, Constant, Frame, Guard, Inst, Predicate, Program, Register, Source,
    Space, Special,
};

type Decoded = Result<Code, Reject>;

/// Decodes a kernel and the functions that it reaches.
pub(crate) fn decode(
    source: &str,
    file: &File<'_>,
    kernel: &Function<'_>,
) -> Result<Program, ParseError> {
    let mut names = HashMap::new();
    for (index, function) in file.functions.iter().enumerate() {
        // a definition counts more than a declaration
        if function.body.is_some() || !names.contains_key(function.name) {
            names.insert(function.name, index);
        }
    }
    let mut linker = Linker {
        source,
        file,
        names,
        reached: Vec::new(),
        code: Vec::new(),
        spans: Vec::new(),
        constants: Vec::new(),
        known: HashMap::new(),
        frames: Vec::new(),
        shared: Shared::default(),
        granule: 4,
        registers: 0,
    };
    linker.function(kernel)?;
    let mut at = 0;
    while let Some(&index) = linker.reached.get(at) {
        let function = &file.functions[index];
        linker.function(function)?;
        at += 1;
    }
    Ok(Program {
        code: linker.code,
        spans: linker.spans,
        constants: linker.constants,
        functions: linker.frames,
        static_shared: linker.shared.used(),
        granule: linker.granule,
        registers: linker.registers,
    })
}

/// Where shared variables lie.
#[derive(Default)]
struct Shared<'a> {
    /// Offset of each variable that is used.
    offsets: HashMap<&'a str, u64>,
    end: u64,
}

impl<'a> Shared<'a> {
    fn place(&mut self, name: &'a str, bytes: u64, alignment: u64) -> u64 {
        if let Some(&offset) = self.offsets.get(name) {
            return offset;
        }
        let offset = self.end.next_multiple_of(alignment);
        self.end = offset + bytes;
        self.offsets.insert(name, offset);
        offset
    }

    fn used(&self) -> u32 {
        u32::try_from(self.end).unwrap_or(u32::MAX)
    }
}

/// What the functions of one program share.
struct Linker<'a, 'f> {
    source: &'f str,
    file: &'f File<'a>,
    names: HashMap<&'a str, usize>,
    /// Functions of the file in the order of their frames, after the kernel.
    reached: Vec<usize>,
    code: Vec<Inst>,
    spans: Vec<Span>,
    constants: Vec<Constant>,
    known: HashMap<u64, Source>,
    frames: Vec<Frame>,
    shared: Shared<'a>,
    granule: u32,
    registers: u32,
}

impl<'a, 'f> Linker<'a, 'f> {
    /// The frame of a function, which is decoded later if it has not been.
    fn reach(&mut self, index: usize) -> usize {
        let at = self.reached.iter().position(|&reached| reached == index);
        at.unwrap_or_else(|| {
            self.reached.push(index);
            self.reached.len() - 1
        }) + 1
    }

    fn constant(&mut self, constant: Constant) -> Source {
        if let Constant::Value(bits) = constant
            && let Some(&source) = self.known.get(&bits)
        {
            return source;
        }
        let source = Source(Source::CONSTANT | self.constants.len() as u32);
        self.constants.push(constant);
        if let Constant::Value(bits) = constant {
            self.known.insert(bits, source);
        }
        source
    }

    fn function(&mut self, function: &'f Function<'a>) -> Result<(), ParseError> {
        let empty = Vec::new();
        let body = function.body.as_ref().unwrap_or(&empty);
        let scopes = Scopes::declare(function, body, &mut self.shared);
        self.registers += scopes.registers;
        let mut decoder = Decoder {
            frame: Frame {
                start: self.code.len() as u32,
                params: scopes.params.clone(),
                results: scopes.results.clone(),
                ..Frame::default()
            },
            index: self.frames.len(),
            labels: vec![None; scopes.labels],
            linker: self,
            scopes,
            scope: 0,
            span: Span::default(),
            guard: Guard::Always,
        };
        decoder.body(body)?;
        let Decoder { mut frame, scopes, labels, linker, .. } = decoder;
        frame.registers = scopes.registers;
        frame.predicates = scopes.predicates;
        frame.local = scopes.local.checked_next_multiple_of(16).unwrap_or(u32::MAX);
        let mut missing = false;
        for inst in &mut linker.code[frame.start as usize..] {
            let mut patch = |target: &mut u32| match labels.get(*target as usize) {
                Some(Some(at)) => *target = *at,
                _ => missing = true,
            };
            match &mut inst.code {
                Code::Branch { target } => patch(target),
                Code::BranchIndexed { targets, .. } => targets.iter_mut().for_each(patch),
                _ => {}
            }
        }
        if missing {
            let name = function.name;
            return Err(error_at(linker.source, 0, "labels that stand in the body", name));
        }
        linker.frames.push(frame);
        Ok(())
    }
}

struct Decoder<'a, 'f, 'l> {
    linker: &'l mut Linker<'a, 'f>,
    frame: Frame,
    index: usize,
    scopes: Scopes<'a>,
    scope: usize,
    /// Where each label stands.
    labels: Vec<Option<u32>>,
    span: Span,
    /// That of the instruction.
    guard: Guard,
}

impl<'a> Decoder<'a, '_, '_> {
    fn body(&mut self, body: &[Statement<'a>]) -> Result<(), ParseError> {
        let mut opened = 0;
        for statement in body {
            match statement {
                Statement::Open => {
                    opened += 1;
                    self.scope = opened;
                }
                Statement::Close => self.scope = self.scopes.parent(self.scope),
                Statement::Label(name) => {
                    if let Some(Binding::Label(label)) = self.scopes.find(self.scope, name) {
                        self.labels[label] = Some(self.linker.code.len() as u32);
                    }
                }
                Statement::Instruction(instruction, span) => {
                    self.span = *span;
                    self.statement(instruction)?;
                }
                _ => {}
            }
        }
        // a body may end without `ret`
        self.push(Guard::Always, Code::Return);
        Ok(())
    }

    fn statement(&mut self, instruction: &Instruction<'a>) -> Result<(), ParseError> {
        let op = Op::new(instruction.mnemonic, &instruction.operands);
        let guarded = match instruction.guard {
            None => Ok(Guard::Always),
            Some((name, negated)) => self.predicate_named(name).map(|predicate| match negated {
                true => Guard::Unless(predicate),
                false => Guard::If(predicate),
            }),
        };
        let decoded = guarded.and_then(|guard| {
            self.guard = guard;
            self.instruction(&op)
        });
        match decoded {
            Ok(code) => self.push(self.guard, code),
            Err(Reject::Unsupported) => {
                self.push(self.guard, Code::Unsupported(instruction.mnemonic.into()));
            }
            Err(Reject::Wrong { expected, found }) => {
                return Err(error_at(self.linker.source, self.span.start, &expected, &found));
            }
        }
        Ok(())
    }

    fn push(&mut self, guard: Guard, code: Code) {
        self.linker.code.push(Inst { guard, code });
        self.linker.spans.push(self.span);
    }

    fn instruction(&mut self, op: &Op<'a, '_>) -> Decoded {
        match op.name {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "min" | "max" | "abs"
            | "neg" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "tanh"
            | "copysign" | "addc" | "subc" | "madc" | "mul24" | "mad24" | "sad" | "dp4a"
            | "dp2a" | "testp" | "vabsdiff4" => self.arithmetic(op),
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt"
            | "bfe" | "bfi" | "popc" | "clz" | "bfind" | "brev" | "fns" | "szext" | "bmsk" => {
                self.logic(op)
            }
            "setp" | "set" | "selp" | "slct" => self.compare(op),
            "mov" | "ld" | "ldu" | "st" | "atom" | "red" | "cvta" | "isspacep" | "prefetch"
            | "prefetchu" | "applypriority" | "discard" | "cp" | "createpolicy" => self.memory(op),
            "cvt" => self.convert(op),
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "membar"
            | "fence" | "bar" | "barrier" | "pmevent" | "setmaxnreg" | "griddepcontrol" => {
                self.control(op)
            }
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => self.warp(op),
            "mbarrier" => self.mbarrier(op),
            "ldmatrix" | "stmatrix" | "mma" => self.matrix(op),
            _ => Err(Reject::Unsupported),
        }
    }

    fn find(&self, name: &str) -> Option<Binding> {
        self.scopes.find(self.scope, name)
    }

    /// A destination; `_` is a register that nothing reads.
    fn register(&mut self, operand: &Operand<'a>) -> Result<Register, Reject> {
        Ok(match self.register_or_none(operand)? {
            Some(register) => register,
            None => self.scopes.temporary(),
        })
    }

    fn register_or_none(&mut self, operand: &Operand<'a>) -> Result<Option<Register>, Reject> {
        match operand {
            Operand::Name("_", 0) => Ok(None),
            Operand::Name(name, 0) => match self.find(name) {
                Some(Binding::Register(register)) => Ok(Some(register)),
                _ => Err(Reject::wrong("a register", name)),
            },
            _ => Err(Reject::wrong("a register", &text(operand))),
        }
    }

    fn registers(&mut self, operand: &Operand<'a>) -> Result<Box<[Register]>, Reject> {
        match operand {
            Operand::Vector(parts) => parts.iter().map(|part| self.register(part)).collect(),
            single => Ok([self.register(single)?].into()),
        }
    }

    fn sources(&mut self, operand: &Operand<'a>, kind: Type) -> Result<Box<[Source]>, Reject> {
        match operand {
            Operand::Vector(parts) => parts.iter().map(|part| self.source(part, kind)).collect(),
            single => Ok([self.source(single, kind)?].into()),
        }
    }

    fn predicate_named(&mut self, name: &str) -> Result<Predicate, Reject> {
        match self.find(name) {
            Some(Binding::Predicate(predicate)) => Ok(predicate),
            _ => Err(Reject::wrong("a predicate", name)),
        }
    }

    fn predicate(&mut self, operand: &Operand<'a>) -> Result<Predicate, Reject> {
        match operand {
            Operand::Name("_", 0) => Ok(self.scopes.temporary_predicate()),
            Operand::Name(name, 0) => self.predicate_named(name),
            _ => Err(Reject::wrong("a predicate", &text(operand))),
        }
    }

    /// A predicate that is read.
    fn condition(&mut self, operand: &Operand<'a>) -> Result<Condition, Reject> {
        let (name, negated) = match operand {
            Operand::Name(name, 0) => (name, false),
            Operand::Not(name) => (name, true),
            Operand::Number(Number::Integer(value)) => {
                let into = self.scopes.temporary_predicate();
                self.push(Guard::Always, Code::Constant { into, value: *value != 0 });
                return Ok(Condition { predicate: into, negated: false });
            }
            _ => return Err(Reject::wrong("a predicate", &text(operand))),
        };
        Ok(Condition { predicate: self.predicate_named(name)?, negated })
    }

    fn value(&mut self, bits: u64) -> Source {
        self.linker.constant(Constant::Value(bits))
    }

    /// A value that an instruction reads.
    fn source(&mut self, operand: &Operand<'a>, kind: Type) -> Result<Source, Reject> {
        match operand {
            Operand::Number(number) => Ok(self.value(number_bits(*number, kind))),
            Operand::Name(name, offset) => self.named(name, *offset),
            _ => Err(Reject::wrong("a value", &text(operand))),
        }
    }

    fn named(&mut self, name: &'a str, offset: i64) -> Result<Source, Reject> {
        if let Some(binding) = self.find(name) {
            return match binding {
                Binding::Register(register) if offset == 0 => Ok(Source(register)),
                Binding::Shared(at) => Ok(self.value(at.wrapping_add_signed(offset))),
                Binding::DynamicShared => Ok(self.linker.constant(Constant::DynamicShared(offset))),
                Binding::KernelParam(at) => Ok(self.value(at.wrapping_add_signed(offset))),
                Binding::Local(at) => {
                    let into = self.scopes.temporary();
                    let offset = at.wrapping_add_signed(offset as i32);
                    self.push(Guard::Always, Code::LocalAddress { into, offset });
                    Ok(Source(into))
                }
                _ => Err(Reject::wrong("a value", name)),
            };
        }
        if let Some(special) = special(name) {
            let into = self.scopes.temporary();
            self.push(Guard::Always, Code::Special { into, special });
            return Ok(Source(into));
        }
        let file = self.linker.file;
        if let Some(index) = file.variables.iter().position(|variable| variable.name == name) {
            let variable = &file.variables[index];
            return match variable.place {
                Place::Shared if variable.bytes == 0 => {
                    Ok(self.linker.constant(Constant::DynamicShared(offset)))
                }
                Place::Shared => {
                    let place =
                        self.linker.shared.place(variable.name, variable.bytes, variable.alignment);
                    Ok(self.value(place.wrapping_add_signed(offset)))
                }
                _ => Ok(self.linker.constant(Constant::Variable(index, offset))),
            };
        }
        match self.linker.names.get(name) {
            Some(&index) if !file.functions[index].entry => {
                let frame = self.linker.reach(index);
                Ok(self.linker.constant(Constant::Function(frame)))
            }
            _ => Err(Reject::wrong("a name that is declared", name)),
        }
    }

    /// An address in a space; `.param` is the parameters of the kernel, or the frame.
    fn address(&mut self, operand: &Operand<'a>, space: Space) -> Result<Address, Reject> {
        let Operand::Address(base, offset) = operand else {
            return Err(Reject::wrong("an address", &text(operand)));
        };
        let mut address = Address { space, base: None, offset: *offset, in_frame: false };
        let Some(name) = base else { return Ok(address) };
        match self.find(name) {
            Some(Binding::KernelParam(at)) if space == Space::Param => {
                address.offset = offset.wrapping_add_unsigned(at);
            }
            Some(Binding::Local(at)) if matches!(space, Space::Param | Space::Local) => {
                address.space = Space::Local;
                address.in_frame = true;
                address.offset = offset.wrapping_add_unsigned(at.into());
            }
            Some(Binding::Shared(at)) if space == Space::Shared => {
                address.offset = offset.wrapping_add_unsigned(at);
            }
            _ => {
                address.base = Some(self.named(name, 0)?);
                // in a function, parameters lie in its frame
                if space == Space::Param && self.index != 0 {
                    address.space = Space::Local;
                }
            }
        }
        Ok(address)
    }
}

fn number_bits(number: Number, kind: Type) -> u64 {
    let float = |value: f64| match kind {
        Type::F32 => u64::from((value as f32).to_bits()),
        Type::F64 => value.to_bits(),
        _ => value as i64 as u64,
    };
    match number {
        Number::Integer(value) if kind.bits() < 64 => value & ((1 << kind.bits()) - 1),
        Number::Integer(value) => value,
        Number::Single(bits) if kind == Type::F64 => f64::from(f32::from_bits(bits)).to_bits(),
        Number::Single(bits) => bits.into(),
        Number::Double(bits) if kind == Type::F32 => float(f64::from_bits(bits)),
        Number::Double(bits) => bits,
        Number::Decimal(value) => float(value),
    }
}

fn special(name: &str) -> Option<Special> {
    let axis = |text: &str| match text {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    let (base, part) = match name.split_once('.') {
        Some((base, part)) => (base, Some(axis(part)?)),
        None => (name, None),
    };
    Some(match (base, part) {
        ("%tid", Some(axis)) => Special::Thread(axis),
        ("%ntid", Some(axis)) => Special::Threads(axis),
        ("%ctaid", Some(axis)) => Special::Block(axis),
        ("%nctaid", Some(axis)) => Special::Blocks(axis),
        ("%clusterid", Some(axis)) => Special::Block(axis),
        ("%nclusterid", Some(axis)) => Special::Blocks(axis),
        ("%cluster_ctaid", Some(_)) => Special::Fixed(0),
        ("%cluster_nctaid", Some(_)) => Special::Fixed(1),
        ("%cluster_ctarank", None) => Special::Fixed(0),
        ("%cluster_nctarank", None) => Special::Fixed(1),
        ("%laneid", None) => Special::Lane,
        ("%warpid", None) => Special::Warp,
        ("%nwarpid", None) => Special::Warps,
        ("%smid" | "%gridid", None) => Special::Fixed(0),
        ("%nsmid", None) => Special::Fixed(1),
        ("%lanemask_eq", None) => Special::SelfMask,
        ("%lanemask_lt", None) => Special::Below(false),
        ("%lanemask_le", None) => Special::Below(true),
        ("%lanemask_gt", None) => Special::Above(false),
        ("%lanemask_ge", None) => Special::Above(true),
        ("%clock" | "%clock_hi", None) => Special::Clock(32),
        ("%clock64", None) => Special::Clock(64),
        ("%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi", None) => Special::Time,
        ("%dynamic_smem_size", None) => Special::DynamicShared,
        ("%total_smem_size" | "%aggr_smem_size", None) => Special::TotalShared,
        ("WARP_SZ", None) => Special::Fixed(32),
        _ => return None,
    })
}

/// An operand for a message.
fn text(operand: &Operand<'_>) -> String {
    match operand {
        Operand::Name(name, _) | Operand::Not(name) | Operand::Pair(name, _) => (*name).to_owned(),
        Operand::Number(_) => "a number".to_owned(),
        Operand::Vector(_) => "a vector".to_owned(),
        Operand::Address(..) => "an address".to_owned(),
        Operand::List(_) => "a list".to_owned(),
    }
}
