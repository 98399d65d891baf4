//! Scatters: what they are by their definition, the kernels that they become, and what the verifier
//! refuses.

use super::build::{B, s, t};
use super::eval::Tensor;
use crate::ir::graph::ValueRef;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Scalar};
use crate::schedule::loops::*;
use crate::schedule::verify_schedule;

/// One source element after the other. Sources have the sizes of what is scattered.
pub(super) fn eval(name: &str, args: &[Arg<Tensor>]) -> Tensor {
    let tensor = |i: usize| args[i].as_tensor().expect("a tensor");
    let truth = |i: usize| args.get(i).and_then(Arg::as_bool);
    let (reduce, src) = match (name, args.get(4)) {
        ("scatter_add" | "index_add", _) => ("sum", tensor(3)),
        ("scatter_reduce.two", Some(Arg::Str(reduce))) => (&reduce[..], tensor(3)),
        ("index_put", _) if truth(3) == Some(true) => ("sum", tensor(2)),
        ("index_put", _) => ("", tensor(2)),
        _ => ("", tensor(3)),
    };
    let place = |at: &[i64]| -> Vec<i64> {
        let mut to = at.to_vec();
        match (&args[1], name) {
            (Arg::Tensors(list), _) => {
                let d = list.iter().position(Option::is_some).expect("an index");
                let ids = list[d].as_ref().expect("an index");
                let n = ids.sizes.len();
                to.splice(d..d + n, [ids.at(&at[d..d + n]).as_i64()]);
            }
            (d, "index_add" | "index_copy") => {
                let d = d.as_int().expect("a dimension") as usize;
                to[d] = tensor(2).at(&at[d..=d]).as_i64();
            }
            (d, _) => to[d.as_int().expect("a dimension") as usize] = tensor(2).at(at).as_i64(),
        }
        to
    };
    let mut out = tensor(0).clone();
    let keeps = name != "scatter_reduce.two" || truth(5) != Some(false);
    let mut count = vec![i64::from(keeps); out.data.len()];
    src.each(|at, x| {
        let place = place(at);
        let i = (place.iter().zip(&out.sizes)).fold(0, |i, (x, n)| i * n + x) as usize;
        let (a, b) = (out.data[i].as_f64(), x.as_f64());
        count[i] += 1;
        let y = match reduce {
            "" => b,
            _ if count[i] == 1 => b,
            "sum" | "mean" => a + b,
            "amax" => a.max(b),
            _ => a.min(b),
        };
        out.data[i] = Scalar::Float(y).cast(out.dtype);
    });
    if reduce == "mean" {
        for (x, n) in out.data.iter_mut().zip(count) {
            *x = Scalar::Float(x.as_f64() / n.max(1) as f64).cast(out.dtype);
        }
    }
    out
}

fn ids(b: &mut B, sizes: &[i64]) -> ValueRef {
    b.g.input("i", TensorMeta::contiguous(DType::I64, sizes))
}

/// `x.index_add(1, i, gelu(y))`.
fn added(n: i64, width: i64, k: i64) -> Schedule {
    let mut b = B::default();
    let (x, y) = (b.input(&[4, n, width]), b.input(&[4, k, width]));
    let i = ids(&mut b, &[k]);
    let y = b.un("aten::gelu", y);
    let args = vec![t(x), s(1), t(i), t(y)];
    let z = b.call("aten::index_add", args, DType::F32, &[4, n, width]);
    b.schedule(&[z])
}

#[test]
fn a_scatter_with_its_producer_is_one_kernel() {
    insta::assert_snapshot!(added(6, 24, 5), @r"
    b0: f32[576] input 0 `x0`
    b1: f32[480] input 1 `x1`
    b2: i64[5] input 2 `i`
    b3: f32[576] output 0 `4`
    kernel gelu_index_add grid (i0 < 4) vectorize stage work 2928 {
      stage0 (i1 < 144) {
        %0: f32 = load b0[144*i0 + i1]
        store b3[144*i0 + i1] = %0
      }
      stage1 (i2 < 5, i3 < 24) {
        %0: i64 = load b2[i2]
        %1: i64 = check_index %0 < 6
        %2: f32 = load b1[120*i0 + 24*i2 + i3]
        %3: f32 = gelu_erf %2
        update_sum b3[144*i0 + i3 + 24*%1], %3
      }
    }
    return output 0 f32[4, 6, 24]:[144, 24, 1]
    ");
}

/// What reads the result at the points that the scatter itself has is in its kernel.
#[test]
fn what_reads_a_scatter_follows_it() {
    let plan = |n: i64, reads: &dyn Fn(&mut B, ValueRef, ValueRef) -> ValueRef| {
        let mut b = B::default();
        let (x, y) = (b.input(&[n, 50]), b.input(&[n, 20]));
        let i = ids(&mut b, &[n, 20]);
        let args = vec![t(x), s(1), t(i), t(y)];
        let z = b.call("aten::scatter_add", args, DType::F32, &[n, 50]);
        let out = reads(&mut b, z, x);
        b.schedule(&[out])
    };
    let near = plan(64, &|b, z, x| {
        let r = b.un("aten::relu", z);
        b.bin("aten::mul.Tensor", r, x)
    });
    assert_eq!(near.kernels().count(), 1, "{near}");
    let kernel = near.kernels().next().expect("one");
    assert_eq!((kernel.points(), kernel.stages.len()), (64, 3), "{near}");
    let why = &near.decisions[0].reason;
    assert!(why.ends_with("then what needs it"), "{why}");
    // another point's elements, which may not be there yet
    let across = plan(50, &|b, z, x| {
        let turned = b.t(z);
        b.bin("aten::add.Tensor", turned, x)
    });
    assert_eq!(across.kernels().count(), 2, "{across}");
    // a reader that many threads can share is not made to wait
    let mut b = B::default();
    let (x, y) = (b.input(&[1 << 17]), b.input(&[64]));
    let i = ids(&mut b, &[64]);
    let z = b.call("aten::scatter_add", vec![t(x), s(0), t(i), t(y)], DType::F32, &[1 << 17]);
    let r = b.un("aten::relu", z);
    let large = b.schedule(&[r]);
    assert_eq!(large.kernels().count(), 3, "{large}");
}

#[test]
fn large_rows_are_cut_and_a_base_is_stored_by_all() {
    let mut b = B::default();
    let (x, y) = (b.input(&[4096, 768]), b.input(&[512, 768]));
    let i = ids(&mut b, &[512]);
    let args = vec![t(x), s(0), t(i), t(y)];
    let z = b.call("aten::index_copy", args, DType::F32, &[4096, 768]);
    let plan = b.schedule(&[z]);
    let grids: Vec<i64> = plan.kernels().map(Kernel::points).collect();
    assert_eq!(grids, [8], "{plan}");

    let mut b = B::default();
    let (x, y) = (b.input(&[1 << 17]), b.input(&[64]));
    let i = ids(&mut b, &[64]);
    let args = vec![t(x), s(0), t(i), t(y)];
    let z = b.call("aten::scatter_add", args, DType::F32, &[1 << 17]);
    let plan = b.schedule(&[z]);
    let grids: Vec<i64> = plan.kernels().map(Kernel::points).collect();
    assert_eq!(grids, [1 << 17, 1], "{plan}");
    let said = &plan.decisions[0].reason;
    assert!(said.contains("one after the other"), "{said}");
}

/// Breaks the kernel of a good scatter and returns what the verifier says.
fn broken(f: impl FnOnce(&mut Kernel)) -> String {
    let mut plan = added(6, 24, 5);
    let Step::Kernel(k) = &mut plan.steps[0] else {
        panic!("a kernel: {plan}");
    };
    f(k);
    verify_schedule(&plan).expect_err("broken").what
}

#[test]
fn scatters_whose_points_may_meet_are_found() {
    // what runs through the indices on the grid
    let what = broken(|k| {
        let axis = k.stages[1].axes.remove(0);
        k.grid.push(axis);
    });
    assert!(what.contains("the same elements"), "{what}");
    // pieces that reach into each other
    let what = broken(|k| {
        for inst in k.stages.iter_mut().flat_map(|s| &mut s.body) {
            if let Op::Store { index, .. } | Op::Update { index, .. } = &mut inst.op {
                index.terms[0].1 = 24;
            }
        }
    });
    assert!(what.contains("may meet"), "{what}");
    // a grid that the target does not depend on
    let what = broken(|k| {
        for inst in k.stages.iter_mut().flat_map(|s| &mut s.body) {
            if let Op::Store { index, .. } | Op::Update { index, .. } = &mut inst.op {
                index.terms.remove(0);
            }
        }
    });
    assert!(what.contains("the same elements"), "{what}");
    // a load of what is scattered into
    let what = broken(|k| {
        let Some(Op::Update { mem, index, .. }) = k.stages[1].body.last().map(|i| i.op.clone())
        else {
            panic!("an update");
        };
        let op = Op::Load { mem, index };
        let dtype = DType::F32;
        k.stages[1].body.push(Inst::new(op, dtype));
    });
    assert!(what.contains("touches it elsewhere"), "{what}");
}
