//! Operators that ran on the CPU once: results are the CPU's, and no tensor is copied there.

use super::gpu;
use straightline::cuda::{Way, ways};
use straightline::ops::aten;
use straightline::{DType, Device, Result, Scalar, Tensor, assert_close, compile, tensor};

/// Numbers without a pattern, from -1 to 1.
fn numbers(sizes: &[i64]) -> Result<Tensor> {
    let count = sizes.iter().product::<i64>();
    let all = (0..count).map(|i| ((i * 7919 + i * i * 31) % 1009) as f32 / 504.5 - 1.0);
    Tensor::from_vec(all.collect::<Vec<f32>>(), sizes)
}

/// Compares what a function makes on a GPU and on the CPU, to the strides, and wants all of it made there.
fn alike(f: impl Fn(&dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>>) -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let (got, how) = ways(|| f(&|t| t.to_device(gpu)));
    let want = f(&|t| Ok(t.clone()))?;
    for (i, (got, want)) in got?.iter().zip(&want).enumerate() {
        assert_eq!((got.sizes(), got.strides()), (want.sizes(), want.strides()), "{i}");
        assert_eq!((got.device(), got.dtype()), (gpu, want.dtype()), "{i}");
        let here = got.to_device(Device::CPU)?;
        match want.dtype().is_floating() {
            true => {
                let infinite = |t: &Tensor| aten::isinf(t);
                assert_close(&infinite(&here)?, &infinite(want)?)?;
                assert_close(&here.nan_to_num()?, &want.nan_to_num()?)?;
            }
            false => assert_close(&here, want)?,
        }
    }
    let on_cpu: Vec<_> = how.iter().filter(|(_, way)| *way == Way::Cpu).collect();
    assert!(on_cpu.is_empty(), "{on_cpu:?}");
    Ok(())
}

#[test]
fn special_functions() -> Result<()> {
    let x = aten::cat(
        &[numbers(&[60])?.mul(9)?, tensor([0f32, -0.0, 1.0, -1.0, f32::INFINITY, f32::NAN])?],
        0,
    )?;
    let (y, m) = (numbers(&[66])?.abs()?.mul(5)?, numbers(&[66])?);
    let n = numbers(&[66])?.mul(90)?.to_dtype(DType::I64)?;
    alike(|there| {
        let (x, y, m, n) = (&there(&x)?, &there(&y)?, &there(&m)?, &there(&n)?);
        let unary: &[fn(&Tensor) -> Result<Tensor>] = &[
            aten::digamma,
            aten::lgamma,
            aten::i0,
            aten::special_i0e,
            aten::special_i1,
            aten::special_i1e,
            aten::special_bessel_j0,
            aten::special_bessel_j1,
            aten::special_bessel_y0,
            aten::special_bessel_y1,
            aten::special_modified_bessel_k0,
            aten::special_modified_bessel_k1,
            aten::special_scaled_modified_bessel_k0,
            aten::special_spherical_bessel_j0,
            aten::special_erfcx,
            aten::special_log_ndtr,
            aten::special_entr,
            aten::special_airy_ai,
            aten::sinc,
            aten::signbit,
        ];
        let mut all = unary.iter().map(|f| f(x)).collect::<Result<Vec<_>>>()?;
        all.extend([aten::erfinv(m)?, aten::special_ndtri(&m.abs()?)?, aten::logit(m, Some(0.1))?]);
        all.extend([aten::polygamma(1, x)?, aten::polygamma(3, y)?]);
        let (a, b) = aten::frexp_tensor(x)?;
        all.extend([a, b, aten::igamma(y, &m.abs()?)?, aten::igammac(y, &m.abs()?)?]);
        all.extend([aten::hypot(x, y)?, aten::nextafter(x, m)?, aten::logaddexp2(m, y)?]);
        all.extend([aten::special_zeta(&y.add(1.5)?, y)?, aten::copysign_tensor(x, m)?]);
        all.extend([aten::gcd(n, &n.flip([0])?)?, aten::lcm(n, &n.flip([0])?)?]);
        // other dtypes, broadcast and turned operands
        all.push(aten::lgamma(&y.to_dtype(DType::F16)?)?);
        all.push(aten::digamma(n)?);
        let wide = aten::reshape(y, &[6, 11])?;
        all.push(aten::hypot(&wide.transpose(0, 1)?, &wide.select(1, 0)?)?);
        all.push(aten::lgamma(&wide.transpose(0, 1)?)?);
        Ok(all)
    })
}

#[test]
fn gradients_of_padding_and_columns() -> Result<()> {
    let x = numbers(&[2, 3, 4, 5])?;
    let columns = numbers(&[2, 12, 4])?;
    alike(|there| {
        let x = &there(&x)?;
        let mut all = Vec::new();
        // before and behind, from the last dimension on; the others stay or are cut
        for pad in [[1, 2, 3, 0], [2, 2, 1, 1]] {
            let (h, w) = (4 + pad[2] + pad[3], 5 + pad[0] + pad[1]);
            let grad = there(&numbers(&[2, 3, h, w])?)?;
            all.push(aten::reflection_pad2d_backward(&grad, x, &pad)?);
            all.push(aten::replication_pad2d_backward(&grad, x, &pad)?);
        }
        let grad = there(&numbers(&[2, 3, 7, 4])?)?;
        all.push(aten::replication_pad2d_backward(&grad, x, &[-1, 0, 4, -1])?);
        let line = x.select(0, 0)?;
        let grad = there(&numbers(&[3, 4, 8])?)?;
        all.push(aten::reflection_pad1d_backward(&grad, &line, &[1, 2])?);
        all.push(aten::replication_pad1d_backward(&grad, &line, &[3, 0])?);
        let grad = there(&numbers(&[2, 4, 6, 7])?)?;
        all.push(aten::reflection_pad3d_backward(&grad, x, &[1, 1, 1, 1, 1, 0])?);
        all.push(aten::replication_pad3d_backward(&grad, x, &[1, 1, 1, 1, 1, 0])?);
        let columns = there(&columns)?;
        all.push(aten::col2im(&columns, &[4, 5], &[2, 2], &[2, 1], &[1, 0], &[2, 2])?);
        Ok(all)
    })
}

#[test]
fn samples_at_points_of_grids() -> Result<()> {
    let (image, grid) = (numbers(&[2, 3, 4, 5])?, numbers(&[2, 6, 2, 2])?.mul(1.4)?);
    let (volume, points) = (numbers(&[2, 2, 3, 4, 5])?, numbers(&[2, 2, 3, 2, 3])?.mul(1.4)?);
    alike(|there| {
        let (image, grid, volume, points) =
            (&there(&image)?, &there(&grid)?, &there(&volume)?, &there(&points)?);
        let mut all = Vec::new();
        for mode in 0..3 {
            for padding in 0..3 {
                for aligned in [false, true] {
                    let out = aten::grid_sampler_2d(image, grid, mode, padding, aligned)?;
                    let grad = &out.sin()?;
                    let mask = &[true, true];
                    let (a, b) = aten::grid_sampler_2d_backward(
                        grad, image, grid, mode, padding, aligned, mask,
                    )?;
                    all.extend([out, a, b]);
                    if mode == 2 {
                        continue;
                    }
                    let out = aten::grid_sampler_3d(volume, points, mode, padding, aligned)?;
                    let grad = &out.sin()?;
                    let (a, b) = aten::grid_sampler_3d_backward(
                        grad, volume, points, mode, padding, aligned, mask,
                    )?;
                    all.extend([out, a, b]);
                }
            }
        }
        Ok(all)
    })
}

#[test]
fn bags_of_embeddings() -> Result<()> {
    let table = numbers(&[7, 5])?;
    let rows = tensor([3i64, 0, 6, 6, 2, 3, 3, 1, 0])?;
    let offsets = tensor([0i64, 2, 2, 7, 9])?;
    let factors = numbers(&[9])?;
    alike(|there| {
        let (table, rows, offsets) = (&there(&table)?, &there(&rows)?, &there(&offsets)?);
        let factors = &there(&factors)?;
        let mut all = Vec::new();
        for mode in 0..3 {
            for (last, padding) in [(false, -1), (true, 3)] {
                for frequency in [false, true] {
                    let factors = Some(factors).filter(|_| mode == 0);
                    let (out, bags, sizes, largest) = aten::_embedding_bag(
                        table, rows, offsets, frequency, mode, false, factors, last, padding,
                    )?;
                    let grad = &out.cos()?;
                    all.push(aten::_embedding_bag_backward(
                        grad,
                        rows,
                        offsets,
                        &bags,
                        &sizes,
                        &largest,
                        7,
                        frequency && mode != 2,
                        mode,
                        false,
                        factors,
                        padding,
                    )?);
                    all.push(out);
                    // of sums PyTorch leaves the others unset
                    if mode != 0 {
                        all.extend([bags, sizes, largest]);
                    }
                }
            }
        }
        Ok(all)
    })?;
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let beyond = tensor([0i64, 7])?.to_device(gpu)?;
    let (table, offsets) = (table.to_device(gpu)?, tensor([0i64])?.to_device(gpu)?);
    let e = aten::_embedding_bag(&table, &beyond, &offsets, false, 0, false, None, false, -1);
    assert!(e.is_err());
    Ok(())
}

#[test]
fn distances_of_rows() -> Result<()> {
    let (x, y) = (numbers(&[2, 4, 3])?, numbers(&[5, 3])?);
    alike(|there| {
        let (x, y) = (&there(&x)?, &there(&y)?);
        let mut all = Vec::new();
        for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
            let far = aten::_cdist_forward(x, y, p, None)?;
            let grad = &far.cos()?;
            all.push(aten::_cdist_backward(grad, x, y, p, &far)?);
            let near = aten::_pdist_forward(y, p)?;
            all.push(aten::_pdist_backward(&near.cos()?, y, p, &near)?);
            all.extend([far, near]);
        }
        Ok(all)
    })
}

#[test]
fn slices_are_kept_once() -> Result<()> {
    let x = numbers(&[4, 30, 3])?.gt(0.3)?.to_dtype(DType::I32)?;
    let floats = x.to_dtype(DType::F32)?.mul(-0.5)?;
    alike(|there| {
        let (x, floats) = (&there(&x)?, &there(&floats)?);
        let mut all = Vec::new();
        for dim in [0, 1, 2] {
            let (a, b, c) = aten::unique_dim(x, dim, true, true, true)?;
            let (d, e, f) = aten::unique_dim(floats, dim, true, true, true)?;
            let (g, h, i) = aten::unique_dim_consecutive(x, dim, true, true)?;
            all.extend([a, b, c, d, e, f, g, h, i]);
        }
        Ok(all)
    })
}

#[test]
fn those_that_are_made_of_others() -> Result<()> {
    let (v, g) = (numbers(&[4, 3, 2])?, numbers(&[4, 1, 1])?);
    let (scores, target) = (numbers(&[5, 4])?, tensor([3i64, 0, 2, 2, 1])?);
    let image = numbers(&[2, 3, 4, 4])?;
    let (a, b) = (numbers(&[20, 8])?.mul(100)?, numbers(&[8, 6])?.mul(100)?);
    alike(|there| {
        let (v, g) = (&there(&v)?, &there(&g)?);
        let (w, norms) = aten::_weight_norm_interface(v, g, 0)?;
        let (dv, dg) = aten::_weight_norm_interface_backward(&w.cos()?, v, g, &norms, 0)?;
        let mut all = vec![w, norms, dv, dg];
        let (scores, target) = (&there(&scores)?, &there(&target)?);
        let weight = there(&tensor([0.5f32, 1.0, 2.0, 1.5])?)?;
        for reduction in 0..3 {
            for p in [1, 2] {
                let (p, margin, w) = (Scalar::Int(p), Scalar::Float(0.75), Some(&weight));
                let loss = aten::multi_margin_loss(scores, target, p, margin, w, reduction)?;
                all.push(aten::multi_margin_loss_backward(
                    &loss, scores, target, p, margin, w, reduction,
                )?);
                all.push(loss);
            }
        }
        let image = &there(&image)?;
        let (largest, places) =
            aten::max_pool2d_with_indices(image, &[2], &[2], &[0], &[1], false)?;
        all.push(aten::max_unpool2d(&largest, &places, &[4, 4])?);
        let bytes = |t: &Tensor| there(&t.to_dtype(DType::I8)?);
        all.push(aten::_int_mm(&bytes(&a)?, &bytes(&b)?)?);
        Ok(all)
    })
}

#[test]
fn fourier_transforms() -> Result<()> {
    let x = numbers(&[3, 6, 10])?.to_dtype(DType::F64)?;
    alike(|there| {
        let x = &there(&x)?;
        let parts = |t: &Tensor| aten::view_as_real(t);
        let mut all = Vec::new();
        for mode in 0..3 {
            let half = aten::_fft_r2c(x, &[1, 2], mode, true)?;
            let whole = aten::_fft_r2c(x, &[0], mode, false)?;
            let turned = aten::_fft_c2c(&whole, &[2, 0, 1], mode, true)?;
            let back = aten::_fft_c2c(&turned, &[0, 2], mode, false)?;
            all.extend([parts(&half)?, parts(&whole)?, parts(&turned)?, parts(&back)?]);
            all.push(aten::_fft_c2r(&half, &[1, 2], mode, 10)?);
            all.push(aten::_fft_c2r(&half, &[1, 2], mode, 11)?);
        }
        Ok(all)
    })
}

#[test]
fn factors_and_equations_of_matrices() -> Result<()> {
    let (a, b) = (numbers(&[2, 5, 5])?, numbers(&[2, 5, 3])?);
    let positive = aten::matmul(&a, &a.transpose(-2, -1)?)?.add(Tensor::eye(5)?)?;
    alike(|there| {
        let (a, b, positive) = (&there(&a)?, &there(&b)?, &there(&positive)?);
        let mut all = Vec::new();
        for upper in [false, true] {
            let (l, info) = aten::linalg_cholesky_ex(positive, upper, true)?;
            all.extend([l, info]);
            for unit in [false, true] {
                all.push(aten::linalg_solve_triangular(positive, b, upper, true, unit)?);
                let right = b.transpose(-2, -1)?;
                all.push(aten::linalg_solve_triangular(positive, &right, upper, false, unit)?);
            }
        }
        let (inverse, info) = aten::linalg_inv_ex(a, true)?;
        let (lu, pivots, done) = aten::linalg_lu_factor_ex(a, true, false)?;
        for adjoint in [false, true] {
            all.push(aten::linalg_lu_solve(&lu, &pivots, b, true, adjoint)?);
            let right = b.transpose(-2, -1)?;
            all.push(aten::linalg_lu_solve(&lu, &pivots, &right, false, adjoint)?);
        }
        all.extend([inverse, info, lu, pivots, done, aten::linalg_det(a)?]);
        all.extend([
            aten::linalg_solve(a, b, true)?,
            aten::linalg_solve(a, &b.select(-1, 0)?, true)?,
        ]);
        let wide = a.slice(1, 0, 3, 1)?;
        let (lu, pivots, _) = aten::linalg_lu_factor_ex(&wide, true, false)?;
        all.extend([lu, pivots]);
        Ok(all)
    })?;
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let singular = Tensor::with(gpu).zeros([2, 2])?;
    assert!(
        aten::linalg_inv(&singular).is_err() && aten::linalg_cholesky(&singular, false).is_err()
    );
    Ok(())
}

#[test]
fn resampling_over_all_that_a_result_covers() -> Result<()> {
    let x = numbers(&[2, 3, 8, 9])?;
    alike(|there| {
        let x = &there(&x)?;
        let mut all = Vec::new();
        for (size, aligned) in [([3, 4], false), ([3, 4], true), ([12, 5], false)] {
            let out = aten::_upsample_bilinear2d_aa(x, &size, aligned, None, None)?;
            let grad = &out.cos()?;
            let input = [2, 3, 8, 9];
            all.push(aten::_upsample_bilinear2d_aa_backward(
                grad, &size, &input, aligned, None, None,
            )?);
            all.extend([out, aten::_upsample_bicubic2d_aa(x, &size, aligned, None, None)?]);
            all.push(aten::_upsample_bicubic2d_aa_backward(
                grad, &size, &input, aligned, None, None,
            )?);
        }
        Ok(all)
    })
}

/// Functional copies keep the gaps of the tensor that they are of, and what broadcasts grows in place.
#[test]
fn results_lie_as_on_the_cpu() -> Result<()> {
    let x = numbers(&[3, 8])?;
    alike(|there| {
        let x = &there(&x)?;
        let stepped = &x.slice(1, 0, 8, 2)?;
        let y = &there(&numbers(&[3, 4])?)?;
        let part = &there(&numbers(&[1, 4])?)?;
        let grown = there(&tensor([2f32])?.select(0, 0)?)?;
        let batches = &there(&numbers(&[2, 3, 3])?)?;
        aten::addbmm_(&grown, batches, batches, Scalar::Int(1), Scalar::Int(1))?;
        Ok(vec![
            aten::copy(stepped, y, false)?,
            aten::slice_scatter(stepped, part, 0, Some(1), Some(2), 1)?,
            grown,
        ])
    })
}

#[test]
fn complex_numbers_by_their_parts() -> Result<()> {
    let (re, im) = (numbers(&[3, 4, 4])?, numbers(&[3, 4, 4])?.flip([2])?);
    alike(|there| {
        let (re, im) = (&there(&re)?, &there(&im)?);
        let z = &aten::complex(re, im)?;
        let one = Scalar::Int(1);
        let row = aten::select_int(z, 0, 1)?;
        let mut all = vec![
            aten::add_tensor(z, &row, one)?,
            aten::sub_tensor(re, z, Scalar::Float(0.5))?,
            aten::add_tensor(z, re, Scalar::Complex(0.5, 2.0))?,
            aten::diagonal_scatter(
                &aten::slice_tensor(z, 0, Some(1), None, 1)?,
                &re.select(0, 0)?.slice(0, 0, 2, 1)?,
                0,
                1,
                2,
            )?,
            aten::mul_tensor(z, &row)?,
            aten::mul_tensor(z, re)?,
            aten::neg(z)?,
            aten::bmm(z, z)?,
            aten::mm(&row, &aten::transpose_int(&row, 0, 1)?)?,
            aten::addmm(&row, &row, &row, one, one)?,
            aten::sum_dim_int_list(z, Some(&[0, 2]), true, None)?,
            aten::mean_dim(z, Some(&[1]), false, None)?,
            aten::flip(z, &[-1, 0])?,
            aten::cat(&[z.clone(), z.clone()], -1)?,
            aten::where_self(&aten::gt_scalar(re, Scalar::Int(0))?, z, re)?,
            aten::polar(re, im)?,
            aten::mul_scalar(z, Scalar::Complex(0.5, -2.0))?,
        ];
        let filled = aten::mul_tensor(z, z)?;
        all.push(aten::fill_scalar_(&filled, Scalar::Complex(1.0, 2.0))?);
        let mut all = all.iter().map(aten::view_as_real).collect::<Result<Vec<_>>>()?;
        all.push(aten::abs(z)?);
        Ok(all)
    })
}

/// A number that a call brings to the GPU is not what a recorded graph would read again.
#[test]
fn compiled_calls_with_numbers_give_the_same_again() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = numbers(&[5])?.to_device(gpu)?;
    let turned = compile(|x: &Tensor| aten::mul_scalar(x, Scalar::Complex(0.0, 1.0)));
    let want = format!("{}", aten::mul_scalar(&x, Scalar::Complex(0.0, 1.0))?);
    for _ in 0..4 {
        assert_eq!(format!("{}", turned.call(&x)?), want);
    }
    Ok(())
}

#[test]
fn complex_numbers_are_converted_there() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let z = aten::complex(&numbers(&[4])?, &tensor([0f32, 1.0, -2.0, 3.0])?)?;
    let there = z.to_device(gpu)?;
    for dtype in [DType::C128, DType::F32, DType::Bool, DType::I64] {
        let back = there.to_dtype(dtype)?.to_device(Device::CPU)?;
        assert_eq!(format!("{back}"), format!("{}", z.to_dtype(dtype)?));
    }
    let wide = numbers(&[4])?.to_device(gpu)?.to_dtype(DType::C64)?.to_device(Device::CPU)?;
    assert_eq!(format!("{wide}"), format!("{}", numbers(&[4])?.to_dtype(DType::C64)?));
    Ok(())
}
