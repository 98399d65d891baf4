//! Functions of the user's within transforms. The numbers are PyTorch's, of the same functions with
//! `generate_vmap_rule=True` or a `vmap` of their own.

use super::{contains, grad as grad_of, node, refused, values};
use std::sync::{Arc, Mutex};
use straightline::autograd::{
    AutogradError, Context, Function, VmapInfo, VmapRule, forward_ad::dual_level,
    forward_ad::make_dual, forward_ad::unpack_dual,
};
use straightline::func::{
    Randomness, VmapOptions, grad, hessian, jacfwd, jacrev, jvp, vmap, vmap_with,
};
use straightline::{ErrorKind, Result, Tensor, assert_close, stack, tensor};

/// `round(x) w`, with derivatives that are not its own: `3 w` and `5 x`.
struct Rounded(VmapRule);

impl Function for Rounded {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save(&[&inputs[0], &inputs[1]]);
        Ok(vec![inputs[0].round()?.mul(&inputs[1])?])
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let (saved, g) = (context.saved()?, grads[0].as_ref().unwrap());
        Ok(vec![Some(g.mul(&saved[1])?.mul(3)?), Some(g.mul(&saved[0])?.mul(5)?)])
    }

    fn jvp(&self, context: &Context, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = context.saved()?;
        let terms = [(&tangents[0], &saved[1], 3), (&tangents[1], &saved[0], 5)];
        let mut sum: Option<Tensor> = None;
        for (t, by, factor) in terms {
            let Some(t) = t else { continue };
            let term = t.mul(by)?.mul(factor)?;
            sum = Some(match sum {
                Some(sum) => sum.add(term)?,
                None => term,
            });
        }
        Ok(vec![sum])
    }

    fn vmap_rule(&self) -> VmapRule {
        self.0
    }
}

fn rounded(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    Ok(Rounded(VmapRule::Generated).apply(&[x.clone(), w.clone()])?.remove(0))
}

type Two = (Tensor, Tensor);

fn given() -> Result<Two> {
    Ok((tensor([[1.25, -0.75, 2.5], [0.5, 3.25, -1.5]])?, tensor([2.0, -1.0, 0.5])?))
}

/// For each row of the first tensor, with the second one.
fn of_rows<F>(f: F) -> impl Fn(&Two) -> Result<Tensor>
where
    F: Fn(&Tensor, &Tensor) -> Result<Tensor>,
{
    let options = VmapOptions { in_dims: vec![Some(0), None], ..VmapOptions::default() };
    vmap_with(move |(x, w): &Two| f(x, w), &options)
}

fn near(t: &Tensor, want: &[f32]) {
    let want = Tensor::from_vec(want.to_vec(), want.len() as i64).unwrap();
    assert_close(&t.reshape([-1]).unwrap(), &want).unwrap();
}

#[test]
fn a_generated_rule() -> Result<()> {
    let (x, w) = given()?;
    near(&of_rows(rounded)(&(x.clone(), w.clone()))?, &[2.0, 1.0, 1.0, 0.0, -3.0, -1.0]);
    let columns = VmapOptions { in_dims: vec![Some(1), None], ..VmapOptions::default() };
    let by_columns = vmap_with(|(x, w): &Two| rounded(x, w), &columns);
    near(&by_columns(&(x.clone(), tensor([2.0, -1.0])?))?, &[2.0, 0.0, -2.0, -3.0, 4.0, 2.0]);
    let loss = |x: &Tensor, w: &Tensor| rounded(x, w)?.square()?.sum();
    let options = VmapOptions { in_dims: vec![Some(0), None], ..VmapOptions::default() };
    let inside = vmap_with(grad(|(x, w): &Two| loss(x, w)), &options);
    let (of_x, of_w) = inside(&(x.clone(), w.clone()))?;
    near(&of_x, &[24.0, -6.0, 3.0, 0.0, 18.0, -3.0]);
    near(&of_w, &[25.0, -7.5, 25.0, 0.0, -97.5, 15.0]);
    // what differentiates outside sees the function's own gradient as well
    let total = |a: &Two| of_rows(rounded)(a)?.square()?.sum();
    let (of_x, of_w) = grad(total)(&(x.clone(), w.clone()))?;
    near(&of_x, &[24.0, -6.0, 3.0, 0.0, 18.0, -3.0]);
    near(&of_w, &[25.0, -105.0, 40.0]);
    // so does the tape
    let (x, w) = (x.requires_grad_(true)?, w.requires_grad_(true)?);
    let y = of_rows(rounded)(&(x.clone(), w.clone()))?;
    assert_eq!(node(&y), "VmappedRoundedBackward");
    y.square()?.sum()?.backward()?;
    assert_eq!(grad_of(&x), [24.0, -6.0, 3.0, 0.0, 18.0, -3.0]);
    assert_eq!(grad_of(&w), [25.0, -105.0, 40.0]);
    Ok(())
}

#[test]
fn batches_of_batches() -> Result<()> {
    let (x, w) = given()?;
    let all = stack(&[x.clone(), x.mul(2)?], 0)?;
    let f = |(x, w): &Two| {
        of_rows(|x, w| of_rows(rounded)(&(x.clone(), w.clone())))(&(x.clone(), w.clone()))
    };
    let y = f(&(all.clone(), w.clone()))?;
    near(&y, &[2.0, 1.0, 1.0, 0.0, -3.0, -1.0, 4.0, 2.0, 2.5, 2.0, -6.0, -1.5]);
    let (of_x, of_w) = grad(|a: &Two| f(a)?.square()?.sum())(&(all, w))?;
    near(&of_x, &[24.0, -6.0, 3.0, 0.0, 18.0, -3.0, 48.0, -12.0, 7.5, 24.0, 36.0, -4.5]);
    near(&of_w, &[145.0, -525.0, 210.0]);
    Ok(())
}

#[test]
fn each_derivative_is_the_functions_own() -> Result<()> {
    let (x, w) = given()?;
    let one = x.select(0, 0)?.copied()?;
    let f = |x: &Tensor| rounded(x, &w);
    near(&jacrev(f)(&one)?, &[6.0, 0.0, 0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 1.5]);
    near(&jacfwd(f)(&one)?, &[6.0, 0.0, 0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 1.5]);
    // the derivative of `2 y (3 w)`, where `y` has the derivative `3 w` and not the zero of `round`
    let loss = |x: &Tensor| f(x)?.square()?.sum();
    let want = [72.0, 0.0, 0.0, 0.0, 18.0, 0.0, 0.0, 0.0, 4.5];
    near(&hessian(loss)(&one)?, &want);
    near(&jacrev(jacrev(loss))(&one)?, &want);
    near(&grad(|x: &Tensor| grad(loss)(x)?.sum())(&one)?, &[72.0, 18.0, 4.5]);
    near(&vmap(hessian(loss))(&x)?, &[want, want].concat());
    let ones = x.mul(0)?.add(1)?;
    let (y, dy) = jvp(|x: &Tensor| of_rows(rounded)(&(x.clone(), w.clone())), &x, &ones)?;
    near(&y, &[2.0, 1.0, 1.0, 0.0, -3.0, -1.0]);
    near(&dy, &[6.0, -3.0, 1.5, 6.0, -3.0, 1.5]);
    let inside = |(x, t): &Two| jvp(f, x, t).map(|(_, t)| t);
    near(&vmap(inside)(&(x, ones))?, &[6.0, -3.0, 1.5, 6.0, -3.0, 1.5]);
    Ok(())
}

#[test]
fn a_function_without_a_rule() -> Result<()> {
    let (x, w) = given()?;
    let f = |x: &Tensor, w: &Tensor| {
        Ok(Rounded(VmapRule::None).apply(&[x.clone(), w.clone()])?.remove(0))
    };
    // its operators are batched, where nobody outside differentiates
    near(&of_rows(f)(&(x.clone(), w.clone()))?, &[2.0, 1.0, 1.0, 0.0, -3.0, -1.0]);
    let inside = vmap(grad(|x: &Tensor| f(x, &w)?.square()?.sum()));
    near(&inside(&x)?, &[24.0, -6.0, 3.0, 0.0, 18.0, -3.0]);
    let outside = grad(|x: &Tensor| of_rows(f)(&(x.clone(), w.clone()))?.sum())(&x);
    contains(
        &refused(outside),
        "You tried to vmap over Rounded, but it does not have vmap support",
    );
    let pushed = jvp(|x: &Tensor| of_rows(f)(&(x.clone(), w.clone())), &x, &x);
    contains(&refused(pushed), "You tried to vmap over Rounded");
    // a tensor that the samples share is differentiated outside too
    let leaf = w.copied()?.requires_grad_(true)?;
    contains(&refused(of_rows(f)(&(x, leaf))), "You tried to vmap over Rounded");
    Ok(())
}

type Calls = Arc<Mutex<Vec<(i64, Randomness, Vec<Option<usize>>, Vec<i64>)>>>;

/// The sine with a tenfold gradient, whose samples go in front.
struct Own {
    calls: Calls,
    sets_up: bool,
}

impl Function for Own {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save(&[&inputs[0]]);
        Ok(vec![inputs[0].sin()?])
    }

    fn setup_context(&self, context: &mut Context, inputs: &[Tensor], _: &[Tensor]) -> Result<()> {
        match self.sets_up {
            true => context.save(&[&inputs[0]]),
            false => return Err(AutogradError::NoSetupContext.into()),
        }
        Ok(())
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let slope = context.saved()?[0].cos()?.mul(10)?;
        grads.iter().map(|g| g.as_ref().map(|g| g.mul(&slope)).transpose()).collect()
    }

    fn vmap_rule(&self) -> VmapRule {
        VmapRule::Own
    }

    fn vmap(
        &self,
        info: &VmapInfo,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<Option<usize>>)> {
        let sizes = inputs[0].sizes().to_vec();
        let call = (info.batch_size, info.randomness, in_dims.to_vec(), sizes);
        self.calls.lock().unwrap().push(call);
        let front = inputs[0].movedim(in_dims[0].unwrap() as i64, 0)?;
        let again = Own { calls: self.calls.clone(), sets_up: self.sets_up };
        Ok((again.apply(&[front])?, vec![Some(0)]))
    }
}

#[test]
fn a_rule_of_its_own() -> Result<()> {
    let (x, _) = given()?;
    let calls = Calls::default();
    let own = |sets_up: bool| {
        let calls = calls.clone();
        move |x: &Tensor| Ok(Own { calls: calls.clone(), sets_up }.apply(&[x.clone()])?.remove(0))
    };
    let columns = VmapOptions { in_dims: vec![Some(1)], ..VmapOptions::default() };
    let y = vmap_with(own(false), &columns)(&x)?;
    near(&y, &[0.948_984_6, 0.479_425_55, -0.681_638_8, -0.108_195_13, 0.598_472_1, -0.997_495]);
    assert_eq!(*calls.lock().unwrap(), [(3, Randomness::Error, vec![Some(1)], vec![2, 3])]);
    let want = [3.153_223_8, 7.316_889, -8.011_435, 8.775_825, -9.941_297, 0.707_371_95];
    near(&grad(|x: &Tensor| vmap(own(false))(x)?.sum())(&x)?, &want);
    let f = own(true);
    near(&vmap(grad(|x: &Tensor| f(x)?.sum()))(&x)?, &want);
    let f = own(false);
    let refusal = refused(vmap(grad(|x: &Tensor| f(x)?.sum()))(&x));
    contains(&refusal, "it must write `setup_context`");
    Ok(())
}

/// A rule that is promised and not written.
struct Promised;

impl Function for Promised {
    fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(inputs.to_vec())
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(grads.to_vec())
    }

    fn vmap_rule(&self) -> VmapRule {
        VmapRule::Own
    }
}

#[test]
fn a_rule_that_is_missing() -> Result<()> {
    let e =
        vmap(|x: &Tensor| Ok(Promised.apply(&[x.clone()])?.remove(0)))(&given()?.0).unwrap_err();
    assert!(
        matches!(e.kind(), ErrorKind::Autograd(e) if matches!(**e, AutogradError::NoVmap)),
        "{e}"
    );
    Ok(())
}

/// Doubles in place, gives the input back as it was, and a view of it.
struct Shares;

impl Function for Shares {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        inputs[0].mul_(2)?;
        context.mark_dirty(&[&inputs[0]]);
        Ok(vec![inputs[0].clone(), inputs[1].clone(), inputs[1].narrow(0, 0, 1)?])
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let g = grads.iter().flatten().collect::<Vec<_>>();
        Ok(vec![Some(g[0].mul(2)?), Some(g[1].mul(7)?.add(g[2].mul(100)?)?)])
    }

    fn vmap_rule(&self) -> VmapRule {
        VmapRule::Generated
    }
}

#[test]
fn results_that_are_inputs() -> Result<()> {
    let (x, _) = given()?;
    let f = |x: &Tensor| {
        let y = x.mul(1)?;
        let out = Shares.apply(&[y.clone(), x.clone()])?;
        assert!(out[0].is_same(&y) && !out[1].is_same(x));
        out[0].sum()?.add(out[1].sum()?)?.add(out[2].sum()?)
    };
    // 2 + 7 + 100, whoever differentiates
    let want = [109.0; 6];
    near(&vmap(grad(f))(&x)?, &want);
    near(&grad(|x: &Tensor| vmap(f)(x)?.sum())(&x)?, &want);
    near(&grad(|x: &Tensor| f(&x.select(0, 0)?))(&x)?.select(0, 0)?, &want[..3]);
    let captured = x.copied()?;
    let e = grad(|x: &Tensor| {
        Shares.apply(&[captured.clone(), x.clone()])?;
        x.sum()
    })(&x);
    contains(&e.unwrap_err().to_string(), "mutate a captured Tensor");
    Ok(())
}

/// `exp`, which keeps its result.
struct Exp;

impl Function for Exp {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let y = inputs[0].exp()?;
        context.save(&[&y]);
        Ok(vec![y])
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let y = &context.saved()?[0];
        grads.iter().map(|g| g.as_ref().map(|g| g.mul(y)).transpose()).collect()
    }

    fn jvp(&self, context: &Context, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        self.backward(context, tangents)
    }
}

#[test]
fn a_result_that_is_kept_has_its_tangent() -> Result<()> {
    let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    dual_level(|| {
        let d = make_dual(&x, tensor([1.0, 0.5])?)?;
        let y = Exp.apply(&[d])?.remove(0).sum()?;
        let g = straightline::autograd::grad(&[y], std::slice::from_ref(&x))?.remove(0);
        let t = unpack_dual(&g)?.tangent.expect("a tangent");
        assert_eq!(values(&g).len(), 2);
        near(&t, &[2.718_281_8, 3.694_528]);
        Ok(())
    })
}
