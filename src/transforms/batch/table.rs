//! Which operator has which rule.

use super::given::{Call, Results};
use super::lists::{ALONG, FOLDED, SIZED};
use super::{index, losses, nn, pointwise, products, reduce};
use super::{shapes, strided};
use crate::dispatch::Value;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A rule: results of which each tensor has its samples in front.
type Below = fn(&Call<'_>) -> Result<Option<Results>>;
/// A rule made of other calls: the results.
type Recipe = fn(&Call<'_>) -> Result<Option<Vec<Value>>>;

/// What to do with a call. `None` from one leaves it to the parts of a composite, or to the loop.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Runs below the layer.
    Below(Below),
    /// Runs at the layer.
    Recipe(Recipe),
}

/// Operators on the last dimensions, with any before them.
const LEADING: &[&str] = &[
    "tril",
    "triu",
    "linalg_inv_ex",
    "_linalg_det",
    "_linalg_slogdet",
    "_linalg_eigh",
    "linalg_qr",
    "linalg_cholesky_ex",
    "_linalg_svd",
    "linalg_lu_factor_ex",
    "linalg_lu",
    "linalg_lu_solve",
    "linalg_solve_triangular",
    "linalg_matrix_exp",
    "triangular_solve",
    "cholesky_solve",
    "cholesky_inverse",
    "linalg_eig",
    "_linalg_eigvals",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
    "lu_unpack",
    "linalg_householder_product",
    "constant_pad_nd",
    "pixel_shuffle",
    "pixel_unshuffle",
    "_cdist_forward",
    "view_as_real",
    "view_as_complex",
    "_conj",
    "_conj_physical",
    "_neg_view",
    "conj_physical",
];

/// Losses of one element for each of the operand, then reduced.
const LOSSES: &[&str] = &[
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "soft_margin_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
];

const LOSS_GRADIENTS: &[&str] = &[
    "mse_loss_backward",
    "smooth_l1_loss_backward",
    "huber_loss_backward",
    "soft_margin_loss_backward",
    "binary_cross_entropy_backward",
];

/// Reductions of named dimensions, or of all.
const REDUCTIONS: &[&str] = &[
    "sum",
    "sum.dim_IntList",
    "mean",
    "mean.dim",
    "prod",
    "prod.dim_int",
    "amax",
    "amin",
    "var.correction",
    "std.correction",
    "var_mean.correction",
    "std_mean.correction",
    "argmax",
    "argmin",
    "any",
    "any.dim",
    "any.dims",
    "all",
    "all.dim",
    "all.dims",
    "max",
    "min",
    "logsumexp",
    "nansum",
    "linalg_vector_norm",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "count_nonzero",
    "median",
    "nanmedian",
    "aminmax",
];

/// Operators by element that are not marked so.
const POINTWISE: &[&str] = &[
    "clone",
    "_to_copy",
    "detach",
    "alias",
    "lift_fresh",
    "lift",
    "ones_like",
    "zeros_like",
    "full_like",
    "empty_like",
    "fill.Scalar",
    "fill.Tensor",
    "zero",
    "copy",
    "where.self",
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "native_dropout_backward",
    "log_sigmoid_forward",
    "prims::convert_element_type",
    "frexp.Tensor",
    "polar",
    "complex",
    "view.dtype",
    "positive",
];

type Table = HashMap<&'static str, Rule>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    let below: &[(&[&str], Below)] = &[
        (LEADING, shapes::leading),
        (REDUCTIONS, reduce::reduce),
        (POINTWISE, pointwise::pointwise),
        (&["permute"], shapes::permute),
        (&["t"], shapes::t),
        (&["expand"], shapes::expand),
        (&["squeeze"], shapes::squeeze),
        (&["repeat"], shapes::repeat),
        (&["as_strided"], strided::as_strided),
        (&["as_strided_scatter"], strided::as_strided_scatter),
        (&["new_empty_strided"], strided::new_empty_strided),
        (
            &["select_backward", "slice_backward", "diagonal_backward", "unfold_backward"],
            shapes::view_gradient,
        ),
        (&["cat", "stack"], shapes::join),
        (&["roll"], shapes::roll),
        (&["mm"], products::mm),
        (&["bmm"], products::bmm),
        (&["mv"], products::mv),
        (&["dot"], products::dot),
        (&["convolution"], nn::convolution),
        (&["convolution_backward"], nn::convolution_backward),
        (&["index_select"], index::index_select),
        (&["embedding"], index::embedding),
        (&["embedding_dense_backward"], index::embedding_dense_backward),
        (&["index.Tensor", "_unsafe_index.Tensor"], index::index),
        (&["index_put", "_unsafe_index_put", "_index_put_impl"], index::index_put),
    ];
    for (names, rule) in below {
        table.extend(names.iter().map(|n| (*n, Rule::Below(*rule))));
    }
    table.extend(ALONG.iter().map(|(n, _)| (*n, Rule::Below(shapes::along))));
    table.extend(FOLDED.iter().map(|(n, _)| (*n, Rule::Below(shapes::folded))));
    table.extend(SIZED.iter().map(|(n, _)| (*n, Rule::Below(shapes::sized))));
    let recipes: &[(&[&str], Recipe)] = &[
        (LOSSES, losses::loss),
        (LOSS_GRADIENTS, losses::loss_gradient),
        (&["nll_loss_forward"], losses::nll_loss_forward),
        (&["nll_loss_backward"], losses::nll_loss_backward),
        (&["addmm", "addmv", "baddbmm"], products::added),
        (&["masked_fill.Tensor"], index::masked_fill),
        (&["trace"], shapes::trace),
        (&["native_layer_norm"], nn::layer_norm),
        (&["native_layer_norm_backward"], nn::layer_norm_backward),
        (&["native_group_norm"], nn::group_norm),
        (&["index_add"], index::index_add),
    ];
    for (names, recipe) in recipes {
        table.extend(names.iter().map(|n| (*n, Rule::Recipe(*recipe))));
    }
    table
});

/// The rule of a call's operator.
pub(super) fn find(call: &Call<'_>) -> Option<Rule> {
    if crate::dispatch::is_reshape(call.op) {
        return Some(Rule::Below(shapes::in_place));
    }
    if let Some(rule) = TABLE.get(&*call.name) {
        return Some(*rule);
    }
    let pointwise = call.op.tags().contains(&"pointwise")
        && !crate::transforms::composite::is_composite(call.op);
    pointwise.then_some(Rule::Below(pointwise::pointwise))
}
