//! Sizes and errors of the families, through [`Op::shapes`].

use super::*;
use crate::{Arg, DType, TensorMeta};

fn shapes(op: Op, sizes: &[&[i64]], args: &[Arg<usize>]) -> Result<Vec<Vec<i64>>, MetaError> {
    let types: Vec<TensorMeta> =
        (sizes.iter()).map(|s| TensorMeta::contiguous(DType::F32, s)).collect();
    let args = op.completed(args.to_vec()).expect("tensors and defaults");
    let shapes = op.shapes(&args, |i| &types[*i]).expect("a known operator")?;
    Ok(shapes.into_iter().map(|s| s.sizes.to_vec()).collect())
}

fn tensors<const N: usize>() -> Vec<Arg<usize>> {
    (0..N).map(Arg::Tensor).collect()
}

#[test]
fn pointwise_operands_broadcast() {
    let to = shapes(Op::mul_Tensor, &[&[2, 1], &[3]], &tensors::<2>());
    assert_eq!(to.unwrap(), [[2, 3]]);
    let fail = shapes(Op::mul_Tensor, &[&[2], &[3]], &tensors::<2>());
    assert!(matches!(fail, Err(MetaError::Broadcast { .. })));
}

#[test]
fn reductions_name_dimensions_once() {
    let sum = |dims: &[i64], keepdim: bool| {
        let args =
            [Arg::Tensor(0), Arg::Ints(dims.to_vec()), Arg::Scalar(keepdim.into()), Arg::None];
        shapes(Op::sum_dim_IntList, &[&[2, 3, 4]], &args)
    };
    assert_eq!(sum(&[-1, 0], false).unwrap(), [[3]]);
    assert_eq!(sum(&[1], true).unwrap(), [[2, 1, 4]]);
    assert_eq!(sum(&[], false).unwrap(), [[0i64; 0]]);
    assert_eq!(sum(&[0, -3], false), Err(MetaError::DimTwice { dim: 0 }));
    assert_eq!(sum(&[3], false), Err(MetaError::Dim { dim: 3, rank: 3 }));
}

#[test]
fn products_agree_on_the_inner_dimension() {
    let mm = |a: &[i64], b: &[i64]| shapes(Op::mm, &[a, b], &tensors::<2>());
    assert_eq!(mm(&[2, 3], &[3, 4]).unwrap(), [[2, 4]]);
    let text = mm(&[2, 3], &[2, 3]).unwrap_err().to_string();
    assert_eq!(text, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
    let rank = mm(&[3], &[3, 4]);
    assert!(matches!(rank, Err(MetaError::Rank { found: 1, .. })));
    let addmm = |b: &[i64]| shapes(Op::addmm, &[b, &[2, 3], &[3, 4]], &tensors::<3>());
    assert_eq!(addmm(&[4]).unwrap(), [[2, 4]]);
    assert!(matches!(addmm(&[5, 2, 4]), Err(MetaError::Expand { .. })));
}

#[test]
fn a_concatenation_skips_what_has_one_dimension_and_no_elements() {
    let cat = |parts: &[&[i64]], dim: i64| {
        let list = Arg::Tensors((0..parts.len()).map(Some).collect());
        shapes(Op::cat, parts, &[list, Arg::Scalar(dim.into())])
    };
    assert_eq!(cat(&[&[2, 3], &[0], &[4, 3]], 0).unwrap(), [[6, 3]]);
    assert_eq!(cat(&[&[0], &[0]], -1).unwrap(), [[0]]);
    let differ = cat(&[&[2, 3], &[2, 4, 1]], 1);
    assert!(matches!(differ, Err(MetaError::Joined { position: 1, .. })));
    assert!(cat(&[&[]], 0).is_err());
}
