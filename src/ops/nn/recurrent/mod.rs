//! Recurrent layers: LSTM, GRU and plain ones, cell by cell and over whole sequences.

pub(crate) mod mkldnn;

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_can_cast, float_of};
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ONE: Scalar = Scalar::Int(1);

/// The kinds of cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Kind {
    fn gates(self) -> i64 {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Tanh | Kind::Relu => 1,
        }
    }
}

/// The weights of one layer in one direction.
struct Weights<'a> {
    input: &'a Tensor,
    hidden: &'a Tensor,
    input_bias: Option<&'a Tensor>,
    hidden_bias: Option<&'a Tensor>,
    projection: Option<&'a Tensor>,
}

/// What a cell hands on: the hidden state and, of an LSTM, the cell state.
type State = (Tensor, Option<Tensor>);

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, ONE)
}

/// One step; `x` is the input times its weights, bias added.
fn step(kind: Kind, x: &Tensor, state: &State, w: &Weights<'_>) -> Result<State> {
    let (h, c) = state;
    let from_hidden = aten::linear(h, w.hidden, w.hidden_bias)?;
    match kind {
        Kind::Tanh => Ok((aten::tanh(&add(&from_hidden, x)?)?, None)),
        Kind::Relu => Ok((aten::relu(&add(&from_hidden, x)?)?, None)),
        Kind::Gru => {
            let (xs, hs) = (aten::chunk(x, 3, 1)?, aten::chunk(&from_hidden, 3, 1)?);
            let ([xr, xz, xn], [hr, hz, hn]) = (xs.as_slice(), hs.as_slice()) else {
                return Err(Error::shape("gru: weights of three gates are needed"));
            };
            let reset = aten::sigmoid(&add(hr, xr)?)?;
            let update = aten::sigmoid(&add(hz, xz)?)?;
            let new = aten::tanh(&add(xn, &aten::mul_tensor(hn, &reset)?)?)?;
            let kept = aten::mul_tensor(&aten::sub_tensor(h, &new, ONE)?, &update)?;
            Ok((add(&kept, &new)?, None))
        }
        Kind::Lstm => {
            let gates = aten::chunk(&add(&from_hidden, x)?, 4, 1)?;
            let ([i, f, g, o], Some(c)) = (gates.as_slice(), c) else {
                return Err(Error::shape(
                    "lstm: weights of four gates and a cell state are needed",
                ));
            };
            let kept = aten::mul_tensor(&aten::sigmoid(f)?, c)?;
            let new = aten::mul_tensor(&aten::sigmoid(i)?, &aten::tanh(g)?)?;
            let c = add(&kept, &new)?;
            let mut h = aten::mul_tensor(&aten::sigmoid(o)?, &aten::tanh(&c)?)?;
            if let Some(p) = w.projection {
                h = aten::linear(&h, p, None)?;
            }
            Ok((h, Some(c)))
        }
    }
}

fn check_cell(kind: Kind, x: &Tensor, h: &Tensor, w: &Weights<'_>) -> Result<()> {
    if x.dim() == 2
        && let Some(t) = [w.input, w.hidden].into_iter().find(|t| t.dim() < 2)
    {
        let n = t.dim().max(1);
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [-{n}, {}], but got {n})",
            n - 1
        )));
    }
    ensure!(
        x.dim() == 2 && h.dim() == 2 && w.input.dim() == 2 && w.hidden.dim() == 2,
        "a cell wants matrices, got an input of sizes {:?} and a hidden state of sizes {:?}",
        x.sizes(),
        h.sizes()
    );
    ensure!(
        x.sizes()[1] == w.input.sizes()[1],
        "input has inconsistent input_size: got {} expected {}",
        x.sizes()[1],
        w.input.sizes()[1]
    );
    ensure!(
        x.sizes()[0] == h.sizes()[0],
        "Input batch size {} doesn't match hidden0 batch size {}",
        x.sizes()[0],
        h.sizes()[0]
    );
    ensure!(
        h.sizes()[1] == w.hidden.sizes()[1],
        "hidden0 has inconsistent hidden_size: got {}, expected {}",
        h.sizes()[1],
        w.hidden.sizes()[1]
    );
    ensure_shape!(
        w.input.sizes()[0] % kind.gates() == 0 && w.input.sizes()[0] == w.hidden.sizes()[0],
        "weights of sizes {:?} and {:?} are not those of {} gates",
        w.input.sizes(),
        w.hidden.sizes(),
        kind.gates()
    );
    Ok(())
}

fn cell(
    kind: Kind,
    x: &Tensor,
    state: State,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<State> {
    let w = Weights {
        input: w_ih,
        hidden: w_hh,
        input_bias: b_ih,
        hidden_bias: b_hh,
        projection: None,
    };
    check_cell(kind, x, &state.0, &w)?;
    // PyTorch's cells with gates take the sigmoid in place
    if matches!(kind, Kind::Gru | Kind::Lstm) {
        check_can_cast(float_of(x.dtype()), x.dtype())?;
    }
    step(kind, &aten::linear(x, w_ih, b_ih)?, &state, &w)
}

pub(crate) fn lstm_cell(
    x: &Tensor,
    hx: &[Tensor],
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let [h, c] = hx else {
        return Err(Error::runtime("lstm_cell expects two hidden states"));
    };
    let state = (h.clone(), Some(c.clone()));
    let (h, c) = cell(Kind::Lstm, x, state, w_ih, w_hh, b_ih, b_hh)?;
    Ok((h.clone(), c.unwrap_or(h)))
}

macro_rules! cells {
    ($($name:ident = $kind:ident;)*) => {$(
        pub(crate) fn $name(
            x: &Tensor,
            h: &Tensor,
            w_ih: &Tensor,
            w_hh: &Tensor,
            b_ih: Option<&Tensor>,
            b_hh: Option<&Tensor>,
        ) -> Result<Tensor> {
            Ok(cell(Kind::$kind, x, (h.clone(), None), w_ih, w_hh, b_ih, b_hh)?.0)
        }
    )*};
}
cells! {
    gru_cell = Gru;
    rnn_tanh_cell = Tanh;
    rnn_relu_cell = Relu;
}

/// How a layer is put together.
#[derive(Clone, Copy)]
struct Stack {
    kind: Kind,
    has_biases: bool,
    layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
}

/// The result over time, the last hidden states, the last cell states.
fn run(
    s: Stack,
    x: &Tensor,
    h0: &Tensor,
    c0: Option<&Tensor>,
    params: &[Tensor],
) -> Result<(Tensor, Tensor, Option<Tensor>)> {
    ensure!(
        x.dim() == 3 && h0.dim() == 3,
        "a recurrent layer wants an input and a hidden state of three dimensions, got {:?} and {:?}",
        x.sizes(),
        h0.sizes()
    );
    let directions = if s.bidirectional { 2 } else { 1 };
    let count = s.layers.saturating_mul(directions).max(0) as usize;
    let projected = c0.is_some_and(|c| c.sizes().last() != h0.sizes().last());
    let each = if s.has_biases { 4 } else { 2 } + usize::from(projected);
    ensure!(
        s.layers >= 1
            && count.checked_mul(each) == Some(params.len())
            && ![Some(h0), c0].iter().flatten().any(|h| h.sizes().first() != Some(&(count as i64))),
        "a recurrent layer of {} layers in {directions} directions wants {} weights and {count} hidden states, got {} and states of sizes {:?}",
        s.layers,
        count.saturating_mul(each),
        params.len(),
        [Some(h0), c0].iter().flatten().map(|h| h.sizes()).collect::<Vec<_>>()
    );
    let mut x = if s.batch_first { aten::transpose_int(x, 0, 1)? } else { x.clone() };
    ensure!(x.sizes()[0] != 0, "Expected sequence length to be larger than 0 in RNN");
    let (h0, c0) = (aten::unbind_int(h0, 0)?, c0.map(|c| aten::unbind_int(c, 0)).transpose()?);
    let (mut hs, mut cs) = (Vec::new(), Vec::new());
    for layer in 0..s.layers as usize {
        let mut outs = Vec::new();
        for direction in 0..directions as usize {
            let at = layer * directions as usize + direction;
            let p = &params[at * each..(at + 1) * each];
            let w = Weights {
                input: &p[0],
                hidden: &p[1],
                input_bias: p.get(2).filter(|_| s.has_biases),
                hidden_bias: p.get(3).filter(|_| s.has_biases),
                projection: p.last().filter(|_| projected),
            };
            let mut state = (h0[at].clone(), c0.as_ref().map(|c| c[at].clone()));
            let steps = aten::unbind_int(&x, 0)?;
            check_cell(s.kind, &steps[0], &state.0, &w)?;
            // the products with the input, all steps at once
            let steps = aten::unbind_int(&aten::linear(&x, w.input, w.input_bias)?, 0)?;
            let mut out = Vec::with_capacity(steps.len());
            let order: Vec<usize> = if direction == 0 {
                (0..steps.len()).collect()
            } else {
                (0..steps.len()).rev().collect()
            };
            for t in order {
                state = step(s.kind, &steps[t], &state, &w)?;
                out.push(state.0.clone());
            }
            if direction == 1 {
                out.reverse();
            }
            outs.push(aten::stack(&out, 0)?);
            hs.push(state.0);
            cs.extend(state.1);
        }
        x = if s.bidirectional { aten::cat(&outs, 2)? } else { outs.swap_remove(0) };
        if s.dropout != 0.0 && s.train && layer + 1 < s.layers as usize {
            x = aten::dropout(&x, s.dropout, true)?;
        }
    }
    if s.batch_first {
        x = aten::transpose_int(&x, 0, 1)?;
    }
    let c = if cs.is_empty() { None } else { Some(aten::stack(&cs, 0)?) };
    Ok((x, aten::stack(&hs, 0)?, c))
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn lstm(
    x: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let [h, c] = hx else {
        return Err(Error::runtime("lstm expects two hidden states"));
    };
    let stack =
        Stack { kind: Kind::Lstm, has_biases, layers, dropout, train, bidirectional, batch_first };
    let (out, h, c) = run(stack, x, h, Some(c), params)?;
    Ok((out, h.clone(), c.unwrap_or(h)))
}

macro_rules! layers {
    ($($name:ident = $kind:ident;)*) => {$(
        #[allow(clippy::too_many_arguments)] // the schema's own
        pub(crate) fn $name(
            x: &Tensor,
            h: &Tensor,
            params: &[Tensor],
            has_biases: bool,
            layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
            batch_first: bool,
        ) -> Result<(Tensor, Tensor)> {
            let stack = Stack {
                kind: Kind::$kind,
                has_biases,
                layers,
                dropout,
                train,
                bidirectional,
                batch_first,
            };
            let (out, h, _) = run(stack, x, h, None, params)?;
            Ok((out, h))
        }
    )*};
}
layers! {
    gru = Gru;
    rnn_tanh = Tanh;
    rnn_relu = Relu;
}
