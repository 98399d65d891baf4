//! Random operators draw what PyTorch's draw on the CPU, for the same seed.
//!
//! `data/random_stream.json` has what PyTorch gave, `data/random_stream.py` made it. Results that
//! are the work of logarithms and cosines are compared with a tolerance, all others bit for bit.

use crate::support::alone;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use straightline::ops::aten;
use straightline::{
    DType, Generator, MemoryFormat, Result, Scalar, Tensor, compile, dispatch, manual_seed,
};

fn dtype_of(name: &str) -> DType {
    match name {
        "f32" => DType::F32,
        "f64" => DType::F64,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "i64" => DType::I64,
        "i32" => DType::I32,
        "i16" => DType::I16,
        "i8" => DType::I8,
        "u8" => DType::U8,
        "bool" => DType::Bool,
        other => panic!("no dtype {other}"),
    }
}

fn ints(list: &Json) -> Vec<i64> {
    let list = list.as_array().expect("a list");
    list.iter().map(|x| x.as_i64().expect("an integer")).collect()
}

fn row_major(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * sizes[d + 1].max(1);
    }
    strides
}

/// A call of the data, and how to make its operands.
struct Call<'a> {
    json: &'a Json,
    dtype: DType,
    size: Vec<i64>,
    stride: Vec<i64>,
}

impl<'a> Call<'a> {
    fn new(json: &'a Json) -> Call<'a> {
        let size = ints(&json["size"]);
        let stride = match &json["stride"] {
            Json::Null => row_major(&size),
            list => ints(list),
        };
        let dtype = dtype_of(json["dtype"].as_str().expect("a dtype"));
        Call { json, dtype, size, stride }
    }

    fn float(&self, i: usize) -> f64 {
        self.json["args"][i].as_f64().expect("a number")
    }

    fn int(&self, i: usize) -> i64 {
        self.json["args"][i].as_i64().expect("an integer")
    }

    fn flag(&self, i: usize) -> bool {
        self.json["args"][i].as_bool().expect("a truth value")
    }

    fn empty(&self) -> Result<Tensor> {
        aten::empty_strided(&self.size, &self.stride, Some(self.dtype), None, None, None)
    }

    fn laid(&self, dtype: DType, stride: &[i64], formula: fn(i64) -> f64) -> Result<Tensor> {
        let n: i64 = self.size.iter().product();
        let x: Vec<f64> = (0..n).map(formula).collect();
        let x = Tensor::from_slice(&x, &self.size)?;
        let out = aten::empty_strided(&self.size, stride, Some(dtype), None, None, None)?;
        aten::copy_(&out, &x, false)
    }

    fn signed(&self) -> Result<Tensor> {
        self.laid(self.dtype, &self.stride, |i| ((i * 37 % 19) - 9) as f64 / 8.0)
    }

    fn weights(&self) -> Result<Tensor> {
        self.laid(self.dtype, &self.stride, |i| (i * 7 % 5 + 1) as f64)
    }

    fn probabilities(&self, dtype: DType, stride: &[i64]) -> Result<Tensor> {
        self.laid(dtype, stride, |i| (i % 11) as f64 / 10.0)
    }

    /// The result; `g` is `None` for the default generator, which operators without a parameter for
    /// one take.
    fn run(&self, g: Option<&Generator>) -> Result<Tensor> {
        let op = self.json["op"].as_str().expect("a name");
        let (dtype, size) = (Some(self.dtype), self.size.as_slice());
        match op {
            "rand" => aten::rand_generator(size, g, dtype, None, None, None),
            "randn" => aten::randn_generator(size, g, dtype, None, None, None),
            "rand_like" => {
                aten::rand_like_generator(&self.empty()?, g, None, None, None, None, None)
            }
            "randn_like" => {
                aten::randn_like_generator(&self.empty()?, g, None, None, None, None, None)
            }
            "randint" => {
                let (low, high) = (self.int(0), self.int(1));
                aten::randint_low_generator(low, high, size, g, dtype, None, None, None)
            }
            "randperm" => aten::randperm_generator(size[0], g, dtype, None, None, None),
            "bernoulli_tensor" => {
                let of = dtype_of(self.json["of"].as_str().expect("a dtype"));
                let stride = match &self.json["of_stride"] {
                    Json::Null => row_major(size),
                    list => ints(list),
                };
                aten::bernoulli_tensor_(&self.empty()?, &self.probabilities(of, &stride)?, g)
            }
            "bernoulli" => aten::bernoulli(&self.probabilities(self.dtype, &self.stride)?, g),
            "bernoulli_p" => aten::bernoulli_p(&self.empty()?, self.float(0), g),
            "dropout" => aten::dropout(&self.signed()?, self.float(0), true),
            "native_dropout" => {
                Ok(aten::native_dropout(&self.signed()?, self.float(0), Some(true))?.0)
            }
            "multinomial" => aten::multinomial(&self.weights()?, self.int(0), self.flag(1), g),
            "rrelu" => {
                let [lower, upper] = [0, 1].map(|i| Scalar::Float(self.float(i)));
                aten::rrelu(&self.signed()?, lower, upper, true, g)
            }
            "normal_tensor_tensor" => {
                aten::normal_tensor_tensor(&self.signed()?, &self.weights()?, g)
            }
            "normal_tensor_float" => aten::normal_tensor_float(&self.signed()?, self.float(0), g),
            "normal_float_tensor" => aten::normal_float_tensor(self.float(0), &self.weights()?, g),
            "uniform_" => aten::uniform_(&self.empty()?, self.float(0), self.float(1), g),
            "normal_" => aten::normal_(&self.empty()?, self.float(0), self.float(1), g),
            "exponential_" => aten::exponential_(&self.empty()?, self.float(0), g),
            "geometric_" => aten::geometric_(&self.empty()?, self.float(0), g),
            "cauchy_" => aten::cauchy_(&self.empty()?, self.float(0), self.float(1), g),
            "log_normal_" => aten::log_normal_(&self.empty()?, self.float(0), self.float(1), g),
            "bernoulli_" => aten::bernoulli_float_(&self.empty()?, self.float(0), g),
            "random_" => match self.json["args"].as_array().map_or(0, Vec::len) {
                0 => aten::random_(&self.empty()?, g),
                1 => aten::random_to_(&self.empty()?, self.int(0), g),
                _ => {
                    let to = self.json["args"][1].as_i64();
                    aten::random_from_(&self.empty()?, self.int(0), to, g)
                }
            },
            other => panic!("no operator {other}"),
        }
    }

    /// What is wrong with a result.
    fn check(&self, got: &Tensor) -> std::result::Result<(), String> {
        if got.sizes() != ints(&self.json["result_size"]) {
            return Err(format!("sizes {:?}", got.sizes()));
        }
        let integers = got.dtype() == DType::I64;
        let (numbers, bits): (Vec<f64>, Vec<u64>) = if integers {
            let x = got.to_vec::<i64>().map_err(|e| e.to_string())?;
            x.iter().map(|x| (*x as f64, *x as u64)).unzip()
        } else {
            let x = aten::to_dtype(got, DType::F64, false, false, None);
            let x = x.and_then(|x| x.to_vec::<f64>()).map_err(|e| e.to_string())?;
            x.iter().map(|x| (*x, x.to_bits())).unzip()
        };
        let exact = self.json["exact"].as_bool().expect("a truth value");
        let tolerance = match self.dtype {
            DType::F64 => 4e-14,
            DType::F16 => 2e-3,
            DType::BF16 => 1.6e-2,
            _ => 4e-6,
        };
        let close = |x: f64, want: f64| (x - want).abs() <= tolerance * want.abs().max(1.0);
        let compare = |want: &Json, from: usize| {
            let want = want.as_array().expect("a list");
            for (i, want) in want.iter().enumerate() {
                let at = from + i;
                let want = want.as_str().expect("a number");
                let same = if integers {
                    want.parse() == Ok(bits[at] as i64)
                } else {
                    let want: f64 = want.parse().expect("a number");
                    numbers[at] == want || !exact && close(numbers[at], want)
                };
                if !same {
                    return Err(format!("element {at}: {}, not {want}", numbers[at]));
                }
            }
            Ok(want.len())
        };
        let n = compare(&self.json["first"], 0)?;
        if self.json["last"].is_null() {
            return if n == numbers.len() { Ok(()) } else { Err("length".to_owned()) };
        }
        compare(&self.json["last"], numbers.len() - 8)?;
        if exact {
            let sum = bits.iter().fold(0u64, |sum, x| sum.wrapping_mul(31).wrapping_add(*x));
            let want = self.json["bits"].as_str().expect("a sum");
            return if sum.to_string() == want { Ok(()) } else { Err("bits".to_owned()) };
        }
        let (sum, want) = (numbers.iter().sum::<f64>(), self.json["sum"].as_f64().expect("a sum"));
        let scale = numbers.iter().map(|x| x.abs()).sum::<f64>();
        if (sum - want).abs() <= tolerance * scale {
            Ok(())
        } else {
            Err(format!("sum {sum}, not {want}"))
        }
    }
}

/// A sum over the bytes of a generator's state, but for the normal number that waits.
fn sum_of_state(g: &Generator) -> Result<String> {
    let mut bytes = g.state()?.to_vec::<u8>()?;
    bytes[5024..5032].fill(0);
    let sum = bytes.iter().fold(0u64, |sum, x| sum.wrapping_mul(31).wrapping_add(u64::from(*x)));
    Ok(sum.to_string())
}

#[test]
fn the_numbers_are_those_of_pytorch() {
    alone("random_stream::the_numbers_are_those_of_pytorch", || {
        let body = || -> Result<()> {
            let cases: Vec<Json> =
                serde_json::from_str(include_str!("../data/random_stream.json")).expect("data");
            let mut wrong = Vec::new();
            for case in &cases {
                manual_seed(case["seed"].as_u64().expect("a seed"));
                let before = wrong.len();
                for (i, json) in case["calls"].as_array().expect("a list").iter().enumerate() {
                    let call = Call::new(json);
                    let outcome =
                        call.run(None).map_err(|e| e.to_string()).and_then(|t| call.check(&t));
                    if let Err(what) = outcome {
                        let (op, dtype, args) = (&json["op"], &json["dtype"], &json["args"]);
                        let (seed, size, stride) = (&case["seed"], &json["size"], &json["stride"]);
                        wrong.push(format!(
                            "{op} {dtype} {size} {stride} {args} (seed {seed}, call {i}): {what}"
                        ));
                    }
                }
                if wrong.len() == before {
                    let g = Generator::default_cpu();
                    if Some(sum_of_state(g)?.as_str()) != case["state"].as_str() {
                        wrong.push(format!("the state after {case}"));
                    }
                }
            }
            assert!(cases.len() > 150);
            assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
            Ok(())
        };
        body().expect("no error");
    });
}

#[test]
fn a_generator_of_ones_own_is_a_stream_of_its_own() -> Result<()> {
    let draw = |g: &Generator, n| {
        aten::randn_generator(&[n], Some(g), None, None, None, None)?.to_vec::<f32>()
    };
    for make in [Generator::new, Generator::philox] {
        let (g, h) = (make(3), make(3));
        let first = draw(&g, 5)?;
        let state = g.state()?;
        let second = draw(&g, 40)?;
        assert_eq!(draw(&h, 5)?, first);
        assert_eq!(draw(&h, 40)?, second);
        // the normal number that waits is part of the state
        h.set_seed(8);
        assert_eq!(h.initial_seed(), 8);
        h.set_state(&state)?;
        assert_eq!(h.initial_seed(), 3);
        assert_eq!(draw(&h, 40)?, second);
        assert_ne!(draw(&make(4), 40)?, second);
        let seed = g.seed();
        assert_eq!(g.initial_seed(), seed);
        assert_ne!(g.seed(), seed);
    }
    let (twister, philox) = (Generator::new(3), Generator::philox(3));
    assert!(twister.set_state(&philox.state()?).is_err());
    assert!(philox.set_state(&Tensor::from_vec([1i64], 1)?).is_err());
    Ok(())
}

#[test]
fn complex_numbers_are_drawn_part_by_part() -> Result<()> {
    let g = Generator::new(5);
    let parts = |t: Tensor| aten::view_as_real(&t)?.reshape(&[-1])?.to_vec::<f32>();
    let sizes = [3, 4];
    let (f32s, c64s) = (Some(DType::F32), Some(DType::C64));
    let want = aten::rand_generator(&[24], Some(&g), f32s, None, None, None)?.to_vec::<f32>()?;
    g.set_seed(5);
    let got = parts(aten::rand_generator(&sizes, Some(&g), c64s, None, None, None)?)?;
    assert_eq!(got, want);
    g.set_seed(5);
    let want = aten::randn_generator(&[24], Some(&g), f32s, None, None, None)?.to_vec::<f32>()?;
    g.set_seed(5);
    let like = aten::empty_memory_format(&sizes, c64s, None, None, None, None)?;
    let got = parts(aten::normal_(&like, 2.0, 3.0, Some(&g))?)?;
    for (i, (x, z)) in got.iter().zip(want).enumerate() {
        let mean = if i % 2 == 0 { 2.0 } else { 0.0 };
        assert!((x - (z * 3.0 / 2f32.sqrt() + mean)).abs() < 1e-5);
    }
    // PyTorch has no other distribution of complex numbers either
    assert!(aten::bernoulli_float_(&like, 0.5, Some(&g)).is_err());
    assert!(aten::random_(&like, Some(&g)).is_err());
    assert!(aten::geometric_(&like, 0.5, Some(&g)).is_err());
    Ok(())
}

#[test]
fn threads_that_share_a_generator_take_whole_fills() -> Result<()> {
    const N: i64 = 700;
    let uniform = |g: &Generator| -> Result<Vec<u32>> {
        let x = aten::rand_generator(&[N], Some(g), None, None, None, None)?.to_vec::<f32>()?;
        Ok(x.iter().map(|x| x.to_bits()).collect())
    };
    let alone = Generator::new(1);
    let want: BTreeSet<Vec<u32>> = (0..60).map(|_| uniform(&alone)).collect::<Result<_>>()?;
    let shared = Generator::new(1);
    let got: BTreeSet<Vec<u32>> = std::thread::scope(|scope| {
        let run = || (0..20).map(|_| uniform(&shared)).collect::<Result<Vec<_>>>();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(got, want);
    Ok(())
}

type Program = fn(&Tensor) -> Result<Tensor>;

/// A seed, then twice eagerly; a seed, then twice compiled: the same numbers.
#[test]
fn a_compiled_function_draws_anew_and_in_the_order_of_eager_calls() {
    alone("random_stream::a_compiled_function_draws_anew_and_in_the_order_of_eager_calls", || {
        let body = || -> Result<()> {
            let programs: &[(&str, Program)] = &[
                ("two of a kind", |x| {
                    // equal calls, which must not become one, and whose order shows
                    let a = Tensor::rand(x.sizes())?;
                    let b = Tensor::rand(x.sizes())?;
                    a.sub(&b.mul(x)?)
                }),
                ("used in the other order", |x| {
                    let a = Tensor::randn([3])?;
                    let b = Tensor::rand([20])?;
                    let c = Tensor::randn([4])?;
                    let sum = |t: &Tensor| aten::sum(t, None);
                    let late = sum(&c)?.mul(&sum(&b)?)?;
                    x.mul(&late)?.add(&sum(&a)?)
                }),
                ("a result that nobody uses", |x| {
                    let _ = Tensor::randn([7])?;
                    x.add(&Tensor::rand(x.sizes())?)
                }),
                ("dropout of a transposed tensor", |x| aten::dropout(&aten::t(x)?, 0.4, true)),
                ("in place, through views", |x| {
                    let y = aten::clone(x, Some(MemoryFormat::Contiguous))?;
                    aten::normal_(&aten::t(&y)?, 0.0, 1.0, None)?;
                    aten::uniform_(
                        &aten::slice_tensor(&y, 1, Some(0), Some(4), 2)?,
                        0.0,
                        1.0,
                        None,
                    )?;
                    aten::bernoulli_float_(&aten::select_int(&y, 1, 1)?, 0.5, None)?;
                    Ok(y)
                }),
                ("normal numbers of a view with gaps", |x| {
                    let y = aten::clone(x, Some(MemoryFormat::Contiguous))?;
                    aten::normal_(
                        &aten::slice_tensor(&y, 1, Some(0), Some(4), 2)?,
                        0.0,
                        1.0,
                        None,
                    )?;
                    Ok(y)
                }),
                ("probabilities that are computed, between other draws", |x| {
                    let p = aten::sigmoid(x)?;
                    let a = aten::bernoulli(&p, None)?;
                    let b = Tensor::rand(x.sizes())?;
                    let c =
                        aten::bernoulli_tensor(&b, &aten::t(&aten::reshape(&p, &[4, 10])?)?, None)?;
                    let d = Tensor::randn([4])?;
                    aten::exp(&p)?.mul(&b)?.add(&a)?.add(&c)?.mul(&d)
                }),
                ("as an operator gives its result, which a plan does not", |x| {
                    let c = aten::complex(x, &x.sub(1.0)?)?;
                    let c = aten::reshape(&c, &[2, 5, 4])?;
                    // the dimensions that are transformed stride least
                    let y = aten::real(&aten::_fft_c2c(&c, &[2, 0], 0, true)?)?;
                    let y = aten::abs(&y)?;
                    let drawn = [
                        aten::uniform(&y, 0.0, 1.0, None)?,
                        aten::exponential(&y, 1.0, None)?,
                        aten::normal_functional(&y, 0.0, 1.0, None)?,
                        aten::geometric(&y, 0.5, None)?,
                        aten::log_normal(&y, 0.0, 1.0, None)?,
                        aten::cauchy(&y, 0.0, 1.0, None)?,
                        aten::random_to(&y, 100, None)?,
                        aten::bernoulli_tensor(&y, &aten::sigmoid(&y)?, None)?,
                        aten::real(&aten::uniform(
                            &aten::_fft_c2c(&c, &[2, 0], 0, true)?,
                            0.0,
                            1.0,
                            None,
                        )?)?,
                    ];
                    aten::cat(&drawn, 0)
                }),
                ("slopes", |x| {
                    let y = aten::rrelu(&x.sub(&x.mul(x)?)?, 0.1.into(), 0.3.into(), true, None)?;
                    aten::rrelu(&aten::t(&y)?, 0.1.into(), 0.3.into(), true, None)
                }),
                ("choices", |x| {
                    let n = aten::randperm(10, None, None, None, None)?;
                    let m = aten::multinomial(&aten::abs(x)?, 2, true, None)?;
                    let r = aten::randint(9, &[4], None, None, None, None)?;
                    aten::cat(&[n, aten::reshape(&m, &[-1])?, r], 0)
                }),
                ("choices by weights that are not row-major", |x| {
                    let w = aten::add_scalar(
                        &aten::abs(&aten::t(x)?)?,
                        Scalar::Float(0.1),
                        Scalar::Int(1),
                    )?;
                    let drawn = [
                        aten::multinomial(&w, 2, false, None)?,
                        aten::multinomial(&w, 1, false, None)?,
                        aten::multinomial(&w, 3, true, None)?,
                    ];
                    aten::cat(&drawn, 1)
                }),
                ("choices of one category with a stride of its own", |x| {
                    let w = aten::abs(&x.i((.., ..1))?.copied()?.t()?)?.t()?.add(0.5)?;
                    let drawn = aten::multinomial(&w, 2, true, None)?;
                    let once = aten::multinomial(&w, 1, false, None)?;
                    aten::cat(&[drawn, once, Tensor::rand([10, 1])?], 1)
                }),
            ];
            let x = Tensor::from_slice(
                &(0..40).map(|i| i as f32 / 16.0 - 1.0).collect::<Vec<_>>(),
                &[10, 4],
            )?;
            let mut wrong = Vec::new();
            for (name, f) in programs {
                let numbers = |t: Tensor| -> Result<Vec<f64>> {
                    let t = aten::contiguous(&t, MemoryFormat::Contiguous)?;
                    aten::to_dtype(&t, DType::F64, false, false, None)?.to_vec::<f64>()
                };
                manual_seed(0);
                let eager = [numbers(f(&x)?)?, numbers(f(&x)?)?];
                let after = Tensor::rand([1])?.to_vec::<f32>()?;
                assert_ne!(eager[0], eager[1], "{name}");
                let compiled = compile(*f);
                // capture draws nothing
                manual_seed(0);
                let first = compiled.call(&x)?;
                let calls = dispatch::call_count();
                let second = compiled.call(&x)?;
                assert_eq!(dispatch::call_count(), calls, "{name}: a replay dispatched");
                let got = [numbers(first)?, numbers(second)?];
                let then = Tensor::rand([1])?.to_vec::<f32>()?;
                for (i, (got, want)) in got.iter().zip(&eager).enumerate() {
                    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
                    if got.len() != want.len() || !got.iter().zip(want).all(close) {
                        wrong.push(format!("{name}, call {i}: {got:?}, not {want:?}"));
                    }
                }
                if after != then {
                    wrong.push(format!("{name}: another number of draws"));
                }
            }
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            Ok(())
        };
        body().expect("no error");
    });
}
