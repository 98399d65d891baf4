//! Convolutions of a plan: packed weights, and what follows in the kernel.

use super::packed::Packed;
use super::place::Located;
use crate::cpu::jit::RunContext;
use crate::cpu::kernels::conv::{
    Follow, Geometry, Operands, PackedForm, PackedKernel, convolve_packed,
};
use std::convert::Infallible;
use std::sync::Arc;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{self, Convolution, Schedule};

pub(super) struct ConvolutionStep {
    dtype: DType,
    geometry: Geometry,
    input: Located,
    weight: Located,
    bias: Option<Located>,
    out: Located,
    follow: Vec<loops::Follow<Located>>,
    /// Present where the weight is packed.
    cache: Option<(Packed<PackedKernel>, PackedForm)>,
    fast_math: bool,
}

impl ConvolutionStep {
    /// The step of a schedule that was verified.
    pub(super) fn new(s: &Schedule, c: &Convolution) -> Self {
        let sizes = [&c.input.sizes[..], &c.weight.sizes, &c.out.sizes];
        let geometry = Geometry::of(sizes, [&c.stride, &c.padding, &c.dilation], c.groups);
        let form = PackedForm::of(c.out.dtype, &geometry, c.fast_math).filter(|_| c.pack_weight);
        ConvolutionStep {
            dtype: c.out.dtype,
            geometry,
            input: Located::new(s, &c.input),
            weight: Located::new(s, &c.weight),
            bias: c.bias.as_ref().map(|b| Located::new(s, b)),
            out: Located::new(s, &c.out),
            follow: c.follow.iter().map(|f| f.as_ref().map(|v| Located::new(s, v))).collect(),
            cache: form.map(|form| (Packed::default(), form)),
            fast_math: c.fast_math,
        }
    }

    /// Takes the packed weight of a step of another plan, if it is made of the same parameter in the
    /// same form.
    pub(super) fn share(&mut self, other: &ConvolutionStep) {
        if self.weight.is_same_argument(&other.weight)
            && let (Some((own, form)), Some((theirs, other))) = (&mut self.cache, &other.cache)
            && form == other
        {
            *own = theirs.clone();
        }
    }

    pub(super) fn run(&self, run: &RunContext) {
        let at = |l: &Located| l.resolve(run).0.cast_const();
        let (weight, version) = self.weight.resolve(run);
        let packed = self.packed((weight, version));
        let operands = Operands {
            input: at(&self.input),
            weight,
            bias: self.bias.as_ref().map_or(std::ptr::null(), at),
            output: self.out.resolve(run).0,
        };
        let follow: Vec<Follow> = self.follow.iter().map(|f| f.as_ref().map(at)).collect();
        // SAFETY: the schedule's views are dense, of the geometry's sizes and inside of its buffers
        // (`verify_schedule`), which `Plan::run`'s caller vouches for; the planner gives the result
        // memory of its own.
        unsafe {
            let packed = (packed.as_deref(), self.fast_math);
            convolve_packed(self.dtype, &self.geometry, operands, packed, &follow);
        }
    }

    /// The packed weight for these values, unless packing is not worth it.
    fn packed(&self, values: (*mut u8, u64)) -> Option<Arc<PackedKernel>> {
        let (cache, form) = self.cache.as_ref()?;
        let made = cache.get(values, false, |_| {
            // SAFETY: the schedule's view of the weight, valid by the contract of `Plan::run`.
            let kernel = unsafe { PackedKernel::new(form, &self.geometry, values.0) };
            Ok::<_, Infallible>(Some(kernel))
        });
        let Ok(made) = made;
        made
    }
}
