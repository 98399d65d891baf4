//! Sorting and selecting along a dimension: `sort`, `topk`, `kthvalue`, `median`, `mode`.

use super::moves::move_elements;
use super::nest;
use super::nest::rows_along;
use super::order::{Placed, check_ordered, fits_narrow, load_placed, nan_key};
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{
    In, Out, apart, ask, has_dim, has_dtype, row_major, same_but, same_dtype, same_sizes,
};
use straightline_passes::ir::DType;

/// One element of a row, wherever it goes.
///
/// # Safety
///
/// Both are elements of `size` bytes.
#[inline(always)]
unsafe fn put(size: usize, to: *mut u8, from: *const u8) {
    // SAFETY: as promised by the caller.
    unsafe {
        match size {
            1 => to.write(from.read()),
            2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => move_elements(size, to, 0, from, 0, 1),
        }
    }
}

/// The elements to write for each row: those at these places, in this order.
type Choose<'a, T> = &'a (dyn Fn(&mut Vec<T>) + Sync);

/// Lets `choose` order each row, and writes as many elements and places as the outputs have.
///
/// # Safety
///
/// As for [`sort`], with sizes of the outputs free along `dim`; `choose` leaves at least as many.
unsafe fn by_rows<T: Placed>(
    values: Strided<'_>,
    indices: Strided<'_>,
    a: Strided<'_>,
    dim: usize,
    flip: bool,
    choose: Choose<'_, T>,
) {
    let count = values.sizes.get(dim).copied().unwrap_or(1) as usize;
    let n = a.sizes.get(dim).copied().unwrap_or(1) as usize;
    let rows = rows_along(&[values, indices, a], dim);
    let [value_step, index_step, step] = rows.steps;
    let size = a.dtype.size();
    nest::parallel(rows.others.numel, n * 16, &|first, last| {
        let mut placed = Vec::with_capacity(n);
        for row in first..last {
            let [to, places, from] = rows.others.element(row);
            // SAFETY: the elements of one row, and as many as the outputs have.
            unsafe {
                load_placed::<T>(&mut placed, from, a.dtype, step, n, flip);
                choose(&mut placed);
                for (k, p) in placed.iter().take(count).enumerate() {
                    let place = p.place();
                    put(
                        size,
                        to.offset(k as isize * value_step),
                        from.offset(place as isize * step),
                    );
                    places
                        .offset(k as isize * index_step)
                        .cast::<i64>()
                        .write_unaligned(place as i64);
                }
            }
        }
    });
}

/// Results along `dim` and their places: of the sizes of `a` but along `dim`.
fn check_rows(
    kernel: &'static str,
    values: &Strided<'_>,
    indices: &Strided<'_>,
    a: &Strided<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    same_sizes(kernel, &[values, indices])?;
    same_but(kernel, dim, values, a)?;
    same_dtype(kernel, &[values, a])?;
    has_dtype(kernel, indices, DType::I64)?;
    has_dim(kernel, dim, a)
}

/// The elements along `dim` in order, and where each was; equal ones keep their order if `stable`.
/// NaN is the largest.
pub fn sort(
    values: Out<'_>,
    indices: Out<'_>,
    a: In<'_>,
    dim: usize,
    descending: bool,
    stable: bool,
) -> Result<(), KernelError> {
    apart("sort", &[a])?;
    let (values, indices, a) = (values.raw(), indices.raw(), a.raw());
    check_rows("sort", &values, &indices, &a, dim)?;
    same_sizes("sort", &[&values, &a])?;
    check_ordered("sort", a.dtype)?;
    if a.numel() == 0 {
        return Ok(());
    }
    let n = a.sizes.get(dim).copied().unwrap_or(1) as usize;
    // SAFETY: as promised by the caller.
    unsafe {
        if fits_narrow(a.dtype, n) {
            by_rows::<u64>(values, indices, a, dim, descending, &|row| {
                sort_row(row, stable);
            });
        } else {
            by_rows::<u128>(values, indices, a, dim, descending, &|row| {
                sort_row(row, stable);
            });
        }
    }
    Ok(())
}

/// An element's key comes before its place, so that equal ones can be ordered by place if required.
fn sort_row<T: Placed>(row: &mut [T], stable: bool) {
    match stable {
        true => row.sort_unstable(),
        false => sort_loosely(row),
    }
}

/// Moves the median of three places to `to`.
fn median_to<T: Placed>(row: &mut [T], to: usize, [x, y, z]: [usize; 3]) {
    let less = |i: usize, j: usize| row[i].key() < row[j].key();
    let median = match (less(x, y), less(y, z), less(x, z)) {
        (true, true, _) | (false, false, false) => y,
        (true, false, true) | (false, true, false) => z,
        _ => x,
    };
    row.swap(to, median);
}

/// Parts a stretch of more than three by the median of three: elements before the returned index
/// are not above it, those from there on not below.
fn partition<T: Placed>(row: &mut [T], first: usize, last: usize) -> usize {
    median_to(row, first, [first + 1, first + (last - first) / 2, last - 1]);
    let pivot = row[first].key();
    let (mut i, mut j) = (first + 1, last);
    // the pivot is a median of three, so that both scans meet an element to stop at
    loop {
        while row[i].key() < pivot {
            i += 1;
        }
        j -= 1;
        while pivot < row[j].key() {
            j -= 1;
        }
        if i >= j {
            return i;
        }
        row.swap(i, j);
        i += 1;
    }
}

/// Sorts as `std::sort` of the C++ library that PyTorch is built with, which shows in the order of
/// equal elements.
fn sort_loosely<T: Placed>(row: &mut [T]) {
    let mut stretches = vec![(0, row.len(), 2 * row.len().max(1).ilog2())];
    while let Some((first, mut last, mut rounds)) = stretches.pop() {
        while last - first > 16 {
            if rounds == 0 {
                row[first..last].sort_unstable();
                break;
            }
            rounds -= 1;
            let cut = partition(row, first, last);
            stretches.push((cut, last, rounds));
            last = cut;
        }
    }
    // no element is more than a stretch away from its place
    for i in 1..row.len() {
        let moved = row[i];
        let mut to = i;
        while to > 0 && moved.key() < row[to - 1].key() {
            row[to] = row[to - 1];
            to -= 1;
        }
        row[to] = moved;
    }
}

/// Brings the `k` smallest to the front, in the order in which the selection of the C++ library
/// that PyTorch is built with leaves them: `sorted=False` shows it, and so do ties.
fn select_front<T: Placed>(row: &mut [T], k: usize) {
    let nth = k - 1;
    let (mut first, mut last) = (0, row.len());
    let mut rounds = 2 * row.len().ilog2();
    while last - first > 3 {
        if rounds == 0 {
            row[first..last].select_nth_unstable(nth - first);
            return;
        }
        rounds -= 1;
        let cut = partition(row, first, last);
        if cut <= nth {
            first = cut;
        } else {
            last = cut;
        }
    }
    row[first..last].sort_by_key(|t| t.key());
}

/// Brings the element that would be at place `k` of the sorted row there, by exchanges in the order
/// that PyTorch's `kthvalue` makes them in (the selection of Numerical Recipes, with the median of
/// three as pivot), which shows in the places of equal elements.
fn select_place<T: Placed>(row: &mut [T], k: usize) {
    let above = |row: &[T], i: usize, j: usize| row[i].key() > row[j].key();
    let (mut left, mut right) = (0, row.len().saturating_sub(1));
    while right > left {
        if right == left + 1 {
            if above(row, left, right) {
                row.swap(left, right);
            }
            return;
        }
        row.swap(left + (right - left) / 2, left + 1);
        for (i, j) in [(left + 1, right), (left, right), (left + 1, left)] {
            if above(row, i, j) {
                row.swap(i, j);
            }
        }
        let pivot = row[left].key();
        let (mut i, mut j) = (left + 1, right);
        // the ends are not below and not above the pivot, so that both scans meet an element to
        // stop at
        loop {
            i += 1;
            while pivot > row[i].key() {
                i += 1;
            }
            j -= 1;
            while row[j].key() > pivot {
                j -= 1;
            }
            if j < i {
                break;
            }
            row.swap(i, j);
        }
        row.swap(left, j);
        if j <= k {
            left = i;
        }
        if j >= k {
            // `j` is behind `left`, which was exchanged with it
            right = j - 1;
        }
    }
}

/// The extremes of a row to its front.
fn choose_top<T: Placed>(row: &mut Vec<T>, k: usize, sorted: bool) {
    if k == 0 {
        return;
    }
    if k * 64 <= row.len() {
        row.select_nth_unstable(k - 1);
        row.truncate(k);
        row.sort_unstable();
        return;
    }
    select_front(row, k);
    row.truncate(k);
    if sorted {
        row.sort_by_key(|t| t.key());
    }
}

/// The largest or smallest elements along `dim`, as many as the outputs have there, and where they
/// are. Of equal ones the first are taken.
pub fn topk(
    values: Out<'_>,
    indices: Out<'_>,
    a: In<'_>,
    dim: usize,
    largest: bool,
    sorted: bool,
) -> Result<(), KernelError> {
    apart("topk", &[a])?;
    let (values, indices, a) = (values.raw(), indices.raw(), a.raw());
    check_rows("topk", &values, &indices, &a, dim)?;
    ask("topk", values.sizes.get(dim) <= a.sizes.get(dim), "no more results than elements")?;
    check_ordered("topk", a.dtype)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let n = a.sizes.get(dim).copied().unwrap_or(1) as usize;
    let k = values.sizes.get(dim).copied().unwrap_or(1) as usize;
    // SAFETY: as promised by the caller.
    unsafe {
        if fits_narrow(a.dtype, n) {
            by_rows::<u64>(values, indices, a, dim, largest, &|row| {
                choose_top(row, k, sorted);
            });
        } else {
            by_rows::<u128>(values, indices, a, dim, largest, &|row| {
                choose_top(row, k, sorted);
            });
        }
    }
    Ok(())
}

/// Which element of each row is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// The `k`-th smallest, counted from 0.
    Kth(usize),
    /// The lower median, or a NaN if there is one.
    Median,
    /// The lower median of the elements that are not NaN.
    NanMedian,
    /// The most frequent, the smallest of several; the last place where it is.
    Mode,
}

fn choose_one<T: Placed>(row: &mut [T], which: Selection, nan: Option<u64>) {
    let is_nan = |t: &T| nan == Some(t.key());
    let at = match which {
        Selection::Kth(k) => k,
        Selection::Median => match row.iter().position(is_nan) {
            Some(first) => {
                row.swap(0, first);
                return;
            }
            None => (row.len() - 1) / 2,
        },
        Selection::NanMedian => {
            let numbers = row.iter().filter(|t| !is_nan(t)).count();
            // of NaN alone, as of numbers
            let of = if numbers == 0 { row.len() } else { numbers };
            (of - 1) / 2
        }
        Selection::Mode => {
            row.sort_unstable();
            let (mut best, mut longest) = (0, 0);
            let mut start = 0;
            while start < row.len() {
                let key = row[start].key();
                // no NaN is equal to another
                let run = match nan == Some(key) {
                    true => 1,
                    false => row[start..].iter().take_while(|t| t.key() == key).count(),
                };
                if run > longest {
                    longest = run;
                    best = start + run - 1;
                }
                start += run;
            }
            row.swap(0, best);
            return;
        }
    };
    match which {
        Selection::Kth(_) => select_place(row, at),
        _ => {
            row.select_nth_unstable(at);
        }
    }
    row.swap(0, at);
}

/// One element of each row along `dim`, and where it is.
pub fn select_along(
    which: Selection,
    values: Out<'_>,
    indices: Out<'_>,
    a: In<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    apart("select_along", &[a])?;
    let (values, indices, a) = (values.raw(), indices.raw(), a.raw());
    check_rows("select", &values, &indices, &a, dim)?;
    ask("select", values.sizes.get(dim).is_none_or(|n| *n == 1), "one result for each row")?;
    check_ordered("select", a.dtype)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let n = a.sizes.get(dim).copied().unwrap_or(1) as usize;
    let enough = match which {
        Selection::Kth(k) => k < n,
        _ => n > 0,
    };
    if !enough {
        return Err(KernelError::EmptyReduction { op: format!("{which:?}").to_lowercase() });
    }
    let nan = nan_key(a.dtype);
    // SAFETY: as promised by the caller.
    unsafe {
        if fits_narrow(a.dtype, n) {
            by_rows::<u64>(values, indices, a, dim, false, &|row| {
                choose_one(row, which, nan);
            });
        } else {
            by_rows::<u128>(values, indices, a, dim, false, &|row| {
                choose_one(row, which, nan);
            });
        }
    }
    Ok(())
}

/// The elements of a row-major vector grouped by value: what `unique` needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups {
    /// The place of a member of each group, smallest value first (or in order of appearance, for
    /// runs).
    pub first: Vec<i64>,
    /// How many members each group has.
    pub counts: Vec<i64>,
    /// The group of each element.
    pub of: Vec<i64>,
}

impl Groups {
    fn start(&mut self, place: usize) {
        self.first.push(place as i64);
        self.counts.push(0);
    }

    fn add(&mut self, place: usize) {
        let group = self.counts.len() - 1;
        self.counts[group] += 1;
        self.of[place] = group as i64;
    }
}

fn grouped<T: Placed>(p: *const u8, dtype: DType, n: usize) -> Groups {
    let mut placed: Vec<T> = Vec::with_capacity(n);
    // SAFETY: the caller of `groups` vouches for the vector.
    unsafe { load_placed(&mut placed, p, dtype, dtype.size() as isize, n, false) };
    placed.sort_unstable();
    let nan = nan_key(dtype);
    let mut groups = Groups { of: vec![0; n], ..Groups::default() };
    let mut last = None;
    for t in placed {
        let key = t.key();
        // no NaN is equal to another
        if last != Some(key) || nan == Some(key) {
            groups.start(t.place());
            last = Some(key);
        }
        groups.add(t.place());
    }
    groups
}

/// Groups equal elements of a row-major vector. Each NaN is a group of its own.
pub fn groups(a: In<'_>) -> Result<Groups, KernelError> {
    let a = a.raw();
    row_major("unique", &[&a])?;
    check_ordered("unique", a.dtype)?;
    let n = a.numel();
    Ok(if fits_narrow(a.dtype, n) {
        grouped::<u64>(a.ptr, a.dtype, n)
    } else {
        grouped::<u128>(a.ptr, a.dtype, n)
    })
}

/// Compares two rows of a matrix by their keys.
///
/// # Safety
///
/// Both rows have `n` contiguous elements.
unsafe fn compare_rows(x: *const u8, y: *const u8, dtype: DType, n: usize) -> std::cmp::Ordering {
    use super::order::read_key;
    let size = dtype.size();
    for i in 0..n {
        // SAFETY: element i of each.
        let (a, b) =
            unsafe { (read_key(x.add(i * size), dtype), read_key(y.add(i * size), dtype)) };
        if a != b {
            return a.cmp(&b);
        }
    }
    std::cmp::Ordering::Equal
}

/// Groups equal rows of a row-major matrix `[rows, width]`: neighbours only, or in lexicographic
/// order.
pub fn row_groups(a: In<'_>, consecutive: bool) -> Result<Groups, KernelError> {
    let a = a.raw();
    row_major("unique", &[&a])?;
    ask("unique", a.sizes.len() == 2, "a matrix")?;
    check_ordered("unique", a.dtype)?;
    let (rows, width) = (a.sizes[0] as usize, a.sizes[1] as usize);
    let bytes = width * a.dtype.size();
    let compare = |x: &usize, y: &usize| {
        // SAFETY: two rows of the matrix.
        unsafe {
            compare_rows(
                a.ptr.wrapping_add(x * bytes),
                a.ptr.wrapping_add(y * bytes),
                a.dtype,
                width,
            )
        }
    };
    let nan = nan_key(a.dtype);
    // SAFETY: elements of the row.
    let has_nan = |row: usize| unsafe {
        let size = a.dtype.size();
        nan.is_some_and(|nan| {
            (0..width)
                .any(|i| super::order::read_key(a.ptr.add(row * bytes + i * size), a.dtype) == nan)
        })
    };
    let mut order: Vec<usize> = (0..rows).collect();
    if !consecutive {
        order.sort_by(compare);
    }
    let mut groups = Groups { of: vec![0; rows], ..Groups::default() };
    let mut last: Option<usize> = None;
    for row in order {
        let same = last.is_some_and(|l| compare(&l, &row).is_eq()) && !has_nan(row);
        if !same {
            groups.start(row);
        }
        last = Some(row);
        groups.add(row);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(values: &[u64], k: usize, sorted: bool) -> Vec<usize> {
        let mut row: Vec<u64> =
            (values.iter().enumerate()).map(|(i, v)| u64::new(100 - v, i)).collect();
        choose_top(&mut row, k, sorted);
        row.into_iter().map(Placed::place).collect()
    }

    #[test]
    fn unsorted_extremes_come_in_the_order_of_pytorch() {
        assert_eq!(top(&[3, 1, 2, 5, 4, 7, 6], 4, false), [3, 6, 5, 4]);
        assert_eq!(top(&[3, 1, 2, 5, 4, 7, 6], 4, true), [5, 6, 3, 4]);
        // many rounds: each pattern of ends and middles
        for n in 1..40 {
            let values: Vec<u64> = (0..n).map(|i| i * 7 % 13).collect();
            for k in 1..=n as usize {
                let mut found: Vec<u64> =
                    top(&values, k, false).iter().map(|i| values[*i]).collect();
                found.sort_unstable_by(|a, b| b.cmp(a));
                let mut expect = values.clone();
                expect.sort_unstable_by(|a, b| b.cmp(a));
                expect.truncate(k);
                assert_eq!(found, expect, "{n} {k}");
            }
        }
    }

    #[test]
    fn medians_and_modes() {
        let one = |keys: &[u64], which| {
            let mut row: Vec<u64> =
                (keys.iter().enumerate()).map(|(i, k)| u64::new(*k, i)).collect();
            choose_one(&mut row, which, Some(99));
            row[0].place()
        };
        assert_eq!(one(&[3, 1, 2, 4], Selection::Median), 2);
        assert_eq!(one(&[3, 99, 2, 99], Selection::Median), 1);
        assert_eq!(one(&[3, 99, 2, 99], Selection::NanMedian), 2);
        assert_eq!(one(&[3, 1, 1, 3, 2], Selection::Mode), 2);
        assert_eq!(one(&[7, 99, 99], Selection::Mode), 0);
    }
}
