use super::{Checks, First, Second, numbers, whole};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ONE: Scalar = Scalar::Int(1);

#[test]
fn reads() {
    let mut c = Checks::default();
    let index = whole(&[2, 0, 2], &[3]);
    let grid = whole(&[0, 1, 1, 0, 2, 1], &[3, 2]);
    c.of("index_select", Second, &[&[3, 2]], |x| Ok(vec![aten::index_select(&x[0], 0, &index)?]));
    c.of("gather", Second, &[&[3, 2]], |x| Ok(vec![aten::gather(&x[0], 0, &grid, false)?]));
    c.of("index", Second, &[&[3, 4, 2]], |x| {
        let indices = [None, Some(index.clone()), Some(whole(&[1, 0, 1], &[3]))];
        Ok(vec![
            aten::index_tensor(&x[0], &indices)?,
            aten::_unsafe_index_tensor(&x[0], &[Some(index.clone())])?,
        ])
    });
    c.of("take", Second, &[&[3, 2]], |x| Ok(vec![aten::take(&x[0], &grid)?]));
    c.of("take_along_dim", Second, &[&[3, 2]], |x| {
        Ok(vec![aten::take_along_dim(&x[0], &grid, Some(0))?])
    });
    let mask = aten::gt_scalar(&numbers(&[3, 2], 5), Scalar::Int(0)).unwrap();
    c.of("masked_select", Second, &[&[3, 2]], |x| Ok(vec![aten::masked_select(&x[0], &mask)?]));
    c.of("masked_select, broadcast", Second, &[&[2]], |x| {
        Ok(vec![aten::masked_select(&x[0], &mask)?])
    });
    c.of("aminmax", First, &[&[3, 2]], |x| {
        let (a, b) = aten::aminmax(&x[0], Some(0), false)?;
        let (d, e) = aten::aminmax(&x[0], None, false)?;
        Ok(vec![a, b, d, e])
    });
    c.of("_unsafe_masked_index", Second, &[&[3, 2]], |x| {
        let inside = aten::lt_scalar(&index, Scalar::Int(2))?;
        let inside = aten::unsqueeze(&inside, -1)?;
        Ok(vec![aten::_unsafe_masked_index(&x[0], &inside, &[Some(index.clone())], ONE)?])
    });
    c.done();
}

#[test]
fn writes() {
    let mut c = Checks::default();
    let index = whole(&[2, 0], &[2]);
    let grid = whole(&[0, 1, 2, 0], &[2, 2]);
    let sizes: &[&[i64]] = &[&[3, 2], &[2, 2]];
    c.of("index_put", Second, sizes, |x| {
        let at = [Some(index.clone())];
        Ok(vec![
            aten::index_put(&x[0], &at, &x[1], false)?,
            aten::index_put(&x[0], &at, &x[1], true)?,
            aten::_unsafe_index_put(&x[0], &at, &x[1], false)?,
        ])
    });
    c.of("index_put, broadcast", Second, &[&[3, 2], &[]], |x| {
        Ok(vec![aten::index_put(&x[0], &[Some(index.clone())], &x[1], false)?])
    });
    c.of("index_add", Second, sizes, |x| {
        Ok(vec![aten::index_add(&x[0], 0, &index, &x[1], Scalar::Float(0.5))?])
    });
    c.of("index_copy", Second, sizes, |x| Ok(vec![aten::index_copy(&x[0], 0, &index, &x[1])?]));
    c.of("index_fill", Second, &[&[3, 2], &[]], |x| {
        let twice = whole(&[2, 2], &[2]);
        Ok(vec![
            aten::index_fill_int_tensor(&x[0], 0, &twice, &x[1])?,
            aten::index_fill_int_scalar(&x[0], 0, &index, ONE)?,
        ])
    });
    c.of("put", Second, sizes, |x| {
        let at = whole(&[0, 5, 2, 3], &[4]);
        Ok(vec![aten::put(&x[0], &at, &x[1], false)?, aten::put(&x[0], &at, &x[1], true)?])
    });
    let mask = aten::gt_scalar(&numbers(&[3, 2], 5), Scalar::Int(0)).unwrap();
    c.of("masked_scatter", Second, &[&[3, 2], &[3, 3]], |x| {
        Ok(vec![aten::masked_scatter(&x[0], &mask, &x[1])?])
    });
    c.of("scatter", Second, sizes, |x| {
        Ok(vec![
            aten::scatter_src(&x[0], 0, &grid, &x[1])?,
            aten::scatter_value(&x[0], 0, &grid, ONE)?,
            aten::scatter_add(&x[0], 0, &grid, &x[1])?,
        ])
    });
    for reduce in ["sum", "prod", "mean", "amax", "amin"] {
        for own in [true, false] {
            let name = format!("scatter_reduce {reduce} {own}");
            c.of(&name, Second, sizes, |x| {
                Ok(vec![aten::scatter_reduce_two(&x[0], 0, &grid, &x[1], reduce, own)?])
            });
            if reduce != "sum" {
                let name = format!("index_reduce {reduce} {own}");
                c.of(&name, Second, sizes, |x| {
                    Ok(vec![aten::index_reduce(&x[0], 0, &index, &x[1], reduce, own)?])
                });
            }
        }
    }
    c.at(
        "scatter_reduce prod with 0",
        First,
        vec![numbers(&[3], 0), Tensor::from_vec([0.0, 2.0, 0.0], 3).unwrap()],
        |x| {
            let at = whole(&[0, 0, 1], &[3]);
            Ok(vec![aten::scatter_reduce_two(&x[0], 0, &at, &x[1], "prod", true)?])
        },
    );
    c.done();
}

#[test]
fn embeddings() {
    let mut c = Checks::default();
    let index = whole(&[2, 0, 2, 1], &[2, 2]);
    c.of("embedding", Second, &[&[3, 2]], |x| {
        Ok(vec![aten::embedding(&x[0], &index, -1, false, false)?])
    });
    let flat = whole(&[2, 0, 2, 1], &[4]);
    let offsets = whole(&[0, 1], &[2]);
    for mode in 0..3 {
        c.of(&format!("embedding_bag {mode}"), First, &[&[3, 2]], |x| {
            let bags =
                aten::embedding_bag(&x[0], &flat, &offsets, false, mode, false, None, false)?;
            Ok(vec![bags.0])
        });
    }
    c.of("embedding_bag, weighted", First, &[&[3, 2], &[4]], |x| {
        let w = Some(&x[1]);
        let bags = aten::embedding_bag(&x[0], &flat, &offsets, false, 0, false, w, false)?;
        Ok(vec![bags.0])
    });
    c.done();
}
