//! `compile()`, and what it guarantees.

use super::arguments::TensorFunction;
use super::compiled::Compiled;
use super::options::CompileOptions;
#[cfg(doc)]
use super::{options::CompileEvent, tree::TensorTree};
#[cfg(doc)]
use crate::error::ErrorKind;
#[cfg(doc)]
use crate::tensor::Tensor;
use std::panic::Location;

/// Wraps a function so that its first call captures it and later calls run machine code.
///
/// The function takes references to [`TensorTree`]s, one to six of them (a tensor, a tuple, an
/// array, a `Vec`, a struct with `#[derive(TensorTree)]`), and returns a `Result` of one. It must
/// be deterministic in everything but its tensors: it runs once or a few times for each set of
/// shapes, and what it does besides calling tensor operators is not repeated. Tensors that it
/// closes over are read again at each call.
///
/// # What is kept
///
/// Calls with conjugate or negative views ([`Tensor::is_conj`], [`Tensor::is_neg`]) run eagerly,
/// with an event that says so ([`CompileEvent::Intercepted`]), and the guarantees below about
/// writes do not hold for them: pass `resolve_conj()`.
///
/// What an operator does besides giving results happens at each call, as often and in the order as
/// in eager execution: drawing random numbers, and the effects of custom operators that have no
/// results or are marked as having an effect ([`OperatorHandle::effects`]).
///
/// **Every check that eager code makes on the values of tensors is kept**, also if nobody uses the
/// result: an index that is out of range, an integer divided by zero, a matrix without inverse.
/// Which of several failing checks is reported is unspecified; effects and draws of random numbers
/// wait for the checks before them. (Operators from outside keep theirs if they are marked
/// `may_fail`.) A check that fails ends the call with its error: what the function would do with
/// the `Err` (`or_else`, `unwrap_or`) is not part of the plan, since there were no values to fail
/// on when it was captured. A failure of shapes or dtypes (`x.mean()` of integers) happens at
/// capture as it does eagerly, and the plan contains what the function did in response.
///
/// Results have the sizes, strides and dtypes of eager ones and share memory as they do. A result
/// that shares memory with nothing else starts at the beginning of its storage; an eager
/// `slice_scatter` or `copy` may leave unused room before it. Sums of floating-point numbers
/// (`sum`, `softmax`, losses, products) are formed in another order and may differ in the last
/// bits.
///
/// A call that fails has written nothing: arguments and closed-over tensors are unchanged, whereas
/// eager code would have made the writes before the failing call. A `.grad` that the function clears
/// and computes anew may be gone. Other effects, such as random numbers that were drawn, are not
/// undone.
///
/// ```
/// use straightline::{Tensor, compile};
/// let f = compile(|(x, at): &(Tensor, Tensor)| {
///     x.add_(1)?;
///     x.gather(0, at)?; // nobody uses it
///     x.neg()
/// });
/// let (x, good, bad) = (
///     Tensor::from_vec([2f32, 3.0], 2)?,
///     Tensor::from_vec([0i64, 1], 2)?,
///     Tensor::from_vec([0i64, 2], 2)?,
/// );
/// f.call(&(x.clone(), good))?;
/// let e = f.call(&(x.clone(), bad)).unwrap_err();
/// assert_eq!(e.op(), Some("aten::gather"));
/// assert!(e.to_string().contains("index 2 is out of bounds for dimension 0 with size 2"));
/// assert_eq!(x.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// [`OperatorHandle::effects`]: crate::dispatch::OperatorHandle::effects
///
/// # Example
///
/// ```
/// use straightline::{Tensor, compile, tensor};
/// let f = compile(|x: &Tensor, y: &Tensor| Ok(x * y + 1.0));
/// let (x, y) = (tensor([2.0, 3.0])?, tensor([4.0, 5.0])?);
/// assert_eq!(f.call((&x, &y))?.to_vec::<f32>()?, [9.0, 16.0]);
/// // the second call does not enter the dispatcher
/// let before = straightline::dispatch::call_count();
/// f.call((&x, &y))?;
/// assert_eq!(straightline::dispatch::call_count(), before);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// The argument types have to be annotated, because Rust resolves methods of an argument before it
/// knows how the function will be called.
///
/// # What is noticed
///
/// Everything that the function can learn about tensors besides computing with them is compared at
/// each call, or refused with an error that names the line ([`ErrorKind::DataDependent`],
/// [`ErrorKind::NotCaptured`]), even if the function swallows the error;
/// [`CompileOptions::eager_fallback`] lets such a function run eagerly instead.
///
/// - *Compared* for arguments: dtype, device, sizes, strides, dispatch keys; how those that are
///   written overlap with others in memory, and the overlaps for which a call was refused; and, if
///   the function asks, [`storage_offset`](Tensor::storage_offset),
///   [`shares_storage_with`](Tensor::shares_storage_with), [`is_same`](Tensor::is_same).
/// - *Compared* for the tensors it closes over and uses: sizes, strides, and in which memory they
///   lie (`set_`, `resize_`).
/// - *Compared* of gradients: which tensors want one, grad mode, hooks of leaves that a backward
///   pass in the function runs, and `.grad` where the function reads it before it sets another
///   ([`guide::training`](crate::guide::training)).
/// - *Also compared*: the thread's dispatch keys, autocast, the [default
///   dtype](crate::default_dtype), the number of threads if it asks, and the registrations of the
///   operators that its calls went through: a kernel that is registered or taken back makes a new
///   variant ([`CompileEvent::Outdated`]), and a kernel from outside this crate is called directly.
/// - *Refused*: reading data (`to_vec`, `item`, printing, saving), [`version`](Tensor::version),
///   seeding generators or asking for their state, drawing from a [generator](crate::Generator)
///   other than the default one (which is drawn from at each call), using a tensor on another
///   thread (`std::thread::spawn`), setting the number of threads, leaving the thread's settings
///   changed, and continuing after an operator that fails only in capture. Also these writes: those
///   to memory whose elements overlap (an expanded tensor), those by one of two arguments that see
///   one memory as numbers of two sizes, and an `out` that grows and shares its memory.
///
/// For state that the function reads (a `Mutex<Tensor>`, a `static`):
///
/// - Writes by operators (`copy_`, `add_`) are part of the function, as for other closed-over
///   tensors.
/// - A tensor that the function computes and leaves there is refused ([`ErrorKind::Escaped`]): a
///   compiled call would not put a new one there. The tensor is not lost: even if the call ends
///   with an error, it has the value that eager code would have left there, computed from the
///   call's arguments. So a cache that is filled once (a `OnceLock`, masks by size in a `HashMap`)
///   serves the next call, which compiles; and with [`CompileOptions::eager_fallback`] the first
///   one gives its result too. State that each call replaces makes the function run eagerly there.
/// - *Another tensor in place of the old one* is noticed when the handle that lay there is dropped,
///   as an assignment (`*state = new`) does. As long as that handle is kept (`std::mem::replace`,
///   `swap`), or more handles have been made since the first call, a compiled call reads the old
///   tensor. Writing into it with `copy_`, or passing it as an argument, is always seen.
/// - *State other than tensors is not seen*: a counter that says where in a ring buffer to write,
///   an `Option` that becomes `Some`. Pass such a number as an argument that is a tensor
///   (`index_copy_` at it), or call the function with the current tensors.
///
/// ```
/// use std::sync::OnceLock;
/// use straightline::{CompileOptions, Tensor, compile_with, tensor};
/// static MASK: OnceLock<Tensor> = OnceLock::new();
/// let options = CompileOptions { eager_fallback: true, ..Default::default() };
/// let f = compile_with(options, |x: &Tensor| {
///     let mask = MASK.get_or_init(|| Tensor::ones([2, 2]).and_then(|t| t.tril()).expect("a mask"));
///     x.mul(mask)
/// });
/// for _ in 0..3 {
///     let y = f.call(&tensor([[1f32, 2.0], [3.0, 4.0]])?)?;
///     assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, 3.0, 4.0]);
/// }
/// assert_eq!(f.variants(), 1); // compiled at the second call
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// Nothing but tensors is seen: numbers, files, clocks, and tensors made from them with
/// [`Tensor::from_slice`] are constants of the variant; so are the sizes of a closed-over tensor
/// that no operator gets, **how many tensors there are in a `Vec`, and whether an `Option` has
/// one**. A place that held no tensor in the first call is not looked at again:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use straightline::{Tensor, compile, tensor};
/// let weight: Arc<Mutex<Option<Tensor>>> = Arc::default();
/// let mine = weight.clone();
/// let f = compile(move |x: &Tensor| match &*mine.lock().unwrap() {
///     None => x.add(1),
///     Some(w) => x.mul(w),
/// });
/// let x = tensor([5f32])?;
/// assert_eq!(f.call(&x)?.to_vec::<f32>()?, [6.0]);
/// *weight.lock().unwrap() = Some(tensor([2f32])?);
/// assert_eq!(f.call(&x)?.to_vec::<f32>()?, [6.0]); // and not 10
/// // as an argument, it is seen: its structure is compared at each call
/// let f = compile(|x: &Tensor, w: &Option<Tensor>| match w {
///     None => x.add(1),
///     Some(w) => x.mul(w),
/// });
/// assert_eq!(f.call((&x, &None::<Tensor>))?.to_vec::<f32>()?, [6.0]);
/// assert_eq!(f.call((&x, &*weight.lock().unwrap()))?.to_vec::<f32>()?, [10.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Custom operators
///
/// A compiled call relies on an operator's declarations, which
/// [`opcheck`](crate::dispatch::opcheck) tests on your samples: that its kernel writes no argument
/// but those that the schema marks with `!` (it is given copies of the others, so such a write is
/// lost), that what it returns is a view of an argument only where the schema says so, and that the
/// Meta kernel gives the sizes, dtype and strides of the results (other sizes are an error of the
/// call; elements in other strides are copied to those of the Meta kernel). A kernel that panics
/// ends the call with [`ErrorKind::Panic`], where eager code panics.
#[track_caller]
pub fn compile<S, F: TensorFunction<S>>(f: F) -> Compiled<F::Input, F::Output> {
    compile_with(CompileOptions::default(), f)
}

/// [`compile()`] with options.
#[track_caller]
pub fn compile_with<S, F: TensorFunction<S>>(
    options: CompileOptions,
    f: F,
) -> Compiled<F::Input, F::Output> {
    Compiled::new(options, Box::new(move |input| f.apply(input)), Location::caller())
}
