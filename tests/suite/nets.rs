//! Random nets: layers as people write them, one after another, in `f64`, eager against compiled.
//! Programs of single operators (`programs/`) seldom have a product, what is folded into it and a
//! copy in another order in a row.
//!
//! `NETS=10000 SEED=1 cargo test --release --test suite nets:: -- --nocapture` runs many.

use crate::hostile::Dice;
use straightline::{DType, Result, Tensor, compile, step};

/// Of the last value, an earlier one and a weight `[6, 6]`: a value of 48 elements, which the next
/// layer sees as `[2, 4, 6]`.
type Layer = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

const LAYERS: [Layer; 40] = [
    |y, _, w| y.linear(w, None),
    |y, _, w| y.linear(w, Some(&w.i(0)?)),
    |y, _, w| y.linear(w.t()?, Some(&w.i((.., 1))?)),
    |y, _, w| y.reshape([8, 6])?.matmul(w),
    |y, _, w| w.i(1)?.addmm(y.reshape([8, 6])?, w),
    |y, _, w| y.bmm(w.expand([2, 6, 6])?),
    |y, e, _| y.matmul(e.transpose(1, 2)?)?.softmax(-1)?.matmul(e),
    |y, e, _| y.matmul(e.transpose(-2, -1)?)?.mul(0.4)?.softmax(-1)?.matmul(y),
    |y, _, _| y.relu(),
    |y, _, _| y.gelu(),
    |y, _, _| y.silu(),
    |y, _, _| y.tanh(),
    |y, _, _| y.sigmoid()?.sub(0.5),
    |y, e, _| y.add(e),
    |y, e, _| y.mul(e.tanh()?),
    |y, e, _| y.sub(e.transpose(0, 1)?.contiguous()?.view([2, 4, 6])?),
    |y, _, w| y.add(w.i(2)?),
    |y, _, _| y.layer_norm([6]),
    |y, _, _| y.softmax(-1),
    |y, _, _| y.transpose(1, 2)?.softmax(-1),
    |y, _, _| y.log_softmax(1),
    |y, _, _| y.sub(y.mean_dim(-1)?.unsqueeze(-1)?),
    |y, _, _| y.div(y.abs()?.amax([1])?.unsqueeze(1)?.add(1.0)?),
    |y, _, _| y.transpose(0, 1)?.contiguous(),
    |y, _, _| y.transpose(1, 2),
    |y, _, _| y.permute([2, 0, 1]),
    |y, _, _| y.view([2, 4, 3, 2])?.transpose(1, 2)?.contiguous(),
    |y, _, _| y.flip([1]),
    |y, _, _| y.roll_dims([1], [2]),
    |y, e, _| Tensor::cat([y.narrow(2, 0, 3)?, e.narrow(2, 3, 3)?], 2),
    |y, _, _| Tensor::cat([y.narrow(2, 3, 3)?, y.narrow(2, 0, 3)?], 2),
    |y, _, _| Tensor::cat(vec![y.narrow(2, 1, 2)?; 3], 2),
    |y, e, _| Tensor::stack([y.i(0)?, e.i(1)?], 0),
    |y, _, _| y.i((.., 0))?.expand([4, 2, 6])?.mul(0.5),
    |y, e, _| {
        let cache = Tensor::zeros([2, 6, 6])?.to(DType::F64)?;
        cache.i((.., 1..5))?.copy_(y)?;
        cache.i((.., ..4))?.add(e)
    },
    |y, e, _| {
        let out = y.copied()?;
        out.i((.., step(.., 2)))?.add_(e.i((.., step(.., 2)))?)?.mul_(0.5)?;
        Ok(out)
    },
    |y, e, _| {
        let out = e.mul(1.0)?;
        out.transpose(0, 1)?.copy_(y.transpose(0, 1)?)?;
        Ok(out)
    },
    |y, _, _| {
        let out = y.add(0.0)?;
        out.i((.., .., 0))?.fill_(0.25)?;
        out.i(1)?.relu_()?;
        Ok(out)
    },
    |y, e, _| e.gt(0.0)?.where_cond(y, e),
    |y, _, _| y.cumsum(1)?.mul(0.3),
];

/// The layers of a net by number, each with the number of the earlier value that it takes.
type Net = Vec<(usize, usize)>;

fn run(net: &Net, x: &Tensor, w: &Tensor) -> Result<Vec<Tensor>> {
    let mut values = vec![x.clone()];
    for (layer, earlier) in net {
        let (last, earlier) = (&values[values.len() - 1], &values[earlier % values.len()]);
        let made = LAYERS[*layer](last, earlier, w)?;
        // half of what there is goes on as it lies in memory
        let next = match layer % 2 == 0 && made.sizes() == [2, 4, 6] {
            true => made,
            false => made.reshape([2, 4, 6])?,
        };
        values.push(next);
    }
    let last = values.len() - 1;
    Ok(values.split_off(last.min(1 + net[0].1 % last)))
}

/// In what eager and compiled differ.
fn difference(net: &Net, x: &Tensor, w: &Tensor) -> Option<String> {
    let (shape, weight) = (net.clone(), w.clone());
    let compiled = compile(move |x: &Tensor| run(&shape, x, &weight));
    for call in 0..3 {
        let x = x.mul(1.0 + call as f64).expect("numbers");
        let want = match run(net, &x, w) {
            Ok(want) => want,
            Err(e) => return compiled.call(&x).is_ok().then(|| format!("eager: {e}")),
        };
        let got = match compiled.call(&x) {
            Ok(got) => got,
            Err(e) => return Some(format!("compiled, call {call}: {e}")),
        };
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let lie = |t: &Tensor| format!("{:?} {:?}", t.sizes(), t.strides());
            if lie(got) != lie(want) {
                return Some(format!("value {i}: {} instead of {}", lie(got), lie(want)));
            }
            let near = |t: &Tensor| t.allclose_with(want, 1e-7, 1e-7);
            if !near(got).expect("two tensors of one shape") {
                return Some(format!("value {i}, call {call}: {got}\ninstead of {want}"));
            }
        }
    }
    None
}

#[test]
fn compiled_nets_are_eager_ones() {
    let setting = |name: &str, default| {
        let value = std::env::var(name).ok();
        value.map_or(default, |s| s.parse().expect("a number"))
    };
    let (nets, seed) = (setting("NETS", 100), setting("SEED", 0));
    for number in seed..seed + nets {
        let mut dice = Dice(number);
        let mut numbers = |sizes: &[i64], most: f64| {
            let n = sizes.iter().product::<i64>();
            let draw = |_| (dice.below(2001) as f64 / 1000.0 - 1.0) * most;
            Tensor::from_vec((0..n).map(draw).collect::<Vec<_>>(), sizes).unwrap()
        };
        let (x, w) = (numbers(&[2, 4, 6], 2.0), numbers(&[6, 6], 0.8));
        let length = 3 + dice.below(6);
        let mut net: Net =
            (0..length).map(|_| (dice.below(LAYERS.len()), dice.below(64))).collect();
        if difference(&net, &x, &w).is_none() {
            continue;
        }
        // without the layers that do not matter
        while let Some(at) = (0..net.len()).find(|at| {
            let mut less = net.clone();
            less.remove(*at);
            !less.is_empty() && difference(&less, &x, &w).is_some()
        }) {
            net.remove(at);
        }
        let what = difference(&net, &x, &w).unwrap_or_default();
        panic!("SEED={number} NETS=1: {net:?}: {what}");
    }
}
