//! The tensors that a program works on, and the comparison of two worlds after it.

use super::program::Rng;
use straightline::ops::aten;
use straightline::{DType, Tensor};

/// Elements of each base.
const LENGTH: i64 = 24;

/// Arguments and closed-over tensors over a few bases, some of them the same ones.
pub(crate) struct World {
    bases: Vec<Tensor>,
    pub(crate) arguments: Vec<Tensor>,
    pub(crate) closed_over: Vec<Tensor>,
}

/// A tensor somewhere in a base.
fn place(base: &Tensor, r: &mut Rng) -> Tensor {
    match r.below(7) {
        0 => base.clone(),
        1 => base.view(&[4, 6]).unwrap(),
        2 => base.view(&[2, 3, 4]).unwrap().permute(&[2, 0, 1]).unwrap(),
        3 => base.slice(0, 0, 12, 1).unwrap().view(&[3, 4]).unwrap(),
        4 => base.slice(0, 6, 18, 1).unwrap().view(&[4, 3]).unwrap(),
        5 => base
            .view(&[4, 6])
            .unwrap()
            .slice(1, r.below(2), 6, 2)
            .unwrap(),
        _ => base
            .view(&[6, 4])
            .unwrap()
            .t()
            .unwrap()
            .select(0, r.below(4))
            .unwrap(),
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut r = Rng::new(seed ^ 0x5eed);
        let bases: Vec<Tensor> = (0..3).map(|_| Tensor::zeros([LENGTH]).unwrap()).collect();
        let some = |count: i64, r: &mut Rng| -> Vec<Tensor> {
            (0..count)
                .map(|_| place(&bases[r.below(3) as usize], r))
                .collect()
        };
        let mut arguments = some(1 + r.clone().below(3), &mut r);
        let mut closed_over = some(r.clone().below(3), &mut r);
        if r.below(8) == 0 {
            arguments.push(arguments[0].clone());
        }
        if r.below(8) == 0 {
            closed_over.push(arguments[0].clone());
        }
        World {
            bases,
            arguments,
            closed_over,
        }
    }

    /// New numbers in all bases.
    pub(crate) fn refill(&self, seed: u64) {
        let mut r = Rng::new(seed ^ 0xf111);
        for base in &self.bases {
            let data: Vec<f32> = (0..LENGTH).map(|_| r.below(17) as f32 - 8.0).collect();
            base.copy_(&Tensor::from_vec(data).unwrap()).unwrap();
        }
    }

    /// The arguments with their layouts in memory of their own.
    pub(crate) fn apart(&self, seed: u64) -> Vec<Tensor> {
        let mut r = Rng::new(seed ^ 0xa9a7);
        self.arguments
            .iter()
            .map(|t| {
                let data: Vec<f32> = (0..LENGTH).map(|_| r.below(17) as f32 - 8.0).collect();
                let base = Tensor::from_vec(data).unwrap();
                aten::as_strided(&base, t.sizes(), t.strides(), Some(t.storage_offset())).unwrap()
            })
            .collect()
    }
}

fn numbers(t: &Tensor) -> Vec<f64> {
    let t = t.to_dtype(DType::F64).unwrap();
    t.to_vec::<f64>().unwrap()
}

fn same_numbers(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (numbers(a), numbers(b));
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(x, y)| x == y || (x.is_nan() && y.is_nan()))
}

/// Results and all tensors of two worlds, compared.
pub(crate) fn same_results(
    want: &[Tensor],
    got: &[Tensor],
    (eager, a): (&World, &[Tensor]),
    (compiled, b): (&World, &[Tensor]),
) -> Result<(), String> {
    if want.len() != got.len() {
        return Err(format!("{} results, expected {}", got.len(), want.len()));
    }
    for (i, (w, g)) in want.iter().zip(got).enumerate() {
        let shape = |t: &Tensor| format!("{}{:?}{:?}", t.dtype(), t.sizes(), t.strides());
        if shape(w) != shape(g) {
            return Err(format!("result {i} is {}, expected {}", shape(g), shape(w)));
        }
        if !same_numbers(w, g) {
            return Err(format!(
                "result {i}: {:?}, expected {:?}",
                numbers(g),
                numbers(w)
            ));
        }
    }
    let memory = |w: &World, args: &[Tensor]| -> Vec<Tensor> {
        w.bases
            .iter()
            .chain(args)
            .chain(&w.closed_over)
            .cloned()
            .collect()
    };
    let (ours, theirs) = (memory(eager, a), memory(compiled, b));
    for (i, (w, g)) in ours.iter().zip(&theirs).enumerate() {
        if !same_numbers(w, g) {
            return Err(format!(
                "memory {i}: {:?}, expected {:?}",
                numbers(g),
                numbers(w)
            ));
        }
    }
    let all = |results: &[Tensor], memory: Vec<Tensor>| -> Vec<Tensor> {
        results.iter().cloned().chain(memory).collect()
    };
    let (ours, theirs) = (all(want, ours), all(got, theirs));
    for i in 0..ours.len() {
        for k in 0..i {
            let relation = |t: &[Tensor]| {
                let shared = t[i].shares_storage_with(&t[k]);
                let distance = t[i].storage_offset() - t[k].storage_offset();
                (t[i].is_same(&t[k]), shared.then_some(distance))
            };
            if relation(&ours) != relation(&theirs) {
                return Err(format!(
                    "tensors {i} and {k} (same, distance in memory): {:?}, expected {:?}",
                    relation(&theirs),
                    relation(&ours)
                ));
            }
        }
    }
    Ok(())
}
