//! Weights that were brought into the order in which a convolution reads them.

use super::{Geometry, direct, winograd};
use straightline_passes::ir::DType;

/// The order of the elements of a packed weight: it depends on the weight's sizes, and on the other
/// sizes of the convolution only as far as these decide how it is computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackedForm {
    dtype: DType,
    groups: usize,
    channels: [usize; 2],
    kernel: [usize; 3],
    /// Whether the algorithm may have larger errors than the sums.
    fast_math: bool,
    order: FormOrder,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum FormOrder {
    /// Transformed for squares of so many outputs in each direction.
    Squares {
        edge: usize,
    },
    Tiles {
        height: usize,
    },
}

impl PackedForm {
    /// The form for a convolution, if it has another order than that of dense weights.
    /// With `fast_math` the convolution may have larger errors than its sums.
    pub fn of(dtype: DType, g: &Geometry, fast_math: bool) -> Option<PackedForm> {
        let squares = winograd::Shape::forward(g, fast_math).filter(|_| dtype == DType::F32);
        let direct = !g.is_depthwise() && !g.is_pointwise() && direct::fits(g);
        let order = match (squares, dtype) {
            (Some(shape), _) => FormOrder::Squares { edge: shape.edge() },
            (_, DType::F32) if direct => FormOrder::Tiles { height: direct::height::<f32>(g) },
            (_, DType::F64) if direct => FormOrder::Tiles { height: direct::height::<f64>(g) },
            _ => return None,
        };
        let channels = [g.in_channels, g.out_channels];
        Some(PackedForm { dtype, groups: g.groups, channels, kernel: g.kernel, fast_math, order })
    }

    /// Whether this is the form of a convolution.
    pub(super) fn fits(&self, dtype: DType, g: &Geometry) -> bool {
        PackedForm::of(dtype, g, self.fast_math).as_ref() == Some(self)
    }
}

/// A weight in the order in which convolutions of its form read it.
pub struct PackedKernel {
    pub(super) form: PackedForm,
    pub(super) order: Order,
}

pub(super) enum Order {
    Squares(winograd::Transformed),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl PackedKernel {
    /// Brings a weight into order.
    ///
    /// # Panics
    ///
    /// If the form is not [that of the geometry](PackedForm::of).
    ///
    /// # Safety
    ///
    /// `weight` leads to the elements of a dense weight of the geometry.
    pub unsafe fn new(form: &PackedForm, g: &Geometry, weight: *const u8) -> PackedKernel {
        assert!(form.fits(form.dtype, g), "another form");
        let order = match (form.dtype, winograd::Shape::forward(g, form.fast_math)) {
            (DType::F64, _) => {
                let mut to = vec![0.0; g.weights()];
                // SAFETY: the caller's contract.
                let from = unsafe { std::slice::from_raw_parts(weight.cast(), g.weights()) };
                direct::pack::<f64>(g, from, &mut to);
                Order::F64(to)
            }
            (_, None) => {
                let mut to = vec![0.0; g.weights()];
                // SAFETY: the caller's contract.
                let from = unsafe { std::slice::from_raw_parts(weight.cast(), g.weights()) };
                direct::pack::<f32>(g, from, &mut to);
                Order::F32(to)
            }
            (_, Some(shape)) => {
                let taps = shape.forward_taps(weight.cast());
                // SAFETY: the caller's contract.
                Order::Squares(unsafe { winograd::Transformed::new(&shape, taps) })
            }
        };
        PackedKernel { form: form.clone(), order }
    }
}

/// The weight that a convolution reads.
#[derive(Clone, Copy)]
pub(super) enum Kernel<'a> {
    /// Dense.
    At(*const u8),
    /// Dense, and in order.
    Packed(*const u8, &'a PackedKernel),
}

impl Kernel<'_> {
    pub(super) fn at(&self) -> *const u8 {
        let (Kernel::At(at) | Kernel::Packed(at, _)) = *self;
        at
    }
}
