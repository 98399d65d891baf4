//! Eager kernels of operators that are formulas: promotion, shape, memory; the arithmetic is the formula's program,
//! which the runtime runs tile by tile.
//!
//! An operator is a row of a table (`formula_activation`) or a function of a few lines that makes a [`Call`].

use super::common::{broadcast, check_can_cast, check_devices, promote};
use super::copy;
use super::pointwise::{result, result_with_number};
use crate::error::{Error, Result};
use crate::tensor::launch;
use crate::tensor::launch::Outputs;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use straightline_catalog::{DType, Dims, layout};
use straightline_passes::formula::{Attribute, Program, Recorder, Val, record};
use straightline_runtime::cpu::kernels;
use straightline_runtime::cpu::kernels::{In, Out};

/// A call of an operator that is a formula.
pub(crate) struct Call<'a> {
    /// The operator, for errors.
    pub(crate) name: &'static str,
    /// Tensors, each with its position in the schema.
    pub(crate) operands: &'a [(usize, &'a Tensor)],
    /// What else the formula reads.
    pub(crate) attributes: &'a [(&'static str, Attribute)],
    /// The dtype of the result.
    pub(crate) dtype: DType,
}

/// The dtype that the operands promote to, of operators that are defined for floats only.
pub(crate) fn floats(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    match promote(tensors)? {
        dtype if dtype.is_floating() => Ok(dtype),
        dtype => Err(not_for(name, dtype)),
    }
}

/// The dtype that the operands promote to, of operators that are defined for all numbers but `bool`.
pub(crate) fn numbers(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    match promote(tensors)? {
        dtype if dtype.is_floating() || dtype.is_integral() => Ok(dtype),
        dtype => Err(not_for(name, dtype)),
    }
}

pub(crate) fn not_for(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!(
        "`{name}` is not implemented for {}",
        dtype.torch_name()
    ))
}

impl Call<'_> {
    fn tensors(&self) -> SmallVec<[&Tensor; 4]> {
        self.operands.iter().map(|(_, t)| *t).collect()
    }

    fn program(
        &self,
        formula: impl FnOnce(&mut Recorder) -> Option<SmallVec<[Val; 2]>>,
    ) -> Result<Program> {
        let operands: SmallVec<[(usize, DType); 4]> = (self.operands.iter())
            .map(|(at, t)| (*at, t.dtype()))
            .collect();
        record(self.dtype, &operands, self.attributes, formula)
            .ok_or_else(|| not_for(self.name, self.dtype))
    }

    /// The result, in the layout of pointwise operators.
    pub(crate) fn run(&self, formula: impl FnOnce(&mut Recorder) -> Option<Val>) -> Result<Tensor> {
        let tensors = self.tensors();
        let program = self.program(|b| formula(b).map(|y| [y].into_iter().collect()))?;
        check_devices(&tensors)?;
        let mut out = result(broadcast(&tensors)?, self.dtype, &tensors)?;
        self.execute(&program, [&mut out])?;
        Ok(out)
    }

    /// [`Call::run`] of one tensor and a number that is an operand like it.
    pub(crate) fn run_with_number(
        &self,
        a: &Tensor,
        formula: impl FnOnce(&mut Recorder) -> Option<Val>,
    ) -> Result<Tensor> {
        self.run_into(result_with_number(a, self.dtype)?, formula)
    }

    /// [`Call::run`] where the layout follows the operands in another order: PyTorch's iterator takes some operators' operands
    /// in another order than the schema.
    pub(crate) fn run_laid_out(
        &self,
        order: &[&Tensor],
        formula: impl FnOnce(&mut Recorder) -> Option<Val>,
    ) -> Result<Tensor> {
        check_devices(order)?;
        let out = result(broadcast(order)?, self.dtype, order)?;
        self.run_into(out, formula)
    }

    /// The result in a fresh tensor that the operands broadcast to.
    pub(crate) fn run_into(
        &self,
        mut out: Tensor,
        formula: impl FnOnce(&mut Recorder) -> Option<Val>,
    ) -> Result<Tensor> {
        let program = self.program(|b| formula(b).map(|y| [y].into_iter().collect()))?;
        check_devices(&self.tensors())?;
        self.check_shape(&out)?;
        self.execute(&program, [&mut out])?;
        Ok(out)
    }

    /// Two results of one shape, laid out by the operands in the order given.
    pub(crate) fn run_pair(
        &self,
        order: &[&Tensor],
        formula: impl FnOnce(&mut Recorder) -> Option<[Val; 2]>,
    ) -> Result<(Tensor, Tensor)> {
        let program = self.program(|b| formula(b).map(|y| y.into_iter().collect()))?;
        check_devices(order)?;
        let sizes = broadcast(order)?;
        let mut first = result(sizes.clone(), self.dtype, order)?;
        let mut second = result(sizes, self.dtype, order)?;
        self.execute(&program, [&mut first, &mut second])?;
        Ok((first, second))
    }

    /// Two results into fresh tensors (or views of one) that the operands broadcast to.
    pub(crate) fn run_pair_into(
        &self,
        outs: [&mut Tensor; 2],
        formula: impl FnOnce(&mut Recorder) -> Option<[Val; 2]>,
    ) -> Result<()> {
        let program = self.program(|b| formula(b).map(|y| y.into_iter().collect()))?;
        self.check_shape(outs[0])?;
        self.execute(&program, outs)
    }

    /// The in-place form: the result goes to the first operand.
    pub(crate) fn run_inplace(
        &self,
        formula: impl FnOnce(&mut Recorder) -> Option<Val>,
    ) -> Result<Tensor> {
        let x = self.operands[0].1;
        check_can_cast(self.dtype, x.dtype())?;
        check_devices(&self.tensors())?;
        self.check_shape(x)?;
        if self.dtype != x.dtype() {
            let _whole = access::in_place(x, &self.tensors())?;
            return copy::copy_(x, &self.run(formula)?, false);
        }
        let program = self.program(|b| formula(b).map(|y| [y].into_iter().collect()))?;
        if !x.storage().has_data() {
            return Ok(x.clone());
        }
        let detached = self.operands.iter().any(|(_, t)| access::is_detached(x, t));
        let _whole = detached
            .then(|| access::whole(&[x], &self.tensors()))
            .transpose()?;
        let mut operands: SmallVec<[Tensor; 4]> = SmallVec::new();
        for (_, t) in self.operands {
            operands.push(access::detach_overlap(x, t)?);
        }
        let inputs: SmallVec<[&Tensor; 4]> = operands.iter().collect();
        run(&program, [launch::Written(x)], &inputs)?;
        Ok(x.clone())
    }

    fn check_shape(&self, out: &Tensor) -> Result<()> {
        let mut tensors = self.tensors();
        tensors.push(out);
        let sizes = broadcast(&tensors)?;
        if sizes.as_slice() != out.sizes() {
            return Err(Error::shape(format!(
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                out.sizes(),
                sizes.as_slice()
            )));
        }
        Ok(())
    }

    fn execute<const N: usize>(&self, program: &Program, outs: [&mut Tensor; N]) -> Result<()> {
        run(program, outs, &self.tensors())
    }
}

/// Runs a program on inputs that broadcast to its outputs.
fn run<const N: usize, O>(program: &Program, outs: [O; N], inputs: &[&Tensor]) -> Result<()>
where
    O: for<'g> Outputs<Views<'g> = Out<'g>>,
{
    launch::run(outs, inputs, |outs, inputs| {
        let sizes = outs[0].sizes();
        let strides: SmallVec<[Dims; 6]> = (inputs.iter())
            .map(|i| layout::broadcast_strides(i.sizes(), i.strides(), sizes))
            .collect();
        let views: SmallVec<[In<'_>; 6]> = (inputs.iter().zip(&strides))
            .map(|(i, strides)| i.broadcast(sizes, strides))
            .collect::<std::result::Result<_, _>>()?;
        Ok(kernels::formula(program, &outs, &views)?)
    })
}
