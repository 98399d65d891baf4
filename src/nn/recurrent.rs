//! Recurrent layers over whole sequences: LSTM, GRU and the plain one.

use super::cells::RnnNonlinearity;
use super::init;
use super::module::{Module, Visitor, VisitorMut};
use super::parameter::Parameter;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};

/// What a recurrent layer can be told: how many layers are stacked, whether they have biases and go
/// in both directions, the dropout between them, and whether the batch comes first.
///
/// ```
/// use straightline::{Tensor, nn::{Gru, RnnOptions}};
/// let options = RnnOptions::default().layers(2).bidirectional(true).batch_first(true);
/// let (y, h) = Gru::new_with(4, 8, options)?.forward(&Tensor::ones([3, 5, 4])?, None)?;
/// assert_eq!((y.sizes(), h.sizes()), (&[3, 5, 16][..], &[4, 3, 8][..]));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RnnOptions {
    layers: i64,
    bias: bool,
    batch_first: bool,
    dropout: f64,
    bidirectional: bool,
}

impl Default for RnnOptions {
    fn default() -> Self {
        RnnOptions { layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false }
    }
}

impl RnnOptions {
    /// How many layers there are, each on the results of the one before; 1.
    #[must_use]
    pub fn layers(mut self, layers: impl Int) -> Self {
        self.layers = layers.to_i64();
        self
    }

    /// Whether there are biases; there are.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// Whether sequences are `[batch, length, width]`; they are `[length, batch, width]`.
    #[must_use]
    pub fn batch_first(mut self, first: bool) -> Self {
        self.batch_first = first;
        self
    }

    /// The part of each layer's results, but the last one's, that becomes zero in training; 0.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    /// Whether the layers also go from the end to the beginning; they do not.
    #[must_use]
    pub fn bidirectional(mut self, both: bool) -> Self {
        self.bidirectional = both;
        self
    }

    fn directions(&self) -> i64 {
        1 + i64::from(self.bidirectional)
    }
}

/// The weights of all layers and directions, in PyTorch's order and by its names.
#[derive(Clone, Debug)]
struct Weights {
    named: Vec<(String, Parameter)>,
    options: RnnOptions,
    hidden: i64,
    training: bool,
}

impl Weights {
    #[track_caller]
    fn new(gates: i64, inputs: i64, hidden: i64, options: RnnOptions) -> Result<Weights> {
        ensure_value!(hidden > 0, "hidden_size must be greater than zero");
        ensure_value!(options.layers > 0, "num_layers must be greater than zero");
        ensure_value!(
            (0.0..=1.0).contains(&options.dropout),
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        );
        let bound = 1.0 / (hidden as f64).sqrt();
        let mut named = Vec::new();
        for layer in 0..options.layers {
            let width = if layer == 0 { inputs } else { hidden * options.directions() };
            for direction in 0..options.directions() {
                let suffix = if direction == 1 { "_reverse" } else { "" };
                let mut add = |name: &str, sizes: &[i64]| -> Result<()> {
                    let t = init::uniform_(&Tensor::empty(sizes)?, -bound, bound)?;
                    named.push((format!("{name}_l{layer}{suffix}"), Parameter::new(&t)?));
                    Ok(())
                };
                add("weight_ih", &[gates * hidden, width])?;
                add("weight_hh", &[gates * hidden, hidden])?;
                if options.bias {
                    add("bias_ih", &[gates * hidden])?;
                    add("bias_hh", &[gates * hidden])?;
                }
            }
        }
        Ok(Weights { named, options, hidden, training: true })
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.named.iter().map(|(_, p)| p.tensor().clone()).collect()
    }

    /// An initial state of zeros for these sequences.
    fn zeros(&self, x: &Tensor) -> Result<Tensor> {
        let batch = x.size(if self.options.batch_first { 0 } else { 1 })?;
        let o = &self.options;
        Tensor::with(x).zeros([o.layers * o.directions(), batch, self.hidden])
    }

    /// Where a sequence without a batch gets one.
    fn batch_dim(&self) -> i64 {
        i64::from(!self.options.batch_first)
    }
}

impl Module for Weights {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        for (name, p) in &self.named {
            visitor.child(name, p);
        }
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        for (_, p) in &mut self.named {
            visitor.child(p);
        }
        visitor.training(&mut self.training);
    }
}

/// Refuses sequences of less or more than two (without a batch) or three dimensions.
#[track_caller]
fn check_sequences(name: &str, x: &Tensor) -> Result<()> {
    ensure_value!(
        matches!(x.dim(), 2 | 3),
        "{name}: Expected input to be 2D or 3D, got {}D instead",
        x.dim()
    );
    Ok(())
}

/// An LSTM. Its gates are in the order input, forget, cell, output; parameters are called
/// `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, `weight_ih_l0_reverse` and so on.
///
/// ```
/// use straightline::{Tensor, nn::Lstm};
/// let lstm = Lstm::new(4, 8)?;
/// // [length, batch, width]
/// let (y, (h, c)) = lstm.forward(&Tensor::ones([5, 3, 4])?, None)?;
/// assert_eq!(y.sizes(), [5, 3, 8]);
/// let (next, _) = lstm.forward(&Tensor::ones([1, 3, 4])?, Some((&h, &c)))?;
/// assert_eq!(next.sizes(), [1, 3, 8]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Lstm {
    #[module(rename = "")]
    weights: Weights,
}

impl Lstm {
    /// One layer, one direction; uniform up to `1 / sqrt(hidden)`.
    #[track_caller]
    pub fn new(inputs: impl Int, hidden: impl Int) -> Result<Lstm> {
        Lstm::new_with(inputs, hidden, RnnOptions::default())
    }

    /// With [`RnnOptions`].
    ///
    /// # Errors
    /// A number of layers or a width that is not positive, a dropout outside of 0 to 1.
    #[track_caller]
    pub fn new_with(inputs: impl Int, hidden: impl Int, options: RnnOptions) -> Result<Lstm> {
        Ok(Lstm { weights: Weights::new(4, inputs.to_i64(), hidden.to_i64(), options)? })
    }

    /// The results of the last layer at each step, and the last hidden and cell state of each layer
    /// and direction, which begin as zeros unless they are given.
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        check_sequences("LSTM", x)?;
        let (w, o) = (&self.weights, &self.weights.options);
        if x.dim() == 2 {
            let batch = w.batch_dim();
            let state = match state {
                Some((h, c)) => Some((h.unsqueeze(1)?, c.unsqueeze(1)?)),
                None => None,
            };
            let state = state.as_ref().map(|(h, c)| (h, c));
            let (y, (h, c)) = self.forward(&x.unsqueeze(batch)?, state)?;
            return Ok((y.squeeze_dim(batch)?, (h.squeeze_dim(1)?, c.squeeze_dim(1)?)));
        }
        let state = match state {
            Some((h, c)) => [h.clone(), c.clone()],
            None => {
                let zeros = w.zeros(x)?;
                [zeros.clone(), zeros]
            }
        };
        let (y, h, c) = aten::lstm_input(
            x,
            &state,
            &w.tensors(),
            o.bias,
            o.layers,
            o.dropout,
            w.training,
            o.bidirectional,
            o.batch_first,
        )?;
        Ok((y, (h, c)))
    }
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident, $gates:literal, $torch:literal, |$layer:ident| $call:expr, {$($field:ident: $ty:ty)?};)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            #[module(rename = "")]
            weights: Weights,
            $(#[module(skip)] $field: $ty,)?
        }

        impl $name {
            /// One layer, one direction; uniform up to `1 / sqrt(hidden)`.
            #[track_caller]
            pub fn new(inputs: impl Int, hidden: impl Int) -> Result<$name> {
                $name::new_with(inputs, hidden, RnnOptions::default())
            }

            /// With [`RnnOptions`].
            ///
            /// # Errors
            /// A number of layers or a width that is not positive, a dropout outside of 0 to 1.
            #[track_caller]
            pub fn new_with(
                inputs: impl Int,
                hidden: impl Int,
                options: RnnOptions,
            ) -> Result<$name> {
                let (inputs, hidden) = (inputs.to_i64(), hidden.to_i64());
                let weights = Weights::new($gates, inputs, hidden, options)?;
                Ok($name { weights, $($field: <$ty>::default(),)? })
            }

            /// The results of the last layer at each step, and the last state of each layer and
            /// direction, which begins as zeros unless it is given.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                check_sequences($torch, x)?;
                let (w, o) = (&self.weights, &self.weights.options);
                if x.dim() == 2 {
                    let batch = w.batch_dim();
                    let state = state.map(|h| h.unsqueeze(1)).transpose()?;
                    let (y, h) = self.forward(&x.unsqueeze(batch)?, state.as_ref())?;
                    return Ok((y.squeeze_dim(batch)?, h.squeeze_dim(1)?));
                }
                let state = match state {
                    Some(h) => h.clone(),
                    None => w.zeros(x)?,
                };
                let $layer = self;
                let call = $call;
                call(
                    x,
                    &state,
                    &w.tensors(),
                    o.bias,
                    o.layers,
                    o.dropout,
                    w.training,
                    o.bidirectional,
                    o.batch_first,
                )
            }
        }
    )*};
}
plain! {
    /// A GRU, with gates in the order reset, update, new and parameters called as those of
    /// [`Lstm`].
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Gru, Module}};
    /// let gru = Gru::new(4, 8)?;
    /// assert_eq!(gru.named_parameters()[0].0, "weight_ih_l0");
    /// let (y, h) = gru.forward(&Tensor::ones([5, 3, 4])?, None)?;
    /// assert_eq!((y.sizes(), h.sizes()), (&[5, 3, 8][..], &[1, 3, 8][..]));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Gru, 3, "GRU", |_layer| aten::gru_input, {};

    /// The plain recurrent layer, `tanh(W x + U h + b)`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::Rnn};
    /// let (y, _) = Rnn::new(4, 8)?.forward(&Tensor::ones([5, 3, 4])?, None)?;
    /// assert_eq!(y.sizes(), [5, 3, 8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Rnn, 1, "RNN", |layer| match layer.nonlinearity {
        RnnNonlinearity::Tanh => aten::rnn_tanh_input,
        RnnNonlinearity::Relu => aten::rnn_relu_input,
    }, {nonlinearity: RnnNonlinearity};
}

impl Rnn {
    /// With another function than the hyperbolic tangent.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Rnn, RnnNonlinearity}};
    /// let rnn = Rnn::new(4, 8)?.nonlinearity(RnnNonlinearity::Relu);
    /// assert!(rnn.forward(&Tensor::ones([5, 3, 4])?, None)?.0.min()?.item::<f32>()? >= 0.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[must_use]
    pub fn nonlinearity(mut self, nonlinearity: RnnNonlinearity) -> Rnn {
        self.nonlinearity = nonlinearity;
        self
    }
}
