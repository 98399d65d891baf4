//! Where results and writes lie: which memory, at which place, with which math bits, as eager code
//! would have it.

use straightline::dispatch::custom_op;
use straightline::ops::aten;
use straightline::{DType, Result, Tensor, compile, manual_seed};

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

/// `f(x)` eagerly and compiled, on tensors of their own each: what was returned, and what `x` is
/// afterwards.
fn with_own(
    f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
    x: impl Fn() -> Tensor,
) -> [(Result<Tensor>, Tensor); 2] {
    let (a, b) = (x(), x());
    let eager = f(&a);
    [(eager, a), (compile(f).call(&b), b)]
}

/// `from..from + n` of these strides in the memory of that many numbers.
fn strided(dtype: DType, memory: i64, sizes: &[i64], strides: &[i64], offset: i64) -> Tensor {
    let base = Tensor::arange((0, memory, 1)).unwrap().to_dtype(dtype).unwrap();
    aten::as_strided(&base, sizes, strides, Some(offset)).unwrap()
}

#[test]
fn a_place_in_memory_that_was_copied_is_that_of_the_original() {
    // PyTorch's `slice_scatter` copies all the memory of its operand, and what is before it too
    let f = |x: &Tensor| {
        let y = aten::slice_scatter(x, x, 0, Some(0), Some(3), 1)?;
        aten::as_strided(&y, &[2], &[1], Some(3))
    };
    for (offset, want) in [(2, [3.0, 4.0]), (0, [3.0, 4.0])] {
        let x = || strided(DType::F32, 20, &[3, 4], &[4, 1], offset);
        for (got, _) in with_own(f, x) {
            assert_eq!(numbers(&got.unwrap()), want);
        }
    }
}

#[test]
fn results_have_the_math_bits_and_the_memory_of_eager_ones() {
    let z = || {
        let parts = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        aten::view_as_complex(&parts).unwrap()
    };
    type F = fn(&Tensor) -> Result<Tensor>;
    let all: [F; 8] = [
        Tensor::conj,
        aten::_neg_view,
        |z| aten::real(&z.conj()?),
        |z| aten::imag(&z.conj()?),
        |z| z.conj()?.conj(),
        |z| aten::real(&z.slice(0, 1, 2, 1)?.conj()?),
        |z| z.mul(z)?.conj(),
        |z| aten::unsafe_chunk(&z.conj()?, 2, 0).map(|l| l[1].clone()),
    ];
    for (i, f) in all.into_iter().enumerate() {
        let [(eager, a), (got, b)] = with_own(f, z);
        let (eager, got) = (eager.unwrap(), got.unwrap());
        let seen = |r: &Tensor, x: &Tensor| {
            let bits = (r.is_conj(), r.is_neg());
            (bits, r.shares_storage_with(x), r.storage_offset(), format!("{r}"))
        };
        assert_eq!((i, seen(&got, &b)), (i, seen(&eager, &a)));
        // and writes to it are seen
        eager.zero_().unwrap();
        got.zero_().unwrap();
        assert_eq!((i, format!("{b}")), (i, format!("{a}")));
    }
    let inside = compile(|z: &Tensor| Tensor::from_slice(&[z.conj()?.is_conj()], [1]));
    assert_eq!(inside.call(&z()).unwrap().to_vec::<bool>().unwrap(), [true]);
}

#[test]
fn an_out_is_no_view_of_what_is_put_there() {
    let f = |x: &Tensor| {
        let out = Tensor::zeros([0])?.to_dtype(x.dtype())?;
        aten::unsafe_split_tensor_out(x, 5, 0, &[out.clone()])?;
        Ok(out)
    };
    for (got, x) in with_own(f, || strided(DType::F32, 5, &[5], &[1], 0)) {
        let got = got.unwrap();
        assert!(!got.shares_storage_with(&x));
        assert_eq!(numbers(&got), numbers(&x));
    }
}

#[test]
fn what_was_written_stays_where_the_tensor_is_resized_away() {
    // another argument lies in the beginning of the same memory
    let write = |(x, y): &(Tensor, Tensor)| {
        aten::cumprod_(y, 1, None)?;
        aten::zeros_out(&[2, 0, 1], y)?;
        x.add(0)
    };
    let run = |compiled: bool| {
        let memory = Tensor::arange((0, 24, 1)).unwrap().to_dtype(DType::F64).unwrap();
        let x = aten::as_strided(&memory, &[3, 4], &[4, 1], Some(0)).unwrap();
        let y = aten::as_strided(&memory, &[4, 3], &[6, 2], Some(0)).unwrap();
        let f = compile(write);
        let given = (x, y);
        let result = if compiled { f.call(&given) } else { f.eager(&given) };
        (numbers(&result.unwrap()), numbers(&memory), given.1.shape().to_vec())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn norms_of_complex_numbers_go_into_real_results() {
    let f = |z: &Tensor| {
        let out = Tensor::zeros([0i64; 0])?;
        aten::linalg_vector_norm_out(z, 2.into(), None, false, None, &out)?;
        Ok(out)
    };
    let z = || aten::view_as_complex(&strided(DType::F32, 4, &[2, 2], &[2, 1], 0)).unwrap();
    for (got, _) in with_own(f, z) {
        assert_eq!(numbers(&got.unwrap()), [f64::from(14f32.sqrt())]);
    }
}

#[test]
fn views_as_other_elements_are_written_through_any_view() {
    type F = fn(&Tensor) -> Result<Tensor>;
    let all: [F; 3] = [
        |z| aten::view_as_real(z)?.transpose(0, 1)?.mul_(2),
        |z| aten::diagonal(&aten::view_as_real(z)?, 0, 0, 1)?.fill_(7),
        |z| {
            let bytes = aten::view_dtype(&aten::view_as_real(z)?, DType::I32)?;
            bytes.permute(&[1, 0])?.add_(1)
        },
    ];
    let z = || aten::view_as_complex(&strided(DType::F32, 6, &[3, 2], &[2, 1], 0)).unwrap();
    for (i, f) in all.into_iter().enumerate() {
        let [(eager, a), (got, b)] = with_own(f, z);
        eager.unwrap();
        got.unwrap();
        assert_eq!((i, format!("{b}")), (i, format!("{a}")));
    }
    let i = || strided(DType::I8, 12, &[3, 4], &[4, 1], 0);
    let f = |x: &Tensor| aten::view_dtype(x, DType::I32)?.movedim(1, 0)?.mul_(2);
    let [(eager, a), (got, b)] = with_own(f, i);
    eager.unwrap();
    got.unwrap();
    assert_eq!(numbers(&a), numbers(&b));
}

#[test]
fn a_closed_over_vector_is_multiplied_into_strided_memory() {
    let w = strided(DType::F32, 8, &[4], &[2], 1);
    let f = move |x: &Tensor| {
        let out = aten::as_strided(&Tensor::zeros([18])?, &[9], &[2], Some(1))?;
        aten::mv_out(x, &w, &out)?;
        aten::celu_out(&out, 0.8.into(), &out)
    };
    let [eager, compiled] = with_own(f, || strided(DType::F32, 36, &[9, 4], &[4, 1], 0));
    assert_eq!(numbers(&eager.0.unwrap()), numbers(&compiled.0.unwrap()));
}

#[test]
fn conjugate_and_negative_views_are_filled_as_eager_ones_are() {
    type F = fn(&Tensor) -> Result<Tensor>;
    let real: F = |x| aten::normal_(&aten::_neg_view(&x.narrow(1, 1, 5)?)?, 0.0, 1.0, None);
    let out: F = |x| {
        let z = aten::view_as_complex(&x.view(&[12, 2])?)?;
        aten::rand_like_out(&z, None, &z)
    };
    let complex: F = |x| {
        let z = aten::view_as_complex(&x.view(&[4, 3, 2])?)?;
        aten::normal_(&z.narrow(1, 0, 2)?.conj()?, 0.0, 1.0, None)
    };
    let at = "places::conjugate_and_negative_views_are_filled_as_eager_ones_are";
    super::support::alone(at, || {
        for f in [real, complex, out] {
            let filled = [false, true].map(|compiled| {
                let x = Tensor::zeros([4, 6]).unwrap();
                manual_seed(7);
                match compiled {
                    true => compile(f).call(&x),
                    false => f(&x),
                }
                .unwrap();
                numbers(&x)
            });
            assert_eq!(filled[0], filled[1]);
        }
    });
}

#[test]
fn a_kernel_meets_operands_in_rows_where_eager_code_has_rows() {
    // the plan computes the sum as its transpose lies, and shows `y` through it
    let written = |x: &Tensor| -> Result<Tensor> {
        let y = x.mul(2)?;
        aten::add_scalar_(&y.t()?, 1.into(), 1.into())?;
        Ok(y)
    };
    let mut op = custom_op("places::in_rows", |x: &Tensor| {
        assert!(x.is_contiguous(), "no rows");
        x.neg()
    })
    .args(["x"])
    .register()
    .unwrap();
    op.register_fake(|x: &Tensor| x.empty_like()).unwrap();
    let rows = op.handle().typed::<(&Tensor,), Tensor>().unwrap();
    let x = || strided(DType::F32, 12, &[3, 4], &[4, 1], 0);
    let [eager, compiled] = with_own(move |x| aten::_pdist_forward(&written(x)?, 2.0), x);
    assert_eq!(numbers(&compiled.0.unwrap()), numbers(&eager.0.unwrap()));
    let [eager, compiled] = with_own(move |x| rows.call((&written(x)?,)), x);
    assert_eq!(numbers(&compiled.0.unwrap()), numbers(&eager.0.unwrap()));
}

#[test]
fn an_expanded_out_of_another_size_is_given_other_memory() {
    let sum = |x: &Tensor| {
        let out = Tensor::zeros([1])?.expand([4])?;
        aten::add_out(x, x, 1.into(), &out)?;
        Ok(out)
    };
    let given = |out: &Tensor| {
        let x = Tensor::ones([3])?;
        aten::add_out(&x, &x, 1.into(), out)
    };
    for (got, _) in with_own(sum, || Tensor::ones([3]).unwrap()) {
        assert_eq!(numbers(&got.unwrap()), [2.0; 3]);
    }
    let expanded = || Tensor::zeros([1]).unwrap().expand([4]).unwrap();
    for (got, out) in with_own(given, expanded) {
        assert_eq!(numbers(&got.unwrap()), [2.0; 3]);
        assert_eq!((out.sizes(), numbers(&out)), (&[3][..], vec![2.0; 3]));
    }
}

#[test]
fn the_same_memory_in_another_dtype_of_that_size_is_read_first() {
    // as in PyTorch, where two tensors that begin and end together are one
    let f = |x: &Tensor| x.add_(aten::view_dtype(x, DType::I32)?)?.mul(1);
    let bits = 1f32.to_bits() as f32 as f64;
    for (got, x) in with_own(f, || Tensor::ones([3]).unwrap()) {
        assert_eq!((numbers(&got.unwrap()), numbers(&x)), (vec![bits; 3], vec![bits; 3]));
    }
}

#[test]
fn memory_in_another_order_is_refused_in_another_dtype_too() {
    type Write = fn(&Tensor, Tensor) -> Result<()>;
    let writes: [(&str, Write); 4] = [
        ("add_", |x, y| x.add_(y).map(drop)),
        ("addcmul_", |x, y| aten::addcmul_(x, &y, x, 1.into()).map(drop)),
        ("clamp_", |x, y| aten::clamp_tensor_(x, Some(&y), None).map(drop)),
        ("copy_", |x, y| x.copy_(y).map(drop)),
    ];
    for (name, write) in writes {
        let f = move |x: &Tensor| {
            write(x, aten::view_dtype(&x.t()?, DType::I32)?)?;
            Ok(x.clone())
        };
        for (got, x) in with_own(f, || Tensor::ones([2, 2]).unwrap()) {
            let e = got.expect_err(name);
            assert!(e.to_string().contains("single memory location"), "{name}: {e}");
            assert_eq!(numbers(&x.view(-1).unwrap()), [1.0; 4]);
        }
    }
}
