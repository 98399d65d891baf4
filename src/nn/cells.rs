//! Recurrent layers of one step, for loops of one's own.

use super::init;
use super::parameter::Parameter;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use std::borrow::Cow;

/// The weights of a cell, by PyTorch's names.
#[derive(Clone, Debug, straightline_derive::Module)]
struct Weights {
    weight_ih: Parameter,
    weight_hh: Parameter,
    bias_ih: Option<Parameter>,
    bias_hh: Option<Parameter>,
    inputs: i64,
    hidden: i64,
}

impl Weights {
    #[track_caller]
    fn new(gates: i64, inputs: i64, hidden: i64, bias: bool) -> Result<Weights> {
        ensure_value!(hidden > 0, "hidden_size must be greater than zero");
        let bound = 1.0 / (hidden as f64).sqrt();
        let make =
            |sizes: &[i64]| Parameter::new(&init::uniform_(&Tensor::empty(sizes)?, -bound, bound)?);
        Ok(Weights {
            weight_ih: make(&[gates * hidden, inputs])?,
            weight_hh: make(&[gates * hidden, hidden])?,
            bias_ih: bias.then(|| make(&[gates * hidden])).transpose()?,
            bias_hh: bias.then(|| make(&[gates * hidden])).transpose()?,
            inputs,
            hidden,
        })
    }

    /// Input and states with a batch, and whether it was added. States are zeros where there are
    /// none.
    #[track_caller]
    fn batched<'a, const N: usize>(
        &self,
        name: &str,
        x: &'a Tensor,
        states: Option<[&'a Tensor; N]>,
    ) -> Result<(Cow<'a, Tensor>, [Tensor; N], bool)> {
        ensure_value!(
            matches!(x.dim(), 1 | 2),
            "{name}: Expected input to be 1D or 2D, got {}D instead",
            x.dim()
        );
        ensure!(
            x.size(-1)? == self.inputs,
            "input has inconsistent input_size: got {} expected {}",
            x.size(-1)?,
            self.inputs
        );
        let alone = x.dim() == 1;
        let batch = if alone { 1 } else { x.size(0)? };
        let states = match states {
            None => {
                let zeros = Tensor::with(x).zeros([batch, self.hidden])?;
                std::array::from_fn(|_| zeros.clone())
            }
            Some(given) => {
                for h in given {
                    ensure_value!(
                        h.dim() == x.dim(),
                        "{name}: Expected hidden to be {}D, got {}D instead",
                        x.dim(),
                        h.dim()
                    );
                }
                match alone {
                    false => given.map(Tensor::clone),
                    true => {
                        let each = given.map(|h| h.unsqueeze(0));
                        let mut made = Vec::with_capacity(N);
                        for h in each {
                            made.push(h?);
                        }
                        std::array::from_fn(|i| made[i].clone())
                    }
                }
            }
        };
        let x = if alone { Cow::Owned(x.unsqueeze(0)?) } else { Cow::Borrowed(x) };
        Ok((x, states, alone))
    }

    fn biases(&self) -> (Option<&Tensor>, Option<&Tensor>) {
        (self.bias_ih.as_deref(), self.bias_hh.as_deref())
    }
}

/// One step of an LSTM, whose gates are those of [`Lstm`](super::Lstm).
///
/// ```
/// use straightline::{Tensor, nn::{LstmCell, Module}};
/// let cell = LstmCell::new(4, 8)?;
/// let (mut h, mut c) = cell.forward(&Tensor::ones([3, 4])?, None)?;
/// (h, c) = cell.forward(&Tensor::ones([3, 4])?, Some((&h, &c)))?;
/// assert_eq!((h.sizes(), c.sizes()), (&[3, 8][..], &[3, 8][..]));
/// let names: Vec<String> = cell.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct LstmCell {
    #[module(rename = "")]
    weights: Weights,
}

impl LstmCell {
    /// Uniform up to `1 / sqrt(hidden)`.
    #[track_caller]
    pub fn new(inputs: impl Int, hidden: impl Int) -> Result<LstmCell> {
        LstmCell::new_with(inputs, hidden, true)
    }

    /// With biases if they are wanted.
    ///
    /// # Errors
    /// A width that is not positive.
    #[track_caller]
    pub fn new_with(inputs: impl Int, hidden: impl Int, bias: bool) -> Result<LstmCell> {
        Ok(LstmCell { weights: Weights::new(4, inputs.to_i64(), hidden.to_i64(), bias)? })
    }

    /// The next hidden and cell state of `[batch, inputs]` or `[inputs]`; they begin as zeros
    /// unless they are given.
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        let w = &self.weights;
        let (x, states, alone) = w.batched("LSTMCell", x, state.map(|(h, c)| [h, c]))?;
        let (b_ih, b_hh) = w.biases();
        let (h, c) = aten::lstm_cell(&x, &states, &w.weight_ih, &w.weight_hh, b_ih, b_hh)?;
        if alone { Ok((h.squeeze_dim(0)?, c.squeeze_dim(0)?)) } else { Ok((h, c)) }
    }
}

/// What a plain recurrent layer makes of a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RnnNonlinearity {
    /// Its hyperbolic tangent.
    #[default]
    Tanh,
    /// Its positive part.
    Relu,
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident, $gates:literal, $torch:literal, |$cell:ident| $call:expr, {$($field:ident: $ty:ty)?};)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            #[module(rename = "")]
            weights: Weights,
            $(#[module(skip)] $field: $ty,)?
        }

        impl $name {
            /// Uniform up to `1 / sqrt(hidden)`.
            #[track_caller]
            pub fn new(inputs: impl Int, hidden: impl Int) -> Result<$name> {
                $name::new_with(inputs, hidden, true)
            }

            /// With biases if they are wanted.
            ///
            /// # Errors
            /// A width that is not positive.
            #[track_caller]
            pub fn new_with(inputs: impl Int, hidden: impl Int, bias: bool) -> Result<$name> {
                let (inputs, hidden) = (inputs.to_i64(), hidden.to_i64());
                let weights = Weights::new($gates, inputs, hidden, bias)?;
                Ok($name { weights, $($field: <$ty>::default(),)? })
            }

            /// The next state of `[batch, inputs]` or `[inputs]`; it begins as zeros unless it is
            /// given.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Result<Tensor> {
                let ($cell, w) = (self, &self.weights);
                let (x, [h], alone) = w.batched($torch, x, state.map(|h| [h]))?;
                let (b_ih, b_hh) = w.biases();
                let h = $call(&x, &h, &w.weight_ih, &w.weight_hh, b_ih, b_hh)?;
                if alone { h.squeeze_dim(0) } else { Ok(h) }
            }
        }
    )*};
}
cells! {
    /// One step of a GRU.
    ///
    /// ```
    /// use straightline::{Tensor, nn::GruCell};
    /// let cell = GruCell::new(4, 8)?;
    /// let h = cell.forward(&Tensor::ones([3, 4])?, None)?;
    /// assert_eq!(cell.forward(&Tensor::ones([3, 4])?, Some(&h))?.sizes(), [3, 8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    GruCell, 3, "GRUCell", |_cell| aten::gru_cell, {};

    /// One step of the plain recurrent layer, `tanh(W x + U h + b)`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{RnnCell, RnnNonlinearity}};
    /// let cell = RnnCell::new(4, 8)?.nonlinearity(RnnNonlinearity::Relu);
    /// assert!(cell.forward(&Tensor::ones([4])?, None)?.min()?.item::<f32>()? >= 0.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    RnnCell, 1, "RNNCell", |cell| match cell.nonlinearity {
        RnnNonlinearity::Tanh => aten::rnn_tanh_cell,
        RnnNonlinearity::Relu => aten::rnn_relu_cell,
    }, {nonlinearity: RnnNonlinearity};
}

impl RnnCell {
    /// With another function than the hyperbolic tangent.
    #[must_use]
    pub fn nonlinearity(mut self, nonlinearity: RnnNonlinearity) -> RnnCell {
        self.nonlinearity = nonlinearity;
        self
    }
}
