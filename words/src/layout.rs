//! Sizes and strides, and functions of them.

use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;

/// Sizes or strides, in elements; up to five dimensions without allocating.
pub type Dims = SmallVec<[i64; 5]>;

/// How elements are laid out in storage. The numbers are c10's.
///
/// ```
/// use straightline_words::Layout;
/// assert_eq!(Layout::from_number(2), Some(Layout::SparseCsr));
/// assert_eq!(Layout::Sparse.to_string(), "torch.sparse_coo");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Layout {
    /// One storage, one stride per dimension.
    #[default]
    Strided = 0,
    /// Coordinates and values.
    Sparse = 1,
    /// Compressed rows: where each row begins, columns, values.
    SparseCsr = 2,
    /// oneDNN's own.
    Mkldnn = 3,
    /// Compressed columns.
    SparseCsc = 4,
    /// Compressed rows of dense blocks.
    SparseBsr = 5,
    /// Compressed columns of dense blocks.
    SparseBsc = 6,
    /// Rows of different lengths, one after another.
    Jagged = 7,
}

impl Layout {
    /// Every layout, in the order of the numbers.
    pub const ALL: [Layout; 8] = [
        Layout::Strided,
        Layout::Sparse,
        Layout::SparseCsr,
        Layout::Mkldnn,
        Layout::SparseCsc,
        Layout::SparseBsr,
        Layout::SparseBsc,
        Layout::Jagged,
    ];

    /// The layout with this number.
    pub fn from_number(n: i64) -> Option<Layout> {
        Layout::ALL.into_iter().find(|l| *l as i64 == n)
    }

    /// PyTorch's name, without its module: `strided`, `sparse_coo`, `sparse_csr` ...
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Strided => "strided",
            Layout::Sparse => "sparse_coo",
            Layout::SparseCsr => "sparse_csr",
            Layout::Mkldnn => "_mkldnn",
            Layout::SparseCsc => "sparse_csc",
            Layout::SparseBsr => "sparse_bsr",
            Layout::SparseBsc => "sparse_bsc",
            Layout::Jagged => "jagged",
        }
    }

    /// The layout of this [name](Layout::name).
    pub fn from_name(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|l| l.name() == name)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}

/// The order of dimensions in memory that an operator is asked to produce.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MemoryFormat {
    /// Row-major.
    #[default]
    Contiguous,
    /// The input's order if the input is dense and non-overlapping, else row-major.
    Preserve,
    /// NHWC for four dimensions.
    ChannelsLast,
    /// NDHWC for five dimensions.
    ChannelsLast3d,
}

impl MemoryFormat {
    /// The format that PyTorch gives this number.
    ///
    /// ```
    /// use straightline_words::MemoryFormat;
    /// assert_eq!(MemoryFormat::from_number(2), Some(MemoryFormat::ChannelsLast));
    /// ```
    pub fn from_number(n: i64) -> Option<MemoryFormat> {
        Some(match n {
            0 => MemoryFormat::Contiguous,
            1 => MemoryFormat::Preserve,
            2 => MemoryFormat::ChannelsLast,
            3 => MemoryFormat::ChannelsLast3d,
            _ => return None,
        })
    }
}

impl fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        })
    }
}

/// The number of elements of a shape; `i64::MAX` where there are more, which no memory has room
/// for.
///
/// ```
/// use straightline_words::layout::numel;
/// assert_eq!(numel(&[2, 3]), 6);
/// assert_eq!(numel(&[]), 1);
/// assert_eq!(numel(&[4, 0]), 0);
/// ```
#[inline]
pub fn numel(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1i64, |n, s| n.saturating_mul(*s))
}

/// As many equal numbers. Few of them are written in place, which `SmallVec::from_elem` does in a
/// loop behind a call.
///
/// ```
/// use straightline_words::layout::filled;
/// assert_eq!(filled(7, 3)[..], [7, 7, 7]);
/// assert_eq!(filled(0, 9).len(), 9);
/// ```
#[inline]
pub fn filled(value: i64, n: usize) -> Dims {
    match n <= 5 {
        true => Dims::from_buf_and_len([value; 5], n),
        false => Dims::from_elem(value, n),
    }
}

/// Row-major strides of a shape. A dimension of size 0 counts as 1, as in PyTorch.
///
/// ```
/// use straightline_words::layout::contiguous_strides;
/// assert_eq!(&contiguous_strides(&[2, 3, 4])[..], &[12, 4, 1]);
/// ```
#[inline]
pub fn contiguous_strides(sizes: &[i64]) -> Dims {
    let mut strides = filled(1, sizes.len());
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(sizes[i].max(1));
    }
    strides
}

/// Whether `strides` are row-major for `sizes`, dimensions of size 1 not counting; a tensor
/// without elements always is.
#[inline]
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    let mut want = 1;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size != 1 {
            if stride != want {
                return false;
            }
            want = want.saturating_mul(size);
        }
    }
    true
}

/// Whether the elements fill a block of storage exactly once, in some order of the dimensions.
pub fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if is_contiguous(sizes, strides) {
        return true;
    }
    let mut dims: SmallVec<[(i64, i64); 5]> = sizes
        .iter()
        .zip(strides)
        .filter(|(size, _)| **size != 1)
        .map(|(&size, &stride)| (stride, size))
        .collect();
    dims.sort_unstable();
    let mut want = 1;
    for (stride, size) in dims {
        if stride != want {
            return false;
        }
        want = want.saturating_mul(size);
    }
    true
}

/// The dimensions from the fastest to the slowest in memory, as PyTorch's TensorIterator sorts
/// them: `operands` are the strides of what is read as `sizes`, 0 where a dimension is repeated.
/// Ambiguous pairs keep their row-major order.
///
/// ```
/// use straightline_words::layout::memory_order;
/// assert_eq!(memory_order(&[2, 3], &[[1, 2]])[..], [0, 1]);
/// assert_eq!(memory_order(&[2, 3], &[[0, 5]])[..], [1, 0]);
/// ```
pub fn memory_order(sizes: &[i64], operands: &[impl AsRef<[i64]>]) -> SmallVec<[usize; 5]> {
    let rank = sizes.len();
    let mut order: SmallVec<[usize; 5]> = (0..rank).rev().collect();
    let slower = |d0: usize, d1: usize| -> Option<bool> {
        for strides in operands {
            let (s0, s1) = (strides.as_ref()[d0], strides.as_ref()[d1]);
            if s0 == 0 || s1 == 0 {
                continue;
            }
            if s0 != s1 {
                return Some(s0 > s1);
            }
            if sizes[d0] > sizes[d1] {
                return Some(true);
            }
        }
        None
    };
    // an insertion sort that passes over ambiguous pairs
    for i in 1..rank {
        let mut at = i;
        for j in (0..i).rev() {
            match slower(order[j], order[at]) {
                Some(true) => {
                    order.swap(j, at);
                    at = j;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    order
}

/// The strides of a fresh tensor that keeps the dimension order of `(sizes, strides)`: the strides
/// themselves where they are dense, else dense ones in the same order (PyTorch's
/// `preserve_format`).
///
/// ```
/// use straightline_words::layout::preserved_strides;
/// assert_eq!(preserved_strides(&[3, 2], &[1, 3])[..], [1, 3]);
/// assert_eq!(preserved_strides(&[3, 2], &[2, 9])[..], [1, 3]);
/// ```
#[inline]
pub fn preserved_strides(sizes: &[i64], strides: &[i64]) -> Dims {
    if is_non_overlapping_and_dense(sizes, strides) {
        return Dims::from_slice(strides);
    }
    let mut out = filled(0, sizes.len());
    let mut next: i64 = 1;
    for d in memory_order(sizes, &[strides]) {
        out[d] = next;
        next = next.saturating_mul(sizes[d].max(1));
    }
    out
}

/// The shape that two shapes broadcast to, or `None` if they do not.
///
/// ```
/// use straightline_words::layout::broadcast;
/// assert_eq!(broadcast(&[2, 1, 4], &[3, 1]).unwrap()[..], [2, 3, 4]);
/// assert_eq!(broadcast(&[2], &[3]), None);
/// ```
#[inline]
pub fn broadcast(a: &[i64], b: &[i64]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let mut out = filled(1, rank);
    for i in 0..rank {
        let at = |s: &[i64]| (i + s.len()).checked_sub(rank).map_or(1, |k| s[k]);
        out[i] = match (at(a), at(b)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        };
    }
    Some(out)
}

/// Strides that read a `(sizes, strides)` tensor as `target`, a shape it broadcasts to: stride 0
/// where a dimension is repeated.
#[inline]
pub fn broadcast_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Dims {
    let lead = target.len() - sizes.len();
    let mut out = filled(0, target.len());
    for i in 0..sizes.len() {
        if !(sizes[i] == 1 && target[lead + i] != 1) {
            out[lead + i] = strides[i];
        }
    }
    out
}

/// The elements of a storage that a geometry reaches: from its first to past its last, for strides
/// of any sign. The range is empty if a dimension has size 0, regardless of strides and offset.
/// `None` if a size is negative or a position overflows.
///
/// All questions about the memory of a tensor, or about the overlap of two, use this function or
/// one of those below.
///
/// ```
/// use straightline_words::layout::reach;
/// assert_eq!(reach(&[2, 3], &[3, 1], 4), Some(4..10));
/// assert_eq!(reach(&[2, 3], &[-3, 1], 4), Some(1..7));
/// assert_eq!(reach(&[64, 0, 3], &[2, 0, 0], 4), Some(4..4));
/// assert_eq!(reach(&[2, 2], &[i64::MAX, 1], 4), None);
/// ```
#[inline]
pub fn reach(sizes: &[i64], strides: &[i64], offset: i64) -> Option<Range<i64>> {
    let (mut first, mut last) = (Some(offset), Some(offset));
    for (size, stride) in sizes.iter().zip(strides) {
        match *size {
            0 => return Some(offset..offset),
            1 => {}
            n => match (n - 1).checked_mul(*stride).filter(|_| n > 0) {
                Some(along) if along < 0 => first = first.and_then(|at| at.checked_add(along)),
                Some(along) => last = last.and_then(|at| at.checked_add(along)),
                // another dimension may have no elements
                None => last = None,
            },
        }
    }
    Some(first?..last?.checked_add(1)?)
}

/// The number of elements that storage must hold for `(sizes, strides)` at `offset`; `i64::MAX` on
/// overflow.
///
/// ```
/// use straightline_words::layout::storage_extent;
/// assert_eq!(storage_extent(&[2, 3], &[3, 1], 4), 10);
/// assert_eq!(storage_extent(&[2, 0], &[3, 1], 4), 0);
/// assert_eq!(storage_extent(&[2, 3], &[i64::MAX, 1], 4), i64::MAX);
/// ```
pub fn storage_extent(sizes: &[i64], strides: &[i64], offset: i64) -> i64 {
    match reach(sizes, strides, offset) {
        Some(r) if r.is_empty() => 0,
        Some(r) => r.end,
        None => i64::MAX,
    }
}

/// [`storage_extent`] in bytes, for elements of `size` bytes; `usize::MAX`, which no allocator
/// grants, on overflow or if an element lies before the storage.
///
/// ```
/// use straightline_words::layout::storage_bytes;
/// assert_eq!(storage_bytes(4, &[2, 3], &[3, 1], 1), 28);
/// assert_eq!(storage_bytes(4, &[2, 3], &[i64::MAX, 1], 1), usize::MAX);
/// ```
#[inline]
pub fn storage_bytes(size: usize, sizes: &[i64], strides: &[i64], offset: i64) -> usize {
    match reach(sizes, strides, offset) {
        Some(r) if r.is_empty() => 0,
        Some(r) if r.start >= 0 => (r.end as usize).saturating_mul(size),
        _ => usize::MAX,
    }
}

/// [`storage_extent`] of unchecked numbers; `None` if no tensor in memory can have them: a negative
/// size, an element before the storage's first, or an element count or a position that overflows.
///
/// ```
/// use straightline_words::layout::checked_extent;
/// assert_eq!(checked_extent(&[2, 3], &[3, 1], 4), Some(10));
/// assert_eq!(checked_extent(&[2, 3], &[-3, 1], 4), Some(7));
/// assert_eq!(checked_extent(&[2, 3], &[-5, 1], 4), None);
/// assert_eq!(checked_extent(&[1 << 40, 1 << 40], &[0, 0], 4), None);
/// ```
pub fn checked_extent(sizes: &[i64], strides: &[i64], offset: i64) -> Option<usize> {
    sizes.iter().try_fold(1i64, |n, s| n.checked_mul((*s).max(1)))?;
    let reach = reach(sizes, strides, offset)?;
    match reach.is_empty() {
        true => Some(0),
        false if reach.start < 0 => None,
        false => usize::try_from(reach.end).ok(),
    }
}

/// The bytes of a storage that `(sizes, strides)` at `offset` reaches, for elements of `size`
/// bytes. Overflow saturates; without elements the range is empty.
///
/// ```
/// use straightline_words::layout::reached_bytes;
/// assert_eq!(reached_bytes(4, &[2, 3], &[3, 1], 1), 4..28);
/// assert!(reached_bytes(4, &[2, 0], &[3, 1], 1).is_empty());
/// ```
pub fn reached_bytes(size: usize, sizes: &[i64], strides: &[i64], offset: i64) -> Range<i64> {
    let reach = reach(sizes, strides, offset).unwrap_or(i64::MIN..i64::MAX);
    let bytes = |n: i64| n.saturating_mul(size as i64);
    bytes(reach.start)..bytes(reach.end)
}

/// Whether some element may lie where another one does. Dimensions that interleave without ever
/// meeting count as if they did.
///
/// ```
/// use straightline_words::layout::may_overlap;
/// assert!(!may_overlap(&[2, 3], &[3, 1]));
/// assert!(!may_overlap(&[2, 2], &[5, 2]));
/// assert!(may_overlap(&[2, 3], &[2, 1]));
/// assert!(may_overlap(&[2, 3], &[0, 1]));
/// assert!(!may_overlap(&[1, 3], &[0, 1]));
/// assert!(!may_overlap(&[0, 3], &[0, 0]));
/// ```
pub fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return false;
    }
    let mut dims: SmallVec<[(u64, i64); 5]> = (strides.iter().map(|s| s.unsigned_abs()))
        .zip(sizes.iter().copied())
        .filter(|(_, size)| *size != 1)
        .collect();
    dims.sort_unstable();
    let mut reach = 0u64;
    for (stride, size) in dims {
        if stride <= reach {
            return true;
        }
        reach = reach.saturating_add(stride.saturating_mul(size.unsigned_abs() - 1));
    }
    false
}

/// Whether a dimension repeats its elements: it has several of them and stride 0. False for a
/// tensor without elements.
pub fn repeats(sizes: &[i64], strides: &[i64]) -> bool {
    let repeated = |(size, stride): (&i64, &i64)| *size > 1 && *stride == 0;
    sizes.iter().zip(strides).any(repeated) && !sizes.contains(&0)
}

/// The sizes under which each element of a tensor is met once, where dimensions of stride 0 repeat
/// them.
///
/// ```
/// use straightline_words::layout::once;
/// assert_eq!(once(&[4, 3, 0], &[0, 1, 0])[..], [1, 3, 0]);
/// ```
pub fn once(sizes: &[i64], strides: &[i64]) -> Dims {
    let cell = |(size, stride): (&i64, &i64)| match stride {
        0 => (*size).min(1),
        _ => *size,
    };
    sizes.iter().zip(strides).map(cell).collect()
}
