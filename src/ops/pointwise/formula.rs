//! Eager kernels of operators that are formulas: promotion, shape, memory. The arithmetic is the
//! formula's program, which the runtime runs tile by tile.
//!
//! Most operators are no more than a row of the table in `straightline_passes::formula`: their
//! entry says `formula`, and [`run`] does the rest. Those that check more are functions of a few
//! lines that make a [`Call`].

use crate::error::{Error, Result};
use crate::ops::common::{
    broadcast, check_can_cast, check_devices, check_fits, float_of, promote, promote_scalar,
};
use crate::ops::copy;
use crate::ops::pointwise::{result, result_with_number};
use crate::tensor::launch;
use crate::tensor::launch::Outputs;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use straightline_catalog::{DType, Dims, Op, OpInfo, Scalar, layout};
use straightline_passes::formula::{
    self, Attribute, Domain, Eager, Fits, Formula, Program, Recorder, Val, record,
};
use straightline_runtime::cpu::kernels;
use straightline_runtime::cpu::kernels::{In, Out};

/// A call of an operator that is a formula.
pub(crate) struct Call<'a> {
    /// The operator.
    op: Op,
    /// Tensors, each with its position in the schema.
    operands: &'a [(usize, &'a Tensor)],
    /// What else the formula reads.
    attributes: &'a [(&'static str, Attribute)],
    /// The dtype of the result.
    pub(crate) dtype: DType,
}

/// The kernel of an entry that says `formula`: all that it takes is in the row of the operator.
pub(crate) fn run(
    op: Op,
    operands: &[(usize, &Tensor)],
    attributes: &[(&'static str, Attribute)],
) -> Result<Tensor> {
    let call = Call::new(op, operands, attributes)?;
    match number_operand(attributes) {
        Some(_) => call.run_into(result_with_number(operands[0].1, call.dtype)?),
        None => call.run(),
    }
}

/// The same of the form in place, `op` being the functional one.
pub(crate) fn run_(
    op: Op,
    operands: &[(usize, &Tensor)],
    attributes: &[(&'static str, Attribute)],
) -> Result<Tensor> {
    Call::new(op, operands, attributes)?.run_inplace()
}

/// The number that is an operand like the tensors, and takes part in promotion.
fn number_operand(attributes: &[(&'static str, Attribute)]) -> Option<Scalar> {
    attributes.iter().find_map(|(name, of)| match of {
        Attribute::Number(n) if matches!(*name, "self" | "other") => Some(*n),
        _ => None,
    })
}

/// The row of an operator that is a formula with a generic kernel.
fn row(op: Op) -> Result<(&'static Formula, Eager)> {
    formula::of(op)
        .and_then(|f| Some((f, f.eager?)))
        .ok_or_else(|| Error::not_implemented(format!("`{op}` has no formula that is run eagerly")))
}

/// The dtype that the operands promote to, of operators that are defined for floats only.
pub(crate) fn floats(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    match promote(tensors)? {
        dtype if dtype.is_floating() => Ok(dtype),
        dtype => Err(not_for(name, dtype)),
    }
}

/// The dtype that the operands promote to, of operators that are defined for all numbers but
/// `bool`.
pub(crate) fn numbers(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    match promote(tensors)? {
        dtype if dtype.is_floating() || dtype.is_integral() => Ok(dtype),
        dtype => Err(not_for(name, dtype)),
    }
}

pub(crate) fn not_for(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("`{name}` is not implemented for {}", dtype.torch_name()))
}

impl<'a> Call<'a> {
    /// A call whose dtype is what the row of the operator says; its numbers fit.
    pub(crate) fn new(
        op: Op,
        operands: &'a [(usize, &'a Tensor)],
        attributes: &'a [(&'static str, Attribute)],
    ) -> Result<Call<'a>> {
        let Eager { domain, fits } = row(op)?.1;
        let tensors: SmallVec<[&Tensor; 4]> = operands.iter().map(|(_, t)| *t).collect();
        let common = match (number_operand(attributes), &tensors[..]) {
            (Some(n), [t]) => promote_scalar(t, n),
            _ => promote(&tensors)?,
        };
        let dtype = match domain {
            Domain::Any => common,
            Domain::NotBool if common != DType::Bool => common,
            Domain::Numbers if common.is_floating() || common.is_integral() => common,
            Domain::Floats if common.is_floating() => common,
            Domain::ToFloat => float_of(common),
            Domain::Test if !common.is_complex() => DType::Bool,
            Domain::Test => {
                let name = op.base();
                let text = format!("{name} does not support complex inputs.");
                return Err(Error::type_error(text));
            }
            _ => return Err(not_for(op.base(), common)),
        };
        let numbers = attributes.iter().filter_map(|(_, a)| match a {
            Attribute::Number(n) => Some(*n),
            Attribute::Text(_) => None,
        });
        match fits {
            Fits::Result => numbers.into_iter().try_for_each(|n| check_fits(n, dtype))?,
            Fits::Arithmetic => {
                (numbers.into_iter()).try_for_each(|n| check_fits(n, dtype.opmath()))?;
            }
            Fits::Anything => {}
        }
        Ok(Call::with_dtype(op, operands, attributes, dtype))
    }

    /// A call in a dtype that the operator has found by itself.
    pub(crate) fn with_dtype(
        op: Op,
        operands: &'a [(usize, &'a Tensor)],
        attributes: &'a [(&'static str, Attribute)],
        dtype: DType,
    ) -> Call<'a> {
        Call { op, operands, attributes, dtype }
    }

    fn tensors(&self) -> SmallVec<[&'a Tensor; 4]> {
        self.operands.iter().map(|(_, t)| *t).collect()
    }

    /// The operator's formula for these operands.
    fn formula(&self) -> Result<Rc<kernels::Formula>> {
        let place = std::ptr::from_ref(self.op.info()).addr() / size_of::<OpInfo>();
        let slot = (place + self.dtype as usize) % KEPT;
        let known = FORMULAS.with_borrow(|kept| {
            let kept = kept[slot].as_ref()?;
            kept.is_of(self).then(|| kept.formula.clone())
        });
        if let Some(formula) = known {
            return Ok(formula);
        }
        let record = formula::of(self.op).map(|f| f.record);
        let program = self.recorded(record.ok_or_else(|| not_for(self.op.base(), self.dtype))?)?;
        let formula = Rc::new(kernels::Formula::new(program));
        let kept = Kept {
            op: self.op,
            dtype: self.dtype,
            operands: self.operand_dtypes(),
            attributes: self.attributes.into(),
            formula: formula.clone(),
        };
        FORMULAS.with_borrow_mut(|all| all[slot] = Some(kept));
        Ok(formula)
    }

    fn operand_dtypes(&self) -> SmallVec<[(usize, DType); 4]> {
        (self.operands.iter()).map(|(at, t)| (*at, t.dtype())).collect()
    }

    fn recorded(
        &self,
        formula: impl FnOnce(&mut Recorder) -> Option<SmallVec<[Val; 2]>>,
    ) -> Result<Program> {
        record(self.dtype, &self.operand_dtypes(), self.attributes, formula)
            .ok_or_else(|| not_for(self.op.base(), self.dtype))
    }

    /// The result, in the layout of pointwise operators.
    pub(crate) fn run(&self) -> Result<Tensor> {
        self.run_laid_out(&self.tensors())
    }

    /// [`Call::run`] where the layout follows the operands in another order: PyTorch's iterator
    /// takes the operands of some operators in another order than their schema.
    pub(crate) fn run_laid_out(&self, order: &[&Tensor]) -> Result<Tensor> {
        check_devices(order)?;
        let mut out = result(broadcast(order)?, self.dtype, order)?;
        launch(&*self.formula()?, [&mut out], &self.tensors())?;
        Ok(out)
    }

    /// The result in a fresh tensor that the operands broadcast to.
    pub(crate) fn run_into(&self, mut out: Tensor) -> Result<Tensor> {
        self.write([&mut out], &*self.formula()?)?;
        Ok(out)
    }

    /// Two results of one shape, laid out by the operands in the order given.
    pub(crate) fn run_pair(&self, order: &[&Tensor]) -> Result<(Tensor, Tensor)> {
        check_devices(order)?;
        let sizes = broadcast(order)?;
        let mut first = result(sizes.clone(), self.dtype, order)?;
        let mut second = result(sizes, self.dtype, order)?;
        launch(&*self.formula()?, [&mut first, &mut second], &self.tensors())?;
        Ok((first, second))
    }

    /// What a formula gives of these operands, which are parts of those of the call, in fresh
    /// tensors (or views of one) that they broadcast to.
    pub(crate) fn run_parts<const N: usize>(
        &self,
        outs: [&mut Tensor; N],
        formula: impl FnOnce(&mut Recorder) -> Option<[Val; N]>,
    ) -> Result<()> {
        let program = self.recorded(|b| formula(b).map(|y| y.into_iter().collect()))?;
        self.write(outs, &kernels::Formula::new(program))
    }

    fn write<const N: usize>(
        &self,
        outs: [&mut Tensor; N],
        formula: &kernels::Formula,
    ) -> Result<()> {
        check_devices(&self.tensors())?;
        self.check_shape(outs[0])?;
        launch(formula, outs, &self.tensors())
    }

    /// The form in place: the result goes to the first operand.
    pub(crate) fn run_inplace(&self) -> Result<Tensor> {
        let x = self.operands[0].1;
        check_can_cast(self.dtype, x.dtype())?;
        check_devices(&self.tensors())?;
        self.check_shape(x)?;
        if self.dtype != x.dtype() {
            let _whole = access::in_place(x, &self.tensors())?;
            return copy::copy_(x, &self.run()?, false);
        }
        let formula = self.formula()?;
        if !x.storage().has_data() {
            return Ok(x.clone());
        }
        let detached = self.operands.iter().any(|(_, t)| access::is_detached(x, t));
        let _whole = detached.then(|| access::whole(&[x], &self.tensors())).transpose()?;
        let mut operands: SmallVec<[Tensor; 4]> = SmallVec::new();
        for (_, t) in self.operands {
            operands.push(access::detach_overlap(x, t)?);
        }
        let inputs: SmallVec<[&Tensor; 4]> = operands.iter().collect();
        launch(&formula, [launch::Written(x)], &inputs)?;
        Ok(x.clone())
    }

    fn check_shape(&self, out: &Tensor) -> Result<()> {
        let mut tensors = self.tensors();
        tensors.push(out);
        let sizes = broadcast(&tensors)?;
        ensure_shape!(
            sizes.as_slice() == out.sizes(),
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            out.sizes(),
            sizes.as_slice()
        );
        Ok(())
    }
}

/// Runs a formula on inputs that broadcast to its outputs.
fn launch<const N: usize, O>(
    formula: &kernels::Formula,
    outs: [O; N],
    inputs: &[&Tensor],
) -> Result<()>
where
    O: for<'g> Outputs<Views<'g> = Out<'g>>,
{
    launch::run(outs, inputs, |outs, inputs| {
        let sizes = outs[0].sizes();
        if inputs.iter().all(|i| i.sizes() == sizes) {
            return Ok(formula.run(&outs, &inputs)?);
        }
        let strides: SmallVec<[Dims; 6]> = (inputs.iter())
            .map(|i| layout::broadcast_strides(i.sizes(), i.strides(), sizes))
            .collect();
        let views: SmallVec<[In<'_>; 6]> = (inputs.iter().zip(&strides))
            .map(|(i, strides)| i.broadcast(sizes, strides))
            .collect::<std::result::Result<_, _>>()?;
        Ok(formula.run(&outs, &views)?)
    })
}

/// How many formulas a thread keeps.
const KEPT: usize = 64;

/// A formula with what it was recorded for.
struct Kept {
    op: Op,
    dtype: DType,
    operands: SmallVec<[(usize, DType); 4]>,
    attributes: SmallVec<[(&'static str, Attribute); 2]>,
    formula: Rc<kernels::Formula>,
}

thread_local! {
    /// The formulas that this thread has run last: to record and to plan one takes longer than to
    /// run it on a few elements.
    static FORMULAS: RefCell<[Option<Kept>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

impl Kept {
    fn is_of(&self, call: &Call<'_>) -> bool {
        let operands = call.operands.iter().map(|(at, t)| (*at, t.dtype()));
        self.op == call.op
            && self.dtype == call.dtype
            && operands.eq(self.operands.iter().copied())
            && self.attributes.len() == call.attributes.len()
            && (self.attributes.iter().zip(call.attributes)).all(|(a, b)| same(*a, *b))
    }
}

/// Whether two attributes are the same, bit by bit: -0 is not 0.
fn same(a: (&str, Attribute), b: (&str, Attribute)) -> bool {
    use Attribute::Number;
    let equal = match (a.1, b.1) {
        (Number(Scalar::Float(x)), Number(Scalar::Float(y))) => x.to_bits() == y.to_bits(),
        (Number(Scalar::Complex(re, im)), Number(Scalar::Complex(r, i))) => {
            [re, im].map(f64::to_bits) == [r, i].map(f64::to_bits)
        }
        (x, y) => x == y,
    };
    a.0 == b.0 && equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart_by_their_bits() {
        let of = |x: Scalar| ("value", Attribute::Number(x));
        assert!(same(of(0.5.into()), of(0.5.into())));
        assert!(same(of(f64::NAN.into()), of(f64::NAN.into())));
        assert!(!same(of(0.0.into()), of((-0.0).into())));
        assert!(!same(of(0.into()), of(0.0.into())));
        assert!(!same(of(0.0.into()), of(Scalar::Complex(0.0, 0.0))));
        assert!(!same(of(1.into()), of(true.into())));
    }

    #[test]
    fn a_formula_that_is_kept_is_that_of_its_numbers() {
        let x = Tensor::from_slice(&[-1f32, 2.0], &[2]).unwrap();
        let leaky = |slope: f64| {
            let y = crate::ops::aten::leaky_relu(&x, slope.into()).unwrap();
            y.to_vec::<f32>().unwrap()
        };
        assert_eq!(leaky(0.5), [-0.5, 2.0]);
        assert_eq!(leaky(0.25), [-0.25, 2.0]);
        let wide = Tensor::from_slice(&[-1f32, 2.0, -2.0, 4.0], &[2, 2]).unwrap();
        let turned = crate::ops::aten::t(&wide).unwrap();
        let first = crate::ops::aten::select_int(&turned, 1, 0).unwrap();
        let y = crate::ops::aten::leaky_relu(&first, 0.25.into()).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [-0.25, 2.0]);
        let every = crate::ops::aten::select_int(&wide, 1, 0).unwrap();
        let y = crate::ops::aten::leaky_relu(&every, 0.25.into()).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [-0.25, -0.5]);
    }
}
