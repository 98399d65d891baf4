//! Pooling, padding, resampling, grids.

#![allow(
    clippy::useless_vec,
    reason = "one macro for arguments that are kept and those that are not"
)]

use super::{Numbers, args, call, check, none};
use crate::dispatch::Value;
use crate::tensor::Tensor;

fn x(sizes: &[i64]) -> Tensor {
    Numbers::new().tensor(sizes)
}

/// Another one.
fn y(sizes: &[i64]) -> Tensor {
    Numbers(1234).tensor(sizes)
}

fn ints(l: &[i64]) -> Vec<i64> {
    l.to_vec()
}

/// The second result of a call.
fn indices(op: &str, args: &[Value]) -> Tensor {
    call(&format!("aten::{op}"), args)[1].clone().unwrap()
}

#[test]
fn averages() {
    let (k, s, p) = (ints(&[2, 3]), ints(&[2, 1]), ints(&[1, 1]));
    for count in [true, false] {
        let image = x(&[1, 2, 5, 4]);
        check("avg_pool2d", args![&image, k.clone(), s.clone(), p.clone(), true, count, none()]);
        let g = call(
            "aten::avg_pool2d",
            &args![&image, k.clone(), s.clone(), p.clone(), true, count, none()],
        );
        let g = y(g[0].as_ref().unwrap().sizes());
        check(
            "avg_pool2d_backward",
            args![g, image, k.clone(), s.clone(), p.clone(), true, count, none()],
        );
    }
    let (k, s, p) = (ints(&[2]), ints(&[1]), ints(&[0]));
    let volume = x(&[1, 3, 3, 2]);
    check("avg_pool3d", args![&volume, k.clone(), s.clone(), p.clone(), false, true, 3i64]);
    check("avg_pool3d_backward", args![y(&[1, 2, 2, 1]), volume, k, s, p, false, true, 3i64]);
    check("_adaptive_avg_pool2d", args![x(&[2, 5, 4]), ints(&[3, 2])]);
    check("_adaptive_avg_pool2d_backward", args![y(&[2, 3, 2]), x(&[2, 5, 4])]);
    check("_adaptive_avg_pool3d", args![x(&[2, 3, 4, 3]), ints(&[2, 3, 2])]);
    check("_adaptive_avg_pool3d_backward", args![y(&[2, 2, 3, 2]), x(&[2, 3, 4, 3])]);
}

#[test]
fn maxima() {
    let (k, s, p, d) = (ints(&[2, 2]), ints(&[1, 2]), ints(&[1, 0]), ints(&[1, 2]));
    let image = x(&[2, 4, 5]);
    let args = args![&image, k.clone(), s.clone(), p.clone(), d.clone(), true];
    check("max_pool2d_with_indices", args.clone());
    let at = indices("max_pool2d_with_indices", &args);
    let g = y(at.sizes());
    check("max_pool2d_with_indices_backward", args![g, &image, k, s, p, d, true, at]);
    let (one, two, none) = (ints(&[1]), ints(&[2]), ints(&[0]));
    let volume = x(&[1, 1, 3, 3, 2]);
    let args = args![&volume, two.clone(), one.clone(), none.clone(), one.clone(), false];
    check("max_pool3d_with_indices", args.clone());
    let at = indices("max_pool3d_with_indices", &args);
    let g = y(at.sizes());
    check(
        "max_pool3d_with_indices_backward",
        args![g, &volume, two, one.clone(), none, one, false, at],
    );
    check("adaptive_max_pool2d", args![&image, ints(&[3, 2])]);
    let at = indices("adaptive_max_pool2d", &args![&image, ints(&[3, 2])]);
    check("adaptive_max_pool2d_backward", args![y(at.sizes()), &image, at]);
    let to = ints(&[2, 2, 1]);
    check("adaptive_max_pool3d", args![&volume, to.clone()]);
    let at = indices("adaptive_max_pool3d", &args![&volume, to]);
    check("adaptive_max_pool3d_backward", args![y(at.sizes()), &volume, at]);
}

#[test]
fn fractional_windows_and_unpooling() {
    let samples = Tensor::from_vec([0.3f64, 0.7, 0.2, 0.6], [1, 2, 2]).unwrap();
    let image = x(&[1, 2, 5, 6]);
    let (k, to) = (ints(&[2, 2]), ints(&[3, 3]));
    let args = args![&image, k.clone(), to.clone(), samples];
    check("fractional_max_pool2d", args.clone());
    let at = indices("fractional_max_pool2d", &args);
    check("fractional_max_pool2d_backward", args![y(at.sizes()), &image, k, to, at]);
    let samples = Tensor::from_vec([0.3f64, 0.7, 0.2], [1, 1, 3]).unwrap();
    let volume = x(&[1, 1, 4, 4, 4]);
    let (k, to) = (ints(&[2, 2, 2]), ints(&[2, 2, 2]));
    let args = args![&volume, k.clone(), to.clone(), samples];
    check("fractional_max_pool3d", args.clone());
    let at = indices("fractional_max_pool3d", &args);
    check("fractional_max_pool3d_backward", args![y(at.sizes()), &volume, k, to, at]);
    let at = Tensor::from_vec([0i64, 3, 6, 15], [1, 2, 2]).unwrap();
    check("max_unpool2d", args![x(&[1, 2, 2]), at, ints(&[4, 4])]);
    let at = Tensor::from_vec([0i64, 3, 6, 15], [1, 1, 2, 2]).unwrap();
    check(
        "max_unpool3d",
        args![x(&[1, 1, 2, 2]), at, ints(&[1, 4, 4]), ints(&[1, 2, 2]), ints(&[0, 0, 0])],
    );
}

#[test]
fn pads() {
    for kind in ["reflection", "replication"] {
        for (sizes, padded, pad) in [
            (ints(&[2, 4]), ints(&[2, 7]), ints(&[1, 2])),
            (ints(&[2, 3, 4]), ints(&[2, 6, 7]), ints(&[1, 2, 2, 1])),
            (ints(&[1, 3, 2, 3]), ints(&[1, 5, 4, 6]), ints(&[1, 2, 1, 1, 0, 2])),
        ] {
            let op = format!("{kind}_pad{}d", pad.len() / 2);
            check(&op, args![x(&sizes), pad.clone()]);
            check(&format!("{op}_backward"), args![y(&padded), x(&sizes), pad]);
        }
    }
    check(
        "constant_pad_nd",
        args![x(&[2, 3]), ints(&[1, -1, 2]).into_iter().chain([1]).collect::<Vec<_>>(), 0.5],
    );
}

#[test]
fn resampling() {
    for op in ["upsample_nearest1d", "_upsample_nearest_exact1d"] {
        check(op, args![x(&[1, 2, 4]), ints(&[7]), none()]);
        check(
            &format!("{op}_backward"),
            args![y(&[1, 2, 7]), ints(&[7]), ints(&[1, 2, 4]), none()],
        );
    }
    check("upsample_linear1d", args![x(&[1, 2, 4]), ints(&[7]), false, none()]);
    check(
        "upsample_linear1d_backward",
        args![y(&[1, 2, 7]), ints(&[7]), ints(&[1, 2, 4]), true, none()],
    );
    for op in ["upsample_nearest2d", "_upsample_nearest_exact2d"] {
        check(op, args![x(&[1, 1, 3, 4]), ints(&[5, 3]), none(), none()]);
        check(
            &format!("{op}_backward"),
            args![y(&[1, 1, 5, 3]), ints(&[5, 3]), ints(&[1, 1, 3, 4]), none(), none()],
        );
    }
    for op in [
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    ] {
        for align in [false, true] {
            check(op, args![x(&[1, 1, 3, 4]), ints(&[5, 3]), align, none(), none()]);
            check(
                &format!("{op}_backward"),
                args![y(&[1, 1, 5, 3]), ints(&[5, 3]), ints(&[1, 1, 3, 4]), align, none(), none()],
            );
        }
    }
    for op in ["upsample_nearest3d", "_upsample_nearest_exact3d"] {
        check(op, args![x(&[1, 1, 2, 3, 2]), ints(&[3, 2, 3]), none(), none(), none()]);
        check(
            &format!("{op}_backward"),
            args![
                y(&[1, 1, 3, 2, 3]),
                ints(&[3, 2, 3]),
                ints(&[1, 1, 2, 3, 2]),
                none(),
                none(),
                none()
            ],
        );
    }
    check(
        "upsample_trilinear3d",
        args![x(&[1, 1, 2, 3, 2]), ints(&[3, 2, 3]), false, none(), none(), none()],
    );
    check(
        "upsample_trilinear3d_backward",
        args![
            y(&[1, 1, 3, 2, 3]),
            ints(&[3, 2, 3]),
            ints(&[1, 1, 2, 3, 2]),
            true,
            none(),
            none(),
            none()
        ],
    );
}

#[test]
fn columns_shuffles_and_affine_grids() {
    let two = || ints(&[2, 2]);
    let (one, none) = (ints(&[1, 1]), ints(&[0, 1]));
    check("im2col", args![x(&[1, 2, 3, 4]), two(), one.clone(), none.clone(), one.clone()]);
    check("col2im", args![x(&[1, 8, 10]), ints(&[3, 4]), two(), one.clone(), none, one]);
    check("unfold_backward", args![x(&[2, 3, 2]), ints(&[2, 4]), 1i64, 2i64, 1i64]);
    check("pixel_shuffle", args![x(&[1, 4, 2, 3]), 2i64]);
    check("pixel_unshuffle", args![x(&[1, 1, 4, 2]), 2i64]);
    check("channel_shuffle", args![x(&[1, 6, 2]), 2i64]);
    check("affine_grid_generator", args![x(&[2, 2, 3]), ints(&[2, 1, 2, 3]), true]);
    check("affine_grid_generator", args![x(&[1, 3, 4]), ints(&[1, 1, 2, 3, 2]), false]);
}

#[test]
fn samples_of_grids() {
    for (mode, padding, align) in [0, 1, 2]
        .into_iter()
        .flat_map(|m| [0, 1, 2].map(|p| (m, p)))
        .flat_map(|(m, p)| [false, true].map(|a| (m, p, a)))
    {
        let (image, grid) = (x(&[1, 2, 4, 3]), y(&[1, 2, 3, 2]));
        // some points lie outside
        let grid = crate::ops::aten::mul_scalar(&grid, 1.7.into()).unwrap();
        check("grid_sampler_2d", args![&image, &grid, mode as i64, padding as i64, align]);
        check(
            "grid_sampler_2d_backward",
            args![
                y(&[1, 2, 2, 3]),
                &image,
                &grid,
                mode as i64,
                padding as i64,
                align,
                vec![true, true]
            ],
        );
        if mode == 2 {
            continue;
        }
        let (volume, grid) = (x(&[1, 1, 3, 2, 3]), y(&[1, 1, 2, 2, 3]));
        let grid = crate::ops::aten::mul_scalar(&grid, 1.7.into()).unwrap();
        check("grid_sampler_3d", args![&volume, &grid, mode as i64, padding as i64, align]);
        check(
            "grid_sampler_3d_backward",
            args![
                y(&[1, 1, 1, 2, 2]),
                &volume,
                &grid,
                mode as i64,
                padding as i64,
                align,
                vec![true, true]
            ],
        );
    }
}
