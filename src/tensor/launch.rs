//! Where kernels meet memory: the one door between tensors and the runtime's kernels.
//!
//! An operator works out what its results are, allocates them, and launches a kernel on them. The
//! launcher takes the borrow guards of everything that is read or written, checks how operands and
//! results lie to each other, and hands out typed views for as long as the kernel runs. Results
//! without memory (on the Meta key, or while a function is captured) are left alone, so that the
//! same function is the operator's shape rule.
//!
//! ```text
//! let mut out = Tensor::allocate_like_contiguous(x, dtype)?;
//! launch::run(&mut out, x, |out, x| Ok(kernels::flip(out, x, &dims)?))?;
//! ```
//!
//! What is written is `&mut` a fresh tensor, or [`Written`], one that others may know. Operands are
//! tensors, options, arrays, slices and pairs of them; the views have the same form.

use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::access::{self, Operands, Overlap, ReadGuards, WriteGuards};
use crate::tensor::placement::{Offer, Place};
use smallvec::SmallVec;
use std::ptr::NonNull;
use straightline_catalog::prims::BinaryOp;
use straightline_catalog::{DType, Dims, layout};
use straightline_runtime::cpu::kernels::{self, In, Out, Strided};

type Tensors<'g> = SmallVec<[&'g Tensor; 4]>;

/// Tensors that a kernel reads.
pub(crate) trait Inputs {
    /// What the kernel gets.
    type Views<'g>;

    /// Adds the tensors.
    fn tensors<'g>(&'g self, to: &mut Tensors<'g>);

    /// The views of the tensors.
    ///
    /// # Safety
    ///
    /// The tensors live and access to them is held during `'g`, `written` are those that are
    /// written meanwhile, and [`check`] has found nothing.
    unsafe fn views<'g>(&self, written: &[&Tensor]) -> Self::Views<'g>;
}

/// Tensors that a kernel writes.
pub(crate) trait Outputs {
    /// What the kernel gets.
    type Views<'g>;

    /// Adds the tensors, with how they are written.
    fn tensors<'g>(&'g self, to: &mut SmallVec<[(&'g Tensor, Way); 4]>);

    /// The views of the tensors.
    ///
    /// # Safety
    ///
    /// The tensors live, have memory, and exclusive access to them is held during `'g`.
    unsafe fn views<'g>(&self) -> Self::Views<'g>;
}

/// How a result is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It is fresh; where nobody else has a handle, nobody has to be kept out.
    Fresh,
    /// Others may know it: its version counts, and each element has an address of its own.
    Written,
    /// As `Written`, by a kernel that writes one place after the other, so that elements may be one
    /// in memory.
    InTurn,
}

/// A tensor that others may know, written by a kernel.
pub(crate) struct Written<'t>(pub(crate) &'t Tensor);

/// As [`Written`], one place after the other: of elements that are one in memory the last value
/// stays.
pub(crate) struct InTurn<'t>(pub(crate) &'t Tensor);

impl Inputs for () {
    type Views<'g> = ();

    fn tensors<'g>(&'g self, _: &mut Tensors<'g>) {}

    unsafe fn views<'g>(&self, _: &[&Tensor]) -> Self::Views<'g> {}
}

impl Inputs for &Tensor {
    type Views<'g> = In<'g>;

    #[inline]
    fn tensors<'g>(&'g self, to: &mut Tensors<'g>) {
        to.push(self);
    }

    #[inline]
    unsafe fn views<'g>(&self, written: &[&Tensor]) -> In<'g> {
        // SAFETY: as promised by the caller.
        unsafe { view(self, written) }
    }
}

impl<I: Inputs> Inputs for Option<I> {
    type Views<'g> = Option<I::Views<'g>>;

    fn tensors<'g>(&'g self, to: &mut Tensors<'g>) {
        if let Some(inputs) = self {
            inputs.tensors(to);
        }
    }

    unsafe fn views<'g>(&self, written: &[&Tensor]) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        self.as_ref().map(|i| unsafe { i.views(written) })
    }
}

impl<I: Inputs, const N: usize> Inputs for [I; N] {
    type Views<'g> = [I::Views<'g>; N];

    #[inline]
    fn tensors<'g>(&'g self, to: &mut Tensors<'g>) {
        self.iter().for_each(|i| i.tensors(to));
    }

    #[inline]
    unsafe fn views<'g>(&self, written: &[&Tensor]) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        self.each_ref().map(|i| unsafe { i.views(written) })
    }
}

impl<I: Inputs> Inputs for &[I] {
    type Views<'g> = SmallVec<[I::Views<'g>; 4]>;

    fn tensors<'g>(&'g self, to: &mut Tensors<'g>) {
        self.iter().for_each(|i| i.tensors(to));
    }

    unsafe fn views<'g>(&self, written: &[&Tensor]) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        self.iter().map(|i| unsafe { i.views(written) }).collect()
    }
}

impl<A: Inputs, B: Inputs> Inputs for (A, B) {
    type Views<'g> = (A::Views<'g>, B::Views<'g>);

    #[inline]
    fn tensors<'g>(&'g self, to: &mut Tensors<'g>) {
        self.0.tensors(to);
        self.1.tensors(to);
    }

    #[inline]
    unsafe fn views<'g>(&self, written: &[&Tensor]) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        unsafe { (self.0.views(written), self.1.views(written)) }
    }
}

/// Whether operands can be read while `written` are: they have memory, and lie on results element
/// upon element or not at all.
#[inline]
fn check(read: &[&Tensor], written: &[&Tensor]) -> Result<()> {
    for t in read {
        t.data_ptr()?;
        let partial = |out: &&Tensor| {
            t.shares_storage_with(out)
                && matches!(access::overlap(out, t), Overlap::Partial | Overlap::Unknown)
        };
        if written.iter().any(partial) {
            return Err(access::partial_overlap());
        }
    }
    Ok(())
}

/// The tensor in its own shape.
///
/// # Safety
///
/// It lives during `'g`.
#[inline]
unsafe fn strided<'g>(t: &Tensor) -> Strided<'g> {
    // SAFETY: as promised by the caller.
    let t: &'g Tensor = unsafe { &*std::ptr::from_ref(t) };
    Strided { ptr: t.address(), dtype: t.dtype(), sizes: t.sizes(), strides: t.strides() }
}

/// # Safety
///
/// As for [`Inputs::views`].
#[inline]
unsafe fn view<'g>(t: &Tensor, written: &[&Tensor]) -> In<'g> {
    // SAFETY: as promised by the caller; what shares memory with a result has the very same
    // elements, or none of them.
    unsafe {
        let raw = strided(t);
        let upon =
            |out: &&Tensor| t.shares_storage_with(out) && access::overlap(out, t) == Overlap::Full;
        match written.iter().any(upon) {
            true => In::upon(raw),
            false => In::new(raw),
        }
    }
}

impl Outputs for () {
    type Views<'g> = ();

    fn tensors<'g>(&'g self, _: &mut SmallVec<[(&'g Tensor, Way); 4]>) {}

    unsafe fn views<'g>(&self) -> Self::Views<'g> {}
}

macro_rules! outputs {
    ($($t:ty, $of:ident => $tensor:expr, $way:ident;)*) => {$(
        impl Outputs for $t {
            type Views<'g>
                = Out<'g>;

            #[inline]
            fn tensors<'g>(&'g self, to: &mut SmallVec<[(&'g Tensor, Way); 4]>) {
                let $of = self;
                to.push(($tensor, Way::$way));
            }

            #[inline]
            unsafe fn views<'g>(&self) -> Out<'g> {
                let $of = self;
                let t: &Tensor = $tensor;
                // SAFETY: as promised by the caller.
                unsafe { Out::new(strided(t)) }
            }
        }
    )*};
}

outputs! {
    &mut Tensor, out => out, Fresh;
    Written<'_>, out => out.0, Written;
    InTurn<'_>, out => out.0, InTurn;
}

impl<O: Outputs> Outputs for Option<O> {
    type Views<'g> = Option<O::Views<'g>>;

    fn tensors<'g>(&'g self, to: &mut SmallVec<[(&'g Tensor, Way); 4]>) {
        if let Some(outputs) = self {
            outputs.tensors(to);
        }
    }

    unsafe fn views<'g>(&self) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        self.as_ref().map(|o| unsafe { o.views() })
    }
}

impl<O: Outputs, const N: usize> Outputs for [O; N] {
    type Views<'g> = [O::Views<'g>; N];

    fn tensors<'g>(&'g self, to: &mut SmallVec<[(&'g Tensor, Way); 4]>) {
        self.iter().for_each(|o| o.tensors(to));
    }

    unsafe fn views<'g>(&self) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        self.each_ref().map(|o| unsafe { o.views() })
    }
}

impl<A: Outputs, B: Outputs> Outputs for (A, B) {
    type Views<'g> = (A::Views<'g>, B::Views<'g>);

    fn tensors<'g>(&'g self, to: &mut SmallVec<[(&'g Tensor, Way); 4]>) {
        self.0.tensors(to);
        self.1.tensors(to);
    }

    unsafe fn views<'g>(&self) -> Self::Views<'g> {
        // SAFETY: as promised by the caller.
        unsafe { (self.0.views(), self.1.views()) }
    }
}

/// Access to the operands of a kernel.
struct Access<'g> {
    _writes: WriteGuards<'g>,
    _reads: ReadGuards<'g>,
}

/// Whether two results have no element in common, halves of one memory for instance.
fn are_apart(a: &Tensor, b: &Tensor) -> bool {
    if access::overlap(a, b) == Overlap::None {
        return true;
    }
    let alike = a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype();
    // the two as one tensor, with a dimension that leads from one to the other
    let step = (a.storage_offset() - b.storage_offset()).abs();
    let both = |own: &[i64], of_two: i64| -> Dims { own.iter().copied().chain([of_two]).collect() };
    alike && step != 0 && !layout::may_overlap(&both(a.sizes(), 2), &both(a.strides(), step))
}

/// Takes access to one result and what is read, if it can be had at once.
#[inline]
fn take_one<'g>((out, way): (&'g Tensor, Way), ins: &[&'g Tensor]) -> Result<Option<Access<'g>>> {
    if way == Way::Written {
        access::check_no_internal_overlap(out)?;
    }
    let Some(write) = out.storage().try_hold() else {
        return Ok(None);
    };
    let mut reads = ReadGuards::new();
    for t in ins {
        if !t.shares_storage_with(out) {
            let Some(read) = t.storage().try_read() else {
                return Ok(None);
            };
            reads.push(read);
        }
        t.check_settled()?;
    }
    out.check_settled()?;
    if way != Way::Fresh {
        out.check_writable()?;
        out.storage().count_write(&write);
    }
    Ok(Some(Access { _writes: SmallVec::from_buf([write]), _reads: reads }))
}

/// Takes access to what is written and read; waits for all of it, holding none meanwhile.
#[inline]
fn take<'g>(outs: &[(&'g Tensor, Way)], ins: &[&'g Tensor]) -> Result<Access<'g>> {
    if let [one] = outs
        && let Some(access) = take_one(*one, ins)?
    {
        return Ok(access);
    }
    take_all(outs, ins)
}

#[cold]
fn take_all<'g>(outs: &[(&'g Tensor, Way)], ins: &[&'g Tensor]) -> Result<Access<'g>> {
    let mut writes: SmallVec<[&Tensor; 2]> = SmallVec::new();
    for (out, way) in outs {
        if *way == Way::Written {
            access::check_no_internal_overlap(out)?;
        }
        let alone = *way == Way::Fresh && out.is_alone();
        if !alone && !writes.iter().any(|w| w.shares_storage_with(out)) {
            writes.push(out);
        }
    }
    if writes.is_empty() {
        return Ok(Access { _writes: SmallVec::new(), _reads: access::read(ins)? });
    }
    for (i, (a, _)) in outs.iter().enumerate() {
        if outs[..i].iter().any(|(b, _)| !are_apart(a, b)) {
            return Err(access::partial_overlap());
        }
    }
    let is_written = |t: &Tensor| writes.iter().any(|w| w.shares_storage_with(t));
    let reads: Tensors<'g> = ins.iter().copied().filter(|t| !is_written(t)).collect();
    let at_once = || {
        let mut held = Access { _writes: SmallVec::new(), _reads: SmallVec::new() };
        for t in &writes {
            held._writes.push(t.storage().try_hold()?);
        }
        for t in &reads {
            held._reads.push(t.storage().try_read()?);
        }
        Some(held)
    };
    let held = match at_once() {
        Some(held) => held,
        None => {
            let held = Operands::default().writing(&writes).reading(&reads).take()?;
            Access { _writes: held.writes, _reads: held.reads }
        }
    };
    for t in outs.iter().map(|(t, _)| t).chain(ins) {
        t.check_settled()?;
    }
    for (t, guard) in writes.iter().zip(&held._writes) {
        let known =
            |(out, way): &(&Tensor, Way)| *way != Way::Fresh && out.storage().same(t.storage());
        if outs.iter().any(known) {
            t.check_writable()?;
            t.storage().count_write(guard);
        }
    }
    Ok(held)
}

/// Runs a kernel that writes `outs` and reads `ins`. Results without memory are left alone, and the
/// kernel is not run.
///
/// An input may be one of `outs` as well, element upon element; kernels that cannot work so refuse
/// it.
///
/// # Errors
/// Those of the kernel; operands that overlap results in part; memory that this thread has in
/// another way.
#[inline]
pub(crate) fn run<O: Outputs, I: Inputs, R: Default>(
    outs: O,
    ins: I,
    kernel: impl for<'g> FnOnce(O::Views<'g>, I::Views<'g>) -> Result<R>,
) -> Result<R> {
    let mut written = SmallVec::new();
    outs.tensors(&mut written);
    if written.iter().any(|(t, _)| !t.storage().has_data()) {
        return Ok(R::default());
    }
    let mut read = Tensors::new();
    ins.tensors(&mut read);
    let alone = |(t, way): &(&Tensor, Way)| *way == Way::Fresh && t.is_alone();
    if written.iter().all(alone) {
        // nobody else can have a result, and no operand lies in it
        let _reads = access::read(&read)?;
        check(&read, &[])?;
        // SAFETY: access is held until the kernel has run.
        let (outs, ins) = unsafe { (outs.views(), ins.views(&[])) };
        return kernel(outs, ins);
    }
    let _access = take(&written, &read)?;
    let written: Tensors<'_> = written.iter().map(|(t, _)| *t).collect();
    check(&written, &[])?;
    check(&read, &written)?;
    // SAFETY: access is held until the kernel has run.
    let (outs, ins) = unsafe { (outs.views(), ins.views(&written)) };
    kernel(outs, ins)
}

/// A row-major copy, past the dispatcher.
pub(crate) fn clone_contiguous(t: &Tensor) -> Result<Tensor> {
    let mut out = Tensor::allocate_contiguous(t.dtype(), t.device(), t.sizes())?;
    run(&mut out, t, |out, t| Ok(kernels::copy(out, t)?))?;
    Ok(out)
}

/// What a kernel finds out about its operands, which must have memory.
///
/// # Errors
/// Those of the kernel; operands without data.
#[inline]
pub(crate) fn read<I: Inputs, R>(
    ins: I,
    kernel: impl for<'g> FnOnce(I::Views<'g>) -> Result<R>,
) -> Result<R> {
    let mut read = Tensors::new();
    ins.tensors(&mut read);
    let _access = access::read(&read)?;
    check(&read, &[])?;
    // SAFETY: access is held until the kernel has run.
    kernel(unsafe { ins.views(&[]) })
}

/// [`run`] for a kernel that goes element by element: the inputs are broadcast to the sizes of the
/// result.
#[inline]
pub(crate) fn elementwise<O: for<'g> Outputs<Views<'g> = Out<'g>>, const N: usize>(
    out: O,
    ins: [&Tensor; N],
    kernel: impl for<'g> FnOnce(Out<'g>, [In<'g>; N]) -> Result<()>,
) -> Result<()> {
    run(out, ins, |out, ins| {
        let sizes = out.sizes();
        if ins.iter().all(|i| i.sizes() == sizes) {
            return kernel(out, ins);
        }
        let strides: [Dims; N] =
            ins.map(|i| layout::broadcast_strides(i.sizes(), i.strides(), sizes));
        let mut views = ins;
        for (view, strides) in views.iter_mut().zip(&strides) {
            *view = view.broadcast(sizes, strides)?;
        }
        kernel(out, views)
    })
}

/// The commonest case, without detours: `op` on two row-major tensors of `dtype` and of the same
/// sizes, into a fresh one. `None` where they are not that, or where one of them is taken: [`run`]
/// waits for both.
#[inline]
pub(crate) fn binary_flat(
    op: BinaryOp,
    dtype: DType,
    a: &Tensor,
    b: &Tensor,
) -> Result<Option<Tensor>> {
    if !is_flat(dtype, a, b) {
        return Ok(None);
    }
    let out = Tensor::allocate_like_contiguous(a, dtype)?;
    let Some(guards) = access::try_read_both(a, b)? else {
        return Ok(None);
    };
    let operands = [out.data_ptr()?, a.data_ptr()?, b.data_ptr()?];
    // SAFETY: out is fresh; a and b are held shared; all are row-major, with the same sizes and
    // dtype.
    unsafe { kernels::binary_flat(op, dtype, operands, a.numel() as usize)? };
    drop(guards);
    Ok(Some(out))
}

#[inline]
fn is_flat(dtype: DType, a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == dtype
        && b.dtype() == dtype
        && a.is_contiguous()
        && b.is_contiguous()
        && a.sizes() == b.sizes()
        && a.device().is_cpu()
        && b.device().is_cpu()
        && a.storage().has_data()
}

/// [`binary_flat`] in place, in `a`; `false` where nothing has been done.
#[inline]
pub(crate) fn binary_flat_(op: BinaryOp, dtype: DType, a: &Tensor, b: &Tensor) -> Result<bool> {
    if !is_flat(dtype, a, b) || (a.shares_storage_with(b) && a.offset() != b.offset()) {
        return Ok(false);
    }
    let Some(write) = a.storage().try_hold() else {
        return Ok(false);
    };
    let read = match a.shares_storage_with(b) {
        true => None,
        false => match b.storage().try_read() {
            None => return Ok(false),
            read => read,
        },
    };
    a.check_settled()?;
    b.check_settled()?;
    let (own, other) = (a.data_ptr()?, b.data_ptr()?);
    a.check_writable()?;
    a.storage().count_write(&write);
    // SAFETY: a is held alone and b shared, unless it is a itself; both are row-major, with the
    // same sizes and dtype.
    unsafe { kernels::binary_flat(op, dtype, [own, own, other], a.numel() as usize)? };
    drop((read, write));
    Ok(true)
}

/// Offers the memory of results to the kernels that this thread runs, which then compute in it
/// instead of in memory of their own (`tensor::placement`). `None` where a kernel could read what
/// it writes, or compute in another dtype. The caller holds the results until the offer is dropped.
pub(crate) fn offer(outs: &[&Tensor], ins: &[&Tensor]) -> Option<Offer> {
    let dtype = outs.first()?.dtype();
    let plain = |t: &Tensor| {
        let own = t.device().is_cpu() && t.storage().has_data() && t.storage().is_held();
        own && t.is_contiguous() && !t.has_math_bits() && t.kind_without_memory().is_none()
    };
    let apart = |i: usize, t: &Tensor| {
        let others = ins.iter().chain(&outs[..i]);
        others.copied().all(|o| !o.shares_storage_with(t))
    };
    let fits = dtype.is_floating()
        && outs.iter().chain(ins).all(|t| t.dtype() == dtype)
        && (outs.iter().enumerate()).all(|(i, t)| plain(t) && apart(i, t));
    if !fits {
        return None;
    }
    let place = |t: &&Tensor| {
        Some(Place {
            data: NonNull::new(t.data_ptr().ok()?)?,
            bytes: t.numel() as usize * dtype.size(),
            dtype,
        })
    };
    let places: SmallVec<[Place; 2]> =
        outs.iter().filter(|t| t.numel() > 0).filter_map(place).collect();
    // SAFETY: the caller holds the results, and no operand shares their memory.
    Some(unsafe { Offer::new(places) })
}
