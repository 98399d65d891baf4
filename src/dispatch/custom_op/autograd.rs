//! Backward formulas of custom operators.

use super::error::{CustomOpError, refuse};
use super::{CustomOp, read, write};
use crate::dispatch::operator::OperatorHandle;
use crate::dispatch::value::{Stack, Value};
use crate::error::Result;
use crate::tensor::Tensor;
use std::fmt;
use std::sync::{Arc, OnceLock};
use straightline_catalog::keyset::DispatchKeySet;

/// What the forward pass of a custom operator saves for its backward pass.
#[derive(Clone, Default, Debug)]
pub struct OpContext {
    /// Tensors.
    pub saved: Vec<Tensor>,
    /// Anything else.
    pub values: Vec<Value>,
}

type SetupContext = dyn Fn(&mut OpContext, &[Value], &[Value]) -> Result<()> + Send + Sync;
type Backward = dyn Fn(&OpContext, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> + Send + Sync;

/// A backward formula: what [`CustomOp::register_autograd`] was given.
#[derive(Clone)]
pub struct AutogradFormula {
    op: String,
    setup: Arc<SetupContext>,
    backward: Arc<Backward>,
}

impl fmt::Debug for AutogradFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AutogradFormula({})", self.op)
    }
}

impl AutogradFormula {
    /// Computes the gradients of the inputs from those of the outputs, given one call's inputs and
    /// outputs.
    ///
    /// # Errors
    ///
    /// The formula's own errors, or a number of gradients that differs from the number of inputs.
    pub fn gradients(
        &self,
        inputs: &[Value],
        outputs: &[Value],
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>> {
        let mut context = OpContext::default();
        self.set_up(&mut context, inputs, outputs)?;
        self.gradients_of(&context, grads, inputs.len())
    }

    /// Lets the formula keep what its backward pass needs of a call.
    pub(crate) fn set_up(
        &self,
        context: &mut OpContext,
        inputs: &[Value],
        outputs: &[Value],
    ) -> Result<()> {
        (self.setup)(context, inputs, outputs)
    }

    /// The gradients of a call's inputs, of which there are `inputs`.
    pub(crate) fn gradients_of(
        &self,
        context: &OpContext,
        grads: &[Option<Tensor>],
        inputs: usize,
    ) -> Result<Vec<Option<Tensor>>> {
        let out = (self.backward)(context, grads)?;
        if out.len() != inputs {
            let (op, got) = (self.op.clone(), out.len());
            return Err(refuse(CustomOpError::Gradients { op, inputs, got }));
        }
        Ok(out)
    }
}

impl CustomOp {
    /// The formula for gradients. `setup_context` sees the inputs and outputs of a call and keeps
    /// what `backward` needs; `backward` computes the inputs' gradients, one or `None` for each,
    /// from those of the outputs.
    ///
    /// Calls with an operand that wants a gradient use the formula in their backward pass; without
    /// one, that pass is an error which names the operator.
    ///
    /// # Errors
    ///
    /// [`CustomOpError::NotFunctional`]: the operator writes an argument. Define a functional operator and give that one a formula.
    ///
    /// ```
    /// use straightline::Tensor;
    /// use straightline::dispatch::{Value, custom_op};
    ///
    /// let mut op = custom_op("docs_autograd::scale", |x: &Tensor, s: f64| x.mul(s)).register()?;
    /// op.register_autograd(
    ///     |context, grads| {
    ///         let Some(Value::Double(s)) = context.values.first() else { return Ok(vec![None, None]) };
    ///         let grad = grads[0].as_ref().map(|g| g.mul(*s)).transpose()?;
    ///         Ok(vec![grad, None])
    ///     },
    ///     |context, inputs, _output| {
    ///         context.values.push(inputs[1].clone());
    ///         Ok(())
    ///     },
    /// )?;
    /// let x = Tensor::from_vec([1f32, 2.0], 2)?.requires_grad_(true)?;
    /// let scale = op.handle().typed::<(&'static Tensor, f64), Tensor>()?;
    /// scale.call((&x, 3.0))?.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_autograd(
        &mut self,
        backward: impl Fn(&OpContext, &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
        setup_context: impl Fn(&mut OpContext, &[Value], &[Value]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<&mut Self> {
        let schema = self.schema();
        if schema.is_mutable() {
            return Err(refuse(CustomOpError::NotFunctional {
                op: self.op.name().to_string(),
                schema: schema.to_string(),
            }));
        }
        let formula = AutogradFormula {
            op: self.op.name().to_string(),
            setup: Arc::new(setup_context),
            backward: Arc::new(backward),
        };
        write(&self.state.formula, Some(formula));
        Ok(self)
    }

    /// The formula given to [`CustomOp::register_autograd`].
    pub fn autograd_formula(&self) -> Option<AutogradFormula> {
        read(&self.state.formula)
    }
}

/// The autograd kernel of operators without one in the catalogue: what the `autograd` room sets.
pub(crate) type Recorder =
    fn(OperatorHandle, DispatchKeySet, &mut Stack, Option<AutogradFormula>) -> Result<()>;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Sets it, once.
pub(crate) fn set_recorder(recorder: Recorder) {
    // another one would be the same
    let _ = RECORDER.set(recorder);
}

/// Records a call, or goes on below the autograd keys as long as there is no recorder.
pub(in crate::dispatch) fn record(
    op: OperatorHandle,
    keys: DispatchKeySet,
    stack: &mut Stack,
    formula: Option<AutogradFormula>,
) -> Result<()> {
    match RECORDER.get() {
        Some(record) => record(op, keys, stack, formula),
        None => op.redispatch_boxed(keys & DispatchKeySet::AFTER_AUTOGRAD, stack),
    }
}
