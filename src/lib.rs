//! straightline
pub mod dispatch;

pub use error::{Error, ErrorKind, Result};
pub use tensor::{Generator, Tensor};

/// The part of the error type that the dispatcher needs; the whole of it comes with the tensors.
mod error {
    /// `Result` with the crate's [`Error`].
    pub type Result<T, E = Error> = std::result::Result<T, E>;

    /// An error with its context.
    #[derive(Debug)]
    pub struct Error(Box<ErrorKind>);

    /// What went wrong.
    #[derive(Debug, thiserror::Error)]
    #[non_exhaustive]
    pub enum ErrorKind {
        /// The dispatcher refused.
        #[error(transparent)]
        Dispatch(#[from] crate::dispatch::DispatchError),
    }

    impl Error {
        /// What went wrong.
        pub fn kind(&self) -> &ErrorKind {
            &self.0
        }
    }

    impl std::fmt::Display for Error {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}", self.0)
        }
    }

    impl std::error::Error for Error {}

    impl<E: Into<ErrorKind>> From<E> for Error {
        fn from(e: E) -> Error {
            Error(Box::new(e.into()))
        }
    }
}

/// The part of a tensor that the dispatcher sees: its keys.
pub mod tensor {
    use crate::dispatch::DispatchKeySet;
    use std::sync::Arc;
    #[cfg(test)]
    use straightline_passes::ir::{DType, Device};
    use straightline_passes::ir::{DeviceType, Dims};

    /// A tensor without data.
    #[derive(Clone, Debug)]
    pub struct Tensor(Arc<(DispatchKeySet, Dims)>);

    impl Tensor {
        /// A CPU tensor of some sizes.
        pub fn from_slice<T>(_data: &[T], sizes: &[i64]) -> crate::Result<Tensor> {
            let keys = DispatchKeySet::for_device(DeviceType::Cpu);
            Ok(Tensor(Arc::new((keys, Dims::from_slice(sizes)))))
        }

        /// The dispatch keys of this tensor.
        #[inline]
        pub fn key_set(&self) -> DispatchKeySet {
            self.0.0
        }

        /// The number of elements.
        pub fn numel(&self) -> i64 {
            self.0.1.iter().product()
        }

        /// Whether two handles are the same tensor.
        pub fn is_same(&self, other: &Tensor) -> bool {
            Arc::ptr_eq(&self.0, &other.0)
        }

        #[cfg(test)]
        #[allow(clippy::too_many_arguments)]
        pub(crate) fn build_with(
            _storage: storage::Storage,
            _dtype: DType,
            _device: Device,
            sizes: Dims,
            _strides: Dims,
            _offset: i64,
            keys: DispatchKeySet,
            _extra: Option<()>,
        ) -> Tensor {
            Tensor(Arc::new((keys, sizes)))
        }
    }

    /// A random number generator.
    #[derive(Clone, Debug)]
    pub struct Generator(Arc<u64>);

    impl Generator {
        /// A generator at the start of a seed's stream.
        pub fn new(seed: u64) -> Generator {
            Generator(Arc::new(seed))
        }

        /// The seed.
        pub fn seed(&self) -> u64 {
            *self.0
        }
    }

    #[cfg(test)]
    pub(crate) mod storage {
        pub(crate) struct Storage;

        impl Storage {
            pub(crate) fn without_data(_bytes: usize) -> Storage {
                Storage
            }
        }
    }
}
