//! The values that fields of an entry may have. The build script uses this file too.

/// Defines enums whose values are written in snake case in the YAML.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// The value with this name in an entry.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    /// The kind of an operator, by which fusion and rewriting choose.
    Kind {
        /// Anything else.
        #[default]
        Other = "other",
        /// The operands broadcast, and each result element depends only on the operand elements at
        /// its position.
        Pointwise = "pointwise",
        /// As `pointwise`, with a `bool` result.
        Test = "test",
        /// Reduces the dimensions `dim`, or all of them if there is no such argument.
        Reduction = "reduction",
        /// As `reduction`, with a `bool` result (`u8` for a `u8` operand).
        Any = "any",
        /// As `reduction`, and the result is an index.
        Arg = "arg",
        /// The same elements with other sizes.
        Reshape = "reshape",
        /// Elements of the operands, or one value, at places that the sizes decide: its kernel moves
        /// runs of bytes.
        Movement = "movement",
    }

    /// Which dtype an `out` may have.
    OutDtype {
        /// Any dtype that the result can be cast to.
        #[default]
        Castable = "castable",
        /// Exactly the dtype of the result.
        Exact = "exact",
        /// The same, unless the operand is complex: the result is real then, and may be cast.
        ExactIfReal = "exact_if_real",
        /// Any dtype. If the call has no `dtype` argument, the result is computed in that of `out`.
        Chosen = "chosen",
        /// `bool` or `uint8`, since the result is a truth value.
        Truth = "truth",
        /// Any that the result may be converted to; any other is a `TypeError`, as for `cat`.
        Joined = "joined",
        /// Any dtype: PyTorch computes the result elsewhere and copies it.
        Copied = "copied",
    }

    /// The strides of an `out` that already has the right sizes.
    OutStrides {
        /// `out` keeps its strides.
        #[default]
        Kept = "kept",
        /// PyTorch's kernel overwrites them with those of the result if that has 4 or more
        /// dimensions.
        ResultFrom4d = "result_from_4d",
        /// The same, for 5 dimensions.
        ResultFrom5d = "result_from_5d",
        /// `out` keeps its strides, but takes those of the result when a composite resizes it, as
        /// kernels do.
        WhenResized = "when_resized",
    }

    /// Whether an `out` may share memory with an operand.
    OutOverlap {
        /// It may; PyTorch does not check.
        #[default]
        Allowed = "allowed",
        /// It may not: the operator reads positions other than the one it writes, and PyTorch
        /// refuses the call.
        Refused = "refused",
    }

    /// When the dtype of an `out` is checked.
    OutChecked {
        /// After the result has been computed.
        #[default]
        Last = "last",
        /// Before the kernel can refuse a dtype that it does not implement.
        First = "first",
    }

    /// Whether results may be undefined.
    Results {
        /// Every result is a tensor.
        #[default]
        Defined = "defined",
        /// Results may be undefined, such as gradients that a mask leaves out.
        Optional = "optional",
    }

    /// What autocast does to the arguments of an operator.
    Autocast {
        /// Nothing, even if a list that the device shares with others says otherwise.
        #[default]
        None = "none",
        /// All are cast to the lower precision.
        Lower = "lower",
        /// All are cast to `f32`.
        Fp32 = "fp32",
        /// They are left alone; the `dtype` argument is set to `f32` unless it is given.
        SetDtype = "set_dtype",
        /// They are left alone; the overload that takes a result dtype is called with `f32`.
        AppendDtype = "append_dtype",
        /// All are cast to the widest dtype among them.
        Promote = "promote",
        /// The call is refused.
        Banned = "banned",
    }

    /// Which of PyTorch's autocast lists a rule comes from.
    AutocastList {
        /// The list of the CPU.
        #[default]
        Cpu = "cpu",
        /// The list that CUDA, XPU, MTIA, MAIA and MPS share.
        Gpu = "gpu",
        /// The list of CUDA alone.
        Cuda = "cuda",
        /// The list of MPS alone.
        Mps = "mps",
    }

    /// A lazy-bit key at which an operator falls through, either because it is a view that passes
    /// the bit on or because its kernel understands the bit.
    MathBit {
        /// `Conjugate`.
        #[default]
        Conjugate = "conj",
        /// `Negative`.
        Negative = "neg",
        /// `ZeroTensor`.
        Zero = "zero",
    }

    /// How close to a reference an operator's result has to be.
    Tolerance {
        /// Identical bits: copies, comparisons, integer arithmetic, and operations that IEEE 754
        /// rounds correctly.
        Exact = "exact",
        /// Within a few units in the last place: functions of single elements.
        #[default]
        Pointwise = "pointwise",
        /// The order of additions is unspecified: sums, matrix products, convolutions, norms,
        /// softmax.
        Accumulate = "accumulate",
        /// Random numbers: only shape, dtype and distribution are compared.
        Random = "random",
    }
}

/// How modes treat an operator, from PyTorch's lists of names, which also name operators that the
/// catalogue does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes {
    /// What autocast does, per list.
    pub autocast: &'static [(AutocastList, Autocast)],
    /// The lazy-bit keys at which it falls through.
    pub math_bits: &'static [MathBit],
}

/// The rules for the `out` argument of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutRules {
    /// The dtypes it may have.
    pub dtype: OutDtype,
    /// Its strides if it already has the right sizes.
    pub strides: OutStrides,
    /// Whether it may share memory with an operand.
    pub overlap: OutOverlap,
    /// When its dtype is checked.
    pub checked: OutChecked,
}
