//! One code for many sizes: functions that are called with sizes that differ from call to call.
//!
//! `SIZED_NETS=2000 SEED=1 cargo test --release --test suite sizes:: -- --nocapture` runs many nets.

use crate::hostile::Dice;
use straightline::control_flow::{cond, while_loop};
use straightline::ops::aten;
use straightline::{
    CompileEvent, CompileOptions, DType, DynamicSizes, Result, Tensor, compile, compile_with,
    mark_dynamic, step,
};

/// Of the last value `[b, t, 6]`, an earlier one and a weight `[6, 6]`.
type Layer = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

const LAYERS: [Layer; 33] = [
    |y, _, w| y.linear(w, None),
    |y, _, w| y.linear(w, Some(&w.i(0)?))?.gelu(),
    |y, _, w| y.reshape([-1, 6])?.matmul(w),
    |y, _, w| y.bmm(w.expand([y.sizes()[0], 6, 6])?),
    |y, e, _| y.matmul(e.transpose(1, 2)?)?.softmax(-1)?.matmul(e),
    |y, _, _| y.tanh(),
    |y, _, _| y.sigmoid()?.sub(0.5),
    |y, e, _| y.add(e),
    |y, e, _| y.mul(e.tanh()?),
    |y, _, w| y.add(w.i(2)?),
    |y, _, _| y.layer_norm([6]),
    |y, _, _| y.softmax(-1),
    |y, _, _| y.softmax(1),
    |y, _, _| y.softmax(0),
    |y, _, _| y.transpose(1, 2)?.softmax(-1)?.transpose(1, 2),
    |y, _, _| y.log_softmax(1),
    |y, _, _| y.sub(y.mean_dim(-1)?.unsqueeze(-1)?),
    |y, _, _| y.sub(y.mean_dim(1)?.unsqueeze(1)?),
    |y, _, _| y.sub(y.mean_dim(0)?),
    |y, _, _| y.div(y.abs()?.sum()?.add(1.0)?),
    |y, _, _| y.div(y.abs()?.amax([1])?.unsqueeze(1)?.add(1.0)?),
    |y, _, _| y.transpose(0, 1)?.contiguous()?.transpose(0, 1),
    |y, _, _| y.flip([1]),
    |y, _, _| y.roll_dims([1], [1]),
    |y, e, _| Tensor::cat([y.narrow(1, 0, 1)?, e.narrow(1, 1, y.sizes()[1] - 1)?], 1),
    |y, e, _| Tensor::cat([y, e], 1)?.narrow(1, 1, y.sizes()[1]),
    |y, _, _| y.i((.., 0))?.unsqueeze(1)?.expand_as(y)?.mul(0.5)?.add(y),
    |y, e, _| {
        let out = y.copied()?;
        out.i((.., step(.., 2)))?.add_(e.i((.., step(.., 2)))?)?.mul_(0.5)?;
        Ok(out)
    },
    |y, _, _| {
        let out = y.add(0.0)?;
        out.i((.., .., 0))?.fill_(0.25)?;
        Ok(out)
    },
    |y, e, _| e.gt(0.0)?.where_cond(y, e),
    |y, _, _| y.cumsum(1)?.mul(0.3),
    |y, _, _| y.mul(y.argmax_keepdim(1)?.to(DType::F64)?.mul(0.1)?),
    |y, _, _| y.sub(y.min()?)?.mul(1.0 / y.sizes()[1] as f64),
];

type Net = Vec<(usize, usize)>;

fn run(net: &Net, x: &Tensor, w: &Tensor) -> Result<Vec<Tensor>> {
    let mut values = vec![x.clone()];
    for (layer, earlier) in net {
        let (last, earlier) = (&values[values.len() - 1], &values[earlier % values.len()]);
        let made = LAYERS[*layer](last, earlier, w)?;
        values.push(made.reshape(x.sizes())?);
    }
    Ok(values.split_off(1))
}

fn numbers(dice: &mut Dice, sizes: &[i64]) -> Tensor {
    let n = sizes.iter().product::<i64>();
    let draw = |_| dice.below(2001) as f64 / 1000.0 - 1.0;
    Tensor::from_vec((0..n).map(draw).collect::<Vec<_>>(), sizes).unwrap()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |s| s.parse().expect("a number"))
}

#[test]
fn nets_of_all_sizes_are_eager_ones() {
    let (nets, seed) = (setting("SIZED_NETS", 25), setting("SEED", 0));
    let mut shared = 0;
    for number in seed..seed + nets {
        let mut dice = Dice(number);
        let w = numbers(&mut dice, &[6, 6]);
        let length = 2 + dice.below(6);
        let net: Net = (0..length).map(|_| (dice.below(LAYERS.len()), dice.below(64))).collect();
        let (shape, weight) = (net.clone(), w.clone());
        let f = compile(move |x: &Tensor| run(&shape, x, &weight));
        let mut sizes = vec![[2, 5], [3, 9]];
        for _ in 0..6 {
            let most = [4, 20, 70][dice.below(3)];
            sizes.push([1 + dice.below(most) as i64, 2 + dice.below(most) as i64]);
        }
        for [b, t] in sizes {
            let x = numbers(&mut dice, &[b, t, 6]);
            let want = run(&net, &x, &w).unwrap();
            let got = f.call(&x).unwrap_or_else(|e| panic!("net {number} at [{b}, {t}]: {e}"));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let lie = |t: &Tensor| (t.sizes().to_vec(), t.strides().to_vec());
                assert_eq!(lie(got), lie(want), "net {number} {net:?} at [{b}, {t}], value {i}");
                assert!(
                    got.allclose_with(want, 1e-9, 1e-9).unwrap(),
                    "net {number} {net:?} at [{b}, {t}], value {i}: {got}\ninstead of {want}"
                );
            }
        }
        shared += f.variants() - f.codes();
    }
    assert!(shared as u64 > nets, "only {shared} calls found code");
}

#[test]
fn gradients_at_many_batch_sizes() {
    let mut dice = Dice(7);
    let w = numbers(&mut dice, &[6, 6]).requires_grad_(true).unwrap();
    let b = numbers(&mut dice, &[6]).requires_grad_(true).unwrap();
    let (w2, b2) = (w.clone(), b.clone());
    let loss = move |x: &Tensor| {
        let y = x.linear(&w2, Some(&b2))?.gelu()?.softmax(-1)?;
        y.mul(x)?.sum()
    };
    let f = compile(loss.clone());
    for n in [3, 8, 2, 17, 33, 64, 100] {
        let x = numbers(&mut dice, &[n, 6]);
        let grads = |loss: Tensor| {
            loss.backward().unwrap();
            let taken = [&w, &b].map(|t| t.grad().unwrap());
            [&w, &b].iter().for_each(|t| t.set_grad(None).unwrap());
            taken
        };
        let want = grads(loss(&x).unwrap());
        let got = grads(f.call(&x).unwrap());
        for (got, want) in got.iter().zip(&want) {
            assert!(got.allclose_with(want, 1e-9, 1e-9).unwrap(), "{n}: {got}\n{want}");
        }
    }
    assert!(f.codes() <= 4, "{}", f.explain());
}

#[test]
fn a_function_that_asks_for_a_size_is_right_on_both_sides() {
    let of = |x: &Tensor| if x.sizes()[0] > 50 { x.exp() } else { x.neg() };
    let f = compile(of);
    for n in [10, 20, 40, 60, 90, 50, 51] {
        let x = Tensor::ones([n]).unwrap();
        assert!(f.call(&x).unwrap().allclose(of(&x).unwrap()).unwrap(), "{n}");
    }
    // a static one for each side, and one of each that serves more
    assert!(f.codes() <= 4, "{}", f.explain());
}

#[test]
fn memory_that_is_written_and_views_that_are_returned() {
    let f = compile(|(x, out): &(Tensor, Tensor)| {
        out.mul_(2.0)?.add_(x.sum_dim([0])?)?;
        Ok((x.t()?, x.narrow(0, 1, x.sizes()[0] - 1)?))
    });
    let mut dice = Dice(3);
    for n in [4, 7, 30, 31, 64] {
        let (x, out) = (numbers(&mut dice, &[n, 5]), numbers(&mut dice, &[5]));
        let want = out.mul(2.0).unwrap().add(x.sum_dim([0]).unwrap()).unwrap();
        let (t, rest) = f.call((&x, &out)).unwrap();
        assert!(out.allclose_with(&want, 1e-12, 1e-12).unwrap());
        assert!(t.shares_storage_with(&x) && rest.shares_storage_with(&x));
        assert_eq!((t.sizes(), rest.sizes()), (&[5, n][..], &[n - 1, 5][..]));
        assert_eq!(rest.storage_offset(), 5);
    }
    assert!(f.codes() <= 3, "{}", f.explain());
}

#[test]
fn indices_are_checked_against_the_size_of_the_call() {
    let f = compile(|(x, i): &(Tensor, Tensor)| x.index_select(0, i)?.mul(2.0));
    let i = Tensor::from_vec(vec![0i64, 4], [2]).unwrap();
    for n in [6, 9, 20] {
        f.call((&Tensor::ones([n, 3]).unwrap(), &i)).unwrap();
    }
    let e = f.call((&Tensor::ones([4, 3]).unwrap(), &i)).unwrap_err();
    assert_eq!(e.python_class(), "IndexError", "{e}");
    assert!(e.to_string().contains('4'), "{e}");
}

/// Positions that are listed while scheduling are other lists at each size.
#[test]
fn what_is_copied_from_listed_positions_at_many_sizes() {
    let fs: [fn(&Tensor) -> Result<Tensor>; 4] = [
        |x| aten::constant_pad_nd(x, &[3, 1], 1.into()),
        |x| aten::roll(x, &[2, -1], &[0, 1])?.add(x),
        |x| aten::reflection_pad1d(x, &[2, 3])?.mul(2.0),
        |x| aten::constant_pad_nd(x, &[1, 1, 2, 2], 0.into())?.sum_dim([0]),
    ];
    let mut dice = Dice(23);
    for (i, f) in fs.into_iter().enumerate() {
        let f = compile(f);
        for n in [21, 30, 35, 41, 50, 63, 77, 90] {
            let x = numbers(&mut dice, &[n, n + 3]);
            let (got, want) = (f.call(&x).unwrap(), f.eager(&x).unwrap());
            assert!(got.allclose_with(&want, 1e-12, 1e-12).unwrap(), "{i} at {n}");
        }
        assert!(f.codes() <= 3, "{i}: {}", f.explain());
    }
}

#[test]
fn many_threads_call_many_sizes() {
    let f = compile(|x: &Tensor| x.softmax(-1)?.mul(x)?.sum_dim([1]));
    std::thread::scope(|scope| {
        for thread in 0..8i64 {
            let f = &f;
            scope.spawn(move || {
                for round in 0..20 {
                    let n = 20 + (thread * 7 + round * 13) % 40;
                    let x = Tensor::arange(n * 3).unwrap().to(DType::F32).unwrap();
                    let x = x.reshape([3, n]).unwrap().mul(0.01).unwrap();
                    let want = x.softmax(-1).unwrap().mul(&x).unwrap().sum_dim([1]).unwrap();
                    assert!(f.call(&x).unwrap().allclose(want).unwrap());
                }
            });
        }
    });
    assert!(f.codes() <= 4, "{}", f.explain());
}

#[test]
fn convolutions_at_many_sizes() {
    let mut dice = Dice(5);
    let w = numbers(&mut dice, &[32, 32, 3, 3]).to(DType::F32).unwrap();
    let shift = numbers(&mut dice, &[32]).to(DType::F32).unwrap();
    let net = move |x: &Tensor| -> Result<Tensor> {
        let y = aten::conv2d(x, &w, Some(&shift), &[1, 1], &[1, 1], &[1, 1], 1)?.relu()?;
        aten::conv2d(&y, &w, None, &[2, 2], &[1, 1], &[1, 1], 1)
    };
    let compiled = compile(net.clone());
    for (batch, side) in [(1, 14), (3, 14), (1, 9), (2, 20), (1, 7), (5, 8), (1, 14)] {
        let x = numbers(&mut dice, &[batch, 32, side, side]).to(DType::F32).unwrap();
        let (expected, found) = (net(&x).unwrap(), compiled.call(&x).unwrap());
        let close = found.allclose_with(&expected, 1e-4, 1e-4).unwrap();
        assert!(close, "{batch} images of {side} x {side}");
    }
}

#[test]
fn a_mark_makes_code_for_many_sizes_at_once() {
    let f = compile(|x: &Tensor| x.gelu()?.sum_dim([1]));
    let x = Tensor::ones([20, 30]).unwrap();
    mark_dynamic(&x, 0).unwrap();
    mark_dynamic(&x, -1).unwrap();
    for sizes in [[20, 30], [21, 30], [50, 77], [3, 16]] {
        let y = if sizes == [20, 30] { x.clone() } else { Tensor::ones(sizes).unwrap() };
        let want = y.gelu().unwrap().sum_dim([1]).unwrap();
        assert!(f.call(&y).unwrap().allclose(want).unwrap());
    }
    assert_eq!((f.variants(), f.codes()), (4, 1), "{}", f.explain());
    assert!(f.explain().variants[0].table > 0);
    let said = f.explain().to_string();
    let lines = said.lines().filter(|l| l.contains("runs the code of variant 0 for f32["));
    assert_eq!(lines.count(), 3, "{said}");
    let shared = |e: &CompileEvent| matches!(e, CompileEvent::Compiled { code_of: Some(0), .. });
    assert_eq!(f.events().iter().filter(|e| shared(e)).count(), 3);
}

#[test]
fn a_mark_that_cannot_be_is_an_error() {
    let x = Tensor::ones([1, 6]).unwrap();
    assert!(mark_dynamic(&x, 0).unwrap_err().to_string().contains("size 1"));
    assert!(mark_dynamic(&x, 2).unwrap_err().to_string().contains("dimension 2"));
    mark_dynamic(&x, 1).unwrap();
    let w = Tensor::ones([6, 3]).unwrap();
    let f = compile(move |x: &Tensor| x.matmul(&w));
    let e = f.call(&x).unwrap_err().to_string();
    assert!(e.contains("dimension 1 of input 0 (here 6, tried 13)"), "{e}");
}

#[test]
fn each_size_has_code_of_its_own_if_asked_for() {
    let options = CompileOptions { dynamic: DynamicSizes::Never, ..CompileOptions::default() };
    let f = compile_with(options, |x: &Tensor| x.exp());
    for n in 10..14 {
        f.call(&Tensor::ones([n]).unwrap()).unwrap();
    }
    assert_eq!((f.variants(), f.codes()), (4, 4));
}

#[test]
fn sizes_beyond_the_bound_run_eagerly() {
    let options = CompileOptions { max_sizes: 3, ..CompileOptions::default() };
    let f = compile_with(options, |x: &Tensor| x.exp());
    for n in 10..40 {
        let x = Tensor::ones([n]).unwrap();
        assert!(f.call(&x).unwrap().allclose(x.exp().unwrap()).unwrap());
    }
    assert_eq!((f.variants(), f.codes()), (5, 2));
    assert!(matches!(f.events().last(), Some(CompileEvent::VariantLimit { .. })));
}

#[test]
fn branches_and_loops_at_many_sizes() {
    let f = compile(|x: &Tensor| {
        let pred = x.sum()?.gt(0.0)?;
        let y = cond(&pred, |x: &Tensor| x.softmax(-1), |x: &Tensor| x.mul(2.0)?.exp(), x)?;
        // not 1, which halves of a softmax's sum come to within a rounding
        while_loop(|y: &Tensor| y.abs()?.sum()?.gt(0.9), |y: &Tensor| y.div(2.0), &y)
    });
    let mut dice = Dice(11);
    for n in [3, 7, 20, 21, 64, 65, 100] {
        for sign in [1.0, -1.0] {
            let x = numbers(&mut dice, &[4, n]).abs().unwrap().mul(sign).unwrap();
            let (got, want) = (f.call(&x).unwrap(), f.eager(&x).unwrap());
            assert!(got.allclose_with(&want, 1e-12, 1e-12).unwrap(), "{n}: {got}\n{want}");
        }
    }
    assert!(f.codes() <= 3, "{}", f.explain());
}

/// The weights of a small transformer block of width 32 with 4 heads.
struct Block {
    qkv: Tensor,
    out: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Block {
    fn new(dice: &mut Dice) -> Block {
        let mut of = |sizes: &[i64]| numbers(dice, sizes).to(DType::F32).unwrap().mul(0.2).unwrap();
        Block { qkv: of(&[96, 32]), out: of(&[32, 32]), up: of(&[64, 32]), down: of(&[32, 64]) }
    }

    fn heads(x: &Tensor) -> Result<Tensor> {
        let [b, t] = [x.sizes()[0], x.sizes()[1]];
        x.reshape([b, t, 4, 8])?.transpose(1, 2)
    }

    /// `[b, t, 32]`; `attend` is given queries, keys and values `[b, 4, t, 8]`.
    fn apply(&self, x: &Tensor, attend: impl Fn([Tensor; 3]) -> Result<Tensor>) -> Result<Tensor> {
        let [b, t] = [x.sizes()[0], x.sizes()[1]];
        let all = x.layer_norm([32])?.linear(&self.qkv, None)?.chunk(3, -1)?;
        let made = attend([Self::heads(&all[0])?, Self::heads(&all[1])?, Self::heads(&all[2])?])?;
        let made = made.transpose(1, 2)?.reshape([b, t, 32])?;
        let x = x.add(made.linear(&self.out, None)?)?;
        let inner = x.layer_norm([32])?.linear(&self.up, None)?.gelu()?;
        x.add(inner.linear(&self.down, None)?)
    }
}

/// How many codes serve a transformer at lengths in no order, among them 2.
fn codes_of_lengths(
    batch: i64,
    net: impl Fn(&(Tensor, Tensor)) -> Result<Tensor> + Send + Sync + 'static,
) -> usize {
    let f = compile(net);
    let mut dice = Dice(17);
    let table = numbers(&mut dice, &[50, 32]).to(DType::F32).unwrap();
    for i in 0..60 {
        let length = 2 + i * 61 % 203;
        let ids: Vec<i64> = (0..batch * length).map(|n| n * 7 % 50).collect();
        let ids = Tensor::from_vec(ids, [batch, length]).unwrap();
        let call = (table.clone(), ids);
        let (got, want) = (f.call(&call).unwrap(), f.eager(&call).unwrap());
        assert!(got.allclose_with(&want, 1e-3, 1e-4).unwrap(), "{length}");
    }
    let own = f.explain().variants.into_iter().filter(|v| v.code_of.is_none());
    own.for_each(|v| println!("variant {} {:?}: {:#?}", v.number, v.inputs, v.misfits));
    f.codes()
}

#[test]
fn a_transformer_at_many_lengths_compiles_three_times_at_most() {
    let block = || [(); 2].map(|()| Block::new(&mut Dice(5)));
    for batch in [1, 3] {
        let blocks = block();
        let encoder = move |(table, ids): &(Tensor, Tensor)| {
            let mut x = table.embedding(ids)?;
            for b in &blocks {
                x = b.apply(&x, |[q, k, v]| {
                    q.matmul(k.transpose(-1, -2)?)?.mul(0.35)?.softmax(-1)?.matmul(v)
                })?;
            }
            let mean = x.mean_dim(1)?;
            mean.div(mean.mul(&mean)?.sum_dim([-1])?.sqrt()?.unsqueeze(-1)?)
        };
        let codes = codes_of_lengths(batch, encoder);
        assert!(codes <= 3, "{codes} of an encoder, {batch} sentences");
        let blocks = block();
        let decoder = move |(table, ids): &(Tensor, Tensor)| {
            let t = ids.sizes()[1];
            let masked = Tensor::ones([t, t])?.tril()?.eq(0.0)?;
            let mut x = table.embedding(ids)?;
            for b in &blocks {
                x = b.apply(&x, |[q, k, v]| {
                    let scores = q.matmul(k.transpose(-1, -2)?)?.mul(0.35)?;
                    scores.masked_fill(&masked, f64::NEG_INFINITY)?.softmax(-1)?.matmul(v)
                })?;
            }
            x.layer_norm([32])?.matmul(table.t()?)?.log_softmax(-1)
        };
        let codes = codes_of_lengths(batch, decoder);
        assert!(codes <= 3, "{codes} of a decoder, {batch} sentences");
        let blocks = block();
        let fused = move |(table, ids): &(Tensor, Tensor)| {
            let mut x = table.embedding(ids)?;
            for b in &blocks {
                x = b.apply(&x, |[q, k, v]| {
                    q.scaled_dot_product_attention_with(&k, &v, None, true)
                })?;
            }
            x.i((.., -1))?.matmul(table.t()?)
        };
        let codes = codes_of_lengths(batch, fused);
        assert!(codes <= 3, "{codes} with fused attention, {batch} sentences");
    }
}
