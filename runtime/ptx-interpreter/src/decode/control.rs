use super::arithmetic::unsupported;
use super::op::{Op, Reject, Type};
use super::scope::Binding;
use super::{Decoded, Decoder};
use crate::parse::ast::Operand;
use crate::program::{Barrier, BarrierKind, BarrierReduction, Call, Code, Collective, Target};

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn control(&mut self, op: &Op<'a, '_>) -> Decoded {
        match op.name {
            "bra" => Ok(Code::Branch { target: self.label(op.operand(0)?)? }),
            "brx" => {
                let index = self.source(op.operand(0)?, Type::Unsigned(32))?;
                let Operand::Name(name, 0) = op.operand(1)? else {
                    return Err(Reject::wrong("a list of targets", &super::text(op.operand(1)?)));
                };
                let Some(Binding::Targets(list)) = self.find(name) else {
                    return Err(Reject::wrong("a list of targets", name));
                };
                let mut targets = Vec::new();
                for label in self.scopes.targets[list].clone() {
                    targets.push(self.label(&Operand::Name(label, 0))?);
                }
                Ok(Code::BranchIndexed { targets: targets.into(), index })
            }
            "call" => self.call(op),
            "ret" => Ok(Code::Return),
            "exit" => Ok(Code::Exit),
            "trap" | "brkpt" => Ok(Code::Trap),
            "bar" | "barrier" => self.barrier(op),
            // memory is in order, and time is nothing
            "nanosleep" | "membar" | "fence" | "pmevent" | "setmaxnreg" | "griddepcontrol" => {
                Ok(Code::Nothing)
            }
            _ => unsupported(),
        }
    }

    fn label(&self, operand: &Operand<'a>) -> Result<u32, Reject> {
        match operand {
            Operand::Name(name, 0) => match self.find(name) {
                Some(Binding::Label(label)) => Ok(label as u32),
                _ => Err(Reject::wrong("a label", name)),
            },
            _ => Err(Reject::wrong("a label", &super::text(operand))),
        }
    }

    fn in_frame(
        &self,
        operand: Option<&Operand<'a>>,
        offsets: &mut Vec<u32>,
    ) -> Result<(), Reject> {
        let Some(Operand::List(names)) = operand else { return Ok(()) };
        for name in names {
            match name {
                Operand::Name(name, 0) => match self.find(name) {
                    Some(Binding::Local(offset)) => offsets.push(offset),
                    _ => return Err(Reject::Unsupported),
                },
                _ => return Err(Reject::Unsupported),
            }
        }
        Ok(())
    }

    fn call(&mut self, op: &Op<'a, '_>) -> Decoded {
        op.only(&["uni"])?;
        let mut operands = op.operands.iter();
        let mut first = operands.next();
        let (mut arguments, mut results) = (Vec::new(), Vec::new());
        if matches!(first, Some(Operand::List(_))) {
            self.in_frame(first, &mut results)?;
            first = operands.next();
        }
        let Some(callee @ Operand::Name(name, 0)) = first else {
            return Err(Reject::wrong(
                "a function",
                first.map_or(";".into(), super::text).as_str(),
            ));
        };
        self.in_frame(operands.next(), &mut arguments)?;
        let target = match self.linker.names.get(name) {
            Some(&index) => {
                let function = &self.linker.file.functions[index];
                if function.body.is_none() && !function.entry {
                    return match (*name, arguments.as_slice()) {
                        ("__assertfail", &[message, file, line, function, _]) => {
                            Ok(Code::AssertFail([message, file, line, function]))
                        }
                        // nothing is printed
                        ("vprintf", _) => Ok(Code::Nothing),
                        _ => unsupported(),
                    };
                }
                if function.entry {
                    return unsupported();
                }
                if (function.params.len(), function.results.len())
                    != (arguments.len(), results.len())
                {
                    return Err(Reject::wrong("as many parameters as the function has", name));
                }
                Target::Function(self.linker.reach(index))
            }
            None => Target::Address(self.source(callee, Type::Bits(64))?),
        };
        Ok(Code::Call(Box::new(Call {
            target,
            arguments: arguments.into(),
            results: results.into(),
            caller: self.index,
        })))
    }

    fn barrier(&mut self, op: &Op<'a, '_>) -> Decoded {
        op.only(&[
            "cta", "sync", "arrive", "red", "aligned", "warp", "popc", "and", "or", "cluster",
            "wait", "acquire", "release", "relaxed",
        ])?;
        if op.has("cluster") {
            // a cluster is one block here
            return self.cluster_barrier(op);
        }
        if op.has("warp") {
            let mask = self.source(op.operand(0)?, Type::Bits(32))?;
            return Ok(Code::Collective { collective: Box::new(Collective::Barrier), mask });
        }
        let mut at = 0;
        let mut kind = if op.has("arrive") { BarrierKind::Arrive } else { BarrierKind::Sync };
        if op.has("red") {
            let into = op.operand(0)?;
            at = 1;
            kind = BarrierKind::Reduce(match () {
                () if op.has("popc") => BarrierReduction::Count(self.register(into)?),
                () if op.has("and") => BarrierReduction::And(self.predicate(into)?),
                () => BarrierReduction::Or(self.predicate(into)?),
            });
        }
        let id = self.source(op.operand(at)?, Type::Unsigned(32))?;
        at += 1;
        let has_condition = usize::from(op.has("red"));
        let threads = if op.count() > at + has_condition {
            at += 1;
            Some(self.source(op.operand(at - 1)?, Type::Unsigned(32))?)
        } else {
            None
        };
        let condition = match has_condition {
            1 => Some(self.condition(op.operand(at)?)?),
            _ => None,
        };
        Ok(Code::Barrier(Box::new(Barrier { kind, id, threads, condition })))
    }

    fn cluster_barrier(&mut self, op: &Op<'a, '_>) -> Decoded {
        if op.has("arrive") {
            return Ok(Code::Nothing);
        }
        let id = self.value(16);
        Ok(Code::Barrier(Box::new(Barrier {
            kind: BarrierKind::Sync,
            id,
            threads: None,
            condition: None,
        })))
    }
}
