//! Register-tiled microkernels: a few rows of `a` times a few panels of `b`, sums kept in
//! registers.
//!
//! Internal to `straightline`. A kernel is called through a [`Tile`] or a [`Dot`], which say where
//! the operands lie; a table ([`Kernels`]) has those of one instruction set and element type.
//!
//! ```
//! use straightline_microkernels::{Tile, portable};
//!
//! let kernels = &portable::PORTABLE_F32;
//! let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], vec![0.5f32; 2 * kernels.panel]);
//! let mut c = vec![0.0f32; 2 * kernels.panel];
//! let panel = kernels.panel as isize;
//! let tile = Tile {
//!     k: 2,
//!     a: a.as_ptr(),
//!     a_row: 2,
//!     a_step: 1,
//!     b: b.as_ptr(),
//!     b_step: panel,
//!     b_panel: panel,
//!     c: c.as_mut_ptr(),
//!     c_row: panel,
//!     resume: false,
//!     bias: std::ptr::null(),
//!     residual: std::ptr::null(),
//!     residual_row: 0,
//!     cols: kernels.panel,
//!     offsets: std::ptr::null(),
//!     ask: std::ptr::null(),
//!     ask_step: 0,
//!     ask_line: 0,
//!     copy: std::ptr::null_mut(),
//!     next: std::ptr::null(),
//! };
//! // SAFETY: two rows, two steps and one panel are what the operands have.
//! unsafe { kernels.one[1](&tile) };
//! assert_eq!((c[0], c[kernels.panel]), (1.5, 3.5));
//! ```
//!
//! One body, generic over a vector type and the tile's size, instantiated for AVX-512, AVX2 + FMA,
//! NEON and the portable form. A panel is two vectors wide. `b` need not be packed: a panel is a
//! column block, and the step from one row of it to the next is a parameter, so the same kernel
//! reads a row-major matrix in place.
//!
//! **Numerics.** Every element of the result is one chain of fused multiply-adds in the order of
//! `k`, starting from zero. It does not depend on the tile, the blocking, the instruction set or
//! the number of threads, so all of those give the same bits. (The portable form on an x86 without
//! FMA rounds the product as well.)
//!
//! Every instantiation for x86 is a `#[target_feature]` function, which the compiler ends with
//! `vzeroupper`: callers may be generated code that mixes SSE in.

pub mod bytes;
#[cfg(target_arch = "x86_64")]
pub mod bytes_x86;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod pairs;
#[cfg(target_arch = "x86_64")]
mod pairs_rows;
#[cfg(target_arch = "x86_64")]
pub mod pairs_x86;
pub mod portable;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(target_arch = "x86_64")]
pub mod x86;

/// A SIMD register of floats.
///
/// The methods are `unsafe` because they may only be reached where the instruction set is enabled;
/// pointers are valid for the lanes that are touched and need no alignment.
#[allow(clippy::missing_safety_doc)]
trait Vector: Copy {
    type Elem: Copy;
    type Mask: Copy;
    const LANES: usize;
    unsafe fn zero() -> Self;
    unsafe fn splat(x: Self::Elem) -> Self;
    unsafe fn load(p: *const Self::Elem) -> Self;
    unsafe fn store(self, p: *mut Self::Elem);
    /// The first `count` lanes (at most all).
    unsafe fn mask(count: usize) -> Self::Mask;
    /// Zero in the other lanes, whose memory is not touched.
    unsafe fn load_mask(p: *const Self::Elem, mask: Self::Mask) -> Self;
    unsafe fn store_mask(self, p: *mut Self::Elem, mask: Self::Mask);
    /// `a * b + self`.
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// The sum of the lanes of each vector.
    unsafe fn sums(v: [Self; 4]) -> [Self::Elem; 4];
    /// Asks for the cache line at an address, which need not be valid.
    #[inline(always)]
    fn prefetch(_: *const Self::Elem) {}
}

/// One call of a microkernel. Distances are in elements.
#[derive(Clone, Copy)]
pub struct Tile<T> {
    /// Number of steps.
    pub k: usize,
    /// The left factor.
    pub a: *const T,
    /// From one row to the next.
    pub a_row: isize,
    /// From one step to the next.
    pub a_step: isize,
    /// The right factor, in panels.
    pub b: *const T,
    /// From one step to the next.
    pub b_step: isize,
    /// From one panel to the next.
    pub b_panel: isize,
    /// The product.
    pub c: *mut T,
    /// From one row to the next.
    pub c_row: isize,
    /// Whether `c` holds the sums of earlier steps.
    pub resume: bool,
    /// Added per column at the end; may be null.
    pub bias: *const T,
    /// Added per element after the bias; may be null.
    pub residual: *const T,
    /// From one row to the next.
    pub residual_row: isize,
    /// Valid columns, for the kernels that handle a partial panel.
    pub cols: usize,
    /// Where each step's row of `b` begins, in place of multiples of `b_step`; may be null.
    pub offsets: *const u32,
    /// What each panel's first step asks the memory for, since it is read later; it need not be
    /// valid. The panels are as far apart as those of `b`.
    pub ask: *const T,
    /// From one step to the next.
    pub ask_step: isize,
    /// From the first to the second place that a step asks for; may be zero.
    pub ask_line: isize,
    /// Where the kernels that copy write the panel, row after row.
    pub copy: *mut T,
    /// The part of `c` that is asked for since the next tile begins there; may be null.
    pub next: *const T,
}

/// A microkernel.
pub type TileFn<T> = unsafe fn(&Tile<T>);

/// The dot-product kernels: `rows` of `a` against `cols` of a transposed `b`.
pub type DotFn<T> = unsafe fn(&Dot<T>);

/// One call of a dot-product kernel: `c[i][j] = sum_p a[i][p] * b[j][p]`, both with steps of one.
#[derive(Clone, Copy)]
pub struct Dot<T> {
    /// Number of steps.
    pub k: usize,
    /// The left factor.
    pub a: *const T,
    /// From one row to the next.
    pub a_row: isize,
    /// The right factor, transposed.
    pub b: *const T,
    /// From one column of the product to the next.
    pub b_col: isize,
    /// The product.
    pub c: *mut T,
    /// From one row to the next.
    pub c_row: isize,
}

/// The kernels of one instruction set; in each table the kernel for `r` rows is at `r - 1`.
pub struct Kernels<T: 'static> {
    /// Columns of a panel.
    pub panel: usize,
    /// One panel.
    pub one: &'static [TileFn<T>],
    /// One panel, which is copied on the way. Without the heights below [`Kernels::least_copied`].
    pub copy: &'static [TileFn<T>],
    /// One partial panel.
    pub tail: &'static [TileFn<T>],
    /// Two panels, for few rows: enough independent sums to hide the latency of an addition.
    pub two: &'static [TileFn<T>],
    /// Four panels.
    pub four: &'static [TileFn<T>],
    /// Dot products, eight columns at a time, for one row or two: enough independent sums.
    pub dot8: &'static [DotFn<T>],
    /// Dot products, four columns at a time.
    pub dot4: &'static [DotFn<T>],
    /// Dot products, one column.
    pub dot1: &'static [DotFn<T>],
}

impl<T> Kernels<T> {
    /// The most rows of a tile.
    ///
    /// ```
    /// assert_eq!(straightline_microkernels::portable::PORTABLE_F64.max_rows(), 6);
    /// ```
    pub fn max_rows(&self) -> usize {
        self.one.len()
    }

    /// The fewest rows of a kernel that copies its panel.
    pub fn least_copied(&self) -> usize {
        self.one.len() + 1 - self.copy.len()
    }
}

/// Up to twelve pointers at equal distances, kept as one pointer for each three: x86 addresses the
/// other two as base plus the distance once or twice. Left to itself the compiler keeps a pointer
/// for each and spills them in the inner loop.
#[derive(Clone, Copy)]
struct Cursors<T> {
    base: [*const T; 4],
    distance: isize,
}

impl<T> Cursors<T> {
    #[inline(always)]
    fn new<const N: usize>(first: *const T, distance: isize) -> Self {
        const { assert!(N <= 12) };
        let mut base = [first; 4];
        for (g, base) in base.iter_mut().enumerate() {
            *base = base.wrapping_offset(3 * g as isize * distance);
        }
        Cursors { base, distance }
    }

    #[inline(always)]
    fn at(&self, i: usize) -> *const T {
        self.base[i / 3].wrapping_offset((i % 3) as isize * self.distance)
    }

    /// Moves all `N` by `step`.
    #[inline(always)]
    fn advance<const N: usize>(&mut self, step: isize) {
        for (g, base) in self.base.iter_mut().enumerate() {
            if 3 * g < N {
                *base = opaque(base.wrapping_offset(step));
            }
        }
    }
}

/// The same pointer, hidden from the compiler's alias analysis.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)] // the address passes through, nothing is read
fn opaque<T>(p: *const T) -> *const T {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let p = {
        let mut p = p;
        // SAFETY: the empty instruction changes nothing.
        unsafe {
            std::arch::asm!("/* {0} */", inlateout(reg) p, options(pure, nomem, nostack, preserves_flags));
        }
        p
    };
    p
}

/// The address of vector `v` of panel `j` in row `i`.
#[inline(always)]
fn at<V: Vector>(
    base: *const V::Elem,
    row: isize,
    (i, j, v): (usize, usize, usize),
) -> *const V::Elem {
    base.wrapping_offset(i as isize * row).wrapping_add((2 * j + v) * V::LANES)
}

/// # Safety
///
/// As [`Vector::load_mask`] if `TAIL`, else as [`Vector::load`].
#[inline(always)]
unsafe fn load<V: Vector, const TAIL: bool>(p: *const V::Elem, mask: V::Mask) -> V {
    // SAFETY: the caller's contract.
    unsafe { if TAIL { V::load_mask(p, mask) } else { V::load(p) } }
}

/// Asks for what is read later, beside vector `v` of a panel. Kernels of four panels read as many
/// streams in order, which the processor sees by itself: to ask made a row times a matrix 15 %
/// slower. A vector of less than a cache line needs half of the requests.
#[inline(always)]
fn ask<V: Vector, const P: usize>(at: *const V::Elem, v: usize, line: isize) {
    if const { P < 4 } && (v == 0 || const { size_of::<V>() >= 64 }) {
        V::prefetch(at.wrapping_offset(v as isize * line));
    }
}

/// Runs a block for each `i` below a constant of at most twelve, each time with `i` a literal:
/// loops of this length the compiler leaves rolled, and then the sums do not stay in registers. The
/// conditions are constants of their own, so that the blocks above the bound are never handed to
/// LLVM: they were 30 % of this crate's lines.
macro_rules! unroll {
    ($i:ident < $n:ident $body:block) => {
        unroll!(@ $i $n $body 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (@ $i:ident $n:ident $body:block $($at:literal)*) => {$(
        if const { $at < $n } {
            let $i: usize = $at;
            $body
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
use unroll;

/// The body of a microkernel: `R` rows, `P` panels, the last one partial if `TAIL` (then `P` is
/// one).
///
/// # Safety
///
/// The instruction set of `V` is enabled; the pointers and distances of `t` reach valid memory for
/// `R` rows, `k` steps and `P` panels (`cols` columns if `TAIL`).
#[inline(always)]
#[allow(clippy::needless_range_loop)] // indices address the sums, the memory and the vectors alike
unsafe fn tile<V: Vector, const R: usize, const P: usize, const TAIL: bool, const COPY: bool>(
    t: &Tile<V::Elem>,
) {
    // SAFETY: all accesses are inside what the caller vouches for.
    unsafe {
        let mask =
            [V::mask(t.cols.min(V::LANES)), V::mask(t.cols.saturating_sub(V::LANES).min(V::LANES))];
        if !t.next.is_null() {
            for i in 0..R {
                for j in 0..P {
                    // three, for a row that begins within a line
                    V::prefetch(at::<V>(t.next, t.c_row, (i, j, 0)));
                    V::prefetch(at::<V>(t.next, t.c_row, (i, j, 1)));
                    V::prefetch(at::<V>(t.next, t.c_row, (i, j, 2)).wrapping_sub(1));
                }
            }
        }
        let mut sum = [[[V::zero(); 2]; P]; R];
        if t.resume {
            unroll!(i < R {
                for j in 0..P {
                    for v in 0..2 {
                        let p = at::<V>(t.c.cast_const(), t.c_row, (i, j, v));
                        sum[i][j][v] = load::<V, TAIL>(p, mask[v]);
                    }
                }
            });
        }
        let mut copy = t.copy;
        macro_rules! step {
            ($a:ident, $ask:ident, $b:expr) => {{
                let panel = $b;
                if const { R > 2 * P } {
                    // More rows than vectors: hold the vectors.
                    let mut y = [[V::zero(); 2]; P];
                    for (j, pair) in y.iter_mut().enumerate() {
                        for (v, y) in pair.iter_mut().enumerate() {
                            ask::<V, P>($ask.at(j), v, t.ask_line);
                            *y = load::<V, TAIL>(panel(j).wrapping_add(v * V::LANES), mask[v]);
                            if COPY {
                                y.store(copy.wrapping_add(v * V::LANES));
                            }
                        }
                    }
                    if COPY {
                        copy = copy.wrapping_add(2 * V::LANES);
                    }
                    unroll!(i < R {
                        let x = V::splat(*$a.at(i));
                        for j in 0..P {
                            sum[i][j][0] = sum[i][j][0].fma(x, y[j][0]);
                            sum[i][j][1] = sum[i][j][1].fma(x, y[j][1]);
                        }
                    });
                } else {
                    let mut x = [V::zero(); R];
                    for (i, x) in x.iter_mut().enumerate() {
                        *x = V::splat(*$a.at(i));
                    }
                    for j in 0..P {
                        for v in 0..2 {
                            ask::<V, P>($ask.at(j), v, t.ask_line);
                            let y = load::<V, TAIL>(panel(j).wrapping_add(v * V::LANES), mask[v]);
                            for i in 0..R {
                                sum[i][j][v] = sum[i][j][v].fma(x[i], y);
                            }
                        }
                    }
                }
            }};
        }
        let mut a = Cursors::new::<R>(t.a, t.a_row);
        let mut b = Cursors::new::<P>(t.b, t.b_panel);
        let mut ask = Cursors::new::<P>(t.ask, t.b_panel);
        if t.offsets.is_null() {
            for _ in 0..t.k {
                step!(a, ask, |j: usize| b.at(j));
                a.advance::<R>(t.a_step);
                b.advance::<P>(t.b_step);
                ask.advance::<P>(t.ask_step);
            }
        } else {
            for p in 0..t.k {
                let row = t.b.wrapping_add(*t.offsets.add(p) as usize);
                step!(a, ask, |j: usize| row.wrapping_offset(j as isize * t.b_panel));
                a.advance::<R>(t.a_step);
            }
        }
        if !t.bias.is_null() {
            for j in 0..P {
                for v in 0..2 {
                    let bias = load::<V, TAIL>(at::<V>(t.bias, 0, (0, j, v)), mask[v]);
                    unroll!(i < R {
                        sum[i][j][v] = sum[i][j][v].add(bias);
                    });
                }
            }
        }
        if !t.residual.is_null() {
            unroll!(i < R {
                for j in 0..P {
                    for v in 0..2 {
                        let p = at::<V>(t.residual, t.residual_row, (i, j, v));
                        sum[i][j][v] = sum[i][j][v].add(load::<V, TAIL>(p, mask[v]));
                    }
                }
            });
        }
        unroll!(i < R {
            for j in 0..P {
                for v in 0..2 {
                    let p = at::<V>(t.c.cast_const(), t.c_row, (i, j, v)).cast_mut();
                    if TAIL {
                        sum[i][j][v].store_mask(p, mask[v]);
                    } else {
                        sum[i][j][v].store(p);
                    }
                }
            }
        });
    }
}

/// The body of a dot-product kernel: `R` rows against `C` columns.
///
/// Each sum runs in `LANES` interleaved parts, which are added at the end.
///
/// # Safety
///
/// The instruction set of `V` is enabled; the pointers and distances of `d` reach valid memory for
/// `R` rows, `C` columns and `k` steps.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // as above
unsafe fn dot<V: Vector, const R: usize, const C: usize>(d: &Dot<V::Elem>) {
    // SAFETY: all accesses are inside what the caller vouches for.
    unsafe {
        let mut sum = [[V::zero(); C]; R];
        let row = |i: usize| d.a.wrapping_offset(i as isize * d.a_row);
        let col = |j: usize| d.b.wrapping_offset(j as isize * d.b_col);
        let whole = d.k - d.k % V::LANES;
        let mut p = 0;
        while p < whole {
            let mut x = [V::zero(); R];
            for (i, x) in x.iter_mut().enumerate() {
                *x = V::load(row(i).wrapping_add(p));
            }
            for j in 0..C {
                let y = V::load(col(j).wrapping_add(p));
                for i in 0..R {
                    sum[i][j] = sum[i][j].fma(x[i], y);
                }
            }
            p += V::LANES;
        }
        if p < d.k {
            let mask = V::mask(d.k - p);
            for j in 0..C {
                let y = V::load_mask(col(j).wrapping_add(p), mask);
                for i in 0..R {
                    let x = V::load_mask(row(i).wrapping_add(p), mask);
                    sum[i][j] = sum[i][j].fma(x, y);
                }
            }
        }
        // counts that are known: sums whose addresses are taken would live in memory, not registers
        for i in 0..R {
            let c = d.c.wrapping_offset(i as isize * d.c_row);
            for four in 0..C.div_ceil(4) {
                let mut parts = [V::zero(); 4];
                for j in 0..4 {
                    if 4 * four + j < C {
                        parts[j] = sum[i][4 * four + j];
                    }
                }
                let totals = V::sums(parts);
                for j in 0..4 {
                    if 4 * four + j < C {
                        *c.wrapping_add(4 * four + j) = totals[j];
                    }
                }
            }
        }
    }
}

/// A [`Kernels`] from functions generic over rows, panels and tail.
macro_rules! kernels {
    ($(#[$doc:meta])* $name:ident, $t:ty, $v:ty, $tile:ident, $dot:ident,
     one: [$($one:literal)*], copy: [$($copy:literal)*], two: [$($two:literal)*], four: [$($four:literal)*], dot: [$($d:literal)*], dot8: [$($e:literal)*]) => {
        $(#[$doc])*
        pub static $name: crate::Kernels<$t> = crate::Kernels {
            panel: 2 * <$v as crate::Vector>::LANES,
            one: &[$($tile::<$one, 1, false, false>),*],
            copy: &[$($tile::<$copy, 1, false, true>),*],
            tail: &[$($tile::<$one, 1, true, false>),*],
            two: &[$($tile::<$two, 2, false, false>),*],
            four: &[$($tile::<$four, 4, false, false>),*],
            dot8: &[$($dot::<$e, 8>),*],
            dot4: &[$($dot::<$d, 4>),*],
            dot1: &[$($dot::<$d, 1>),*],
        };
    };
}
use kernels;
