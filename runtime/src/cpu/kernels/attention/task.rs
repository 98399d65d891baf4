//! What is computed, and in what.

use crate::cpu::kernels::matmul::blocks;
use crate::cpu::kernels::real::Real;
use crate::cpu::kernels::strided::Strided;
use crate::cpu::math::Lane;
use straightline_passes::ir::DType;

/// A tensor of (batch, head, position, feature) and its strides, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    /// The first element.
    pub(super) ptr: *mut u8,
    /// From one batch, head, position, feature to the next.
    pub(super) strides: [isize; 4],
}

impl Heads {
    pub(super) fn of(t: &Strided<'_>) -> Heads {
        let mut strides = [0; 4];
        for (to, from) in strides.iter_mut().zip(t.strides) {
            *to = *from as isize;
        }
        Heads { ptr: t.ptr, strides }
    }
}

/// What [`attention`](super::attention) has checked.
pub(super) struct Task {
    /// Batches, heads of the queries, queries, features.
    pub(super) sizes: [usize; 4],
    pub(super) kv_heads: usize,
    pub(super) keys: usize,
    pub(super) q: Heads,
    pub(super) k: Heads,
    pub(super) v: Heads,
    pub(super) mask: Option<Heads>,
    pub(super) out: Heads,
    /// Its fourth stride means nothing.
    pub(super) logsumexp: Heads,
    pub(super) causal: bool,
    pub(super) scale: f64,
    pub(super) dtype: DType,
}

// SAFETY: addresses and numbers; the threads of a call write disjoint parts.
unsafe impl Sync for Task {}

/// What scores are computed in.
pub(super) trait Wide: blocks::Block + Lane + Real {}
impl Wide for f32 {}
impl Wide for f64 {}
