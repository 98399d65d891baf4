//! The arguments of each operator as a type.
//!
//! A call in a graph is an operator and a list of [`Arg`]s. Code that knows which operator it has
//! before it reads the list as that operator's struct, whose fields are the arguments of the schema
//! by name and type, and code that makes a call fills in the struct: there is no position to count
//! and no name to misspell.
//!
//! `V` is what stands for a tensor. Operators that write to an argument have no struct, since graphs
//! have no calls of them, and a generator is no field, since graphs have none.
//!
//! ```
//! use straightline_catalog::args::{self, Arguments};
//! use straightline_catalog::{Arg, Op};
//! let call = args::transpose_int { self_: "x", dim0: 0, dim1: -1 }.write();
//! assert_eq!(call, [Arg::Tensor("x"), Arg::Scalar(0.into()), Arg::Scalar((-1).into())]);
//!
//! let read = args::transpose_int::read(&call, |x| x.len()).unwrap();
//! assert_eq!((read.self_, read.dim0, read.dim1), (1, 0, -1));
//! ```
#![allow(non_camel_case_types, non_snake_case, reason = "as PyTorch writes them")]

use crate::{Arg, DType, Device, Layout, MemoryFormat, Op, Scalar};

/// The arguments of one operator.
pub trait Arguments<V>: Sized {
    /// The operator.
    const OP: Op;

    /// The arguments of a call, with `value` applied to each tensor. `None` where they are not those
    /// of the schema ([`Op::accepts`] says why).
    fn read<W>(args: &[Arg<W>], value: impl FnMut(&W) -> V) -> Option<Self>;

    /// The arguments as a call has them: all of them, in the order of the schema.
    fn write(self) -> Vec<Arg<V>>;
}

include!(concat!(env!("OUT_DIR"), "/args.rs"));

/// What an argument holds.
mod read {
    use super::*;

    pub(super) fn optional<W, T>(
        a: &Arg<W>,
        read: impl FnOnce(&Arg<W>) -> Option<T>,
    ) -> Option<Option<T>> {
        match a {
            Arg::None => Some(None),
            a => read(a).map(Some),
        }
    }

    pub(super) fn tensor<W, V>(a: &Arg<W>, value: &mut impl FnMut(&W) -> V) -> Option<V> {
        a.as_tensor().map(value)
    }

    pub(super) fn optional_tensors<W, V>(
        a: &Arg<W>,
        value: &mut impl FnMut(&W) -> V,
    ) -> Option<Vec<Option<V>>> {
        match a {
            Arg::Tensors(all) => Some(all.iter().map(|v| v.as_ref().map(&mut *value)).collect()),
            _ => None,
        }
    }

    pub(super) fn tensors<W, V>(a: &Arg<W>, value: &mut impl FnMut(&W) -> V) -> Option<Vec<V>> {
        optional_tensors(a, value)?.into_iter().collect()
    }

    pub(super) fn int<W>(a: &Arg<W>) -> Option<i64> {
        a.as_int()
    }

    pub(super) fn float<W>(a: &Arg<W>) -> Option<f64> {
        a.as_scalar().map(Scalar::as_f64)
    }

    pub(super) fn bool<W>(a: &Arg<W>) -> Option<bool> {
        a.as_bool()
    }

    pub(super) fn scalar<W>(a: &Arg<W>) -> Option<Scalar> {
        a.as_scalar()
    }

    pub(super) fn ints<W>(a: &Arg<W>) -> Option<Vec<i64>> {
        a.as_ints()
    }

    /// Reads the argument of one kind as it is.
    macro_rules! same {
        ($($word:ident: $kind:ident => $ty:ty;)*) => {$(
            pub(super) fn $word<W>(a: &Arg<W>) -> Option<$ty> {
                match a {
                    Arg::$kind(x) => Some(x.clone()),
                    _ => None,
                }
            }
        )*};
    }
    same! {
        floats: Floats => Vec<f64>;
        bools: Bools => Vec<bool>;
        text: Str => String;
        dtype: DType => DType;
        device: Device => Device;
        layout: Layout => Layout;
        memory_format: MemoryFormat => MemoryFormat;
    }
}

/// The argument that holds something.
mod write {
    use super::*;

    /// Writes the argument of one kind.
    macro_rules! words {
        ($($word:ident($x:ident: $ty:ty) = $arg:expr;)*) => {$(
            pub(super) fn $word<V>($x: $ty) -> Arg<V> {
                $arg
            }
        )*};
    }
    words! {
        tensor(x: V) = Arg::Tensor(x);
        tensors(x: Vec<V>) = Arg::Tensors(x.into_iter().map(Some).collect());
        optional_tensors(x: Vec<Option<V>>) = Arg::Tensors(x);
        int(x: i64) = Arg::Scalar(x.into());
        float(x: f64) = Arg::Scalar(x.into());
        bool(x: bool) = Arg::Scalar(x.into());
        scalar(x: Scalar) = Arg::Scalar(x);
        ints(x: Vec<i64>) = Arg::Ints(x);
        floats(x: Vec<f64>) = Arg::Floats(x);
        bools(x: Vec<bool>) = Arg::Bools(x);
        text(x: String) = Arg::Str(x);
        dtype(x: DType) = Arg::DType(x);
        device(x: Device) = Arg::Device(x);
        layout(x: Layout) = Arg::Layout(x);
        memory_format(x: MemoryFormat) = Arg::MemoryFormat(x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<A: Arguments<u32>>(args: &[Arg<u32>]) -> Option<A> {
        A::read(args, |x| *x)
    }

    #[test]
    fn arguments_that_are_not_given_are_none() {
        let given = vec![(None, Arg::Tensor(3)), (Some("min"), Arg::Scalar(1.into()))];
        let call = Op::clamp.arguments(given).unwrap();
        let clamp: clamp<u32> = read(&call).unwrap();
        assert_eq!((clamp.self_, clamp.min, clamp.max), (3, Some(1.into()), None));
        assert_eq!(clamp.write(), call);
    }

    #[test]
    fn lists_keep_their_order_and_their_holes() {
        let indices = vec![None, Some(1), None, Some(2)];
        let call = [Arg::Tensor(0), Arg::Tensors(indices.clone())];
        let index: index_Tensor<u32> = read(&call).unwrap();
        assert_eq!(index.indices, indices);
        let holed = [Arg::Tensors(vec![Some(0), None]), Arg::Scalar(0.into())];
        assert!(read::<cat<u32>>(&holed).is_none(), "`cat` takes tensors alone");
    }

    #[test]
    fn arguments_of_another_kind_or_number_are_not_read() {
        assert!(read::<t<u32>>(&[Arg::Scalar(0.into())]).is_none());
        assert!(read::<t<u32>>(&[Arg::Tensor(0), Arg::None]).is_none());
        let generator = [Arg::Tensor(0), Arg::Scalar(0.5.into()), Arg::None];
        let drawn: bernoulli_p<u32> = read(&generator).unwrap();
        assert_eq!(drawn.write(), generator);
    }
}
