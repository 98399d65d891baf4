//! Tensors.
//!
//! A [`Tensor`](crate::Tensor) is an n-dimensional array of one dtype on one device. It consists of
//! a storage, which holds the elements, and of sizes, strides and an offset, which say where in the
//! storage each element lies. Several tensors may share a storage.
//!
//! # Making them
//!
//! [`tensor`](crate::tensor()) takes numbers and nested arrays as you write them. Floating-point
//! literals become `f32`, the default dtype; integer literals become `i64`, as in PyTorch.
//!
//! ```
//! use straightline::{DType, Device, Tensor, tensor};
//!
//! let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
//! assert_eq!((x.sizes(), x.dtype()), (&[2, 3][..], DType::F32));
//! assert_eq!(tensor([1, 2, 3])?.dtype(), DType::I64);
//!
//! // factories, and the same with another dtype or device
//! let zeros = Tensor::zeros([2, 3])?;
//! let ones = Tensor::with((DType::F64, Device::CPU)).ones([2, 3])?;
//! assert_eq!((zeros.dtype(), ones.dtype()), (DType::F32, DType::F64));
//!
//! // from existing data
//! let rows = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2])?;
//! assert_eq!(rows.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Computing
//!
//! Every operator is available in two forms. A *sign* (`&x * 2.0 + 1.0`) gives a tensor and panics
//! if the operands do not fit; a *word* (`x.mul(2.0)?`) gives a `Result`. Use signs where a formula
//! should read like a formula, and words where a failure has to be handled. The error names the
//! operator, the operands and your line.
//!
//! ```
//! use straightline::{assert_close, tensor};
//!
//! let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
//! let y = 2.0 * &x + 1.0;
//! assert_close(&y, &x.mul(2.0)?.add(1.0)?)?;
//!
//! // a bare name takes what PyTorch requires, a suffix takes what PyTorch has defaults for
//! assert_eq!(x.sum()?.item::<f32>()?, 21.0);
//! assert_eq!(x.sum_dim(-1)?.to_vec::<f32>()?, [6.0, 15.0]);
//!
//! let error = x.add(&tensor([1.0, 2.0])?).unwrap_err();
//! assert_eq!(error.op(), Some("aten::add.Tensor"));
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! Types are promoted as in PyTorch: a tensor and a number keep the tensor's dtype unless the
//! number belongs to a higher category, and two tensors meet in the smallest dtype that holds both.
//!
//! # Views and writes
//!
//! `clone()` makes another handle on the same tensor; [`copied`](crate::Tensor::copied) copies the
//! elements. Indexing with [`i`](crate::Tensor::i) gives a view where PyTorch gives one, and what
//! is written through a view is seen in its base. Operators whose names end in an underscore write
//! in place.
//!
//! ```
//! use straightline::tensor;
//!
//! let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
//! let column = x.i((.., 1))?;
//! assert_eq!(column.to_vec::<f32>()?, [2.0, 5.0]);
//! assert_eq!(column.strides(), [3]);
//!
//! column.mul_(10.0)?;
//! assert_eq!(x.to_vec2::<f32>()?, [[1.0, 20.0, 3.0], [4.0, 50.0, 6.0]]);
//!
//! let (handle, copy) = (x.clone(), x.copied()?);
//! x.fill_(0.0)?;
//! assert_eq!(handle.sum()?.item::<f32>()?, 0.0);
//! assert_eq!(copy.sum()?.item::<f32>()?, 84.0);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Threads
//!
//! A `Tensor` is `Send` and `Sync`. A call borrows the storages that it reads and writes until it
//! returns. If two threads want a storage at once and one of them writes, the later call waits;
//! with [`try_borrows`](crate::try_borrows) it fails with [`Busy`](crate::Busy) instead. There are
//! no data races, and safe code cannot cause undefined behaviour.
//!
//! # Randomness
//!
//! [`manual_seed`](crate::manual_seed) seeds the default generator. The same seed gives the
//! numbers that PyTorch's CPU generator draws.
//!
//! ```
//! use straightline::{Tensor, manual_seed};
//!
//! manual_seed(0);
//! let first = Tensor::randn([3])?;
//! manual_seed(0);
//! assert!(first.equal(&Tensor::randn([3])?)?);
//! # Ok::<(), straightline::Error>(())
//! ```
