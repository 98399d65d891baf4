//! What kernels are given: memory that may be read or written for as long as the operand lives.
//!
//! Kernels are safe functions of [`In`] and [`Out`]. The caller that makes an operand promises,
//! once, that its elements may be accessed. Every kernel checks its other requirements, above all
//! sizes and dtypes, and reports violations by a typed error. In an in-place call an input may lie
//! on an output, element upon element; an input knows that it does ([`In::upon`]), and kernels that
//! read elements after they have written others refuse it.

mod checks;

pub(crate) use checks::{
    apart, ask, has_dim, has_dtype, reduces, row_major, same_but, same_dtype, same_sizes, within,
};

use super::integer::Bool8;
use super::strided::{KernelError, Strided};
use num_complex::Complex;
use straightline_passes::ir::{DType, Scalar};

/// What lies where an input does. As wide as a pointer: `Option` and `Result` of an operand keep
/// their tag where it has most values to spare, which would otherwise be the byte of the dtype, and
/// an operand copied around that byte is read back before the parts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Upon {
    Nothing,
    Result,
}

/// Elements that a kernel reads.
#[derive(Clone, Copy, Debug)]
pub struct In<'a> {
    raw: Strided<'a>,
    upon: Upon,
}

/// Elements that a kernel writes, each at an address of its own.
#[derive(Debug)]
pub struct Out<'a> {
    raw: Strided<'a>,
}

impl<'a> In<'a> {
    /// Elements to read.
    ///
    /// # Safety
    ///
    /// During `'a` they may be read, and nobody writes them; so may all memory between the first
    /// and the last of them.
    #[inline]
    pub unsafe fn new(raw: Strided<'a>) -> In<'a> {
        In { raw, upon: Upon::Nothing }
    }

    /// Elements to read, where a kernel may write exactly the same ones.
    ///
    /// # Safety
    ///
    /// During `'a` they may be read, and nobody writes them but through an [`Out`] of the same
    /// sizes, strides and size of element, which begins at the same address.
    #[inline]
    pub unsafe fn upon(raw: Strided<'a>) -> In<'a> {
        In { raw, upon: Upon::Result }
    }

    /// Whether the elements are those that an output of the same call writes.
    #[inline]
    pub fn is_upon(&self) -> bool {
        self.upon == Upon::Result
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.raw.dtype
    }

    /// The sizes.
    #[inline]
    pub fn sizes(&self) -> &'a [i64] {
        self.raw.sizes
    }

    /// The strides in elements.
    #[inline]
    pub fn strides(&self) -> &'a [i64] {
        self.raw.strides
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.raw.numel()
    }

    /// The same elements read as a larger tensor: `strides` are those of
    /// `layout::broadcast_strides`.
    ///
    /// # Errors
    /// The strides are not those that broadcast the operand to `sizes`.
    #[inline]
    pub fn broadcast(self, sizes: &'a [i64], strides: &'a [i64]) -> Result<In<'a>, KernelError> {
        let broadcasts = || {
            let rank = self.raw.sizes.len();
            rank <= sizes.len()
                && sizes.len() == strides.len()
                && (0..sizes.len()).all(|d| {
                    let own = (d + rank).checked_sub(sizes.len());
                    strides[d] == 0
                        || own.is_some_and(|o| {
                            self.raw.sizes[o] == sizes[d] && self.raw.strides[o] == strides[d]
                        })
                })
        };
        let same = self.raw.sizes == sizes && self.raw.strides == strides;
        if !same && !broadcasts() {
            return Err(KernelError::operands("broadcast", "strides that broadcast"));
        }
        let raw = Strided { sizes, strides, ..self.raw };
        Ok(In { raw, ..self })
    }

    /// The operand as places to read from; see [`Places`].
    ///
    /// # Errors
    /// The view reaches beyond the operand.
    pub fn places(self, sizes: &'a [i64], strides: &'a [i64]) -> Result<Places<'a>, KernelError> {
        apart("index", &[self])?;
        Places::new(self.raw, sizes, strides)
    }

    /// The elements, row by row.
    ///
    /// # Errors
    /// They do not lie so, are not aligned, are of another type, or may be written meanwhile.
    pub fn slice<T: Element>(self) -> Result<&'a [T], KernelError> {
        apart("a slice", &[self])?;
        let len = slice_len::<T>(&self.raw)?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: aligned elements of this type side by side, which nobody writes.
        Ok(unsafe { std::slice::from_raw_parts(self.raw.ptr.cast(), len) })
    }

    /// The elements' bytes, row by row.
    ///
    /// # Errors
    /// The elements do not lie so, or may be written meanwhile.
    pub(crate) fn bytes(self) -> Result<&'a [u8], KernelError> {
        apart("bytes", &[self])?;
        row_major("bytes", &[&self.raw])?;
        let len = self.numel() * self.dtype().size();
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: elements side by side, which nobody writes.
        Ok(unsafe { std::slice::from_raw_parts(self.raw.ptr, len) })
    }

    #[inline]
    pub(crate) fn raw(self) -> Strided<'a> {
        self.raw
    }
}

impl<'a> Out<'a> {
    /// Elements to write.
    ///
    /// # Safety
    ///
    /// During `'a` they may be read and written, by nobody else but through [`In::upon`], and so
    /// may all memory between the first and the last of them; each has an address of its own.
    #[inline]
    pub unsafe fn new(raw: Strided<'a>) -> Out<'a> {
        Out { raw }
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.raw.dtype
    }

    /// The sizes.
    #[inline]
    pub fn sizes(&self) -> &'a [i64] {
        self.raw.sizes
    }

    /// The strides in elements.
    #[inline]
    pub fn strides(&self) -> &'a [i64] {
        self.raw.strides
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.raw.numel()
    }

    /// The elements from `start` on along a dimension, as many as `sizes` says: the sizes of the
    /// output but for that dimension.
    ///
    /// # Errors
    /// The output has no such part.
    #[inline]
    pub fn part<'b>(
        &'b mut self,
        dim: usize,
        start: i64,
        sizes: &'b [i64],
    ) -> Result<Out<'b>, KernelError> {
        let own = self.raw.sizes;
        let fits = sizes.len() == own.len()
            && dim < own.len()
            && (0..own.len()).all(|d| d == dim || sizes[d] == own[d])
            && start >= 0
            && sizes[dim] >= 0
            && start.checked_add(sizes[dim]).is_some_and(|end| end <= own[dim]);
        ask("a part of a result", fits, "a part within the result")?;
        let step = start as isize * self.raw.byte_stride(dim);
        Ok(Out {
            raw: Strided {
                // a part without elements may begin behind the last one
                ptr: self.raw.ptr.wrapping_offset(step),
                sizes,
                ..self.raw
            },
        })
    }

    /// The output for a part of the work.
    #[inline]
    pub fn again(&mut self) -> Out<'_> {
        Out { raw: self.raw }
    }

    /// The elements that the output holds, for a kernel that reads each one before it writes it.
    #[inline]
    pub fn as_input(&self) -> In<'a> {
        In { raw: self.raw, upon: Upon::Result }
    }

    /// The operand as places to write to; see [`Places`].
    ///
    /// # Errors
    /// The view reaches beyond the operand.
    pub fn places(self, sizes: &'a [i64], strides: &'a [i64]) -> Result<Places<'a>, KernelError> {
        Places::new(self.raw, sizes, strides)
    }

    /// The elements, row by row.
    ///
    /// # Errors
    /// They do not lie so, are not aligned, or are of another type.
    pub fn slice<T: Element>(self) -> Result<&'a mut [T], KernelError> {
        let len = slice_len::<T>(&self.raw)?;
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: aligned elements of this type side by side, the output's alone; it is used up.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.raw.ptr.cast(), len) })
    }

    /// The elements' bytes, row by row, for what is valid for the dtype.
    ///
    /// # Errors
    /// The elements do not lie so.
    pub(crate) fn bytes(self) -> Result<&'a mut [u8], KernelError> {
        row_major("bytes", &[&self.raw])?;
        let len = self.numel() * self.dtype().size();
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: elements side by side, the output's alone; it is used up.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.raw.ptr, len) })
    }

    #[inline]
    pub(crate) fn raw(&self) -> Strided<'a> {
        self.raw
    }
}

/// A tensor seen as the places that offsets give: elements of stride 0 in the dimensions that are
/// indexed.
#[derive(Debug)]
pub struct Places<'a> {
    raw: Strided<'a>,
    /// How many elements beyond the view the tensor's memory reaches.
    beyond: i64,
}

impl<'a> Places<'a> {
    fn new(
        whole: Strided<'a>,
        sizes: &'a [i64],
        strides: &'a [i64],
    ) -> Result<Places<'a>, KernelError> {
        let beyond = reach(whole.sizes, whole.strides) - reach(sizes, strides);
        let same = sizes.len() == strides.len() && strides.iter().all(|s| *s >= 0);
        ask("index", same && (beyond >= 0 || sizes.contains(&0)), "places in its tensor")?;
        let raw = Strided { sizes, strides, ..whole };
        Ok(Places { raw, beyond })
    }

    /// The places, if all offsets lead to memory of the tensor.
    pub(crate) fn checked(
        self,
        kernel: &'static str,
        offsets: In<'_>,
    ) -> Result<Strided<'a>, KernelError> {
        let offsets = offsets.raw();
        has_dtype(kernel, &offsets, DType::I64)?;
        if offsets.sizes.contains(&0) {
            return Ok(self.raw);
        }
        let n = (reach(offsets.sizes, offsets.strides) + 1) as usize;
        // SAFETY: from the first element to the last, all memory of an operand may be read.
        let all = unsafe { std::slice::from_raw_parts(offsets.ptr.cast::<[u8; 8]>(), n) };
        let inside = |o: &[u8; 8]| (0..=self.beyond).contains(&i64::from_ne_bytes(*o));
        ask(kernel, all.iter().all(inside), "offsets within its tensor")?;
        Ok(self.raw)
    }
}

/// The offset of the last element; -1 if there is none.
fn reach(sizes: &[i64], strides: &[i64]) -> i64 {
    if sizes.contains(&0) {
        return -1;
    }
    sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum()
}

/// A number in memory, which kernels take as an operand of any sizes.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    bytes: [u64; 2],
    dtype: DType,
}

impl Number {
    /// The number as `dtype` has it.
    pub fn new(value: Scalar, dtype: DType) -> Number {
        let (re, im) = value.as_complex();
        let bytes = match dtype {
            DType::C128 => [re.to_bits(), im.to_bits()],
            _ => [scalar_bits(value, dtype), 0],
        };
        Number { bytes: bytes.map(u64::to_le), dtype }
    }

    /// The number as each element of a tensor.
    ///
    /// # Errors
    /// `zeros` are not as many zeros as there are sizes.
    pub fn operand<'a>(
        &'a self,
        sizes: &'a [i64],
        zeros: &'a [i64],
    ) -> Result<In<'a>, KernelError> {
        if zeros.len() != sizes.len() || zeros.iter().any(|s| *s != 0) {
            return Err(KernelError::operands("a number", "strides of 0"));
        }
        Ok(In {
            raw: Strided {
                ptr: self.bytes.as_ptr().cast_mut().cast(),
                dtype: self.dtype,
                sizes,
                strides: zeros,
            },
            upon: Upon::Nothing,
        })
    }
}

/// The bytes of a number in a dtype, at the low end.
pub(super) fn scalar_bits(value: Scalar, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => u64::from(half_bits(value, dtype)),
        DType::BF16 => u64::from(half_bits(value, dtype)),
        DType::F32 => u64::from((value.as_f64() as f32).to_bits()),
        DType::F64 => value.as_f64().to_bits(),
        DType::Bool => u64::from(value.as_bool()),
        DType::C64 => {
            let (re, im) = value.as_complex();
            u64::from((re as f32).to_bits()) | u64::from((im as f32).to_bits()) << 32
        }
        DType::C128 => unreachable!("two words: filled part by part"),
        DType::U8
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::QUInt8
        | DType::QInt8
        | DType::QInt32 => value.as_i64() as u64,
    }
}

/// Through `f32`, as the copy kernels convert.
fn half_bits(value: Scalar, dtype: DType) -> u16 {
    let x = value.as_f64() as f32;
    match dtype {
        DType::F16 => ::half::f16::from_f32(x).to_bits(),
        _ => ::half::bf16::from_f32(x).to_bits(),
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type that elements are in memory.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Whether elements of the dtype are of this type.
    fn is(dtype: DType) -> bool;
}

macro_rules! elements {
    ($($t:ty: $($dtype:ident)|+;)*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            #[inline]
            fn is(dtype: DType) -> bool {
                matches!(dtype, $(DType::$dtype)|+)
            }
        }
    )*};
}

elements! {
    f32: F32;
    f64: F64;
    ::half::f16: F16;
    ::half::bf16: BF16;
    i64: I64;
    i32: I32 | QInt32;
    i16: I16;
    i8: I8 | QInt8;
    u8: U8 | QUInt8 | Bool;
    Bool8: Bool;
    Complex<f32>: C64;
    Complex<f64>: C128;
}

fn slice_len<T: Element>(raw: &Strided<'_>) -> Result<usize, KernelError> {
    if !T::is(raw.dtype) {
        let wanted = std::any::type_name::<T>();
        return Err(KernelError::unsupported(format_args!("a slice of {wanted}"), raw.dtype));
    }
    row_major("a slice", &[raw])?;
    let len = raw.numel();
    if len != 0 && !raw.ptr.cast::<T>().is_aligned() {
        return Err(KernelError::operands("a slice", "aligned elements"));
    }
    Ok(len)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_part_lies_within_its_output() {
        let mut x = [0f32; 6];
        let mut out = output_of(&mut x, [2, 3], [3, 1]);
        assert!(out.part(1, 2, &[2, 2]).is_err());
        assert!(out.part(0, 0, &[1, 2]).is_err());
        assert!(out.part(2, 0, &[2, 3]).is_err());
        assert!(out.part(0, i64::MAX, &[1, 3]).is_err());
        let row = out.part(0, 1, &[1, 3]).unwrap();
        row.slice::<f32>().unwrap().fill(1.0);
        assert_eq!(x, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    }

    /// Numbers in a row as an operand.
    pub(crate) fn input<T: Element>(x: &[T]) -> In<'_> {
        input_of(x, [x.len() as i64], [1])
    }

    /// Numbers in a row as a result.
    pub(crate) fn output<T: Element>(x: &mut [T]) -> Out<'_> {
        let n = x.len() as i64;
        output_of(x, [n], [1])
    }

    /// Numbers as an operand of these sizes and strides, which lie within them.
    pub(crate) fn input_of<T: Element, const N: usize>(
        x: &[T],
        sizes: [i64; N],
        strides: [i64; N],
    ) -> In<'_> {
        assert!(reach(&sizes, &strides) < x.len() as i64);
        // SAFETY: borrowed for as long as the operand lives.
        unsafe { In::new(raw(x.as_ptr().cast_mut(), sizes, strides)) }
    }

    /// As [`input_of`], to write.
    pub(crate) fn output_of<T: Element, const N: usize>(
        x: &mut [T],
        sizes: [i64; N],
        strides: [i64; N],
    ) -> Out<'_> {
        assert!(reach(&sizes, &strides) < x.len() as i64);
        // SAFETY: borrowed for as long as the operand lives.
        unsafe { Out::new(raw(x.as_mut_ptr(), sizes, strides)) }
    }

    fn raw<T: Element, const N: usize>(
        ptr: *mut T,
        sizes: [i64; N],
        strides: [i64; N],
    ) -> Strided<'static> {
        let all = DType::ALL.iter().copied();
        let dtype = all.chain([DType::C64, DType::C128]).find(|d| T::is(*d));
        Strided {
            ptr: ptr.cast(),
            dtype: dtype.unwrap(),
            sizes: Box::leak(Box::new(sizes)),
            strides: Box::leak(Box::new(strides)),
        }
    }

    #[test]
    fn slices_are_of_the_dtype_and_apart_from_results() {
        let mut x = [1f32, 2.0, 3.0];
        assert_eq!(input(&x).slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert!(input(&x).slice::<i32>().is_err());
        let out = output(&mut x);
        assert!(out.as_input().slice::<f32>().is_err());
        out.slice::<f32>().unwrap()[1] = 5.0;
        assert_eq!(x[1], 5.0);
    }

    #[test]
    fn a_number_is_each_element() {
        let n = Number::new(Scalar::Float(1.5), DType::F16);
        assert!(n.operand(&[2], &[1]).is_err());
        let half = n.operand(&[], &[]).unwrap();
        assert_eq!(half.slice::<::half::f16>().unwrap()[0].to_f32(), 1.5);
    }

    #[test]
    fn an_operand_is_broadcast_to_sizes_that_it_fits() {
        let x = [1f32, 2.0, 3.0];
        let x = input(&x);
        assert!(x.broadcast(&[2, 3], &[0, 1]).is_ok());
        assert!(x.broadcast(&[2, 3], &[3, 1]).is_err());
        assert!(x.broadcast(&[4], &[1]).is_err());
        assert!(x.broadcast(&[3, 2], &[1, 0]).is_err());
    }
}
