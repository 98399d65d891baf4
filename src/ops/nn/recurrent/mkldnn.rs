//! One LSTM layer in one direction with its gradient, as PyTorch hands it to oneDNN
//! (`mkldnn_rnn_layer`). How many layers and directions the whole network has does not matter to it.
//!
//! The workspace, which oneDNN fills for the gradient, is empty here: the gradient takes the gates
//! anew from the inputs and the hidden states, all steps at once, and the cell states from them.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, MemoryFormat, Scalar};

const ONE: Scalar = Scalar::Int(1);

/// PyTorch's number for an LSTM among the recurrent layers.
const LSTM: i64 = 2;

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, ONE)
}

fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    aten::_to_copy(t, Some(dtype), None, None, None, false, None)
}

/// A layer's operands in the dtype it is computed in, time first, and how its results are handed
/// back.
struct Layer {
    x: Tensor,
    weights: [Tensor; 4],
    h: Tensor,
    c: Tensor,
    reverse: bool,
    batch_first: bool,
    dtype: DType,
}

impl Layer {
    #[allow(clippy::too_many_arguments)] // the schema's own
    fn new(
        x: &Tensor,
        weights: [&Tensor; 4],
        h: &Tensor,
        c: &Tensor,
        reverse: bool,
        mode: i64,
        hidden: i64,
        batch_first: bool,
    ) -> Result<Layer> {
        ensure_not_implemented!(
            mode == LSTM,
            "mkldnn_rnn_layer runs a layer of an LSTM (mode {LSTM}), got mode {mode}"
        );
        let dtype = x.dtype();
        ensure_dtype!(
            matches!(dtype, DType::F32 | DType::BF16),
            "mkldnn_rnn_layer is not implemented for {}",
            dtype.torch_name()
        );
        ensure_shape!(
            x.dim() == 3,
            "mkldnn_rnn_layer: expected an input of 3 dimensions, got sizes {:?}",
            x.sizes()
        );
        let batch = x.sizes()[usize::from(!batch_first)];
        let of_state = |t: &Tensor| {
            t.sizes().ends_with(&[batch, hidden]) && t.numel() == batch.saturating_mul(hidden)
        };
        let gates = hidden.saturating_mul(4);
        let width = x.sizes()[2];
        let [w_ih, w_hh, b_ih, b_hh] = weights;
        ensure_shape!(
            of_state(h)
                && of_state(c)
                && w_ih.sizes() == [gates, width]
                && w_hh.sizes() == [gates, hidden]
                && b_ih.sizes() == [gates]
                && b_hh.sizes() == [gates],
            "mkldnn_rnn_layer: weights {:?} and {:?}, biases {:?} and {:?} and states {:?} and {:?} do not belong to an input of sizes {:?} and {hidden} hidden units",
            w_ih.sizes(),
            w_hh.sizes(),
            b_ih.sizes(),
            b_hh.sizes(),
            h.sizes(),
            c.sizes(),
            x.sizes()
        );
        let wide = dtype.opmath();
        let x = cast(x, wide)?;
        Ok(Layer {
            x: match batch_first {
                true => aten::transpose_int(&x, 0, 1)?,
                false => x,
            },
            weights: [cast(w_ih, wide)?, cast(w_hh, wide)?, cast(b_ih, wide)?, cast(b_hh, wide)?],
            h: aten::reshape(&cast(h, wide)?, &[batch, hidden])?,
            c: aten::reshape(&cast(c, wide)?, &[batch, hidden])?,
            reverse,
            batch_first,
            dtype,
        })
    }

    /// The steps in the order in which they are taken.
    fn order(&self) -> Vec<usize> {
        let steps = 0..self.x.sizes()[0].max(0) as usize;
        match self.reverse {
            true => steps.rev().collect(),
            false => steps.collect(),
        }
    }

    /// What is to be multiplied by the weights of the input, with both biases.
    fn input_part(&self) -> Result<Tensor> {
        let [w_ih, _, b_ih, b_hh] = &self.weights;
        aten::linear(&self.x, w_ih, Some(&add(b_ih, b_hh)?))
    }

    /// A result over time, as the caller lays it out.
    fn over_time(&self, t: &Tensor) -> Result<Tensor> {
        let t = cast(t, self.dtype)?;
        match self.batch_first {
            true => aten::contiguous(&aten::transpose_int(&t, 0, 1)?, MemoryFormat::Contiguous),
            false => Ok(t),
        }
    }

    /// A state, in the sizes of the one given.
    fn state(&self, t: &Tensor, like: &Tensor) -> Result<Tensor> {
        aten::reshape(&cast(t, self.dtype)?, like.sizes())
    }
}

/// The gates of a step: input, forget, new, output.
fn gates(before: &Tensor) -> Result<[Tensor; 4]> {
    let parts = aten::chunk(before, 4, -1)?;
    let [i, f, g, o] = parts.as_slice() else {
        return Err(Error::shape("lstm: weights of four gates are needed"));
    };
    Ok([aten::sigmoid(i)?, aten::sigmoid(f)?, aten::tanh(g)?, aten::sigmoid(o)?])
}

fn next_cell([i, f, g, _]: &[Tensor; 4], c: &Tensor) -> Result<Tensor> {
    add(&aten::mul_tensor(f, c)?, &aten::mul_tensor(i, g)?)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn layer(
    x: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: &Tensor,
    b_hh: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    reverse: bool,
    _batch_sizes: &[i64],
    mode: i64,
    hidden: i64,
    _layers: i64,
    _has_biases: bool,
    _bidirectional: bool,
    batch_first: bool,
    _train: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let weights = [w_ih, w_hh, b_ih, b_hh];
    let l = Layer::new(x, weights, hx, cx, reverse, mode, hidden, batch_first)?;
    let order = l.order();
    ensure!(!order.is_empty(), "Expected sequence length to be larger than 0 in RNN");
    let steps = aten::unbind_int(&l.input_part()?, 0)?;
    let (mut h, mut c) = (l.h.clone(), l.c.clone());
    let mut out = vec![h.clone(); steps.len()];
    for t in order {
        let before = add(&steps[t], &aten::linear(&h, &l.weights[1], None)?)?;
        let g = gates(&before)?;
        c = next_cell(&g, &c)?;
        h = aten::mul_tensor(&g[3], &aten::tanh(&c)?)?;
        out[t] = h.clone();
    }
    Ok((
        l.over_time(&aten::stack(&out, 0)?)?,
        l.state(&h, hx)?,
        l.state(&c, cx)?,
        aten::zeros(&[0], Some(DType::U8), None, Some(x.device()), None)?,
    ))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn layer_backward(
    x: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: &Tensor,
    b_hh: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    output: &Tensor,
    _hy: &Tensor,
    _cy: &Tensor,
    grad_output: Option<&Tensor>,
    grad_hy: Option<&Tensor>,
    grad_cy: Option<&Tensor>,
    reverse: bool,
    mode: i64,
    hidden: i64,
    _layers: i64,
    _has_biases: bool,
    _train: bool,
    _bidirectional: bool,
    _batch_sizes: &[i64],
    batch_first: bool,
    _workspace: &Tensor,
) -> Result<Gradients> {
    if [grad_output, grad_hy, grad_cy].iter().all(Option::is_none) {
        return Ok((None, None, None, None, None, None, None));
    }
    let weights = [w_ih, w_hh, b_ih, b_hh];
    let l = Layer::new(x, weights, hx, cx, reverse, mode, hidden, batch_first)?;
    let (order, wide) = (l.order(), l.dtype.opmath());
    let (batch, steps) = (l.h.sizes()[0], order.len());
    let in_time = |t: &Tensor| -> Result<Vec<Tensor>> {
        let t = cast(t, wide)?;
        aten::unbind_int(&t, i64::from(batch_first))
    };
    let hs = in_time(output)?;
    let dys = grad_output.map(in_time).transpose()?;
    for (what, given) in [("output", Some(&hs)), ("its gradient", dys.as_ref())] {
        if let Some(given) = given
            && (given.len() != steps || steps == 0)
        {
            return Err(Error::shape(format!(
                "mkldnn_rnn_layer_backward: {} steps of {what} for {steps} of input",
                given.len()
            )));
        }
    }
    // forward again: the hidden state before each step is known
    let mut before_h = vec![l.h.clone(); steps];
    for pair in order.windows(2) {
        before_h[pair[1]] = hs[pair[0]].clone();
    }
    let before_h = aten::stack(&before_h, 0)?;
    let pre = add(&l.input_part()?, &aten::linear(&before_h, &l.weights[1], None)?)?;
    let mut taken = Vec::with_capacity(steps);
    let pre = aten::unbind_int(&pre, 0)?;
    let mut c = l.c.clone();
    for t in &order {
        let g = gates(&pre[*t])?;
        let next = next_cell(&g, &c)?;
        taken.push((*t, g, c, aten::tanh(&next)?));
        c = next;
    }
    // and back
    let zero = || aten::zeros_like(&l.h, None, None, None, None, None);
    let state = |g: Option<&Tensor>| match g {
        Some(g) => aten::reshape(&cast(g, wide)?, &[batch, hidden]),
        None => zero(),
    };
    let (mut dh, mut dc) = (state(grad_hy)?, state(grad_cy)?);
    let mut dgates = vec![dh.clone(); steps];
    for (t, [i, f, g, o], c, tanh_c) in taken.into_iter().rev() {
        if let Some(dys) = &dys {
            dh = add(&dh, &dys[t])?;
        }
        let through = aten::tanh_backward(&aten::mul_tensor(&dh, &o)?, &tanh_c)?;
        dc = add(&dc, &through)?;
        let parts = [
            aten::sigmoid_backward(&aten::mul_tensor(&dc, &g)?, &i)?,
            aten::sigmoid_backward(&aten::mul_tensor(&dc, &c)?, &f)?,
            aten::tanh_backward(&aten::mul_tensor(&dc, &i)?, &g)?,
            aten::sigmoid_backward(&aten::mul_tensor(&dh, &tanh_c)?, &o)?,
        ];
        let of_gates = aten::cat(&parts, 1)?;
        dh = aten::mm(&of_gates, &l.weights[1])?;
        dc = aten::mul_tensor(&dc, &f)?;
        dgates[t] = of_gates;
    }
    let dgates = aten::stack(&dgates, 0)?;
    let rows =
        |t: &Tensor| aten::reshape(t, &[steps as i64 * batch, *t.sizes().last().unwrap_or(&1)]);
    let flat = rows(&dgates)?;
    let turned = aten::t(&flat)?;
    let narrow = |t: &Tensor| cast(t, l.dtype);
    let bias = narrow(&aten::sum_dim_int_list(&flat, Some(&[0]), false, None)?)?;
    let dx = aten::matmul(&dgates, &l.weights[0])?;
    Ok((
        Some(l.over_time(&dx)?),
        Some(narrow(&aten::mm(&turned, &rows(&l.x)?)?)?),
        Some(narrow(&aten::mm(&turned, &rows(&before_h)?)?)?),
        Some(narrow(&bias)?),
        Some(bias),
        Some(l.state(&dh, hx)?),
        Some(l.state(&dc, cx)?),
    ))
}

/// Of the input, the four weights and the two states.
type Gradients = (
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
);
