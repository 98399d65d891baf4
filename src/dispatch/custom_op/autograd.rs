//! Backward formulas of custom operators.

use super::error::{CustomOpError, refuse};
use super::{CustomOp, read, write};
use crate::dispatch::value::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use std::fmt;
use std::sync::Arc;

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
        (self.setup)(&mut context, inputs, outputs)?;
        let out = (self.backward)(&context, grads)?;
        if out.len() != inputs.len() {
            return Err(refuse(CustomOpError::Gradients {
                op: self.op.clone(),
                inputs: inputs.len(),
                got: out.len(),
            }));
        }
        Ok(out)
    }
}

impl CustomOp {
    /// The formula for gradients. `setup_context` sees the inputs and outputs of a call and keeps
    /// what `backward` needs; `backward` computes the inputs' gradients, one or `None` for each,
    /// from those of the outputs.
    ///
    /// The crate has no autograd engine yet, so nothing calls the formula by itself. It is stored,
    /// and [`CustomOp::autograd_formula`] returns it.
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
    /// let x = Tensor::from_vec([1f32, 2.0], 2)?;
    /// let formula = op.autograd_formula().expect("it was just registered");
    /// let ones = Tensor::from_vec([1f32, 1.0], 2)?;
    /// let grads = formula.gradients(&[x.clone().into(), 3.0.into()], &[x.into()], &[Some(ones)])?;
    /// assert_eq!(grads[0].as_ref().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
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
