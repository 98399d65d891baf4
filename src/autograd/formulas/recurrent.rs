//! Gradients of recurrent layers. Those of a user's LSTM, GRU or plain layer come of its parts; this
//! is of the layer that PyTorch hands to oneDNN.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::nn::recurrent::mkldnn;
use crate::tensor::Tensor;

/// Of the input, the four weights and the two states.
type Seven = (
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
    Option<Tensor>,
);

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn recurrent_layer_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: &Tensor,
    b_hh: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    output: &Tensor,
    hy: &Tensor,
    cy: &Tensor,
    reverse: bool,
    mode: i64,
    hidden: i64,
    layers: i64,
    has_biases: bool,
    train: bool,
    bidirectional: bool,
    batch_sizes: &[i64],
    batch_first: bool,
    workspace: &Tensor,
) -> Result<Seven> {
    let given = |i: usize| grads.get(i).and_then(Option::as_ref);
    // the kernel is made of operators: called as one they record what they do, the operator does not
    let backward = match crate::autograd::grad_enabled() {
        true => mkldnn::layer_backward,
        false => aten::mkldnn_rnn_layer_backward,
    };
    backward(
        x,
        w_ih,
        w_hh,
        b_ih,
        b_hh,
        hx,
        cx,
        output,
        hy,
        cy,
        given(0),
        given(1),
        given(2),
        reverse,
        mode,
        hidden,
        layers,
        has_biases,
        train,
        bidirectional,
        batch_sizes,
        batch_first,
        workspace,
    )
}
