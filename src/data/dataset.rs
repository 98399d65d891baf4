//! Where examples come from, and how several become a batch.

use crate::error::Result;
use crate::tensor::Tensor;
use std::sync::Arc;

/// Examples by number.
///
/// ```
/// use straightline::data::Dataset;
/// use straightline::{Result, Tensor};
///
/// /// Numbers and their squares.
/// struct Squares;
///
/// impl Dataset for Squares {
///     type Item = (Tensor, i64);
///
///     fn len(&self) -> usize {
///         10
///     }
///
///     fn get(&self, i: usize) -> Result<(Tensor, i64)> {
///         Ok((Tensor::full([3], i as f64)?, (i * i) as i64))
///     }
/// }
///
/// let (x, y) = Squares.batch(&[2, 3])?;
/// assert_eq!(x.sizes(), [2, 3]);
/// assert_eq!(y.to_vec::<i64>()?, [4, 9]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// Workers of a [`DataLoader`](super::DataLoader) call it from several threads. What is random in
/// an example should come from a generator that is seeded by its number, so that it does not depend
/// on which of them is faster.
pub trait Dataset {
    /// An example.
    type Item: Collate;

    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The example of a number.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// The batch of these examples: each of them, put together by [`Collate`], unless the dataset
    /// has a faster way.
    fn batch(&self, indices: &[usize]) -> Result<<Self::Item as Collate>::Batch> {
        Collate::collate(indices.iter().map(|i| self.get(*i)).collect::<Result<_>>()?)
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        (**self).get(index)
    }

    fn batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch> {
        (**self).batch(indices)
    }
}

impl<T: Collate + Clone> Dataset for Vec<T> {
    type Item = T;

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn get(&self, index: usize) -> Result<T> {
        let found = self.as_slice().get(index).cloned();
        found.ok_or_else(|| out_of_range(index, Vec::len(self)))
    }
}

fn out_of_range(index: usize, count: usize) -> crate::Error {
    crate::Error::index(format!("there is no example {index} among {count}"))
}

/// What becomes a batch: tensors are stacked, numbers become a tensor, texts a list; parts of a
/// tuple become batches of their own.
pub trait Collate: Sized {
    /// What several of them become.
    type Batch;

    /// Puts examples together.
    ///
    /// ```
    /// use straightline::data::Collate;
    /// let (x, names) = Collate::collate(vec![(0.5f32, "a".to_string()), (1.5, "b".to_string())])?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.5, 1.5]);
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// They do not go together, such as tensors of different sizes.
    fn collate(items: Vec<Self>) -> Result<Self::Batch>;
}

impl Collate for Tensor {
    type Batch = Tensor;

    fn collate(items: Vec<Tensor>) -> Result<Tensor> {
        Tensor::stack(items, 0)
    }
}

impl Collate for String {
    type Batch = Vec<String>;

    fn collate(items: Vec<String>) -> Result<Vec<String>> {
        Ok(items)
    }
}

macro_rules! numbers {
    ($($ty:ty),+) => {$(
        impl Collate for $ty {
            type Batch = Tensor;

            fn collate(items: Vec<$ty>) -> Result<Tensor> {
                Tensor::from_slice(&items, &[items.len() as i64])
            }
        }
    )+};
}
numbers!(f32, f64, i32, i64, u8, bool);

macro_rules! tuples {
    ($(($($name:ident $part:ident),+))+) => {$(
        impl<$($name: Collate),+> Collate for ($($name,)+) {
            type Batch = ($($name::Batch,)+);

            fn collate(items: Vec<Self>) -> Result<Self::Batch> {
                let count = items.len();
                $(let mut $part = Vec::with_capacity(count);)+
                #[allow(non_snake_case, reason = "a part has its type's name")]
                for ($($name,)+) in items {
                    $($part.push($name);)+
                }
                Ok(($($name::collate($part)?,)+))
            }
        }
    )+};
}
tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
}

/// Tensors whose rows are the examples.
///
/// ```
/// use straightline::Tensor;
/// use straightline::data::{Dataset, TensorDataset};
/// let data = TensorDataset::new((Tensor::randn([10, 4])?, Tensor::arange(10)?))?;
/// let (x, y) = data.batch(&[7, 1])?;
/// assert_eq!(x.sizes(), [2, 4]);
/// assert_eq!(y.to_vec::<i64>()?, [7, 1]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset<T> {
    tensors: T,
    rows: usize,
}

/// The rows of a batch, as an index.
fn index_of(indices: &[usize]) -> Result<Tensor> {
    let indices: Vec<i64> = indices.iter().map(|i| *i as i64).collect();
    Tensor::from_slice(&indices, &[indices.len() as i64])
}

/// One tensor, or several in a tuple.
pub trait TensorRows: Sized {
    /// Each of them.
    fn each(&self) -> Vec<&Tensor>;

    /// What a function makes of each of them.
    ///
    /// # Errors
    /// Those of the function.
    fn map(&self, f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Self>;
}

macro_rules! rows {
    ($(($($ty:ident $index:tt),+))+) => {$(
        impl TensorRows for ($($ty,)+) {
            fn each(&self) -> Vec<&Tensor> {
                vec![$(&self.$index),+]
            }

            fn map(&self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
                Ok(($(f(&self.$index)?,)+))
            }
        }
    )+};
}
rows! {
    (Tensor 0)
    (Tensor 0, Tensor 1)
    (Tensor 0, Tensor 1, Tensor 2)
    (Tensor 0, Tensor 1, Tensor 2, Tensor 3)
}

impl TensorRows for Tensor {
    fn each(&self) -> Vec<&Tensor> {
        vec![self]
    }

    fn map(&self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        f(self)
    }
}

impl<T: TensorRows> TensorDataset<T> {
    /// The tensors, which have the same first size.
    ///
    /// # Errors
    /// They have not.
    pub fn new(tensors: T) -> Result<TensorDataset<T>> {
        let rows = tensors.each().into_iter().map(|t| t.size(0)).collect::<Result<Vec<_>>>()?;
        let first = rows.first().copied().unwrap_or(0);
        ensure_value!(rows.iter().all(|r| *r == first), "Size mismatch between tensors");
        Ok(TensorDataset { tensors, rows: first as usize })
    }
}

impl<T: TensorRows + Collate<Batch = T>> Dataset for TensorDataset<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, index: usize) -> Result<T> {
        self.tensors.map(|t| t.select(0, index))
    }

    fn batch(&self, indices: &[usize]) -> Result<T> {
        let index = index_of(indices)?;
        self.tensors.map(|t| t.index_select(0, &index))
    }
}

/// Some examples of a dataset.
///
/// ```
/// use straightline::data::{Dataset, Subset};
/// let odd = Subset::new(vec![10i64, 11, 12, 13], vec![1, 3]);
/// assert_eq!((odd.len(), odd.get(1)?), (2, 13));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The examples of these numbers.
    pub fn new(dataset: D, indices: Vec<usize>) -> Subset<D> {
        Subset { dataset, indices }
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        let found = self.indices.get(index);
        self.dataset.get(*found.ok_or_else(|| out_of_range(index, self.indices.len()))?)
    }

    fn batch(&self, indices: &[usize]) -> Result<<D::Item as Collate>::Batch> {
        let count = self.indices.len();
        let found = indices
            .iter()
            .map(|i| self.indices.get(*i).copied().ok_or_else(|| out_of_range(*i, count)));
        self.dataset.batch(&found.collect::<Result<Vec<_>>>()?)
    }
}
