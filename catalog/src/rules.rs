//! What the fields of an entry may say; the build script reads them with this file too.

/// Enums whose values the YAML writes in snake case.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// The value that an entry writes so.
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
    /// What an operator is, as far as fusion and rewriting choose by it.
    Kind {
        /// All else.
        #[default]
        Other = "other",
        /// The operands broadcast, and each element of the result is made of those in its place.
        Pointwise = "pointwise",
        /// As `pointwise`, with a `bool` result.
        Test = "test",
        /// Removes the dimensions `dim`, or all of them where there is no such argument.
        Reduction = "reduction",
        /// As `reduction`, with a `bool` result (`u8` of `u8`).
        Any = "any",
        /// As `reduction`, with a position as its result.
        Arg = "arg",
        /// The same elements under other sizes.
        Reshape = "reshape",
    }

    /// Which dtype an `out` may have.
    OutDtype {
        /// Any that the result may be converted to.
        #[default]
        Castable = "castable",
        /// That of the result.
        Exact = "exact",
        /// Any: without an argument `dtype`, the result is computed in it.
        Chosen = "chosen",
        /// `bool` or `uint8`: the result is a truth value.
        Truth = "truth",
        /// Any that the result may be converted to; another one is a `TypeError`, as of `cat`.
        Joined = "joined",
        /// Any at all: PyTorch computes the result apart and copies it.
        Copied = "copied",
    }

    /// The strides of an `out` that has the result's sizes.
    OutStrides {
        /// It keeps its own.
        #[default]
        Kept = "kept",
        /// PyTorch's kernel gives it those of the result all the same, if that has 4 dimensions or
        /// more.
        ResultFrom4d = "result_from_4d",
        /// The same, with 5 dimensions.
        ResultFrom5d = "result_from_5d",
        /// It keeps its own; but a composite that resizes one gives it the result's, as kernels do.
        WhenResized = "when_resized",
    }

    /// Whether an `out` may share memory with an operand.
    OutOverlap {
        /// PyTorch does not look.
        #[default]
        Allowed = "allowed",
        /// The operator reads its operands elsewhere than where it writes its result, and PyTorch
        /// refuses.
        Refused = "refused",
    }

    /// When the dtype of an `out` is checked.
    OutChecked {
        /// When there is a result.
        #[default]
        Last = "last",
        /// Before the kernel says that it is not implemented for a dtype.
        First = "first",
    }

    /// Whether each result is there.
    Results {
        /// All of them.
        #[default]
        Defined = "defined",
        /// Fresh tensors may be undefined, as gradients that a mask leaves out.
        Optional = "optional",
    }

    /// What autocast does to the arguments of an operator.
    Autocast {
        /// Nothing: in spite of the list that a device shares with others.
        #[default]
        None = "none",
        /// All become the low precision.
        Lower = "lower",
        /// All become `f32`.
        Fp32 = "fp32",
        /// They stay; the operator's `dtype` argument becomes `f32` unless it is given.
        SetDtype = "set_dtype",
        /// They stay; the overload that takes a result dtype is called, with `f32`.
        AppendDtype = "append_dtype",
        /// All become the widest dtype among them.
        Promote = "promote",
        /// The call is refused.
        Banned = "banned",
    }

    /// Whose list of autocast says so.
    AutocastList {
        /// The CPU's.
        #[default]
        Cpu = "cpu",
        /// That of CUDA, XPU, MTIA, MAIA and MPS.
        Gpu = "gpu",
        /// CUDA's own.
        Cuda = "cuda",
        /// MPS's own.
        Mps = "mps",
    }

    /// What an operator passes by: a key at which it does nothing, since it is a view, which passes
    /// the bit on, or understands it.
    MathBit {
        /// `Conjugate`.
        #[default]
        Conjugate = "conj",
        /// `Negative`.
        Negative = "neg",
        /// `ZeroTensor`.
        Zero = "zero",
    }

    /// How near to a reference the result of an operator has to be.
    Tolerance {
        /// The same bits whoever computes it: copies, comparisons, integers, operations that IEEE
        /// 754 rounds correctly.
        Exact = "exact",
        /// Each element within a few units in the last place: functions of single elements.
        #[default]
        Pointwise = "pointwise",
        /// The order of additions is free: sums, products of matrices, convolutions, norms,
        /// softmax.
        Accumulate = "accumulate",
        /// The numbers are random; shape, dtype and distribution count.
        Random = "random",
    }
}

/// What modes do at an operator: PyTorch's lists say so by its name, also of operators that are not
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes {
    /// By the list of a device.
    pub autocast: &'static [(AutocastList, Autocast)],
    /// At which keys it falls through.
    pub math_bits: &'static [MathBit],
}

/// What an entry says of the `out` of its operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutRules {
    /// Which dtype it may have.
    pub dtype: OutDtype,
    /// The strides of one that has the result's sizes.
    pub strides: OutStrides,
    /// Whether it may share memory with an operand.
    pub overlap: OutOverlap,
    /// When its dtype is checked.
    pub checked: OutChecked,
}
