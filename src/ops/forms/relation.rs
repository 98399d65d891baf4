//! How an operator that writes relates to its functional variant: what the schemas say, worked out
//! once and not at each call.

use crate::dispatch::{OperatorHandle, Value, hold_arguments};
use crate::error::{Error, Result};
use crate::ops::forms::over::Over;
use crate::ops::forms::structured::schema_of;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use straightline_catalog::rules::OutDtype;
use straightline_catalog::schema::{Argument, FunctionSchema};

/// Positions of arguments.
type Positions = SmallVec<[usize; 4]>;

/// Tensors of a call.
pub(super) type Tensors<'a> = SmallVec<[&'a Tensor; 4]>;

/// Where an argument of the functional variant comes from.
#[derive(Clone, Copy)]
enum Source {
    /// The argument at this place.
    Argument(usize),
    /// The argument at this place, or the dtype of `out` where that is `None`.
    DtypeOr(usize),
    /// The options of a factory: those of `out`.
    OutDtype,
    OutDevice,
    Nothing,
}

/// An operator that writes, beside its functional variant.
pub(super) struct Relation {
    pub(super) functional: OperatorHandle,
    pub(super) schema: &'static FunctionSchema,
    sources: Vec<Source>,
    /// The arguments that are written: each `out`, or `self`.
    written: Positions,
    outs: Positions,
    inputs: Positions,
    /// The inputs that are not written.
    read: Positions,
    /// The arguments that are returned.
    pub(super) returned: Positions,
    dtype: Option<usize>,
    /// Whether the schema alone says which arguments are written.
    is_plain: bool,
    /// Whether the functional variant returns uninitialised memory: its `out` keeps the elements
    /// that it has.
    pub(super) makes_no_values: bool,
    /// Which operands may lie in the memory of an `out`.
    pub(super) over: Over,
    /// Whether the functional variant may fail once it has written.
    pub(super) may_fail: bool,
}

/// Whether the operator returns uninitialised memory.
pub(crate) fn makes_no_values(functional: OperatorHandle) -> bool {
    let name = functional.name().base();
    name.starts_with("empty") || name.starts_with("new_empty")
}

impl Relation {
    pub(super) fn new(
        op: OperatorHandle,
        functional: OperatorHandle,
        rule: OutDtype,
    ) -> Result<Relation> {
        let schema = schema_of(op)?;
        let args = || schema.args.iter().enumerate();
        let at = |want: &dyn Fn(&Argument) -> bool| {
            args().filter(|(_, a)| want(a)).map(|(i, _)| i).collect::<Positions>()
        };
        let (outs, inputs) = (at(&|a| a.is_out()), at(&|a| !a.is_out()));
        let written = at(&|a| a.is_write());
        if !outs.is_empty() && written != outs {
            return Err(Error::runtime(format!(
                "`{}` writes in place and into an `out`: it needs a kernel of its own",
                op.name()
            )));
        }
        let named = |name: &str| inputs.iter().any(|i| schema.args[*i].name == name);
        let mut next = inputs.iter();
        let mut sources = Vec::new();
        for want in &schema_of(functional)?.args {
            let of_out = !outs.is_empty() && !named(&want.name);
            sources.push(match want.name.as_str() {
                "dtype" if of_out => Source::OutDtype,
                "device" if of_out => Source::OutDevice,
                "layout" | "pin_memory" if of_out => Source::Nothing,
                name => match next.next() {
                    Some(i) if name == "dtype" && rule == OutDtype::Chosen => Source::DtypeOr(*i),
                    Some(i) => Source::Argument(*i),
                    None => {
                        return Err(Error::runtime(format!(
                            "`{}` wants an argument `{name}` that its variant does not have",
                            functional.name()
                        )));
                    }
                },
            });
        }
        let returned = (0..schema.returns.len()).filter_map(|r| schema.aliased_argument(r));
        Ok(Relation {
            functional,
            sources,
            read: at(&|a| !a.is_write()),
            written,
            outs,
            inputs,
            returned: returned.collect(),
            dtype: args().find(|(_, a)| a.name == "dtype").map(|(i, _)| i),
            is_plain: !args().any(|(_, a)| a.name.starts_with("running_")),
            makes_no_values: makes_no_values(functional),
            over: Over::of(op),
            may_fail: functional.tags().contains(&"may_fail"),
            schema,
        })
    }

    /// Whether the call names a dtype.
    pub(super) fn names_dtype(&self, args: &[Value]) -> bool {
        self.dtype.is_some_and(|i| !args[i].is_none())
    }

    /// The tensors that the call writes, in the order of the results.
    pub(super) fn written<'a>(&self, args: &'a [Value]) -> Tensors<'a> {
        tensors(&self.written, args)
    }

    /// The tensors of each `out`.
    pub(super) fn outs<'a>(&self, args: &'a [Value]) -> Tensors<'a> {
        tensors(&self.outs, args)
    }

    /// The tensors of the other arguments.
    pub(super) fn inputs<'a>(&self, args: &'a [Value]) -> Tensors<'a> {
        tensors(&self.inputs, args)
    }

    /// Whether results go to `out`, and not to `self`.
    pub(super) fn has_outs(&self) -> bool {
        !self.outs.is_empty()
    }

    /// Holds the tensors of the call.
    pub(super) fn hold<'a>(&self, args: &'a [Value]) -> Result<access::Whole<'a>> {
        if !self.is_plain {
            return hold_arguments(self.schema, args);
        }
        access::whole(&self.written(args), &tensors(&self.read, args))
    }

    /// The arguments of the functional variant.
    pub(super) fn functional_arguments(&self, args: &[Value]) -> Vec<Value> {
        let out = self.outs.iter().find_map(|i| args[*i].tensors().next());
        let dtype = || out.map_or(Value::None, |t| Value::DType(t.dtype()));
        let value = |source: &Source| match *source {
            Source::DtypeOr(i) if args[i].is_none() => dtype(),
            Source::Argument(i) | Source::DtypeOr(i) => args[i].clone(),
            Source::OutDtype => dtype(),
            Source::OutDevice => out.map_or(Value::None, |t| Value::Device(t.device())),
            Source::Nothing => Value::None,
        };
        // room for the results, which take the place of the arguments
        let mut given = Vec::with_capacity(self.sources.len().max(self.schema.returns.len()));
        given.extend(self.sources.iter().map(value));
        given
    }
}

fn tensors<'a>(at: &[usize], args: &'a [Value]) -> Tensors<'a> {
    let mut all = Tensors::new();
    for i in at {
        match &args[*i] {
            Value::Tensor(t) => all.push(t),
            value => all.extend(value.tensors()),
        }
    }
    all
}
