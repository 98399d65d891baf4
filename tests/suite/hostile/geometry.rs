//! The same call on tensors that lie differently in memory.

use super::dice::Dice;
use straightline::ops::aten;
use straightline::{DType, Result, Tensor};

/// How a tensor comes to lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Geometry {
    /// A dimension has no elements, and strides are whatever they are.
    Empty,
    /// A dimension repeats its elements.
    Expanded,
    /// Neighbours share elements.
    Overlapping,
    /// The last element is the storage's last, the first is not its first.
    AtTheEnd,
    /// Elements are apart from each other, and from the storage's margins.
    Apart,
    /// Column after column, filling the storage.
    Turned,
}

impl Geometry {
    pub(super) const ALL: [Geometry; 6] = [
        Geometry::Empty,
        Geometry::Expanded,
        Geometry::Overlapping,
        Geometry::AtTheEnd,
        Geometry::Apart,
        Geometry::Turned,
    ];
}

/// Which dimension, counted from the last, and how far apart: the same for all tensors of a call,
/// so that they keep fitting each other.
pub(super) struct Layout {
    geometry: Geometry,
    dim: usize,
    numbers: [i64; 4],
    /// Of four tensors, how many lie so.
    share: usize,
}

impl Layout {
    pub(super) fn new(geometry: Geometry, dice: &mut Dice) -> Layout {
        Layout {
            geometry,
            dim: dice.below(3),
            numbers: std::array::from_fn(|_| dice.below(4) as i64),
            share: if geometry == Geometry::Empty { 4 } else { dice.below(4) + 1 },
        }
    }

    /// The tensor in this layout, in a storage of its own; with the same elements as far as it has
    /// as many.
    pub(super) fn place(&self, t: &Tensor, dice: &mut Dice) -> Result<Tensor> {
        if t.is_wrapped_number() || dice.below(4) >= self.share {
            return Ok(t.clone());
        }
        let (mut sizes, rank) = (t.sizes().to_vec(), t.dim());
        let dim = rank.checked_sub(self.dim + 1);
        let stride = |d: usize| self.numbers[d % 4];
        let (strides, offset, behind): (Vec<i64>, i64, i64) = match self.geometry {
            Geometry::Empty => {
                match dim {
                    Some(dim) if sizes[dim] != 1 || self.numbers[0] == 0 => sizes[dim] = 0,
                    Some(_) => {}
                    None => return Ok(t.clone()),
                }
                ((0..rank).map(stride).collect(), self.numbers[3], 0)
            }
            Geometry::Expanded => {
                let mut strides = contiguous(&sizes);
                if let Some(dim) = dim {
                    strides[dim] = 0;
                }
                (strides, 0, 0)
            }
            Geometry::Overlapping => ((0..rank).map(|d| 1 + stride(d) / 2).collect(), 0, 0),
            Geometry::AtTheEnd => (contiguous(&sizes), 1 + self.numbers[0], 0),
            Geometry::Apart => {
                let spread = |n: &i64| n + self.numbers[1] % 3;
                let wide: Vec<i64> = sizes.iter().map(spread).collect();
                let strides = contiguous(&wide).iter().map(|s| s * 2).collect();
                (strides, self.numbers[0], 3)
            }
            Geometry::Turned => {
                let turned: Vec<i64> = sizes.iter().rev().copied().collect();
                let mut strides = contiguous(&turned);
                strides.reverse();
                (strides, 0, 0)
            }
        };
        let last = |n: &i64| (n - 1).max(0);
        let end: i64 = (sizes.iter().zip(&strides)).map(|(n, s)| last(n) * s).sum();
        let len = match sizes.contains(&0) {
            true => self.numbers[1],
            false => offset + end + 1 + behind,
        };
        let base = aten::zeros(&[len], Some(t.dtype()), None, None, None)?;
        if t.dtype() != DType::Bool {
            // what lies between the elements is something that would show
            aten::fill_scalar_(&base, 77.into())?;
        }
        if sizes == t.sizes() && t.numel() > 0 {
            let mut cells = sizes.clone();
            for (n, s) in cells.iter_mut().zip(&strides) {
                *n = if *s == 0 { 1 } else { *n };
            }
            let mut from = t.clone();
            for (d, n) in cells.iter().enumerate() {
                from = aten::narrow(&from, d as i64, 0, *n)?;
            }
            // one place may stand for several elements: the last one stays
            write(&base, &from, &cells, &strides, offset)?;
        }
        aten::as_strided(&base, &sizes, &strides, Some(offset))
    }
}

fn write(base: &Tensor, from: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Result<()> {
    let numel: i64 = sizes.iter().product();
    let at: Vec<i64> = (0..numel)
        .map(|mut i| {
            let mut at = offset;
            for (n, s) in sizes.iter().zip(strides).rev() {
                at += i % n * s;
                i /= n;
            }
            at
        })
        .collect();
    let at = Tensor::from_vec(at, -1)?;
    let flat = aten::reshape(from, &[numel])?;
    aten::index_put_(base, &[Some(at)], &flat, false)?;
    Ok(())
}

fn contiguous(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// A tensor's whole storage, as bytes, and which of them the tensor's own elements are.
pub(super) struct Surroundings {
    tensor: Tensor,
    bytes: Vec<u8>,
    own: Vec<bool>,
    shape: (Vec<i64>, Vec<i64>, i64),
}

fn shape(t: &Tensor) -> (Vec<i64>, Vec<i64>, i64) {
    (t.sizes().to_vec(), t.strides().to_vec(), t.storage_offset())
}

/// The bytes of a storage, as far as `elements` of the tensor's dtype go.
fn bytes(t: &Tensor, elements: i64) -> Result<Vec<u8>> {
    let all = aten::as_strided(t, &[elements], &[1], Some(0))?;
    aten::view_dtype(&all, DType::U8)?.to_vec::<u8>()
}

impl Surroundings {
    /// Of a tensor whose storage holds no more than it and some elements around it; `written` where
    /// the call may write it.
    pub(super) fn of(t: &Tensor, written: bool) -> Result<Option<Surroundings>> {
        if t.is_wrapped_number() || t.dtype().is_quantized() || t.is_conj() || t.is_neg() {
            return Ok(None);
        }
        let (sizes, strides, offset) = shape(t);
        let last: i64 = (sizes.iter().zip(&strides)).map(|(n, s)| (n - 1).max(0) * s).sum();
        // the margins behind the last element: as many as there are
        let mut elements = if t.numel() == 0 { 0 } else { offset + last + 1 };
        while elements < 1 << 16 && aten::as_strided(t, &[elements + 1], &[1], Some(0)).is_ok() {
            elements += 1;
        }
        let size = t.dtype().size();
        let mut own = vec![false; elements as usize * size];
        if written && t.numel() > 0 {
            for mut i in 0..t.numel() {
                let mut at = offset;
                for (n, s) in sizes.iter().zip(&strides).rev() {
                    at += i % n * s;
                    i /= n;
                }
                own[at as usize * size..][..size].fill(true);
            }
        }
        Ok(Some(Surroundings {
            tensor: t.clone(),
            bytes: bytes(t, elements)?,
            own,
            shape: shape(t),
        }))
    }

    /// Whether another operand lies in the same storage.
    pub(super) fn shares_storage_with(&self, other: &Surroundings) -> bool {
        !std::ptr::eq(self, other) && self.tensor.shares_storage_with(&other.tensor)
    }

    /// Whether a byte that is not one of the tensor's own has changed.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        if shape(&self.tensor) != self.shape {
            // it has another shape now, and perhaps another storage
            return Ok(());
        }
        let elements = (self.bytes.len() / self.tensor.dtype().size()) as i64;
        let now = bytes(&self.tensor, elements).map_err(|e| e.to_string())?;
        let changed = (0..now.len()).find(|i| !self.own[*i] && now[*i] != self.bytes[*i]);
        changed.map_or(Ok(()), |i| {
            Err(format!("byte {i} of the storage of {:?} has changed", self.shape))
        })
    }
}
