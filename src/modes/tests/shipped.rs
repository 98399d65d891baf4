//! The modes that come with the crate.

use super::*;
use crate::dispatch::{ExcludeGuard, Library};
use crate::error::ErrorKind;
use crate::modes::{CallLogger, FlopCounter, ModeError, NanFinder};
use crate::ops::aten;

#[test]
fn flops_of_an_mlp_are_those_that_pytorch_counts() {
    let (x, w1, b1) = (ones(&[8, 16]), ones(&[32, 16]), ones(&[32]));
    let (w2, b2) = (ones(&[4, 32]), ones(&[4]));
    let mlp = || {
        let h = aten::linear(&x, &w1, Some(&b1)).unwrap().relu().unwrap();
        aten::linear(&h, &w2, Some(&b2)).unwrap();
    };
    let counter = FlopCounter::new();
    {
        let _guard = counter.push();
        mlp();
    }
    // torch.utils.flop_counter: {'aten.addmm': 10240}
    assert_eq!(counter.total().flops, 10240);
    assert_eq!(counter.cost("aten::addmm").calls, 2);
    // below autograd composites arrive whole, and are taken apart
    counter.clear();
    {
        let _below = ExcludeGuard::below_autograd();
        let _guard = counter.push();
        mlp();
    }
    assert_eq!(counter.total().flops, 10240);
    assert_eq!(counter.cost("aten::linear").calls, 0);
    assert_clean();
}

#[test]
fn flops_of_attention_and_batched_products_are_those_that_pytorch_counts() {
    let (q, k, v) = (ones(&[2, 4, 6, 8]), ones(&[2, 4, 10, 8]), ones(&[2, 4, 10, 8]));
    let counter = FlopCounter::new();
    let guard = counter.push();
    aten::scaled_dot_product_attention(&q, &k, &v, None, 0.0, false, None, false).unwrap();
    // PyTorch: 15360, of a fused attention or of two bmm
    assert_eq!(counter.total().flops, 15360);
    counter.clear();
    let (a, b) = (ones(&[3, 2, 4]), ones(&[3, 4, 5]));
    aten::baddbmm(&ones(&[3, 2, 5]), &a, &b, 1i64.into(), 1i64.into()).unwrap();
    aten::addmm(&ones(&[5]), &ones(&[2, 4]), &ones(&[4, 5]), 1i64.into(), 1i64.into()).unwrap();
    drop(guard);
    // PyTorch: {'aten.baddbmm': 240, 'aten.addmm': 80}
    assert_eq!(counter.cost("aten::baddbmm").flops, 240);
    assert_eq!(counter.cost("aten::addmm").flops, 80);
}

#[test]
fn elements_and_bytes() {
    let x = ones(&[4, 8]);
    let counter = FlopCounter::new();
    let guard = counter.push();
    x.t().unwrap();
    x.add(&x).unwrap();
    x.sum_dim(&[1]).unwrap();
    let wide = ones(&[1, 8]).expand(&[4, 8]).unwrap();
    wide.mul(&x).unwrap();
    x.mul_(2).unwrap();
    drop(guard);
    let view = counter.cost("aten::t");
    assert_eq!((view.calls, view.element_ops, view.bytes_read, view.bytes_written), (1, 0, 0, 0));
    let add = counter.cost("aten::add.Tensor");
    // one tensor twice is read once
    assert_eq!((add.element_ops, add.bytes_read, add.bytes_written), (32, 128, 128));
    let sum = counter.cost("aten::sum.dim_IntList");
    assert_eq!((sum.element_ops, sum.bytes_read, sum.bytes_written), (32, 128, 16));
    // a row that stands for four is read once
    assert_eq!(counter.cost("aten::mul.Tensor").bytes_read, 32 + 128);
    let in_place = counter.cost("aten::mul_.Scalar");
    assert_eq!((in_place.bytes_read, in_place.bytes_written), (128, 128));
    let table = counter.to_string();
    assert!(table.lines().last().unwrap().starts_with("total"), "{table}");
    assert!(table.contains("aten::sum.dim_IntList"), "{table}");
}

#[test]
fn formulas_of_own_operators() {
    let mut lib = Library::new("flops_own").unwrap();
    lib.def_with("triple(Tensor x) -> Tensor", |x: &Tensor| x.mul(3)).unwrap();
    let counter = FlopCounter::new().with_formula("flops_own::triple", |call, out| {
        assert_eq!(out.len(), 1);
        7 * call.tensors().map(|t| t.numel() as u64).sum::<u64>()
    });
    let guard = counter.push();
    let _below = ExcludeGuard::below_autograd();
    let triple = crate::dispatch::operator("flops_own::triple").unwrap();
    triple.call_boxed(&mut vec![ones(&[5]).into()]).unwrap();
    drop(guard);
    assert_eq!(counter.cost("flops_own::triple").flops, 35);
    assert_eq!(counter.costs().len(), 1);
}

#[test]
fn the_first_operator_that_made_it_is_named() {
    let finder = NanFinder::new();
    let guard = finder.push();
    let x = Tensor::from_slice(&[0f32, 1.0], &[2]).unwrap();
    let y = x.add(1).unwrap().sub(&x).unwrap(); // 1, 1
    let z = y.div(&x).unwrap(); // inf, 1
    z.sub(&z).unwrap(); // NaN of inf: not the first
    drop(guard);
    let found = finder.first().unwrap();
    assert_eq!(found.call, "aten::div.Tensor(f32[2], f32[2])");
    assert_eq!((found.index, found.nans, found.infinities, found.elements), (2, 0, 1, 2));
    assert!(found.to_string().contains("aten::div.Tensor"), "{found}");
}

#[test]
fn operands_that_are_not_finite_clear_an_operator() {
    let finder = NanFinder::stopping();
    let _guard = finder.push();
    let nan = Tensor::from_slice(&[f32::NAN], &[1]).unwrap();
    nan.add(1).unwrap();
    nan.add_(1).unwrap();
    ones(&[1]).mul(f64::INFINITY).unwrap();
    assert_eq!(finder.first(), None);
    let zero = ones(&[1]).sub(1).unwrap();
    let e = zero.log_().unwrap_err();
    let ErrorKind::Mode(ModeError::NonFinite(found)) = e.kind() else {
        panic!("{e}");
    };
    assert_eq!((found.op.as_str(), found.infinities), ("aten::log_", 1));
    finder.clear();
    assert_eq!(finder.first(), None);
}

#[test]
fn the_logger_numbers_tensors_as_it_meets_them() {
    let logger = CallLogger::new();
    let (x, y) = (ones(&[2, 3]), ones(&[2, 3]));
    let guard = logger.push();
    let z = x.add(&y).unwrap();
    z.mul_(2).unwrap();
    aten::cat(&[x.clone(), z.clone()], 0).unwrap();
    aten::max_dim(&x, 1, false).unwrap();
    assert!(aten::mm(&x, &y).is_err());
    drop(guard);
    assert_eq!(
        logger.lines(),
        [
            "$2 = aten::add.Tensor($0: f32[2,3], $1: f32[2,3])",
            "$2 = aten::mul_.Scalar($2: f32[2,3], 2)",
            "$3 = aten::cat([$0: f32[2,3], $2: f32[2,3]])",
            "$4, $5 = aten::max.dim($0: f32[2,3], 1)",
            "aten::mm($0: f32[2,3], $1: f32[2,3]) failed",
        ]
    );
    assert_eq!((logger.number(&z), logger.number(&ones(&[1]))), (Some(2), None));
    logger.clear();
    assert!(logger.lines().is_empty() && logger.number(&z).is_none());
}

#[test]
fn unset_memory_and_infinities_on_purpose_are_no_findings() {
    let finder = NanFinder::new();
    let guard = finder.push();
    let x = ones(&[2]);
    aten::empty_like(&x, None, None, None, None, None).unwrap();
    let inf = aten::full_like(&x, f64::INFINITY.into(), None, None, None, None, None).unwrap();
    inf.exp().unwrap();
    drop(guard);
    assert_eq!(finder.first(), None);
}

#[test]
fn complex_sparse_and_nested_elements_are_looked_at() {
    let found = |make: &dyn Fn() -> crate::Result<Tensor>| {
        let finder = NanFinder::new();
        let _guard = finder.push();
        make().unwrap();
        finder.first().map(|f| (f.op, f.nans, f.infinities))
    };
    let part = |x: f32| Tensor::from_vec([x], 1);
    let zero = aten::complex(&part(0.0).unwrap(), &part(0.0).unwrap()).unwrap();
    assert_eq!(found(&|| zero.reciprocal()), Some(("aten::reciprocal".into(), 1, 0)));
    let negative = Tensor::from_vec([0f32, -1.0], 2).unwrap();
    let sparse = negative.to_sparse().unwrap();
    assert_eq!(found(&|| sparse.sqrt()), Some(("aten::sqrt".into(), 1, 0)));
    assert_eq!(found(&|| sparse.abs()), None);
    let nested = Tensor::nested(&[negative, part(1.0).unwrap()]).unwrap();
    let huge = nested.mul(1e38).unwrap();
    assert_eq!(found(&|| huge.mul(1e38)), Some(("aten::mul.Scalar".into(), 0, 2)));
}
