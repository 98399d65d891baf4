//! Tensors that are handed out together, and go on sharing memory.

use super::Tensor;
use super::external::External;
use super::watcher;
use crate::error::Result;
use straightline_catalog::DeviceType;

impl Tensor {
    /// Tensors handed out together, to one holder: those that lie in one memory go on sharing it, if
    /// nobody else has that. Apart from this each is as of [`Tensor::into_external`].
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let halves = tensor([[1.0, 2.0], [3.0, 4.0]])?.chunk(2, 1)?;
    /// let halves = Tensor::into_externals(halves)?;
    /// assert!(halves.iter().all(|half| half.strides() == [2, 1] && !half.is_copy()));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn into_externals(tensors: Vec<Tensor>) -> Result<Vec<External>> {
        let at = std::panic::Location::caller();
        let ready =
            tensors.into_iter().map(|t| t.ready_to_leave(at)).collect::<Result<Vec<_>>>()?;
        // before any of them is copied, and lets go of its memory
        let alone = |t: &Tensor| {
            let storage = t.storage();
            let handles = storage.handles();
            handles == 1
                || handles == ready.iter().filter(|other| storage.same(other.storage())).count()
        };
        let alone: Vec<bool> = ready.iter().map(alone).collect();
        ready.into_iter().zip(alone).map(|(t, alone)| t.leave(alone)).collect()
    }

    /// The tensor without its history, and checked.
    pub(super) fn ready_to_leave(
        self,
        at: &'static std::panic::Location<'static>,
    ) -> Result<Tensor> {
        watcher::check_read(&self, "into_external()", Some(at))?;
        ensure_device!(
            self.device().kind == DeviceType::Cpu,
            "memory of `{}` is not handed out: move the tensor to `cpu` first",
            self.device()
        );
        let tensor = if self.has_math_bits() { self.resolved_with_strides()? } else { self };
        tensor.check_has_data("into_external()")?;
        let alone = tensor.storage().is_unshared() && tensor.handles() == 1;
        Ok(match alone && !tensor.is_reshaped() && !tensor.requires_grad() {
            true => tensor,
            // without its history; if nobody else has that, the memory is its own now
            false => {
                let plain = tensor.with_geometry(tensor.sizes(), tensor.strides(), tensor.offset());
                drop(tensor);
                plain
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    #[test]
    fn views_go_on_sharing_memory() {
        let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
        let at = x.data_ptr().unwrap();
        let views = [x.narrow(1, 1, 2), x.t(), Ok(x.clone()), tensor([7.0])];
        let views = views.into_iter().collect::<Result<Vec<_>>>().unwrap();
        // somebody else has the memory
        let out = Tensor::into_externals(views.clone()).unwrap();
        assert!(out.iter().all(|o| o.is_copy()));
        drop((out, x));
        let views: Vec<Tensor> = views.into_iter().map(|v| v.detach().unwrap()).collect();
        let out = Tensor::into_externals(views).unwrap();
        assert!(out.iter().all(|o| !o.is_copy()));
        let all: Vec<&[i64]> = out.iter().map(|o| o.strides()).collect();
        assert_eq!(all, [&[3, 1][..], &[1, 3], &[3, 1], &[1]]);
        assert_eq!((out[0].data(), out[1].data()), (at.wrapping_add(4), at));
        let conjugate = Tensor::from_vec(vec![num_complex::Complex::new(1f32, 2.0); 6], [2, 3]);
        let conjugate = conjugate.unwrap().t().unwrap().conj().unwrap().into_external().unwrap();
        assert_eq!(conjugate.strides(), [1, 3]);
        let back: Vec<Tensor> = out.into_iter().map(|o| o.into_tensor()).collect();
        assert_eq!(back[0].to_vec::<f32>().unwrap(), [2.0, 3.0, 5.0, 6.0]);
    }
}
