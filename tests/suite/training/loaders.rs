//! Batches: their order, whoever makes them, and what goes wrong.

use straightline::data::{DataLoader, Dataset, LoaderOptions, TensorDataset};
use straightline::{Error, ErrorKind, Result, Tensor};

fn numbers(loader: &DataLoader<Vec<i64>>, epoch: u64) -> Vec<Vec<i64>> {
    let batches = loader.epoch(epoch).unwrap();
    batches.map(|b| b.unwrap().to_vec::<i64>().unwrap()).collect()
}

#[test]
fn workers_change_nothing_but_who_does_it() {
    let data: Vec<i64> = (0..103).collect();
    let options = LoaderOptions::default().batch_size(8).shuffle(3);
    let alone = DataLoader::new(data.clone(), options).unwrap();
    let helped = DataLoader::new(data.clone(), options.workers(3)).unwrap();
    for epoch in 0..3 {
        assert_eq!(numbers(&alone, epoch), numbers(&helped, epoch));
    }
    let mut all = numbers(&alone, 0).concat();
    assert_ne!(all, data);
    assert_ne!(all, numbers(&alone, 1).concat());
    all.sort_unstable();
    assert_eq!(all, data);
    assert_eq!((alone.len(), numbers(&alone, 0).len()), (13, 13));
    let full = DataLoader::new(data, options.drop_last(true).workers(2)).unwrap();
    assert!(full.len() == 12 && numbers(&full, 0).iter().all(|b| b.len() == 8));
}

#[test]
fn an_epoch_can_begin_in_the_middle() {
    let options = LoaderOptions::default().batch_size(4).shuffle(3).workers(2);
    let loader = DataLoader::new((0..20i64).collect::<Vec<_>>(), options).unwrap();
    let rest = loader.epoch_from(7, 2).unwrap();
    assert_eq!(rest.size_hint(), (3, Some(3)));
    let rest: Vec<Vec<i64>> = rest.map(|b| b.unwrap().to_vec::<i64>().unwrap()).collect();
    assert_eq!(rest, numbers(&loader, 7)[2..]);
}

/// Fails, or panics, at one example.
struct Broken {
    at: usize,
    panics: bool,
}

impl Dataset for Broken {
    type Item = f32;

    fn len(&self) -> usize {
        40
    }

    fn get(&self, i: usize) -> Result<f32> {
        if i == self.at {
            assert!(!self.panics, "example {i} is broken");
            return Err(Error::new(ErrorKind::Value(format!("example {i} is broken"))));
        }
        Ok(i as f32)
    }
}

#[test]
fn an_error_of_a_worker_arrives_in_its_place() {
    for (panics, workers) in [(false, 0), (false, 2), (true, 2)] {
        let options = LoaderOptions::default().batch_size(4).workers(workers);
        let loader = DataLoader::new(Broken { at: 22, panics }, options).unwrap();
        let batches: Vec<Result<Tensor>> = loader.epoch(0).unwrap().collect();
        assert_eq!(batches.len(), 6, "five batches, and the error");
        let error = batches[5].as_ref().unwrap_err();
        assert!(error.to_string().contains("example 22 is broken"), "{error}");
    }
}

#[test]
fn a_loader_that_is_left_early_ends_its_workers() {
    let options = LoaderOptions::default().batch_size(4).workers(2);
    let loader = DataLoader::new(Broken { at: 99, panics: false }, options).unwrap();
    for _ in 0..10 {
        let first = loader.epoch(0).unwrap().next().unwrap().unwrap();
        assert_eq!(first.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    }
}

#[test]
fn tensors_of_other_lengths_are_refused() {
    let (x, y) = (Tensor::ones([3, 2]).unwrap(), Tensor::ones([4]).unwrap());
    let error = TensorDataset::new((x, y)).unwrap_err();
    assert!(error.to_string().contains("Size mismatch between tensors"), "{error}");
}
