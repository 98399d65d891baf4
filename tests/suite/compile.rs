//! Capture, replay and what surrounds them, through the public interface.

use straightline::ops::aten;
use straightline::{
    CompileEvent, CompileOptions, DType, ErrorKind, Result, Tensor, compile, compile_with, dispatch,
};

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    assert_eq!(a.dtype(), b.dtype());
    assert_eq!(a.strides(), b.strides(), "strides of {a:?}");
    let a = a.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let b = b.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan());
        assert!(same || (x - y).abs() <= 1e-5 + 1.3e-6 * y.abs(), "element {i}: {x} and {y}");
    }
}

fn randn(sizes: &[i64]) -> Tensor {
    Tensor::randn(sizes).unwrap()
}

/// Eager and compiled results agree, and a replay does not enter the dispatcher.
fn check(f: impl Fn(&Tensor) -> Result<Tensor> + Clone + Send + Sync + 'static, x: &Tensor) {
    let want = f(x).unwrap();
    let c = compile(f);
    close(&c.call(x).unwrap(), &want);
    let before = dispatch::call_count();
    let again = c.call(x).unwrap();
    assert_eq!(dispatch::call_count(), before, "a replay dispatched");
    close(&again, &want);
}

#[test]
fn pointwise_chains() {
    check(|x| x.exp()?.add(1)?.log()?.mul(x)?.tanh(), &randn(&[3, 5]));
    check(|x| x.gelu()?.mul(&x.sigmoid()?)?.add(&x.tanh()?), &randn(&[1000]));
    check(|x| x.relu()?.neg()?.abs()?.sqrt(), &randn(&[0, 4]));
    check(|x| x.t()?.add(2), &randn(&[4, 6]));
    check(|x| x.add(&x.t()?), &randn(&[5, 5]));
}

#[test]
fn reductions_and_normalisation() {
    check(|x| x.softmax(-1), &randn(&[7, 33]));
    check(|x| x.log_softmax(0), &randn(&[7, 33]));
    check(|x| x.sum_dim(&[0]), &randn(&[40, 9]));
    check(|x| x.mean(), &randn(&[40, 9]));
    check(|x| x.layer_norm_with(&[33], None, None, 1e-5), &randn(&[7, 33]));
    check(|x| x.var_with(1, 1, true), &randn(&[7, 33]));
    check(|x| x.amax(&[0, 1]), &randn(&[7, 33]));
    check(|x| x.argmax(1), &randn(&[7, 33]));
    check(|x| x.logsumexp(&[1]), &randn(&[7, 33]));
}

#[test]
fn products() {
    let w = randn(&[16, 8]);
    let b = randn(&[16]);
    let (w2, b2) = (w.clone(), b.clone());
    check(move |x| x.linear(&w, Some(&b))?.gelu(), &randn(&[5, 8]));
    check(move |x| x.linear(&w2, Some(&b2))?.relu(), &randn(&[2, 3, 8]));
    check(|x| x.matmul(&x.transpose(1, 2)?)?.softmax(-1), &randn(&[3, 4, 8]));
    check(|x| x.scaled_dot_product_attention_with(x, x, None, true), &randn(&[2, 3, 6, 8]));
}

#[test]
fn views_and_joins() {
    check(|x| Tensor::cat(&[x.clone(), x.exp()?], 1), &randn(&[3, 4]));
    check(|x| Tensor::stack(&x.unbind(0)?, 1), &randn(&[3, 4]));
    check(|x| x.slice(1, 1, 4, 2)?.mul(3), &randn(&[3, 6]));
    check(|x| x.permute(&[2, 0, 1])?.reshape(&[4, 6])?.sin(), &randn(&[2, 3, 4]));
    check(|x| x.tril()?.add(&x.triu_with(1)?), &randn(&[5, 5]));
    check(
        |x| {
            let i = Tensor::from_slice(&[2i64, 0], &[2])?;
            x.index_select(0, &i)?.add(1)
        },
        &randn(&[3, 4]),
    );
}

type Function = fn(&Tensor) -> Result<Tensor>;

/// f32 and f64; row-major, transposed, stepped, broadcast and empty inputs; NaN and infinities.
#[test]
fn every_layout_and_special_values() {
    let functions: [Function; 9] = [
        |x| x.gelu()?.mul(&x.sigmoid()?)?.add(&x.tanh()?),
        |x| x.exp()?.add(1.0)?.log()?.sqrt(),
        |x| x.softmax(-1),
        |x| x.log_softmax(0),
        |x| x.layer_norm_with(&[6], None, None, 1e-5),
        |x| x.sum_keepdim(&[0])?.add(x),
        |x| x.mean_keepdim(&[1])?.sub(x)?.square(),
        |x| x.matmul(&x.t()?)?.relu(),
        |x| x.gt(0.0)?.where_cond(-x, x.exp()?),
    ];
    for dtype in [DType::F32, DType::F64] {
        let base = randn(&[6, 6]).to_dtype(dtype).unwrap();
        let big = randn(&[12, 12]).to_dtype(dtype).unwrap();
        let special = base.copied().unwrap();
        for (i, v) in
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e30].into_iter().enumerate()
        {
            let row = special.select(0, i as i64).unwrap();
            row.select(0, i as i64).unwrap().fill_(v).unwrap();
        }
        let inputs = [
            base.t().unwrap(),
            big.slice(0, 1, 12, 2).unwrap().slice(1, 0, 12, 2).unwrap(),
            base.select(0, 0).unwrap().expand(&[4, 6]).unwrap(),
            Tensor::with(dtype).zeros([0, 6]).unwrap(),
            special.t().unwrap(),
            special,
            base,
        ];
        for (i, f) in functions.into_iter().enumerate() {
            for (k, x) in inputs.iter().enumerate() {
                // amax over no rows is an error in both worlds
                let Ok(want) = f(x) else {
                    assert!(compile(f).call(x).is_err(), "function {i} of input {k}");
                    continue;
                };
                let got = compile(f).call(x).unwrap();
                println!("function {i}, input {k}, {dtype}");
                close(&got, &want);
            }
        }
    }
}

#[test]
fn writes_become_functional() {
    check(
        |x| {
            let y = x.add(1)?;
            y.mul_(x)?;
            y.select(0, 1)?.zero_()?;
            y.t()?.add_(2)?;
            y.slice(1, 0, 2, 1)?.exp_()?;
            y.view(&[-1])?.sub_(1)?;
            Ok(y)
        },
        &randn(&[3, 4]),
    );
}

#[test]
fn written_arguments_are_copied_back() {
    let f = compile(|(x, n): &(Tensor, Tensor)| {
        x.add_(n)?;
        n.mul(x)
    });
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let n = Tensor::from_vec([10f32, 10.0], 2).unwrap();
    let inputs = (x.clone(), n);
    assert_eq!(f.call(&inputs).unwrap().to_vec::<f32>().unwrap(), [110.0, 120.0]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [11.0, 12.0]);
    f.call(&inputs).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [21.0, 22.0]);
    // memory shared with another argument is another variant
    f.call(&(x.clone(), x.clone())).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [42.0, 44.0]);
    assert_eq!(f.variants(), 2);
}

#[test]
fn closed_over_tensors_are_read_at_each_call() {
    let w = Tensor::from_vec([1f32], 1).unwrap();
    let w2 = w.clone();
    let f = compile(move |x: &Tensor| x.mul(&w2));
    let x = Tensor::from_vec([3f32], 1).unwrap();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [3.0]);
    w.fill_(5).unwrap();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [15.0]);
}

#[test]
fn packed_weights_follow_updates() {
    let w = randn(&[64, 64]);
    let w2 = w.clone();
    let f = compile(move |x: &Tensor| x.linear(&w2, None));
    let x = randn(&[4, 64]);
    close(&f.call(&x).unwrap(), &x.linear(&w, None).unwrap());
    w.mul_(2).unwrap();
    close(&f.call(&x).unwrap(), &x.linear(&w, None).unwrap());
}

#[test]
fn data_made_inside_is_a_constant() {
    let f = compile(|x: &Tensor| {
        let acc = Tensor::from_vec([0f32], 1)?;
        acc.add_(x)?;
        Ok(acc)
    });
    let x = Tensor::from_vec([2f32], 1).unwrap();
    for _ in 0..3 {
        assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    }
}

#[test]
fn identity_and_copies_keep_their_aliasing() {
    let f = compile(|x: &Tensor| Ok((x.clone(), x.copied()?, x.t()?)));
    let x = randn(&[2, 3]);
    let (same, copy, view) = f.call(&x).unwrap();
    assert!(same.is_same(&x));
    assert!(!copy.shares_storage_with(&x));
    assert!(view.shares_storage_with(&x));
    close(&copy, &x);
    close(&view, &x.t().unwrap());
}

#[test]
fn shapes_recompile_up_to_the_bound() {
    let options = CompileOptions { max_variants: 2, ..CompileOptions::default() };
    let f = compile_with(options, |x: &Tensor| x.add(1));
    for n in 1..4 {
        f.call(&randn(&[n])).unwrap();
    }
    let events = f.events();
    assert!(
        matches!(&events[0], CompileEvent::Compiled { variant: 0, misses, .. } if misses.is_empty())
    );
    assert!(matches!(&events[1], CompileEvent::Compiled { misses, .. }
        if misses[0].reason.contains("sizes [2], had [1]")));
    assert!(matches!(&events[2], CompileEvent::VariantLimit { limit: 2, .. }));
    assert_eq!(f.variants(), 2);
}

#[test]
fn reading_data_while_capturing_names_the_line() {
    let f = compile(|x: &Tensor| if x.sum()?.item::<f64>()? > 0.0 { x.neg() } else { x.exp() });
    let err = f.call(&randn(&[3])).unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::DataDependent { .. }), "{err}");
    let at = err.location().unwrap();
    assert!(at.file().ends_with("compile.rs"));

    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    let f = compile_with(
        options,
        |x: &Tensor| {
            if x.sum()?.item::<f64>()? > 0.0 { x.neg() } else { x.exp() }
        },
    );
    let x = Tensor::from_vec([1f32], 1).unwrap();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [-1.0]);
    let x = Tensor::from_vec([0f32], 1).unwrap();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [1.0]);
    assert!(matches!(f.events()[0], CompileEvent::EagerFallback { .. }));
}

#[test]
fn a_failed_capture_leaves_the_thread_clean() {
    let f = compile(|x: &Tensor| x.mm(x));
    assert!(f.call(&randn(&[2, 3])).is_err());
    let y = randn(&[2, 3]).add(1).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap().len(), 6);
    assert!(f.call(&randn(&[2, 2])).is_ok());
}

#[test]
fn sixty_four_threads_share_one_plan() {
    let w = randn(&[32, 32]);
    let f = compile(move |x: &Tensor| x.linear(&w, None)?.softmax(-1));
    let x = randn(&[4, 32]);
    let want = f.call(&x).unwrap().to_vec::<f32>().unwrap();
    std::thread::scope(|s| {
        for _ in 0..64 {
            s.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), want);
                }
            });
        }
    });
    assert_eq!(f.variants(), 1);
}

#[test]
fn random_numbers_are_drawn_anew_at_each_call() {
    let f = compile(|x: &Tensor| x.add(&Tensor::rand(x.sizes())?));
    let x = Tensor::zeros([8]).unwrap();
    let a = f.call(&x).unwrap().to_vec::<f32>().unwrap();
    let b = f.call(&x).unwrap().to_vec::<f32>().unwrap();
    assert_ne!(a, b);
    assert!(a.iter().chain(&b).all(|v| (0.0..1.0).contains(v)));
}

#[test]
fn index_out_of_range_in_a_replay_is_an_error() {
    let w = randn(&[5, 4]);
    let f = compile(move |i: &Tensor| w.embedding(i)?.exp());
    f.call(&Tensor::from_vec([0i64, 4], 2).unwrap()).unwrap();
    let err = f.call(&Tensor::from_vec([0i64, 5], 2).unwrap()).unwrap_err();
    // as the eager call says it
    assert_eq!(err.python_class(), "IndexError");
    assert_eq!(err.op(), Some("aten::embedding"));
    assert!(err.location().is_some(), "{err}");
}

/// The number of generated kernels and of extern calls.
fn steps(
    f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
    x: &Tensor,
) -> (usize, usize) {
    let f = compile(f);
    f.call(x).unwrap();
    let why = f.explain();
    let v = &why.variants[0];
    (v.kernels(), v.steps.len() - v.kernels())
}

#[test]
fn fusion_is_what_it_should_be() {
    let x = randn(&[8, 32]);
    let chain = |x: &Tensor| -> Result<Tensor> {
        let mut y = x.clone();
        for _ in 0..50 {
            y = y.mul(x)?.add(1)?;
        }
        Ok(y)
    };
    assert_eq!(steps(chain, &x), (1, 0));
    assert_eq!(steps(|x| x.softmax(-1), &x), (1, 0));
    assert_eq!(steps(|x| x.layer_norm_with(&[32], None, None, 1e-5), &x), (1, 0));
    assert_eq!(steps(|x| x.gelu()?.mul(&x.sigmoid()?)?.add(&x.tanh()?), &x), (1, 0));
    let (w, b) = (randn(&[16, 32]), randn(&[16]));
    assert_eq!(
        steps(move |x| x.linear(&w, Some(&b))?.gelu(), &x),
        (0, 1),
        "bias and activation belong to the product"
    );
    let table = randn(&[10, 32]);
    let ids = Tensor::from_vec([1i64, 3], 2).unwrap();
    assert_eq!(
        steps(move |i| table.embedding(i)?.softmax(-1), &ids),
        (1, 0),
        "a gather belongs to what follows"
    );
}

#[test]
fn long_column_sums_agree() {
    // positive numbers: what cancels has no correct digits to compare
    check(|x| x.sum_dim(&[0]), &randn(&[1024, 1000]).abs().unwrap());
    check(|x| x.amax_keepdim(&[0]), &randn(&[1040, 800]));
}

/// Draws the same numbers eagerly and compiled, without a replay that enters the dispatcher.
fn check_random(f: fn(&Tensor) -> Result<Tensor>) {
    let x = randn(&[3, 4]);
    let eager: Vec<Tensor> = {
        straightline::manual_seed(11);
        (0..3).map(|_| f(&x).unwrap()).collect()
    };
    let c = compile(f);
    c.call(&x).unwrap();
    straightline::manual_seed(11);
    let before = dispatch::call_count();
    let compiled: Vec<Tensor> = (0..3).map(|_| c.call(&x).unwrap()).collect();
    assert_eq!(dispatch::call_count(), before, "a replay dispatched");
    for (a, b) in compiled.iter().zip(&eager) {
        close(a, b);
    }
}

#[test]
fn random_numbers_are_those_of_eager_execution_and_drawn_without_the_dispatcher() {
    crate::support::alone(
        "compile::random_numbers_are_those_of_eager_execution_and_drawn_without_the_dispatcher",
        draws_as_eagerly,
    );
}

fn draws_as_eagerly() {
    use straightline::ops::aten;
    check_random(|x| Tensor::rand(x.sizes())?.add(x));
    check_random(|x| aten::rand_like(x, None, None, None, None, None));
    check_random(|x| aten::randn_like(&x.t()?, Some(DType::F64), None, None, None, None));
    check_random(|x| aten::uniform_(&aten::clone(x, None)?, -1.0, 2.0, None));
    check_random(|x| {
        aten::normal_(&aten::empty_like(x, None, None, None, None, None)?, 1.0, 2.0, None)
    });
    check_random(|x| aten::dropout(x, 0.5, true));
    // two draws keep their order
    check_random(|x| {
        let a = Tensor::randn(x.sizes())?;
        let b = aten::rand_like(x, None, None, None, None, None)?;
        b.mul(3.0)?.sub(&a)
    });
}

#[test]
fn steps_without_a_loop_form_replay_without_the_dispatcher() {
    use straightline::ops::aten;
    check(|x| aten::fill_tensor(x, &x.sum()?), &randn(&[3, 3]));
    check(|x| aten::diagonal_scatter(x, &x.sum_dim(&[0])?, 0, 0, 1), &randn(&[3, 3]));
    check(|x| aten::as_strided_scatter(x, &x.sum_dim(&[0])?, &[3], &[2], Some(1)), &randn(&[3, 3]));
    check(|x| aten::remainder_scalar(x, straightline::Scalar::Float(0.7)), &randn(&[9]));
}

/// A product that takes in what is added to it, in more dimensions than its own.
#[test]
fn products_with_residuals_are_written_where_they_are_wanted() {
    let (w, b) = (randn(&[6, 6]), randn(&[6]));
    let residual = {
        let w = w.clone();
        move |x: &Tensor| {
            let y = x.matmul(&w)?.view([2, 4, 6])?.add(x.view([2, 4, 6])?)?;
            let halves = [y.narrow(2, 0, 3)?, y.narrow(2, 3, 3)?];
            Tensor::cat([&halves[0], &halves[1]], 2)?.mul(2)
        }
    };
    check(residual, &randn(&[8, 6]));
    let heads = {
        let (w, b) = (w.clone(), b.clone());
        move |x: &Tensor| {
            let y = (x.linear(&w, Some(&b))? + x).view([2, 4, 3, 2])?;
            y.transpose(1, 2)?.contiguous()?.mul(2)
        }
    };
    check(heads, &randn(&[2, 4, 6]));
    // one consumer, which copies the product in another order or into a part of something
    let x = randn(&[2, 4, 6]);
    type Use = fn(&Tensor, Tensor) -> Result<Tensor>;
    let uses: [Use; 5] = [
        |_, y| y.transpose(0, 1)?.contiguous()?.mul(2),
        |_, y| y.transpose(1, 2)?.contiguous()?.mul(2),
        |_, y| y.permute([2, 0, 1])?.contiguous()?.view([6, 8])?.mul(2),
        |_, y| {
            let cache = Tensor::zeros([2, 6, 6])?;
            cache.slice(1, 1, 5, 1)?.copy_(y)?;
            Ok(cache)
        },
        |x, y| {
            x.transpose(0, 1)?.copy_(y.transpose(0, 1)?)?;
            x.mul(2)
        },
    ];
    for consume in uses {
        for bias in [None, Some(&b)] {
            let (w, bias) = (w.clone(), bias.cloned());
            let f = move |x: &Tensor| {
                let x = x.copied()?;
                let y = x.linear(&w, bias.as_ref())?;
                consume(&x, y.gelu()?)?.add(consume(&x, y.relu()?)?)
            };
            check(f, &x);
        }
        let w = w.clone();
        check(move |x| consume(&x.copied()?, x.linear(&w, None)?.relu()?), &x);
    }
    // a copy of as many elements, which are not all of the product's
    let w1 = w.clone();
    let column = move |x: &Tensor| {
        let one = x.matmul(&w1)?.slice(-1, 0, 1, 1)?;
        Tensor::cat(vec![one; 6], -1)?.mul(2)
    };
    check(column.clone(), &randn(&[3, 6]));
    check(column, &x);
    let w2 = w.clone();
    let columns = move |x: &Tensor| {
        let y = x.matmul(&w2)?.relu()?.transpose(1, 2)?.reshape([2, 24])?;
        y.sum_dim(-1)?.add(y.mul(2)?.sum_dim(-1)?)
    };
    check(columns, &x);
    // what is added lies otherwise in memory than the product, and so does the result
    for x in [
        randn(&[4, 2, 6]).transpose(0, 1).unwrap(),
        randn(&[6, 2, 4]).permute([1, 2, 0]).unwrap(),
        randn(&[3, 4, 6]).i(1..).unwrap(),
        randn(&[2, 4, 12]).slice(2, 0, 12, 2).unwrap(),
    ] {
        let (w1, w2) = (w.clone(), w.clone());
        check(move |x| x.linear(&w1, None)?.add(x), &x);
        let rows = randn(&[2, 4, 6]);
        check(move |x| rows.linear(&w2, None)?.add(x), &x);
        let (w3, b3) = (w.clone(), b.clone());
        check(move |x| x.linear(&w3, Some(&b3))?.gelu()?.add(x)?.add(x), &x);
    }
}

#[test]
fn sums_begin_at_zero() {
    // PyTorch's of nothing but -0 is 0, eagerly and so compiled
    type Sum = fn(&Tensor) -> Result<Tensor>;
    let sums: [Sum; 7] = [
        |x| x.sum(),
        |x| x.sum_dim(0),
        |x| x.sum_dim(1),
        |x| x.mean(),
        |x| x.i((.., ..1))?.sum_dim(1),
        |x| x.i((0, 0))?.sum(),
        |x| x.to(DType::F16)?.sum()?.to(DType::F32),
    ];
    for dtype in [DType::F32, DType::F64] {
        let x = Tensor::zeros([2, 3]).unwrap().neg().unwrap().to(dtype).unwrap();
        for sum in sums {
            for got in [sum(&x), compile(sum).call(&x)] {
                let got: Vec<f64> =
                    got.unwrap().to(DType::F64).unwrap().view(-1).unwrap().to_vec().unwrap();
                assert!(got.iter().all(|n| n.to_bits() == 0), "{dtype}: {got:?}");
            }
        }
    }
}

#[test]
fn a_number_alone_keeps_its_dtype() {
    let number = Tensor::wrapped_number(2.5).unwrap();
    for f in [|x: &Tensor| x.neg(), |x: &Tensor| x.sin(), |x: &Tensor| x.copied()] {
        let dtypes = (f(&number).unwrap().dtype(), compile(f).call(&number).unwrap().dtype());
        assert_eq!(dtypes, (DType::F64, DType::F64));
    }
}

#[test]
fn any_number_of_variants_may_be_asked_for() {
    let options = CompileOptions { max_variants: usize::MAX, ..CompileOptions::default() };
    let f = compile_with(options, |x: &Tensor| x.relu());
    for n in 1..4 {
        f.call(&randn(&[n])).unwrap();
    }
    assert_eq!(f.variants(), 3);
}

/// Convolutions under `fast_math` are computed by squares of 4x4 outputs where these are worth it:
/// the errors are at most 1.2e-5 of the sum of the terms' magnitudes, and larger than those of sums.
#[test]
fn convolutions_under_fast_math_stay_near() {
    let (x, w) = (randn(&[2, 32, 30, 30]), randn(&[33, 32, 3, 3]));
    let convolution =
        |x: &Tensor, w: &Tensor| aten::conv2d(x, w, None, &[1, 1], &[1, 1], &[1, 1], 1);
    let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    let want = convolution(&wide(&x), &wide(&w)).unwrap();
    let size = convolution(&wide(&x.abs().unwrap()), &wide(&w.abs().unwrap())).unwrap();
    let most = |options: CompileOptions| -> f64 {
        let w = w.clone();
        let fast = options.fast_math;
        let f = compile_with(options, move |x: &Tensor| convolution(x, &w));
        let y = [f.call(&x).unwrap(), f.call(&x).unwrap()];
        close(&y[0], &y[1]);
        assert_eq!(f.explain().to_string().contains("(fast math)"), fast);
        let values = |t: &Tensor| t.to_vec::<f64>().unwrap();
        let (y, want, size) = (values(&wide(&y[0])), values(&want), values(&size));
        let off = y.iter().zip(&want).zip(&size).map(|((y, want), size)| (y - want).abs() / size);
        off.fold(0.0, f64::max)
    };
    let plain = most(CompileOptions::default());
    let fast = most(CompileOptions { fast_math: true, ..CompileOptions::default() });
    assert!(plain < 1e-6 && plain < fast && fast < 1.2e-5, "{plain:e} {fast:e}");
}
