//! The rules of optimisers, on one number: from 1, with the gradients 1, -2 and 0.5. What PyTorch
//! gives after each step, in `f64`.

use straightline::nn::{Linear, Module, Parameter};
use straightline::optim::{
    Adagrad, AdagradOptions, Adam, AdamOptions, AdamW, AdamWOptions, GradScaler, GradScalerOptions,
    Optim, Optimizer, RmsPropOptions, Rule, Sgd, SgdOptions, clip_grad_norm_, clip_grad_norm_with_,
    clip_grad_value_,
};
use straightline::{DType, Result, Tensor};

fn number(x: f64) -> Tensor {
    Tensor::with(DType::F64).literal([x]).unwrap()
}

/// A parameter that is one number.
fn one() -> Parameter {
    Parameter::new(&number(1.0)).unwrap()
}

/// The parameter after each gradient.
fn steps<R: Rule>(options: R, grads: &[Option<f64>]) -> Vec<f64> {
    let w = one();
    let optimizer = Optim::<R>::new([w.tensor().clone()], options).unwrap();
    let step = |g: &Option<f64>| -> Result<f64> {
        w.set_grad(g.map(number).as_ref())?;
        optimizer.step()?;
        Ok(w.to_vec::<f64>()?[0])
    };
    grads.iter().map(|g| step(g).unwrap()).collect()
}

#[track_caller]
fn check<R: Rule>(options: R, expected: [f64; 3]) {
    let found = steps(options, &[Some(1.0), Some(-2.0), Some(0.5)]);
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs() / expected.abs().max(1e-3);
        assert!(error < 1e-13, "{found:?}, not {expected:?}");
    }
}

#[test]
fn sgd() {
    let sgd = SgdOptions::default().lr(0.1);
    check(sgd, [0.9, 1.1, 1.05]);
    check(sgd.momentum(0.9), [0.9, 1.01, 1.059]);
    check(sgd.momentum(0.9).dampening(0.5), [0.9, 0.91, 0.894]);
    check(sgd.momentum(0.9).nesterov(true), [0.81, 1.109, 1.1031]);
    check(sgd.momentum(0.9).weight_decay(0.1), [0.89, 0.9821, 1.005169]);
    let up = steps(sgd.weight_decay(0.1).maximize(true), &[Some(1.0)]);
    assert!((up[0] - 1.09).abs() < 1e-15, "{up:?}");
}

#[test]
fn adam() {
    let adam = AdamOptions::default().lr(0.1);
    check(adam, [0.900000001, 0.9366103534720749, 0.9502794196738216]);
    check(adam.weight_decay(0.1), [0.9000000009090909, 0.9310642948391922, 0.937642154937361]);
    let adamw = AdamWOptions::default().lr(0.1);
    check(adamw, [0.899000001, 0.9347113534710749, 0.9474457083193505]);
    let skipped = steps(adam, &[Some(1.0), None, Some(0.5)]);
    assert!((skipped[1] - skipped[0]).abs() == 0.0);
    assert!((skipped[2] - 0.806782).abs() < 1e-6, "{skipped:?}");
}

#[test]
fn rmsprop() {
    let rmsprop = RmsPropOptions::default().lr(0.1);
    check(rmsprop, [9.99999903994464e-08, 0.895323021991522, 0.6758495053504888]);
    check(
        rmsprop.centered(true).momentum(0.9).weight_decay(0.1),
        [-0.005037723431855545, -0.031583931732463336, -0.2694183671944735],
    );
}

#[test]
fn adagrad() {
    let adagrad = AdagradOptions::default().lr(0.1);
    check(adagrad, [0.90000000001, 0.9894427191059916, 0.9676209300833447]);
    check(
        adagrad.lr_decay(0.1).weight_decay(0.1).initial_accumulator_value(0.5),
        [0.9158808975872268, 0.9908737580606838, 0.9699829586760594],
    );
}

#[test]
fn what_makes_no_sense_is_refused_in_pytorchs_words() {
    let p = || [one().tensor().clone()];
    let text = |outcome: Result<Sgd>| outcome.unwrap_err().to_string();
    assert!(text(Sgd::new(p(), -1.0)).contains("Invalid learning rate: -1"));
    assert!(text(Sgd::new([], 0.1)).contains("optimizer got an empty parameter list"));
    let nesterov = SgdOptions::default().nesterov(true);
    assert!(
        text(Sgd::new(p(), nesterov))
            .contains("Nesterov momentum requires a momentum and zero dampening")
    );
    let w = one();
    let computed = w.mul(2.0).unwrap();
    assert!(text(Sgd::new([computed], 0.1)).contains("can't optimize a non-leaf Tensor"));
    let mut optimizer = Sgd::new([w.tensor().clone()], 0.1).unwrap();
    let error = optimizer.add_group([w.tensor().clone()], 0.2).unwrap_err();
    assert!(error.to_string().contains("some parameters appear in more than one parameter group"));
    assert_eq!(error.python_class(), "ValueError");
    let error = AdamW::new(p(), AdamWOptions::default().betas(1.0, 0.9)).unwrap_err();
    assert!(error.to_string().contains("Invalid beta parameter at index 0: 1"));
}

#[test]
fn a_saved_state_goes_on_bit_for_bit() {
    let run = |options: AdamOptions, moved: bool| -> Vec<f64> {
        let w = one();
        let optimizer = Adam::new([w.tensor().clone()], options).unwrap();
        let other = Adam::new([w.tensor().clone()], options.lr(7.0)).unwrap();
        let mut now = &optimizer;
        (0..6)
            .map(|i| {
                w.set_grad(Some(&number(1.0 - 0.3 * f64::from(i)))).unwrap();
                if moved && i == 3 {
                    other.load_state_dict(&optimizer.state_dict().unwrap()).unwrap();
                    now = &other;
                }
                now.step().unwrap();
                w.to_vec::<f64>().unwrap()[0]
            })
            .collect()
    };
    let options = AdamOptions::default().lr(0.1).amsgrad(true);
    assert_eq!(run(options, false), run(options, true));
}

#[test]
fn a_state_of_other_groups_is_refused() {
    let layer = Linear::new(2, 2).unwrap();
    let (a, b) = (Adagrad::new(layer.parameters(), 0.1), Sgd::new(layer.parameters(), 0.1));
    let (a, b) = (a.unwrap(), b.unwrap());
    let error = b.load_state_dict(&a.state_dict().unwrap()).unwrap_err();
    assert!(error.to_string().contains("doesn't match the size of optimizer's group"), "{error}");
}

#[test]
fn clipping() {
    let w = Parameter::new(&Tensor::with(DType::F64).literal([0.0, 0.0]).unwrap()).unwrap();
    let parameters = [w.tensor().clone()];
    let set = |a: f64, b: f64| {
        w.set_grad(Some(&Tensor::with(DType::F64).literal([a, b]).unwrap())).unwrap();
    };
    let grad = || w.grad().unwrap().to_vec::<f64>().unwrap();
    set(3.0, 4.0);
    assert_eq!(clip_grad_norm_(&parameters, 5.0).unwrap().item::<f64>().unwrap(), 5.0);
    let factor = 5.0 / (5.0 + 1e-6);
    assert_eq!(grad(), [3.0 * factor, 4.0 * factor]);
    set(3.0, 4.0);
    clip_grad_norm_(&parameters, 10.0).unwrap();
    assert_eq!(grad(), [3.0, 4.0]);
    set(3.0, f64::INFINITY);
    clip_grad_norm_(&parameters, 1.0).unwrap();
    assert!(grad()[0] == 0.0 && grad()[1].is_nan());
    set(3.0, f64::INFINITY);
    let error = clip_grad_norm_with_(&parameters, 1.0, 2.0, true).unwrap_err();
    assert!(error.to_string().contains("The total norm of order 2.0 for gradients"), "{error}");
    set(3.0, 4.0);
    let largest = clip_grad_norm_with_(&parameters, 2.0, f64::INFINITY, false).unwrap();
    assert_eq!(largest.item::<f64>().unwrap(), 4.0);
    clip_grad_value_(&parameters, 1.75).unwrap();
    assert!(grad()[1] == 1.75 && grad()[0] < 1.51);
    w.set_grad(None).unwrap();
    assert_eq!(clip_grad_norm_(&parameters, 1.0).unwrap().item::<f32>().unwrap(), 0.0);
}

#[test]
fn a_scaler_skips_infinite_steps() {
    let w = Parameter::new(&Tensor::ones([1]).unwrap()).unwrap();
    let optimizer = Sgd::new([w.tensor().clone()], 1.0).unwrap();
    let options = GradScalerOptions::default().init_scale(4.0).growth_interval(2);
    let scaler = GradScaler::new_with(options).unwrap();
    let (mut scales, mut values) = (Vec::new(), Vec::new());
    for g in [1.0, 1.0, f64::INFINITY, 1.0, 1.0, 1.0] {
        let scaled = g * f64::from(scaler.factor().unwrap());
        w.set_grad(Some(&Tensor::full([1], scaled).unwrap())).unwrap();
        let stepped = scaler.step(&optimizer).unwrap();
        assert_eq!(stepped.item::<bool>().unwrap(), g.is_finite());
        assert!(scaler.step(&optimizer).is_err());
        scaler.update().unwrap();
        scales.push(scaler.factor().unwrap());
        values.push(w.to_vec::<f32>().unwrap()[0]);
    }
    assert_eq!(scales, [4.0, 8.0, 4.0, 4.0, 8.0, 8.0]);
    assert_eq!(values, [0.0, -1.0, -1.0, -2.0, -3.0, -4.0]);
    w.set_grad(Some(&Tensor::ones([1]).unwrap())).unwrap();
    scaler.unscale_(&optimizer).unwrap();
    let error = scaler.unscale_(&optimizer).unwrap_err();
    assert!(
        error.to_string().contains(
            "unscale_() has already been called on this optimizer since the last update()."
        )
    );
}
