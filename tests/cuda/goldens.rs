//! A few operators of each kind, whose programs are few and small: `cuda/goldens` has them as PTX, so that these
//! tests run without NVRTC too. With `STRAIGHTLINE_CUDA_GOLDENS` and NVRTC they compare what is compiled with
//! that folder (`.ci/run`, `.ci/renew-goldens`). Attention is not among them: one program has a quarter of a
//! megabyte.

use super::compiled::{here, there};
use super::gpu;
use straightline::ops::aten;
use straightline::{DType, Result, Tensor, assert_close, compile, manual_seed};

fn numbers(sizes: &[i64]) -> Result<Tensor> {
    let count: i64 = sizes.iter().product();
    Tensor::arange(count)?.to_dtype(DType::F32)?.mul(0.7)?.sin()?.reshape(sizes)
}

#[test]
fn loops_and_rows() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let (x, y) = (numbers(&[5, 37])?, numbers(&[37])?);
    let f = |(x, y): (&Tensor, &Tensor)| x.mul(y)?.gelu()?.softmax(-1);
    let compiled = compile(f);
    assert_close(&here(&compiled.call((&there(&x, gpu)?, &there(&y, gpu)?))?)?, &f((&x, &y))?)?;
    assert_close(&here(&there(&x, gpu)?.add(&there(&y, gpu)?)?)?, &x.add(&y)?)?;
    Ok(())
}

#[test]
fn products_and_convolutions() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let (a, b) = (numbers(&[9, 20])?, numbers(&[20, 17])?);
    assert_close(&here(&there(&a, gpu)?.matmul(&there(&b, gpu)?)?)?, &a.matmul(&b)?)?;
    let (image, weight) = (numbers(&[2, 3, 6, 5])?, numbers(&[4, 3, 3, 3])?);
    let convolution =
        |x: &Tensor, w: &Tensor| aten::conv2d(x, w, None, &[1, 1], &[1, 1], &[1, 1], 1);
    let got = convolution(&there(&image, gpu)?, &there(&weight, gpu)?)?;
    assert_close(&here(&got)?, &convolution(&image, &weight)?)?;
    Ok(())
}

#[test]
fn sorts_and_random_numbers() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = numbers(&[3, 50])?;
    let (want, order) = x.sort(-1, true)?;
    let (got, places) = there(&x, gpu)?.sort(-1, true)?;
    assert_close(&here(&got)?, &want)?;
    assert_close(&here(&places)?, &order)?;
    // two draws of one graph are two of eager execution
    let draw = move |x: &Tensor| aten::dropout(x, 0.5, true)?.add(&Tensor::with(gpu).rand([50])?);
    let x = there(&x, gpu)?;
    manual_seed(1);
    let want = (0..4).map(|_| here(&draw(&x)?)).collect::<Result<Vec<_>>>()?;
    manual_seed(1);
    let compiled = compile(draw);
    for want in &want {
        assert_close(&here(&compiled.call(&x)?)?, want)?;
    }
    Ok(())
}
