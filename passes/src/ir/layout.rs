//! Sizes, strides and the questions asked of them.

use smallvec::SmallVec;
use std::fmt;

/// Sizes or strides, in elements; up to five dimensions without allocating.
pub type Dims = SmallVec<[i64; 5]>;

/// How elements are laid out in storage. The numbers are c10's.
///
/// ```
/// use straightline_passes::ir::Layout;
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
    /// Rows of different lengths, one after the other.
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
    /// As the input where the input is dense and non-overlapping, else row-major.
    Preserve,
    /// NHWC for four dimensions.
    ChannelsLast,
    /// NDHWC for five dimensions.
    ChannelsLast3d,
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

/// The number of elements of a shape; `i64::MAX` where there are more, which no memory has room for.
///
/// ```
/// use straightline_passes::ir::layout::numel;
/// assert_eq!(numel(&[2, 3]), 6);
/// assert_eq!(numel(&[]), 1);
/// assert_eq!(numel(&[4, 0]), 0);
/// ```
#[inline]
pub fn numel(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1i64, |n, s| n.saturating_mul(*s))
}

/// Row-major strides of a shape. A dimension of size 0 counts as 1, as in PyTorch.
///
/// ```
/// use straightline_passes::ir::layout::contiguous_strides;
/// assert_eq!(&contiguous_strides(&[2, 3, 4])[..], &[12, 4, 1]);
/// ```
pub fn contiguous_strides(sizes: &[i64]) -> Dims {
    let mut strides = Dims::from_elem(1, sizes.len());
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(sizes[i].max(1));
    }
    strides
}

/// Whether `strides` are row-major for `sizes`, dimensions of size 1 not counting; a tensor
/// without elements always is.
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

/// The strides of a fresh tensor that keeps the dimension order of `(sizes, strides)`: the strides
/// themselves where they are dense, row-major otherwise (PyTorch's `preserve_format`).
pub fn preserved_strides(sizes: &[i64], strides: &[i64]) -> Dims {
    if is_non_overlapping_and_dense(sizes, strides) {
        Dims::from_slice(strides)
    } else {
        contiguous_strides(sizes)
    }
}

/// The shape that two shapes broadcast to, or `None` where they do not.
///
/// ```
/// use straightline_passes::ir::layout::broadcast;
/// assert_eq!(broadcast(&[2, 1, 4], &[3, 1]).unwrap()[..], [2, 3, 4]);
/// assert_eq!(broadcast(&[2], &[3]), None);
/// ```
pub fn broadcast(a: &[i64], b: &[i64]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let mut out = Dims::from_elem(1, rank);
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
pub fn broadcast_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Dims {
    let lead = target.len() - sizes.len();
    let mut out = Dims::from_elem(0, target.len());
    for i in 0..sizes.len() {
        if !(sizes[i] == 1 && target[lead + i] != 1) {
            out[lead + i] = strides[i];
        }
    }
    out
}

/// The number of elements that storage must hold for `(sizes, strides)` at `offset`; `i64::MAX` where it is more.
pub fn storage_extent(sizes: &[i64], strides: &[i64], offset: i64) -> i64 {
    if sizes.contains(&0) {
        return 0;
    }
    sizes
        .iter()
        .zip(strides)
        .fold(offset.saturating_add(1), |n, (size, stride)| {
            n.saturating_add((size - 1).saturating_mul(*stride))
        })
}
