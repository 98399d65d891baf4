//! Batches of a dataset, in order or shuffled, made by this thread or by workers.

use super::dataset::{Collate, Dataset};
use crate::error::{Error, Result};
use crate::tensor::{Generator, Tensor};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How a [`DataLoader`] makes batches; a number is the size of a batch.
///
/// ```
/// use straightline::data::{DataLoader, LoaderOptions};
/// let options = LoaderOptions::default().batch_size(4).shuffle(7).drop_last(true).workers(2);
/// let loader = DataLoader::new((0..10i64).collect::<Vec<_>>(), options)?;
/// assert_eq!(loader.len(), 2);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LoaderOptions {
    batch_size: usize,
    seed: Option<u64>,
    drop_last: bool,
    workers: usize,
    prefetch: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        LoaderOptions { batch_size: 1, seed: None, drop_last: false, workers: 0, prefetch: 2 }
    }
}

impl From<usize> for LoaderOptions {
    fn from(batch_size: usize) -> Self {
        LoaderOptions::default().batch_size(batch_size)
    }
}

impl LoaderOptions {
    /// How many examples a batch has; 1.
    #[must_use]
    pub fn batch_size(mut self, size: usize) -> Self {
        self.batch_size = size;
        self
    }

    /// A random order, another one in each epoch, which seed and epoch decide. Without it, the
    /// order of the dataset.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Whether a last batch that is not full is left out; it is not.
    #[must_use]
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.drop_last = drop;
        self
    }

    /// How many threads make batches beside the one that asks for them; none.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How many batches each worker is ahead at most; 2.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }
}

/// Batches of a dataset, epoch by epoch. The order of an epoch is a function of the seed and its
/// number, so a run that goes on from a checkpoint sees what it would have seen.
///
/// ```
/// use straightline::data::DataLoader;
/// let loader = DataLoader::new(vec![1.0f32, 2.0, 3.0], 2)?;
/// for batch in loader.epoch(0)? {
///     println!("{}", batch?);
/// }
/// let last = loader.epoch_from(0, 1)?.next().unwrap()?;
/// assert_eq!(last.to_vec::<f32>()?, [3.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DataLoader<D> {
    dataset: Arc<D>,
    options: LoaderOptions,
}

/// The batch of a dataset.
type Batch<D> = <<D as Dataset>::Item as Collate>::Batch;

impl<D: Dataset> DataLoader<D> {
    /// A loader with these options.
    ///
    /// # Errors
    /// A batch has no examples.
    pub fn new(dataset: D, options: impl Into<LoaderOptions>) -> Result<DataLoader<D>> {
        let options = options.into();
        ensure_value!(options.batch_size > 0, "batch_size should be a positive integer value");
        Ok(DataLoader { dataset: Arc::new(dataset), options })
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// How many batches an epoch has.
    pub fn len(&self) -> usize {
        match self.options.drop_last {
            true => self.dataset.len() / self.options.batch_size,
            false => self.dataset.len().div_ceil(self.options.batch_size),
        }
    }

    /// Whether an epoch has no batches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of an epoch's examples, in order.
    fn order(&self, epoch: u64) -> Result<Vec<usize>> {
        let count = self.dataset.len();
        let Some(seed) = self.options.seed else {
            return Ok((0..count).collect());
        };
        let generator = Generator::new(seed.wrapping_add(epoch));
        let order = Tensor::with(&generator).randperm(count as i64)?.to_vec::<i64>()?;
        Ok(order.into_iter().map(|i| i as usize).collect())
    }
}

impl<D> DataLoader<D>
where
    D: Dataset + Send + Sync + 'static,
    Batch<D>: Send + 'static,
{
    /// The batches of an epoch.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn epoch(&self, epoch: u64) -> Result<Batches<D>> {
        self.epoch_from(epoch, 0)
    }

    /// The batches of an epoch from a number on; those before are not made.
    ///
    /// # Errors
    /// As [`DataLoader::epoch`].
    pub fn epoch_from(&self, epoch: u64, first: usize) -> Result<Batches<D>> {
        let order = self.order(epoch)?;
        let chunks = order.chunks(self.options.batch_size).take(self.len()).skip(first);
        let chunks: Vec<Vec<usize>> = chunks.map(<[usize]>::to_vec).collect();
        let workers = match self.options.workers {
            0 => None,
            count => Some(Workers::start(&self.dataset, count)?),
        };
        let ahead = self.options.workers * self.options.prefetch.max(1);
        let dataset = Arc::clone(&self.dataset);
        Ok(Batches { dataset, chunks, next: 0, asked: 0, ahead, workers })
    }
}

/// The batches of an epoch: an iterator, which ends with the first error.
pub struct Batches<D: Dataset> {
    dataset: Arc<D>,
    chunks: Vec<Vec<usize>>,
    next: usize,
    /// How many batches the workers have been asked for.
    asked: usize,
    ahead: usize,
    workers: Option<Workers<Batch<D>>>,
}

impl<D: Dataset> Iterator for Batches<D> {
    type Item = Result<Batch<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.chunks.get(self.next)?;
        let batch = match &mut self.workers {
            None => self.dataset.batch(chunk),
            Some(workers) => {
                let wanted = (self.next + 1 + self.ahead).min(self.chunks.len());
                while self.asked < wanted {
                    workers.ask(self.asked, self.chunks[self.asked].clone());
                    self.asked += 1;
                }
                workers.take(self.next)
            }
        };
        self.next = if batch.is_ok() { self.next + 1 } else { self.chunks.len() };
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.chunks.len() - self.next;
        (left, Some(left))
    }
}

/// A batch to make: its number, and its examples.
type Task = (usize, Vec<usize>);

/// Threads that make batches, and batches that were made before their turn.
struct Workers<B> {
    tasks: Option<Sender<Task>>,
    made: Receiver<(usize, Result<B>)>,
    early: BTreeMap<usize, Result<B>>,
    threads: Vec<JoinHandle<()>>,
}

impl<B: Send + 'static> Workers<B> {
    fn start<D>(dataset: &Arc<D>, count: usize) -> Result<Workers<B>>
    where
        D: Dataset + Send + Sync + 'static,
        D::Item: Collate<Batch = B>,
    {
        let (tasks, queue) = channel::<Task>();
        let (done, made) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut workers =
            Workers { tasks: Some(tasks), made, early: BTreeMap::new(), threads: Vec::new() };
        for i in 0..count {
            let (dataset, queue, done) = (Arc::clone(dataset), Arc::clone(&queue), done.clone());
            let work = move || {
                loop {
                    let task = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, indices)) = task else { return };
                    if done.send((number, make(&*dataset, number, &indices))).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("data-{i}")).spawn(work);
            let thread = thread.map_err(|e| {
                Error::runtime(format!("a worker of a data loader could not be started: {e}"))
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl<B> Workers<B> {
    fn ask(&self, number: usize, indices: Vec<usize>) {
        if let Some(tasks) = &self.tasks {
            // where nobody takes it, `take` finds that nobody answers either
            let _ = tasks.send((number, indices));
        }
    }

    /// The batch of this number, which has been asked for.
    fn take(&mut self, number: usize) -> Result<B> {
        loop {
            if let Some(batch) = self.early.remove(&number) {
                return batch;
            }
            let Ok((made, batch)) = self.made.recv() else {
                return Err(Error::runtime("the workers of a data loader have ended"));
            };
            self.early.insert(made, batch);
        }
    }
}

/// A batch, or why there is none; a panic is an error like others.
fn make<D: Dataset>(dataset: &D, number: usize, indices: &[usize]) -> Result<Batch<D>> {
    let made = std::panic::catch_unwind(AssertUnwindSafe(|| dataset.batch(indices)));
    made.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a message");
        Err(Error::runtime(format!("a dataset panicked while batch {number} was made: {text}")))
    })
}

impl<B> Drop for Workers<B> {
    fn drop(&mut self) {
        // without a sender the queue ends, but what is in it would still be made
        self.tasks = None;
        let (_, closed) = channel();
        self.made = closed;
        for thread in self.threads.drain(..) {
            // a worker catches the panics of datasets and has none of its own
            let _ = thread.join();
        }
    }
}
