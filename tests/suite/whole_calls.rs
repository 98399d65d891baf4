//! Calls that are made of several kernels, on several threads: between two of them nobody else
//! comes, so that no write is lost and nothing is read half. `conformance::whole` asks the same of
//! each recorded call, without threads.

use num_complex::Complex;
use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor, compile};

const THREADS: usize = 3;
const CALLS: usize = 150;
const ALL: usize = THREADS * CALLS;

/// Calls `f` so many times on several threads at once.
fn at_once(f: impl Fn() -> Result<Tensor> + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    f().unwrap();
                }
            });
        }
    });
}

fn ones(dtype: DType) -> Tensor {
    Tensor::with(dtype).ones([8]).unwrap()
}

fn zeros(dtype: DType) -> Tensor {
    Tensor::with(dtype).zeros([8]).unwrap()
}

/// All elements as real numbers.
fn values(x: &Tensor) -> Vec<f64> {
    let wide = x.to_dtype(DType::C128).unwrap();
    let wide = wide.to_vec::<Complex<f64>>().unwrap();
    wide.into_iter().map(|c| c.re).collect()
}

fn assert_counted(x: &Tensor, what: &str) {
    assert_eq!(values(x), [ALL as f64; 8], "{what}");
}

#[test]
fn sums_of_two_dtypes() {
    let pairs = [
        (DType::C64, DType::F64),
        (DType::C64, DType::C128),
        (DType::I32, DType::I64),
        (DType::F16, DType::F32),
        (DType::F64, DType::I64),
        (DType::F32, DType::F64),
    ];
    for (of, other) in pairs {
        let (x, one) = (zeros(of), ones(other));
        at_once(|| x.add_(&one));
        assert_counted(&x, &format!("{of} += {other}"));
        at_once(|| x.sub_(&one));
        assert_eq!(values(&x), [0.0; 8], "{of} -= {other}");
        at_once(|| aten::add_tensor_(&x, &one, Scalar::Int(1)));
        at_once(|| aten::sub_tensor_(&x, &one, Scalar::Int(2)));
        assert_eq!(values(&x), [-(ALL as f64); 8], "{of} -= 2 {other}");
    }
}

#[test]
fn operators_that_are_made_of_others() {
    let (x, one) = (zeros(DType::C64), ones(DType::C64));
    at_once(|| x.addcmul_(&one, &one));
    assert_counted(&x, "addcmul_");
    let x = zeros(DType::F32);
    let one = ones(DType::F32);
    at_once(|| aten::add_out(&x, &one, Scalar::Int(1), &x));
    assert_counted(&x, "add.out into its operand");
    let x = zeros(DType::F32);
    let (rows, columns) = (ones(DType::F32), ones(DType::F32));
    let x2 = x.reshape([8, 1]).unwrap();
    let (rows, columns) =
        (rows.reshape([8, 1]).unwrap(), columns.narrow(0, 0, 1).unwrap().reshape([1, 1]).unwrap());
    at_once(|| x2.addmm_(&rows, &columns));
    assert_counted(&x, "addmm_");
}

#[test]
fn conjugate_and_negative_views() {
    let b = zeros(DType::F32);
    let one = ones(DType::F32);
    at_once(|| aten::_neg_view(&b)?.sub_(&one));
    assert_counted(&b, "-view -= 1");
    let index = Tensor::from_vec((0..8i64).collect::<Vec<_>>(), -1).unwrap();
    at_once(|| aten::_neg_view(&b)?.index_add_(0, &index, &one));
    assert_eq!(values(&b), [0.0; 8], "index_add_ to a negative view");
    let c = zeros(DType::C64);
    let one = ones(DType::C64);
    at_once(|| c.conj()?.add_(&one));
    assert_counted(&c, "a conjugate view += 1");
}

/// A compiled function runs eagerly on a conjugate view; its one operator is whole all the same.
#[test]
fn a_compiled_function_of_a_conjugate_view() {
    let c = zeros(DType::C64);
    let f = compile(|x: &Tensor| x.add_(1));
    at_once(|| f.call(&c.conj()?));
    assert_counted(&c, "compiled");
}

#[test]
fn what_is_read_in_steps_is_read_whole() {
    let w = Tensor::with(DType::F32).zeros([64]).unwrap();
    let (done, w) = (std::sync::atomic::AtomicBool::new(false), &w);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 * ALL {
                w.add_(1).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let both = aten::cat(&[w.clone(), w.clone()], 0).unwrap();
                let both = both.to_vec::<f32>().unwrap();
                assert!(both.iter().all(|v| *v == both[0]), "cat");
                let spread = aten::var_correction(w, None, Some(Scalar::Int(0)), false).unwrap();
                assert_eq!(spread.item::<f32>().unwrap(), 0.0, "var");
            }
        });
    });
}
