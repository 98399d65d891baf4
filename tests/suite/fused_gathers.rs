//! Operators that pick elements by listed, computed or given positions share a kernel with what
//! surrounds them.

use straightline::ops::aten;
use straightline::{DType, Result, Tensor, compile};

/// Numbers with NaN, infinities and zeros of both signs among them.
fn input(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];
    let data: Vec<f32> = (0..n as usize)
        .map(|i| match i % 13 {
            4 => odd[i / 13 % odd.len()],
            _ => i as f32 * 0.37 - 5.0,
        })
        .collect();
    Tensor::from_slice(&data, sizes).unwrap()
}

fn bits(t: &Tensor) -> Vec<u32> {
    let all = t.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
    let canonical = |x: &f32| if x.is_nan() { f32::NAN } else { *x };
    all.iter().map(canonical).map(f32::to_bits).collect()
}

/// One kernel, no call of a runtime kernel, and eager's result to the bit.
fn one_kernel(
    what: &str,
    x: &Tensor,
    f: impl Fn(&Tensor) -> Result<Tensor> + Clone + Send + Sync + 'static,
) {
    let want = f(x).unwrap();
    let c = compile(f);
    let lowered = c.trace(x).unwrap().lower().unwrap();
    let plan = lowered.schedule();
    assert_eq!((plan.steps.len(), plan.kernels().count()), (1, 1), "{what}:\n{plan}");
    let got = c.call(x).unwrap();
    assert_eq!(got.sizes(), want.sizes(), "{what}");
    assert_eq!(got.strides(), want.strides(), "{what}");
    assert_eq!(bits(&got), bits(&want), "{what}");
}

#[test]
fn pads() {
    let x = input(&[2, 3, 5, 19]);
    one_kernel("constant", &x, |x| {
        aten::relu(&aten::constant_pad_nd(x, &[4, 2, 1, 3], 1.5.into())?)
    });
    one_kernel("constant, cropped", &x, |x| {
        aten::relu(&aten::constant_pad_nd(x, &[-4, 9, 0, -1], f64::NAN.into())?)
    });
    one_kernel("reflect", &x, |x| aten::neg(&aten::pad(x, &[4, 2, 1, 3], "reflect", None)?));
    one_kernel("replicate", &x, |x| aten::neg(&aten::pad(x, &[4, 2, 1, -3], "replicate", None)?));
    one_kernel("circular", &x, |x| aten::neg(&aten::pad(x, &[4, 2, 1, 3], "circular", None)?));
    one_kernel("pad, pointwise, extreme of a row", &x, |x| {
        let y = aten::relu(&aten::reflection_pad2d(x, &[7, 7, 0, 0])?)?;
        aten::amax(&y, &[3], false)
    });
}

#[test]
fn neighbours_and_what_turns() {
    let x = input(&[2, 3, 5, 19]);
    one_kernel("nearest", &x, |x| {
        let y = aten::upsample_nearest2d(x, &[10, 38], None, None)?;
        aten::relu(&aten::mul_tensor(&y, &y)?)
    });
    one_kernel("nearest by a factor", &x, |x| {
        aten::abs(&aten::upsample_nearest2d(x, &[7, 23], Some(1.4), Some(1.25))?)
    });
    one_kernel("nearest from the middle", &x, |x| {
        aten::abs(&aten::_upsample_nearest_exact2d(x, &[3, 40], None, None)?)
    });
    one_kernel("flip", &x, |x| aten::mul_tensor(&aten::flip(x, &[0, 3])?, x));
    one_kernel("roll", &x, |x| aten::mul_tensor(&aten::roll(x, &[5, -2], &[3, 0])?, x));
    one_kernel("roll all", &x, |x| aten::neg(&aten::roll(x, &[40], &[])?));
    one_kernel("rot90", &x, |x| aten::neg(&aten::rot90(x, 1, &[2, 3])?));
}

#[test]
fn repeated_and_shuffled() {
    let x = input(&[2, 4, 5, 19]);
    one_kernel("tile", &x, |x| aten::neg(&aten::tile(x, &[2, 3])?));
    one_kernel("repeat", &x, |x| aten::neg(&aten::repeat(x, &[1, 2, 1, 1])?));
    one_kernel("repeat_interleave", &x, |x| {
        aten::neg(&aten::repeat_interleave_self_int(x, 3, Some(3), None)?)
    });
    one_kernel("cat", &x, |x| {
        let y = aten::neg(x)?;
        // of zeros with different signs either is the largest
        aten::amax(&aten::abs(&aten::cat(&[x.clone(), y], 3)?)?, &[3], false)
    });
    one_kernel("stack", &x, |x| {
        let y = aten::abs(x)?;
        aten::neg(&aten::stack(&[x.clone(), y, x.clone()], 1)?)
    });
    one_kernel("pixel_shuffle", &x, |x| aten::neg(&aten::pixel_shuffle(x, 2)?));
}

#[test]
fn masks() {
    let x = input(&[6, 19]);
    one_kernel("tril", &x, |x| aten::relu(&aten::tril(x, 2)?));
    one_kernel("eye", &x, |x| {
        let e = aten::eye_m(6, 19, None, None, None, None)?;
        aten::maximum(&e, x)
    });
    one_kernel("masked_fill", &x, |x| {
        let mask = aten::isnan(x)?;
        aten::neg(&aten::masked_fill_scalar(x, &mask, 3.into())?)
    });
}

#[test]
fn given_positions() {
    let x = input(&[6, 19]);
    let at = |v: &[i64], sizes: &[i64]| Tensor::from_slice(v, sizes).unwrap();
    let columns = at(&[3, 18, 0, 7], &[1, 4]);
    one_kernel("take_along_dim", &x, move |x| {
        aten::neg(&aten::take_along_dim(x, &columns, Some(1))?)
    });
    let rows = at(&[5, 0, 5], &[3]);
    one_kernel("index_select", &x, move |x| aten::neg(&aten::index_select(x, 0, &rows)?));
    let (rows, columns) = (at(&[5, -6, -1], &[3, 1]), at(&[-1, 18], &[2]));
    one_kernel("two indices", &x, move |x| {
        aten::neg(&aten::index_tensor(x, &[Some(rows.clone()), Some(columns.clone())])?)
    });
    let classes = at(&[0, 2, 1, 2], &[4]);
    let weight = input(&[4, 3]);
    one_kernel("one_hot", &weight, move |w| {
        let hot = aten::one_hot(&classes, 3)?;
        aten::where_self(&aten::eq_scalar(&hot, 1.into())?, w, &aten::neg(w)?)
    });
}

#[test]
fn positions_outside_are_errors_in_compiled_code() {
    let x = input(&[6, 19]);
    let at = |v: &[i64], sizes: &[i64]| Tensor::from_slice(v, sizes).unwrap();
    let f = compile(|(x, i): &(Tensor, Tensor)| aten::neg(&aten::gather(x, 1, i, false)?));
    for bad in [-1, 19] {
        let e = f.call(&(x.clone(), at(&[0, bad], &[1, 2])));
        assert!(e.is_err(), "gather of column {bad}");
    }
    let f = compile(|(x, i): &(Tensor, Tensor)| {
        aten::neg(&aten::index_tensor(x, &[Some(i.clone()), Some(i.clone())])?)
    });
    assert!(f.call(&(x.clone(), at(&[-6, 5], &[2]))).is_ok());
    // twice around is outside
    for bad in [-7, -12, 6] {
        let e = f.call(&(x.clone(), at(&[0, bad], &[2])));
        assert!(e.is_err(), "row {bad}");
    }
    let none = Tensor::zeros([1, 0]).unwrap();
    let f = compile(|(x, i): &(Tensor, Tensor)| aten::neg(&aten::index_select(x, 0, i)?));
    assert!(f.call(&(none, at(&[1], &[1]))).is_err());
}
