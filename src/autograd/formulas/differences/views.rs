use super::{Checks, First, Second};
use crate::ops::aten;
use straightline_catalog::Scalar;

#[test]
fn views() {
    let mut c = Checks::default();
    c.of("view", Second, &[&[2, 6]], |x| Ok(vec![aten::view(&x[0], &[3, 4])?]));
    c.of("_unsafe_view", Second, &[&[2, 6]], |x| Ok(vec![aten::_unsafe_view(&x[0], &[12])?]));
    c.of("permute", Second, &[&[2, 3, 2]], |x| Ok(vec![aten::permute(&x[0], &[-1, 0, 1])?]));
    c.of("t", Second, &[&[2, 3]], |x| Ok(vec![aten::t(&x[0])?]));
    c.of("transpose", Second, &[&[2, 3]], |x| Ok(vec![aten::transpose_int(&x[0], 0, -1)?]));
    c.of("expand", Second, &[&[3, 1]], |x| Ok(vec![aten::expand(&x[0], &[2, 3, 2], false)?]));
    c.of("slice", Second, &[&[5, 2]], |x| {
        Ok(vec![
            aten::slice_tensor(&x[0], 0, Some(1), None, 2)?,
            aten::slice_tensor(&x[0], 0, None, Some(-2), 1)?,
        ])
    });
    c.of("select", Second, &[&[3, 2]], |x| Ok(vec![aten::select_int(&x[0], 0, -1)?]));
    c.of("squeeze", Second, &[&[1, 3, 1]], |x| {
        Ok(vec![
            aten::squeeze(&x[0])?,
            aten::squeeze_dim(&x[0], -1)?,
            aten::squeeze_dim(&x[0], 1)?,
            aten::squeeze_dims(&x[0], &[0, 1, 2])?,
        ])
    });
    c.of("unsqueeze", Second, &[&[3]], |x| Ok(vec![aten::unsqueeze(&x[0], -1)?]));
    c.of("diagonal", Second, &[&[3, 2, 4]], |x| Ok(vec![aten::diagonal(&x[0], 1, 2, 0)?]));
    c.of("unfold", Second, &[&[5, 2]], |x| Ok(vec![aten::unfold(&x[0], 0, 3, 1)?]));
    c.of("as_strided", Second, &[&[3, 4]], |x| {
        Ok(vec![
            aten::as_strided(&x[0], &[2, 2], &[1, 2], Some(3))?,
            aten::as_strided(&x[0], &[3, 2, 1], &[1, 1, 7], Some(0))?,
            aten::as_strided(&x[0], &[2, 3], &[0, 2], None)?,
        ])
    });
    c.of("as_strided of a view", Second, &[&[3, 4]], |x| {
        let turned = aten::slice_tensor(&aten::t(&x[0])?, 0, Some(1), None, 1)?;
        Ok(vec![aten::as_strided(&turned, &[2, 3], &[1, 4], Some(1))?])
    });
    c.of("split", Second, &[&[5, 2]], |x| aten::split_tensor(&x[0], 2, 0));
    c.of("split, one part", Second, &[&[5, 2]], |x| {
        Ok(vec![aten::split_tensor(&x[0], 2, 0)?[2].clone()])
    });
    c.of("split_with_sizes", Second, &[&[2, 5]], |x| aten::split_with_sizes(&x[0], &[1, 0, 4], -1));
    c.of("unbind", Second, &[&[2, 3]], |x| Ok(vec![aten::unbind_int(&x[0], 1)?.swap_remove(1)]));
    c.of("chunk", Second, &[&[5]], |x| aten::chunk(&x[0], 2, 0));
    c.of("copies", First, &[&[2, 3]], |x| {
        Ok(vec![
            aten::view_copy(&x[0], &[6])?,
            aten::t_copy(&x[0])?,
            aten::expand_copy(&x[0], &[2, 2, 3], false)?,
            aten::as_strided_copy(&x[0], &[2, 2], &[1, 1], Some(1))?,
            aten::slice_copy_tensor(&x[0], 1, Some(1), None, 1)?,
        ])
    });
    c.of("split_copy", First, &[&[5]], |x| aten::split_copy_tensor(&x[0], 2, 0));
    c.done();
}

#[test]
fn writes_into_parts() {
    let mut c = Checks::default();
    c.of("slice_scatter", Second, &[&[5, 2], &[2, 2]], |x| {
        Ok(vec![aten::slice_scatter(&x[0], &x[1], 0, Some(0), Some(4), 2)?])
    });
    c.of("select_scatter", Second, &[&[3, 2], &[2]], |x| {
        Ok(vec![aten::select_scatter(&x[0], &x[1], 0, 1)?])
    });
    c.of("diagonal_scatter", Second, &[&[3, 3], &[2]], |x| {
        Ok(vec![aten::diagonal_scatter(&x[0], &x[1], 1, 0, 1)?])
    });
    c.of("as_strided_scatter", Second, &[&[3, 3], &[2, 2]], |x| {
        Ok(vec![aten::as_strided_scatter(&x[0], &x[1], &[2, 2], &[1, 3], Some(1))?])
    });
    c.of("as_strided_scatter of a transposed", First, &[&[3, 2], &[2]], |x| {
        let own = aten::clone(&aten::t(&x[0])?, None)?;
        Ok(vec![aten::as_strided_scatter(&own, &x[1], &[2], &[2], Some(1))?])
    });
    // what is written is expanded
    c.of("copy", Second, &[&[3, 2], &[2]], |x| Ok(vec![aten::copy(&x[0], &x[1], false)?]));
    c.of("fill.Tensor", Second, &[&[3], &[]], |x| {
        let filled = aten::fill_tensor(&x[0], &x[1])?;
        Ok(vec![aten::mul_tensor(&filled, &x[1])?])
    });
    c.of("in place", First, &[&[3, 2]], |x| {
        let y = aten::mul_scalar(&x[0], Scalar::Int(2))?;
        aten::transpose_(&y, 0, 1)?;
        aten::unsqueeze_(&y, 0)?;
        aten::squeeze_dim_(&y, 0)?;
        aten::t_(&y)?;
        Ok(vec![aten::mul_tensor(&y, &x[0])?])
    });
    c.done();
}

#[test]
fn arrangements() {
    let mut c = Checks::default();
    c.of("diag_embed", Second, &[&[2, 3]], |x| Ok(vec![aten::diag_embed(&x[0], 1, 0, -1)?]));
    c.of("flip", Second, &[&[2, 3]], |x| Ok(vec![aten::flip(&x[0], &[1])?]));
    c.of("roll", Second, &[&[3, 3]], |x| {
        Ok(vec![aten::roll(&x[0], &[1, 2], &[0, 1])?, aten::roll(&x[0], &[4], &[])?])
    });
    c.of("rot90", Second, &[&[2, 3]], |x| Ok(vec![aten::rot90(&x[0], 1, &[0, 1])?]));
    c.of("repeat", Second, &[&[2, 1, 3]], |x| Ok(vec![aten::repeat(&x[0], &[2, 1, 3, 2])?]));
    c.of("trace", Second, &[&[2, 3]], |x| Ok(vec![aten::trace(&x[0])?]));
    c.of("unsafe_split", Second, &[&[5]], |x| aten::unsafe_split_tensor(&x[0], 2, 0));
    c.of("block_diag", Second, &[&[2, 3], &[2], &[]], |x| Ok(vec![aten::block_diag(x)?]));
    c.of("cat", Second, &[&[2, 3], &[2, 1]], |x| Ok(vec![aten::cat(x, -1)?]));
    c.of("cat with nothing", Second, &[&[0], &[2, 1]], |x| Ok(vec![aten::cat(x, 1)?]));
    c.of("stack", Second, &[&[3], &[3]], |x| Ok(vec![aten::stack(x, -1)?]));
    c.of("tril, triu", Second, &[&[3, 3]], |x| {
        Ok(vec![aten::tril(&x[0], 1)?, aten::triu(&x[0], 1)?])
    });
    c.of_both("clone", Second, &[&[3]], |x| Ok(vec![aten::clone(&x[0], None)?]));
    c.of("var_mean", Second, &[&[2, 3]], |x| {
        let (a, b) = aten::var_mean_correction(&x[0], Some(&[1]), None, false)?;
        let (d, e) = aten::var_mean_correction(&x[0], None, Some(Scalar::Int(0)), false)?;
        Ok(vec![a, b, d, e])
    });
    c.of("std_mean", Second, &[&[2, 3]], |x| {
        let (a, b) = aten::std_mean_correction(&x[0], Some(&[0]), None, true)?;
        Ok(vec![a, b])
    });
    c.done();
}
