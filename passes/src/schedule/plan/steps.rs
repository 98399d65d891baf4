//! Steps of the runtime's own kernels: convolutions and products.

use super::Planner;
use crate::ir::Dims;
use crate::ir::view::view_strides;
use crate::schedule::convolution;
use crate::schedule::fuse::demanded;
use crate::schedule::loops::{BufferView, Convolution, Follow, Matmul};
use crate::schedule::matmul;
use crate::schedule::program::{Def, V};

impl Planner<'_> {
    pub(super) fn convolution(&mut self, call: u32) -> Option<Convolution> {
        let call = &self.p.calls[call as usize];
        let args = convolution::args_of(call)?;
        let rank = self.p.sizes(args.input).len() - 2;
        let spread = |list: &[i64]| match list {
            [one] => Dims::from_elem(*one, rank),
            _ => Dims::from_slice(list),
        };
        // the elements of the channels, without the other dimensions
        let channels = |view: BufferView| BufferView {
            sizes: Dims::from_slice(&view.sizes[1..2]),
            strides: Dims::from_slice(&[1]),
            ..view
        };
        let follow = (call.follow.iter().flatten())
            .map(|f| match f {
                Follow::Add(v) => Follow::Add(self.operand(*v)),
                f => f.map(|v| channels(self.operand(v))),
            })
            .collect();
        Some(Convolution {
            input: self.operand(args.input),
            weight: self.operand(args.weight),
            bias: args.bias.map(|b| self.operand(b)),
            out: self.result(call.results[0]),
            stride: spread(&args.stride),
            padding: spread(&args.padding),
            dilation: spread(&args.dilation),
            groups: args.groups,
            follow,
            pack_weight: matmul::is_weight(self.p, demanded(self.p, args.weight, self.strides)),
            fast_math: self.fast_math,
        })
    }

    pub(super) fn product(&mut self, v: V) -> Option<Matmul> {
        let Def::Matmul(product) = self.p.def(v) else {
            return None;
        };
        let a = self.operand(product.a);
        let b = self.operand(product.b);
        let (ra, rb) = (a.sizes.len(), b.sizes.len());
        let mut sizes = a.sizes.clone();
        sizes[ra - 1] = b.sizes[rb - 1];
        let shaped = |view: BufferView| -> Option<BufferView> {
            let strides = view_strides(&view.sizes, &view.strides, &sizes)?;
            Some(BufferView { sizes: sizes.clone(), strides, ..view })
        };
        let out = match &product.strides {
            Some(strides) => {
                BufferView { sizes: sizes.clone(), strides: strides.clone(), ..self.result(v) }
            }
            None => shaped(self.result(v))?,
        };
        let bias = product.bias.map(|bias| {
            let full = self.operand(bias);
            let last = full.sizes.len() - 1;
            BufferView {
                sizes: Dims::from_slice(&full.sizes[last..]),
                strides: Dims::from_slice(&full.strides[last..]),
                ..full
            }
        });
        let residual = match product.residual {
            Some(r) => {
                let view = self.operand(r);
                Some(shaped(view)?)
            }
            None => None,
        };
        let pack_b = matmul::is_weight(self.p, demanded(self.p, product.b, self.strides));
        Some(matmul::flatten(Matmul {
            a,
            b,
            out,
            bias,
            activation: product.activation,
            residual,
            pack_b,
        }))
    }
}
