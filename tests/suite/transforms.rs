//! Function transforms as a whole: what PyTorch recorded of per-sample gradients, an ensemble and
//! Hessians, and transforms within compiled functions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use straightline::func::{
    JacobianOptions, JvpOptions, Randomness, VmapOptions, grad, hessian, jacfwd, jacfwd_with,
    jacfwd_with_aux, jacrev, jacrev_with_aux, jvp, jvp_with_aux, vjp_with_aux, vmap, vmap_with,
};
use straightline::ops::aten;
use straightline::{Result, Tensor, assert_close, compile, load_safetensors, ones, rand, tensor};

type Parameters = BTreeMap<String, Tensor>;

/// What PyTorch has recorded of a run.
fn recorded(name: &str) -> BTreeMap<String, Tensor> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/transforms");
    load_safetensors(folder.join(name)).expect("a file of tensors").into_iter().collect()
}

/// The entries below a prefix, without it.
fn below(all: &BTreeMap<String, Tensor>, prefix: &str) -> Parameters {
    let strip = |(k, v): (&String, &Tensor)| Some((k.strip_prefix(prefix)?.to_string(), v.clone()));
    all.iter().filter_map(strip).collect()
}

fn model(p: &Parameters, x: &Tensor) -> Result<Tensor> {
    let linear = |x: &Tensor, name: &str| {
        x.matmul(p[&format!("{name}.weight")].t()?)?.add(&p[&format!("{name}.bias")])
    };
    linear(&linear(x, "layers.0")?.tanh()?, "layers.1")
}

fn close(got: &Tensor, want: &Tensor, tolerance: f64) -> Result<()> {
    let largest = want.abs()?.max()?.to_dtype(straightline::DType::F64)?.item::<f64>()?;
    let off = got.sub(want)?.abs()?.max()?.to_dtype(straightline::DType::F64)?.item::<f64>()?;
    assert!(off <= tolerance * largest.max(1.0), "{off} of {largest}");
    Ok(())
}

#[test]
fn per_sample_gradients_and_an_ensemble() -> Result<()> {
    let all = recorded("per_sample_grads.safetensors");
    let loss = |(p, x, y): &(Parameters, Tensor, Tensor)| {
        let logits = model(p, &x.unsqueeze(0)?)?;
        logits.log_softmax(1)?.gather(1, y.view([1, 1])?)?.neg()?.mean()
    };
    let parameters = below(&all, "init.");
    let per_sample = |p: &Parameters, x: &Tensor, y: &Tensor| {
        let one = |(x, y): &(Tensor, Tensor)| {
            grad(|p: &Parameters| loss(&(p.clone(), x.clone(), y.clone())))(p)
        };
        vmap(one)(&(x.clone(), y.clone()))
    };
    let got = per_sample(&parameters, &all["x"], &all["y"])?;
    for (name, want) in below(&all, "persample.") {
        close(&got[&name], &want, 2e-6)?;
    }
    let ensemble = below(&all, "ensemble.");
    let x = &all["x"];
    let out = vmap(|p: &Parameters| model(p, x))(&ensemble)?;
    close(&out, &all["ensemble_out"], 2e-6)
}

#[test]
fn second_derivatives() -> Result<()> {
    let all = recorded("hessian.safetensors");
    let (a, c, x0) = (&all["A"], &all["c"], &all["x0"]);
    let f = |x: &Tensor| {
        let inner = a.matmul(x.sin()?)?.add(c.mul(x)?)?;
        inner.logsumexp(0)?.add(x.pow(3)?.sum()?.div(6)?)
    };
    close(&grad(f)(x0)?, &all["grad"], 1e-9)?;
    for h in [hessian(f)(x0)?, jacrev(jacrev(f))(x0)?, jacfwd(jacfwd(f))(x0)?] {
        close(&h, &all["hessian"], 1e-9)?;
    }
    close(&jvp(grad(f), x0, &all["v"])?.1, &all["hvp"], 1e-9)?;
    let g = |x: &Tensor| a.matmul(x)?.tanh()?.mul(x.sum()?);
    for j in [jacrev(g)(x0)?, jacfwd(g)(x0)?] {
        close(&j, &all["jac_of_G"], 1e-9)?;
    }
    // a network, as a function of all its parameters in a row
    let init = below(&all, "mlp.init.");
    let names = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"];
    let loss = |flat: &Tensor| {
        let (mut p, mut from) = (Parameters::new(), 0);
        for name in names {
            let like = &init[name];
            let part = flat.narrow(0, from, like.numel())?.view(like.sizes())?;
            from += like.numel();
            p.insert(name.into(), part);
        }
        let off = model(&p, &all["mlp.x"])?.sub(&all["mlp.y"])?;
        off.mul(&off)?.mean()
    };
    let rows = names.iter().map(|n| init[*n].reshape(-1)).collect::<Result<Vec<_>>>()?;
    let flat = Tensor::cat(&rows, 0)?;
    close(&grad(loss)(&flat)?, &all["mlp.grad"], 1e-9)?;
    close(&hessian(loss)(&flat)?, &all["mlp.hessian"], 1e-9)
}

#[test]
fn compiled_functions_are_traced_through() -> Result<()> {
    let x = tensor([[0.0, 1.0], [2.0, 3.0]])?;
    let f = compile(|x: &Tensor| vmap(grad(|a: &Tensor| a.mul(a)?.sum()))(x));
    for _ in 0..3 {
        assert_eq!(f.call(&x)?.to_vec2::<f32>()?, [[0.0, 2.0], [4.0, 6.0]]);
    }
    let graph = f.trace(&x)?.to_string();
    assert!(graph.contains("aten::mul.Tensor") && !graph.contains("select"), "{graph}");
    let f = compile(|x: &Tensor| hessian(|x: &Tensor| x.sin()?.mul(x)?.sum())(x));
    let y = tensor([0.5, 1.0])?;
    let eager = hessian(|x: &Tensor| x.sin()?.mul(x)?.sum())(&y)?;
    for _ in 0..3 {
        assert_close(&f.call(&y)?, &eager)?;
    }
    // a compiled function within a transform runs eagerly
    let inner = compile(|x: &Tensor| x.mul(x)?.sum());
    assert_eq!(grad(|x: &Tensor| inner.call(x))(&y)?.to_vec::<f32>()?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn convolutions_with_a_weight_for_each_sample() -> Result<()> {
    let x = Tensor::from_vec((0..150).map(|i| (i % 7) as f32).collect::<Vec<_>>(), 150)?
        .view([2, 3, 5, 5])?;
    let w = Tensor::from_vec((0..216).map(|i| (i % 5) as f32).collect::<Vec<_>>(), 216)?
        .view([2, 4, 3, 3, 3])?;
    let f = |(x, w): &(Tensor, Tensor)| {
        straightline::ops::aten::conv2d(x, w, None, &[1, 1], &[0, 0], &[1, 1], 1)
    };
    let y = vmap(f)(&(x.clone(), w.clone()))?;
    for i in 0..2 {
        assert_close(&y.select(0, i)?, &f(&(x.select(0, i)?, w.select(0, i)?))?)?;
    }
    // the gradients of each sample's weight
    let shared = w.select(0, 0)?;
    let loss = |w: &Tensor, x: &Tensor| f(&(x.clone(), w.clone()))?.tanh()?.sum();
    let g = vmap(|x: &Tensor| grad(|w: &Tensor| loss(w, x))(&shared))(&x)?;
    for i in 0..2 {
        let x = x.select(0, i)?;
        assert_close(&g.select(0, i)?, &grad(|w: &Tensor| loss(w, &x))(&shared)?)?;
    }
    let columns = VmapOptions { in_dims: vec![Some(1)], ..VmapOptions::default() };
    assert_eq!(vmap_with(|a: &Tensor| a.sum(), &columns)(&ones([2, 3])?)?.sizes(), [3]);
    Ok(())
}

#[test]
fn gradients_of_determinants_are_batched_and_compiled() -> Result<()> {
    let f = |a: &Tensor| a.det()?.square();
    let regular = straightline::randn([2, 3, 3])?;
    let singular = tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, 1.0, -1.0]])?;
    let a = aten::cat(&[regular, singular.unsqueeze(0)?], 0)?;
    let got = vmap(grad(f))(&a)?;
    assert_close(&compile(move |a: &Tensor| vmap(grad(f))(a)).call(&a)?, &got)?;
    let det = vmap(grad(|a: &Tensor| a.det()))(&a)?;
    let second = vmap(hessian(|a: &Tensor| a.det()))(&a)?;
    for i in 0..3 {
        let one = a.select(0, i)?.copied()?.requires_grad_(true)?;
        f(&one)?.backward()?;
        close(&got.select(0, i)?, &one.grad().unwrap(), 1e-4)?;
        one.set_grad(None)?;
        one.det()?.backward()?;
        close(&det.select(0, i)?, &one.grad().unwrap(), 1e-4)?;
        let own = hessian(|a: &Tensor| a.det())(&a.select(0, i)?.copied()?)?;
        close(&second.select(0, i)?, &own, 1e-4)?;
        assert!(own.isfinite()?.all()?.item::<bool>()?);
    }
    Ok(())
}

#[test]
fn complex_numbers_at_zero_have_finite_second_derivatives() -> Result<()> {
    let zeros = tensor([0.0, 0.0, 0.0])?;
    let programs: [fn(&Tensor) -> Result<Tensor>; 3] = [
        |x| aten::complex(x, x)?.abs(),
        |x| aten::complex(x, x)?.angle(),
        |x| aten::view_as_real(&aten::complex(x, x)?.sgn()?),
    ];
    for f in programs {
        let h = hessian(|x: &Tensor| f(x)?.sum())(&zeros)?;
        assert_eq!(h.to_vec2::<f32>()?, [[0.0; 3]; 3]);
    }
    Ok(())
}

#[test]
fn classes_of_samples_are_counted() -> Result<()> {
    let x = tensor([[0, 2, 1], [3, 3, 0]])?;
    let got = vmap(|x: &Tensor| x.one_hot(4))(&x)?;
    assert_eq!(got.to_vec::<i64>()?, x.one_hot(4)?.to_vec::<i64>()?);
    let scaled = |w: &Tensor, x: &Tensor| x.one_hot(4)?.mul(w)?.sum();
    let w = tensor([1.0, 2.0, 3.0, 4.0])?;
    let g = vmap(|x: &Tensor| grad(|w: &Tensor| scaled(w, x))(&w))(&x)?;
    assert_eq!(g.to_vec2::<f32>()?, [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 2.0]]);
    Ok(())
}

#[test]
fn other_results_go_along() -> Result<()> {
    let f = |a: &Tensor| Ok((a.mul(a)?, a.sum()?));
    let (x, t) = (tensor([1.25, -0.75, 2.5])?, tensor([2.0, -1.0, 0.5])?);
    let (y, dy, sum) = jvp_with_aux(f, &x, &t, &JvpOptions::default())?;
    assert_eq!(y.to_vec::<f32>()?, [1.5625, 0.5625, 6.25]);
    assert_eq!((dy.to_vec::<f32>()?, sum.item::<f32>()?), (vec![5.0, 1.5, 2.5], 3.0));
    let want = [[2.5, 0.0, 0.0], [0.0, -1.5, 0.0], [0.0, 0.0, 5.0]];
    for chunk_size in [None, Some(1), Some(2)] {
        let options = JacobianOptions { chunk_size, ..JacobianOptions::default() };
        let (j, sum) = jacfwd_with_aux(f, &options)(&x)?;
        assert_eq!((j.to_vec2::<f32>()?, sum.item::<f32>()?), (want.map(Vec::from).to_vec(), 3.0));
        let (j, sum) = jacrev_with_aux(f, &options)(&x)?;
        assert_eq!((j.to_vec2::<f32>()?, sum.item::<f32>()?), (want.map(Vec::from).to_vec(), 3.0));
    }
    let (_, pull, sum) = vjp_with_aux(f, &x)?;
    assert_eq!((pull.call(&t)?.to_vec::<f32>()?, sum.item::<f32>()?), (vec![5.0, 1.5, 2.5], 3.0));
    // the others have no tangent left
    let outer = |x: &Tensor| jvp_with_aux(f, x, &t, &JvpOptions::default()).map(|(.., sum)| sum);
    assert_eq!(grad(outer)(&x)?.to_vec::<f32>()?, [1.0, 1.0, 1.0]);
    let constant =
        jvp_with_aux(|_: &Tensor| Ok((tensor(1.0)?, ())), &x, &t, &JvpOptions { strict: true });
    assert!(constant.is_err());
    Ok(())
}

#[test]
fn columns_with_random_numbers() -> Result<()> {
    let noisy = |x: &Tensor| x.mul(rand([3])?);
    let x = tensor([1.25, -0.75, 2.5])?;
    let diagonal = |randomness: Randomness| {
        straightline::manual_seed(0);
        let options = JacobianOptions { randomness, ..JacobianOptions::default() };
        jacfwd_with(noisy, &options)(&x)?.diagonal()?.to_vec::<f32>()
    };
    assert_eq!(diagonal(Randomness::Same)?, [0.496_256_6, 0.768_221_8, 0.088_477_43]);
    assert_eq!(diagonal(Randomness::Different)?, [0.496_256_6, 0.307_422_82, 0.455_627_98]);
    assert!(diagonal(Randomness::Error).unwrap_err().to_string().contains("randomness error mode"));
    Ok(())
}

#[test]
fn columns_of_several_arguments() -> Result<()> {
    let calls = std::cell::Cell::new(0);
    let f = |(a, b): &(Tensor, Tensor)| {
        calls.set(calls.get() + 1);
        a.unsqueeze(1)?.mul(b)?.sum_dim(1)
    };
    let at = (tensor([1.0, 2.0])?, tensor([3.0, 4.0, 5.0])?);
    let (a, b) = jacfwd(f)(&at)?;
    assert_eq!(calls.get(), 1);
    assert_eq!(a.to_vec2::<f32>()?, [[12.0, 0.0], [0.0, 12.0]]);
    assert_eq!(b.to_vec2::<f32>()?, [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
    let (c, d) = jacrev(f)(&at)?;
    straightline::assert_close(&a, &c)?;
    straightline::assert_close(&b, &d)
}
