//! Where the results of a kernel go: memory that its caller offers.
//!
//! A kernel allocates its results. A caller that has places for them offers those beforehand, by
//! dtype and size, and the allocations of this thread take them. There is no guarantee: a kernel
//! may compute its result elsewhere, or use the place for something else on the way, so the caller
//! looks where each result lies, and copies those that lie elsewhere.

use super::storage::Storage;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use straightline_catalog::DType;

/// A place for this many bytes of elements of a dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) data: NonNull<u8>,
    pub(crate) bytes: usize,
    pub(crate) dtype: DType,
}

#[derive(Default)]
struct Offered {
    places: SmallVec<[Place; 2]>,
    taken: SmallVec<[Storage; 2]>,
}

thread_local! {
    static ANY: Cell<bool> = const { Cell::new(false) };
    static OFFERED: RefCell<Offered> = RefCell::new(Offered::default());
}

/// Places on offer to this thread's allocations, until it is dropped.
pub(crate) struct Offer {
    /// What was on offer before: a kernel may itself run a compiled function.
    before: Offered,
}

impl Offer {
    /// Offers the places.
    ///
    /// # Safety
    ///
    /// Until the offer is dropped they may be read and written, and only by those they are given
    /// to.
    pub(crate) unsafe fn new(places: impl IntoIterator<Item = Place>) -> Offer {
        let offered = Offered { places: places.into_iter().collect(), ..Offered::default() };
        ANY.set(!offered.places.is_empty());
        Offer { before: OFFERED.replace(offered) }
    }

    /// Gives no more places.
    pub(crate) fn close(&self) {
        ANY.set(false);
    }

    /// Whether a storage is one of the places.
    pub(crate) fn has_given(&self, storage: &Storage) -> bool {
        OFFERED.with_borrow(|o| o.taken.iter().any(|t| t.same(storage)))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let offered = OFFERED.replace(std::mem::take(&mut self.before));
        ANY.set(OFFERED.with_borrow(|o| !o.places.is_empty()));
        for storage in offered.taken {
            let copied = storage.reclaim();
            #[cfg(test)]
            tests::COPIED.set(tests::COPIED.get() + usize::from(copied));
            let _ = copied;
        }
    }
}

/// A storage on a place of this size for elements of this dtype, if one is on offer.
#[inline(always)]
pub(super) fn take(dtype: DType, bytes: usize) -> Option<Storage> {
    if ANY.get() { take_place(dtype, bytes) } else { None }
}

#[cold]
fn take_place(dtype: DType, bytes: usize) -> Option<Storage> {
    OFFERED.with_borrow_mut(|offered| {
        let fits = |p: &Place| p.bytes == bytes && p.dtype == dtype;
        let at = offered.places.iter().position(fits)?;
        let place = offered.places[at].data;
        // SAFETY: as promised to `Offer::new`; dropping the offer reclaims what was taken.
        let storage = unsafe { Storage::lend(place, bytes) }.ok()?;
        offered.places.remove(at);
        offered.taken.push(storage.clone());
        Some(storage)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    thread_local! {
        /// How many results had to be moved out of their places on this thread.
        pub(super) static COPIED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn an_out_is_written_once() {
        use crate::ops::aten;
        let (x, out) = (Tensor::full([1000], 1.0).unwrap(), Tensor::full([1000], 0.0).unwrap());
        let place = out.data_ptr().unwrap();
        let before = COPIED.get();
        aten::add_out(&x, &x, 1.into(), &out).unwrap();
        aten::exp_out(&x, &out).unwrap();
        aten::mish_out(&x, &out).unwrap();
        assert_eq!((COPIED.get(), out.data_ptr().unwrap()), (before, place));
    }

    fn floats(data: NonNull<u8>) -> Place {
        Place { data, bytes: 4000, dtype: DType::F32 }
    }

    #[test]
    fn a_place_is_given_once_and_taken_back() {
        let mut memory = vec![0f32; 1000];
        let place = NonNull::new(memory.as_mut_ptr()).unwrap().cast();
        // SAFETY: the vector is looked at again after the offer.
        let offer = unsafe { Offer::new([floats(place)]) };
        let make = |n: i64| Tensor::full([n], 2.5).unwrap();
        let of_another_dtype = Tensor::full([1000], 1i32).unwrap();
        assert!(!offer.has_given(of_another_dtype.storage()));
        let other = make(999);
        assert!(!offer.has_given(other.storage()));
        let kept = make(1000);
        assert!(offer.has_given(kept.storage()));
        assert_eq!(kept.data_ptr().unwrap(), place.as_ptr());
        let second = make(1000);
        assert!(!offer.has_given(second.storage()));
        drop(offer);
        // a tensor that was kept has a copy of the numbers, not the place
        assert_ne!(kept.data_ptr().unwrap(), place.as_ptr());
        assert_eq!(memory[999], 2.5);
        memory.fill(0.0);
        assert_eq!(kept.to_vec::<f32>().unwrap(), vec![2.5; 1000]);
        assert_ne!(make(1000).data_ptr().unwrap(), place.as_ptr());
    }

    #[test]
    fn an_operator_computes_its_result_in_the_place() {
        let x = Tensor::full([10, 100], 1.0).unwrap();
        let mut memory = vec![0f32; 1000];
        let place = NonNull::new(memory.as_mut_ptr()).unwrap().cast();
        // SAFETY: the vector is looked at again after the offer.
        let offer = unsafe { Offer::new([floats(place)]) };
        let y = crate::ops::aten::cumsum(&x, 1, None).unwrap();
        assert_eq!(y.data_ptr().unwrap(), place.as_ptr());
        drop((y, offer));
        assert_eq!(memory[..100], (1..=100).map(|i| i as f32).collect::<Vec<_>>());
    }
}
