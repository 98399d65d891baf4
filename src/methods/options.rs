//! What a new tensor is to be: dtype, device, generator; and the factories that take it.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Generator, Ints, Literal, Progression, Tensor};
use straightline_catalog::{DType, Device, Scalar};

/// What a new tensor is to be, where the defaults will not do: its dtype, its device, and the
/// generator that random numbers are drawn from.
///
/// [`Tensor::with`] makes one of a [`DType`], a [`Device`], both as a pair, a tensor that has them,
/// or a [`Generator`]; its methods are the factories of [`Tensor`].
///
/// ```
/// use straightline::{DType, Device, Generator, Tensor};
/// assert_eq!(Tensor::zeros([2, 3])?.dtype(), DType::F32);
/// assert_eq!(Tensor::with(DType::F64).zeros([2, 3])?.dtype(), DType::F64);
/// let x = Tensor::with((DType::I32, Device::META)).ones(4)?;
/// assert!(x.device().is_meta());
/// let x = Tensor::with(Generator::new(7)).dtype(DType::F64).randn([2])?;
/// assert_eq!(x.dtype(), DType::F64);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TensorOptions {
    pub(super) dtype: Option<DType>,
    pub(super) device: Option<Device>,
    pub(super) generator: Option<Generator>,
}

impl From<DType> for TensorOptions {
    fn from(dtype: DType) -> Self {
        TensorOptions::default().dtype(dtype)
    }
}

impl From<Device> for TensorOptions {
    fn from(device: Device) -> Self {
        TensorOptions::default().device(device)
    }
}

impl From<&Device> for TensorOptions {
    fn from(device: &Device) -> Self {
        (*device).into()
    }
}

/// Its dtype and its device.
impl From<&Tensor> for TensorOptions {
    fn from(t: &Tensor) -> Self {
        (t.dtype(), t.device()).into()
    }
}

impl From<(DType, Device)> for TensorOptions {
    fn from((dtype, device): (DType, Device)) -> Self {
        TensorOptions::default().dtype(dtype).device(device)
    }
}

impl From<Generator> for TensorOptions {
    fn from(generator: Generator) -> Self {
        TensorOptions::default().generator(&generator)
    }
}

impl From<&Generator> for TensorOptions {
    fn from(generator: &Generator) -> Self {
        TensorOptions::default().generator(generator)
    }
}

impl TensorOptions {
    /// With another dtype.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// With another device.
    #[must_use]
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// With a generator of random numbers of one's own; the default is what
    /// [`manual_seed`](crate::manual_seed) seeds.
    #[must_use]
    pub fn generator(mut self, generator: &Generator) -> Self {
        self.generator = Some(generator.clone());
        self
    }
}

impl TensorOptions {
    /// [`Tensor::literal`] with these options.
    #[track_caller]
    pub fn literal(&self, values: impl Literal) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let made = crate::tensor::literal::make(&values, self.dtype);
        let made = made.map_err(|e| e.with_location(at))?;
        match self.device {
            Some(device) => made.to_device(device),
            None => Ok(made),
        }
    }
}

impl Tensor {
    /// A tensor of a number, or of nested arrays, slices or `Vec`s of numbers;
    /// [`tensor`](crate::tensor()) is short for it, and tells how dtypes are chosen.
    #[track_caller]
    pub fn literal(values: impl Literal) -> Result<Tensor> {
        TensorOptions::default().literal(values)
    }
}

/// Factories: a method of [`TensorOptions`], one of [`Tensor`] that takes the default options, and
/// a function of the crate that is the same, as PyTorch's factories are functions of its module.
macro_rules! factories {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) |$self:ident| $body:block)*) => {
        /// The factories as functions.
        pub(crate) mod functions {
            use crate::error::Result;
            use crate::tensor::{Ints, Progression, Tensor};
            use straightline_catalog::Scalar;
            #[cfg(doc)]
            use crate::ops::aten;

            $(
                $(#[$doc])*
                ///
                #[doc = concat!("Also [`Tensor::", stringify!($name), "`].")]
                #[track_caller]
                pub fn $name($($arg: $ty),*) -> Result<Tensor> {
                    Tensor::$name($($arg),*)
                }
            )*
        }

        impl TensorOptions {$(
            #[doc = concat!("[`Tensor::", stringify!($name), "`] with these options.")]
            #[track_caller]
            pub fn $name(&self, $($arg: $ty),*) -> Result<Tensor> {
                let $self = self;
                $body
            }
        )*}

        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name($($arg: $ty),*) -> Result<Tensor> {
                TensorOptions::default().$name($($arg),*)
            }
        )*}
    };
}

factories! {
    /// Memory that nobody has written to. See [`aten::empty_memory_format`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::empty([2, 3])?.sizes(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    empty(sizes: impl Ints) |o| {
        aten::empty_memory_format(&sizes.ints(), o.dtype, None, o.device, None, None)
    }

    /// Zeros. See [`aten::zeros`].
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// assert_eq!(Tensor::zeros([2])?.to_vec::<f32>()?, [0.0, 0.0]);
    /// assert_eq!(Tensor::with(DType::I64).zeros((1, 2))?.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    zeros(sizes: impl Ints) |o| { aten::zeros(&sizes.ints(), o.dtype, None, o.device, None) }

    /// Ones. See [`aten::ones`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::ones([2])?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ones(sizes: impl Ints) |o| { aten::ones(&sizes.ints(), o.dtype, None, o.device, None) }

    /// One number everywhere, which also decides the dtype. See [`aten::full`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::full([2], 1.5)?.to_vec::<f32>()?, [1.5, 1.5]);
    /// assert_eq!(Tensor::full([2], 7)?.to_vec::<i64>()?, [7, 7]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    full(sizes: impl Ints, value: impl Into<Scalar>) |o| {
        aten::full(&sizes.ints(), value.into(), o.dtype, None, o.device, None)
    }

    /// The numbers from 0, or from a start, up to an end which is not among them, in steps of 1 or
    /// of a step: integers where all of these are. See [`aten::arange_start_step`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::arange(4)?.to_vec::<i64>()?, [0, 1, 2, 3]);
    /// assert_eq!(Tensor::arange(2..5)?.to_vec::<i64>()?, [2, 3, 4]);
    /// assert_eq!(Tensor::arange((0, 10, 4))?.to_vec::<i64>()?, [0, 4, 8]);
    /// assert_eq!(Tensor::arange((0.0, 1.0, 0.5))?.to_vec::<f32>()?, [0.0, 0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    arange(numbers: impl Progression) |o| {
        let (start, end, step) = numbers.progression();
        aten::arange_start_step(start, end, step, o.dtype, None, o.device, None)
    }

    /// So many numbers from `start` to `end` at equal distances, both among them. See
    /// [`aten::linspace`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::linspace(0, 1, 5)?.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: i64) |o| {
        aten::linspace(start.into(), end.into(), steps, o.dtype, None, o.device, None)
    }

    /// So many numbers from `10^start` to `10^end` at equal ratios, both among them. See
    /// [`aten::logspace`], which has other bases.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::logspace(0, 2, 3)?.to_vec::<f32>()?, [1.0, 10.0, 100.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    logspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: i64) |o| {
        aten::logspace(start.into(), end.into(), steps, 10.0, o.dtype, None, o.device, None)
    }

    /// Ones on the diagonal of a matrix: square for one size, or of rows and columns. See
    /// [`aten::eye`] and [`aten::eye_m`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::eye(2)?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// assert_eq!(Tensor::eye((1, 2))?.to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    eye(sizes: impl Ints) |o| {
        match sizes.ints()[..] {
            [n] => aten::eye(n, o.dtype, None, o.device, None),
            [n, m] => aten::eye_m(n, m, o.dtype, None, o.device, None),
            ref sizes => Err(Error::shape(format!("a unit matrix has one or two sizes, not {sizes:?}"))
                .with_location(std::panic::Location::caller())),
        }
    }

    /// Random numbers, equally likely anywhere in [0, 1). See [`aten::rand`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let t = Tensor::rand([2, 3])?;
    /// assert!(t.min()?.item::<f32>()? >= 0.0 && t.max()?.item::<f32>()? < 1.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    rand(sizes: impl Ints) |o| {
        let sizes = sizes.ints();
        match &o.generator {
            None => aten::rand(&sizes, o.dtype, None, o.device, None),
            g => aten::rand_generator(&sizes, g.as_ref(), o.dtype, None, o.device, None),
        }
    }

    /// Random numbers of the standard normal distribution. See [`aten::randn`].
    ///
    /// ```
    /// use straightline::{Generator, Tensor};
    /// assert_eq!(Tensor::randn([2, 3])?.sizes(), [2, 3]);
    /// let (a, b) = (Generator::new(7), Generator::new(7));
    /// assert_eq!(
    ///     Tensor::with(&a).randn([2])?.to_vec::<f32>()?,
    ///     Tensor::with(&b).randn([2])?.to_vec::<f32>()?
    /// );
    /// # Ok::<(), straightline::Error>(())
    /// ```
    randn(sizes: impl Ints) |o| {
        let sizes = sizes.ints();
        match &o.generator {
            None => aten::randn(&sizes, o.dtype, None, o.device, None),
            g => aten::randn_generator(&sizes, g.as_ref(), o.dtype, None, o.device, None),
        }
    }

    /// Random integers from `low` up to `high`, which is not among them. See [`aten::randint_low`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let dice = Tensor::randint(1, 7, [100])?;
    /// assert!(dice.min()?.item::<i64>()? >= 1 && dice.max()?.item::<i64>()? <= 6);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    randint(low: i64, high: i64, sizes: impl Ints) |o| {
        let (sizes, dtype) = (sizes.ints(), o.dtype.or(Some(DType::I64)));
        match &o.generator {
            None => aten::randint_low(low, high, &sizes, dtype, None, o.device, None),
            g => aten::randint_low_generator(low, high, &sizes, g.as_ref(), dtype, None, o.device, None),
        }
    }

    /// The integers below `n` in random order. See [`aten::randperm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (sorted, _) = Tensor::randperm(4)?.sort(0, false)?;
    /// assert_eq!(sorted.to_vec::<i64>()?, [0, 1, 2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    randperm(n: i64) |o| {
        let dtype = o.dtype.or(Some(DType::I64));
        match &o.generator {
            None => aten::randperm(n, dtype, None, o.device, None),
            g => aten::randperm_generator(n, g.as_ref(), dtype, None, o.device, None),
        }
    }
}

impl Tensor {
    /// Factories with options: `Tensor::with(DType::F64).zeros([2, 3])`. The options are a
    /// [`DType`], a [`Device`], a pair of them, a tensor whose dtype and device are meant, a
    /// [`Generator`], or [`TensorOptions`].
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// let x = Tensor::with(DType::F64).literal([0.1, 0.2])?;
    /// assert_eq!(x.to_vec::<f64>()?, [0.1, 0.2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn with(options: impl Into<TensorOptions>) -> TensorOptions {
        options.into()
    }
}
