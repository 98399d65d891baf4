//! What compiled functions are made of and called with: closures of several arguments, and
//! references to trees.

use super::tree::TensorTree;
use crate::error::Result;
use crate::tensor::Tensor;

/// A function that [`compile()`](crate::compile()) takes: of one to six references to
/// [`TensorTree`]s, of a tuple of references, or of a slice of trees; it returns a tree or a
/// `Result` of one. A function of several arguments compiles to one whose input is their tuple.
#[diagnostic::on_unimplemented(
    message = "this is no function that can be compiled",
    label = "a compiled function takes references to tensors or trees of them and returns one, or `Result` of one",
    note = "write the types of the arguments: `|x: &Tensor, y: &Tensor| ..`"
)]
pub trait TensorFunction<Signature>: Send + Sync + 'static {
    /// The argument, or the tuple of the arguments.
    type Input: TensorTree;
    /// The result.
    type Output: TensorTree;

    /// Calls it.
    ///
    /// # Errors
    /// Its own.
    fn apply(&self, input: &Self::Input) -> Result<Self::Output>;
}

/// Marks a closure that takes one tuple of references rather than several arguments.
#[doc(hidden)]
#[derive(Debug)]
pub struct OfTuple<Signature>(std::marker::PhantomData<Signature>);

/// A closure over a slice.
#[doc(hidden)]
#[derive(Debug)]
pub struct OfSlice<Signature>(std::marker::PhantomData<Signature>);

/// Marks a closure that returns a tree rather than a `Result`, as code with operator signs does.
#[doc(hidden)]
#[derive(Debug)]
pub struct Plain<Signature>(std::marker::PhantomData<Signature>);

/// The two forms of a function: with `Result` and without.
macro_rules! function {
    ([$($name:ident)*] $signature:ty, ($($of:ty),*) as $input:ty, |$arg:pat_param| ($($value:expr),*)) => {
        impl<$($name,)* O, F> TensorFunction<$signature> for F
        where
            $($name: TensorTree,)*
            O: TensorTree,
            F: Fn($($of),*) -> Result<O> + Send + Sync + 'static,
        {
            type Input = $input;
            type Output = O;

            fn apply(&self, $arg: &$input) -> Result<O> {
                self($($value),*)
            }
        }

        impl<$($name,)* O, F> TensorFunction<Plain<$signature>> for F
        where
            $($name: TensorTree,)*
            O: TensorTree,
            F: Fn($($of),*) -> O + Send + Sync + 'static,
        {
            type Input = $input;
            type Output = O;

            fn apply(&self, $arg: &$input) -> Result<O> {
                Ok(self($($value),*))
            }
        }
    };
}

macro_rules! functions {
    ($($($name:ident $arg:ident),*;)*) => {$(
        function!([$($name)*] fn($($name),*) -> O, ($(&$name),*) as ($($name,)*), |($($arg,)*)| ($($arg),*));
        function!([$($name)*] OfTuple<fn($($name),*) -> O>, (($(&$name,)*)) as ($($name,)*), |($($arg,)*)| (($($arg,)*)));
    )*};
}

function!([A] fn(A) -> O, (&A) as A, |a| (a));
function!([A] OfSlice<fn(A) -> O>, (&[A]) as Vec<A>, |a| (a));
functions! {
    A a, B b;
    A a, B b, C c;
    A a, B b, C c, D d;
    A a, B b, C c, D d, E e;
    A a, B b, C c, D d, E e, G g;
}

/// What a compiled function of `T` can be called with: a reference to a `T`, or a container of
/// references that has the shape of a `T`. `(&a, &b)` is an argument for `(Tensor, Tensor)`, `[&a,
/// &b]` for `[Tensor; 2]` and, as an array, a slice or a `Vec`, for `Vec<Tensor>`; numbers, flags
/// and strings stand for themselves.
///
/// ```
/// use straightline::{Tensor, compile, tensor};
/// let f = compile(|a: &Tensor, b: &Tensor| Ok(a * 2.0 + b));
/// let (a, b) = (tensor([1.0, 2.0])?, tensor([3.0, 4.0])?);
/// assert_eq!(f.call((&a, &b))?.to_vec::<f32>()?, [5.0, 8.0]);
/// assert_eq!(f.call(&(a, b))?.to_vec::<f32>()?, [5.0, 8.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument for a compiled function of `{T}`",
    label = "pass `&{T}`, or a tuple, an array or a slice of references in its shape"
)]
pub trait Arguments<T> {
    /// Calls `f` with every tensor, in the order of [`TensorTree::visit`].
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor));

    /// How the structure differs from that of `other`, in the words of [`TensorTree::matches`].
    fn matches(&self, other: &T) -> Option<String>;

    /// An owned value whose tensors are handles of the same tensors.
    fn own(&self) -> T;

    /// Calls `f` with the value itself, dereferenced if need be.
    fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.own())
    }
}

impl<T: TensorTree> Arguments<T> for &T {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        TensorTree::visit(*self, f);
    }

    #[inline]
    fn matches(&self, other: &T) -> Option<String> {
        TensorTree::matches(*self, other)
    }

    fn own(&self) -> T {
        self.map(&mut Tensor::clone)
    }

    fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(self)
    }
}

/// Values that can be passed without a reference.
macro_rules! by_value {
    ($($t:ty),*) => {$(
        impl Arguments<$t> for $t {
            #[inline]
            fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
                TensorTree::visit(self, f);
            }

            #[inline]
            fn matches(&self, other: &$t) -> Option<String> {
                TensorTree::matches(self, other)
            }

            fn own(&self) -> $t {
                self.clone()
            }
        }
    )*};
}
by_value!(Tensor, bool, i32, i64, u64, usize, f32, f64, String);

macro_rules! tuples {
    ($($($name:ident $tree:ident $index:tt),*;)*) => {$(
        impl<$($tree, $name: Arguments<$tree>),*> Arguments<($($tree,)*)> for ($($name,)*) {
            #[inline]
            fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
                $(self.$index.visit(f);)*
            }

            #[inline]
            fn matches(&self, other: &($($tree,)*)) -> Option<String> {
                $(
                    if let Some(what) = self.$index.matches(&other.$index) {
                        return Some(format!("element {}: {what}", $index));
                    }
                )*
                None
            }

            fn own(&self) -> ($($tree,)*) {
                ($(self.$index.own(),)*)
            }
        }
    )*};
}
tuples! {
    A S 0;
    A S 0, B T 1;
    A S 0, B T 1, C U 2;
    A S 0, B T 1, C U 2, D V 3;
    A S 0, B T 1, C U 2, D V 3, E W 4;
    A S 0, B T 1, C U 2, D V 3, E W 4, G X 5;
}

/// How a row of arguments differs from a row of values.
fn difference<T, A: Arguments<T>>(new: &[A], old: &[T]) -> Option<String> {
    if new.len() != old.len() {
        return Some(format!("length {}, was {}", new.len(), old.len()));
    }
    let mut pairs = new.iter().zip(old).enumerate();
    pairs.find_map(|(i, (a, b))| Some(format!("element {i}: {}", a.matches(b)?)))
}

macro_rules! rows {
    ($($ty:ty, $tree:ty $(, const $n:ident)?: |$row:ident| $owned:expr;)*) => {$(
        impl<T, A: Arguments<T> $(, const $n: usize)?> Arguments<$tree> for $ty {
            #[inline]
            fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
                for element in self.iter() {
                    element.visit(f);
                }
            }

            #[inline]
            fn matches(&self, other: &$tree) -> Option<String> {
                difference(&self[..], &other[..])
            }

            fn own(&self) -> $tree {
                let $row = self;
                $owned
            }
        }
    )*};
}
rows! {
    [A; N], [T; N], const N: |row| std::array::from_fn(|i| row[i].own());
    Vec<A>, Vec<T>: |row| row.iter().map(A::own).collect();
    &[A], Vec<T>: |row| row.iter().map(A::own).collect();
    [A; N], Vec<T>, const N: |row| row.iter().map(A::own).collect();
    &[A; N], Vec<T>, const N: |row| row.iter().map(A::own).collect();
}

impl<T, A: Arguments<T>> Arguments<Option<T>> for Option<A> {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        if let Some(value) = self {
            value.visit(f);
        }
    }

    #[inline]
    fn matches(&self, other: &Option<T>) -> Option<String> {
        match (self, other) {
            (Some(new), Some(old)) => new.matches(old),
            (None, None) => None,
            (Some(_), None) => Some("Some, was None".to_owned()),
            (None, Some(_)) => Some("None, was Some".to_owned()),
        }
    }

    fn own(&self) -> Option<T> {
        self.as_ref().map(A::own)
    }
}
