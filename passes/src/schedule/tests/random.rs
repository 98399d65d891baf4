//! Random graphs: schedules compute what node-by-node evaluation computes.

mod addressed;
mod generate;
mod views;

use super::eval::{Tensor, eval};
use super::interp::{Cells, run};
use crate::ir::graph::Graph;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Scalar, layout};
use crate::schedule::loops::Schedule;
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};
use generate::{Gen, Rng};

/// Elements and the strided memory that holds them.
fn fill(meta: &TensorMeta, r: &mut Rng) -> (Tensor, Cells) {
    let extent = layout::storage_extent(&meta.sizes, &meta.strides, 0);
    let mut cells: Cells = vec![None; extent as usize];
    let tensor = Tensor::from_fn(meta.dtype, &meta.sizes, |at| {
        let i: i64 = at.iter().zip(&meta.strides).map(|(a, s)| a * s).sum();
        *cells[i as usize].get_or_insert_with(|| match meta.dtype {
            DType::I64 => Scalar::Int(r.below(2) as i64),
            _ => Scalar::Float(r.below(33) as f64 / 8.0 - 2.0),
        })
    });
    (tensor, cells)
}

fn describe(g: &Graph) -> String {
    let mut out = String::new();
    for id in g.topological() {
        let label = crate::schedule::node_label(g, id);
        let metas: Vec<String> = g
            .node(id)
            .results
            .iter()
            .map(|m| format!("{}{:?}:{:?}", m.dtype, &m.sizes[..], &m.strides[..]))
            .collect();
        let args = g.call_args(id).map(|(_, a)| {
            let a: Vec<Arg<usize>> = a.iter().map(|a| a.map(|v| v.node.index())).collect();
            format!("{a:?}")
        });
        out +=
            &format!("{} {} {label} {}\n", id.index(), metas.join(" "), args.unwrap_or_default());
    }
    let outputs: Vec<usize> = g.outputs().iter().map(|v| v.node.index()).collect();
    out + &format!("return {outputs:?}\n")
}

fn same(a: Scalar, b: Scalar) -> bool {
    let (a, b) = (a.as_f64(), b.as_f64());
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-4 * (1.0 + a.abs().max(b.abs()))
}

fn check(seed: u64, options: &ScheduleOptions) {
    let g = Gen::program(seed);
    let plan = match schedule(&g, options) {
        Ok(plan) => plan,
        Err(e) => panic!("seed {seed}: {e}\n{}", describe(&g)),
    };
    if let Err(e) = verify_schedule(&plan) {
        panic!("seed {seed}: {e}\n{}\n{plan}", describe(&g));
    }
    compare(&g, &plan, seed);
}

/// The plan computes what the graph says, on operands made from the seed.
pub(super) fn compare(g: &Graph, plan: &Schedule, seed: u64) {
    let mut r = Rng(seed ^ 0xABCD);
    let mut make = |ids: &[crate::ir::graph::NodeId]| -> (Vec<Tensor>, Vec<Cells>) {
        ids.iter().map(|n| fill(&g.node(*n).results[0], &mut r)).unzip()
    };
    let (inputs, input_cells) = make(g.inputs());
    let (parameters, parameter_cells) = make(g.parameters());
    let want = eval(g, &inputs, &parameters);
    for backwards in [false, true] {
        let got = run(plan, &input_cells, &parameter_cells, backwards);
        assert_eq!(got.len(), want.len());
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(
                (got.dtype, &got.sizes),
                (want.dtype, &want.sizes),
                "seed {seed} result {i}"
            );
            for (k, (a, b)) in got.data.iter().zip(&want.data).enumerate() {
                assert!(
                    same(*a, *b),
                    "seed {seed}, result {i}, element {k}: got {a}, want {b}\n{}\n{plan}",
                    describe(g)
                );
            }
        }
    }
}

#[test]
fn schedules_compute_what_the_graph_says() {
    let cases = std::env::var("SCHEDULE_CASES").ok().and_then(|n| n.parse().ok());
    for seed in 0..cases.unwrap_or(400) {
        check(seed, &ScheduleOptions::default());
    }
}

/// With reductions cut for more threads, and scatters apart.
#[test]
fn schedules_of_gpus_compute_the_same() {
    for seed in 2000..2300 {
        check(seed, &ScheduleOptions::of_gpu());
    }
}

#[test]
fn small_kernels_compute_the_same() {
    let options = ScheduleOptions {
        max_kernel_ops: 3,
        merge_siblings: false,
        fold_epilogues: false,
        ..ScheduleOptions::default()
    };
    for seed in 1000..1100 {
        check(seed, &options);
    }
}
