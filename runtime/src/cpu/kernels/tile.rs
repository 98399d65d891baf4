//! Operands brought into the shape that row kernels take: unit stride, half types widened to `f32`.
//!
//! Row kernels know one layout. An operand in another one passes through a tile on the stack that
//! stays in the first cache: gathered or widened before, scattered or narrowed after.

use super::moves::{copy_same, move_elements, move_strided};
use super::nest::Nest;
use super::{Strided, half};
use crate::memory;
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use straightline_passes::ir::DType;

/// Elements of a tile.
pub(super) const TILE: usize = 256;

/// Room for one operand's tile of any dtype.
#[repr(C, align(64))]
pub(super) struct Tile([MaybeUninit<u128>; TILE]);

impl Tile {
    /// Not written yet.
    #[inline(always)]
    pub(super) fn new() -> Tile {
        Tile([MaybeUninit::uninit(); TILE])
    }

    #[inline(always)]
    pub(super) fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// How the elements of an operand reach the row kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As they are: 1, 2, 4, 8 or 16 bytes.
    Raw(usize),
    /// `f16` or `bf16`, as `f32`.
    Half(DType),
}

impl Form {
    /// The form in which arithmetic is done.
    pub(super) fn arithmetic(dtype: DType) -> Form {
        if dtype.is_half() { Form::Half(dtype) } else { Form::Raw(dtype.size()) }
    }

    /// Bytes of an element on its way through a row kernel.
    pub(super) fn size(self) -> usize {
        match self {
            Form::Raw(size) => size,
            Form::Half(_) => 4,
        }
    }
}

/// Fills a tile from an operand.
///
/// # Safety
///
/// `src` has `n <= TILE` elements at this stride; `dst` is a tile.
pub(super) unsafe fn load(form: Form, dst: *mut u8, src: *const u8, step: isize, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        match form {
            Form::Raw(size) => move_elements(size, dst, size as isize, src, step, n),
            Form::Half(dtype) if step == 2 => half::widen(dtype, dst.cast(), src, n),
            Form::Half(dtype) => {
                let mut narrow = [MaybeUninit::<u16>::uninit(); TILE];
                move_strided::<u16>(narrow.as_mut_ptr().cast(), 2, src, step, n);
                half::widen(dtype, dst.cast(), narrow.as_ptr().cast(), n);
            }
        }
    }
}

/// Writes a tile to the output.
///
/// # Safety
///
/// `dst` has room for `n <= TILE` elements at this stride; `src` is a tile with `n` elements.
pub(super) unsafe fn store(form: Form, dst: *mut u8, step: isize, src: *const u8, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        match form {
            Form::Raw(size) => move_elements(size, dst, step, src, size as isize, n),
            Form::Half(dtype) if step == 2 => half::narrow(dtype, dst, src.cast(), n),
            Form::Half(dtype) => {
                let mut narrow = [MaybeUninit::<u16>::uninit(); TILE];
                half::narrow(dtype, narrow.as_mut_ptr().cast(), src.cast(), n);
                move_strided::<u16>(dst, step, narrow.as_ptr().cast(), 2, n);
            }
        }
    }
}

/// A row kernel over `N` operands: unit-stride pointers (the output first), the number of elements,
/// and a bit mask of the operands that are one element for the whole row.
pub(super) trait Row<const N: usize>: Fn([*mut u8; N], usize, u8) + Sync {}
impl<const N: usize, F: Fn([*mut u8; N], usize, u8) + Sync> Row<N> for F {}

/// Runs a row kernel over strided operands of one shape.
///
/// `keep_broadcast`: the row kernel understands the mask of one-element operands (otherwise they
/// are spread over a tile). `cost` is that of one element, as a multiple of an addition.
///
/// # Safety
///
/// The operands' memory is what they say; the output's elements are distinct, and an input overlaps
/// the output only if it has exactly the same elements.
#[inline]
pub(super) unsafe fn pointwise<const N: usize>(
    operands: &[Strided<'_>; N],
    forms: [Form; N],
    keep_broadcast: bool,
    cost: usize,
    row: &impl Row<N>,
) {
    let numel = operands[0].numel();
    if numel == 0 {
        return;
    }
    // the common small call: one row as it lies, no loop nest needed
    if numel * cost <= super::nest::GRAIN && forms.iter().all(|f| matches!(f, Form::Raw(_))) {
        let mut mask = 0;
        let mut plain = operands[0].is_contiguous();
        for (k, operand) in operands.iter().enumerate().skip(1) {
            if !operand.is_contiguous() {
                plain &= keep_broadcast && operand.is_broadcast_scalar();
                mask |= 1 << k;
            }
        }
        if plain {
            row(std::array::from_fn(|k| operands[k].ptr), numel, mask);
            return;
        }
    }
    if numel >= WORTH_TURNING
        && operands[1..].iter().any(|o| runs_across(&operands[0], o))
        // SAFETY: as promised by the caller.
        && unsafe { pointwise_turned(operands, forms, keep_broadcast, cost, row) }
    {
        return;
    }
    // SAFETY: as promised by the caller.
    unsafe { pointwise_nest(operands, forms, keep_broadcast, cost, row) }
}

/// Elements from which on an input that runs across the output is turned first: reading it element
/// by element would take a cache line for each.
const WORTH_TURNING: usize = 1 << 13;

/// Whether the dimension in which the output is contiguous is a long stride of this input, which
/// has a contiguous one elsewhere.
fn runs_across(out: &Strided<'_>, a: &Strided<'_>) -> bool {
    let near = |s: &Strided<'_>| (0..s.sizes.len()).find(|&d| s.sizes[d] > 1 && s.strides[d] == 1);
    match (near(out), near(a)) {
        (Some(o), Some(i)) => o != i && out.sizes[o] >= 8 && a.sizes[i] >= 8 && a.strides[o] > 8,
        _ => false,
    }
}

/// [`pointwise`] with every input that runs across the output copied into its layout; `false` (and
/// nothing is done) if there is no memory for that.
///
/// # Safety
///
/// As for [`pointwise`].
#[cold]
unsafe fn pointwise_turned<const N: usize>(
    operands: &[Strided<'_>; N],
    forms: [Form; N],
    keep_broadcast: bool,
    cost: usize,
    row: &impl Row<N>,
) -> bool {
    let out = operands[0];
    // row-major over the output's order of dimensions
    let mut order: SmallVec<[usize; 6]> = (0..out.sizes.len()).collect();
    order.sort_by_key(|&d| out.strides[d]);
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(0, out.sizes.len());
    let mut next = 1;
    for d in order {
        strides[d] = next;
        next *= out.sizes[d].max(1);
    }
    let mut blocks: SmallVec<[memory::Block; 4]> = SmallVec::new();
    let mut turned = *operands;
    for operand in turned.iter_mut().skip(1) {
        if runs_across(&out, operand) {
            let Ok(block) = memory::allocate(out.numel() * operand.dtype.size()) else {
                return false;
            };
            let copied = Strided { ptr: block.as_ptr(), strides: &strides, ..*operand };
            // SAFETY: the block has all elements.
            unsafe { copy_same(copied, *operand) };
            *operand = copied;
            blocks.push(block);
        }
    }
    // SAFETY: as promised by the caller; the copies live until the end of this call.
    unsafe { pointwise_nest(&turned, forms, keep_broadcast, cost, row) };
    true
}

/// # Safety
///
/// As for [`pointwise`].
#[inline(never)]
#[allow(clippy::needless_range_loop)] // k indexes several arrays
unsafe fn pointwise_nest<const N: usize>(
    operands: &[Strided<'_>; N],
    forms: [Form; N],
    keep_broadcast: bool,
    cost: usize,
    row: &impl Row<N>,
) {
    let nest = Nest::new(operands);
    let grain = super::nest::GRAIN / cost.max(1);
    let steps = nest.inner().strides;
    let direct: [bool; N] = std::array::from_fn(|k| forms[k] == Form::Raw(steps[k] as usize));
    let broadcast: [bool; N] = std::array::from_fn(|k| k > 0 && steps[k] == 0);
    let mut mask = 0;
    for (k, broadcast) in broadcast.iter().enumerate() {
        if keep_broadcast && *broadcast {
            mask |= 1 << k;
        }
    }
    let as_it_lies =
        (0..N).all(|k| direct[k] || (mask >> k & 1 == 1 && matches!(forms[k], Form::Raw(_))));
    if as_it_lies {
        // SAFETY: as promised by the caller.
        unsafe { nest.run(grain, &|ptrs, n| row(ptrs, n, mask)) };
        return;
    }
    let body = |ptrs: [*mut u8; N], n: usize| {
        let mut tiles = [const { MaybeUninit::<Tile>::uninit() }; N];
        let tiles: [*mut u8; N] = std::array::from_fn(|k| tiles[k].as_mut_ptr().cast());
        let first = n.min(TILE);
        for k in 1..N {
            if broadcast[k] {
                let count = if mask >> k & 1 == 1 { 1 } else { first };
                // SAFETY: a step of 0 reads the one element again and again.
                unsafe { load(forms[k], tiles[k], ptrs[k], 0, count) };
            }
        }
        let mut start = 0;
        while start < n {
            let m = (n - start).min(TILE);
            let at = |k: usize| ptrs[k].wrapping_offset(steps[k] * start as isize);
            let mut args = [std::ptr::null_mut(); N];
            for k in 0..N {
                args[k] = if direct[k] {
                    at(k)
                } else {
                    if k > 0 && !broadcast[k] {
                        // SAFETY: elements start .. start + m of the row.
                        unsafe { load(forms[k], tiles[k], at(k), steps[k], m) };
                    }
                    tiles[k]
                };
            }
            row(args, m, mask);
            if !direct[0] {
                // SAFETY: as above; the row kernel has filled the tile.
                unsafe { store(forms[0], at(0), steps[0], tiles[0], m) };
            }
            start += m;
        }
    };
    // SAFETY: as promised by the caller.
    unsafe { nest.run(grain, &body) };
}
