//! More rules of optimisers, each from 1 with the same eight gradients, as PyTorch has them; and what
//! a step that fails leaves behind.

use straightline::nn::Parameter;
use straightline::optim::{
    AdadeltaOptions, AdamOptions, AdamWOptions, AdamaxOptions, AsgdOptions, NAdamOptions, Optim,
    Optimizer, RAdamOptions, RpropOptions, Rule, SgdOptions, State,
};
use straightline::{DType, Error, ErrorKind, Result, Tensor, compile};

const GRADS: [f64; 8] = [1.0, -2.0, 0.5, 0.25, 0.25, -0.5, 1.0, 0.75];

fn number(x: f64) -> Tensor {
    Tensor::with(DType::F64).literal([x]).unwrap()
}

fn one() -> Parameter {
    Parameter::new(&number(1.0)).unwrap()
}

/// Eagerly, and compiled.
#[track_caller]
fn check<R: Rule + Send + Sync + 'static>(options: R, expected: [f64; 8]) {
    let (eager, compiled) = (one(), one());
    let optimizer = Optim::<R>::new([eager.tensor().clone()], options.clone()).unwrap();
    let other = Optim::<R>::new([compiled.tensor().clone()], options).unwrap();
    let inside = compiled.clone();
    let step = compile(move |g: &Tensor| {
        inside.set_grad(g)?;
        other.step()?;
        g.add(1)
    });
    for (i, (g, expected)) in GRADS.into_iter().zip(expected).enumerate() {
        eager.set_grad(Some(&number(g))).unwrap();
        optimizer.step().unwrap();
        step.call(&number(g)).unwrap();
        for (how, w) in [("eager", &eager), ("compiled", &compiled)] {
            let found = w.item::<f64>().unwrap();
            let error = (found - expected).abs() / expected.abs();
            assert!(error < 1e-12, "{how}, step {i}: {found}, not {expected}");
        }
    }
    assert_eq!(step.variants(), 1);
}

#[test]
fn adadelta() {
    let adadelta = AdadeltaOptions::default().lr(0.5);
    check(
        adadelta,
        [
            0.9984188690755507,
            1.000439167052409,
            0.999750838446647,
            0.9993939945184087,
            0.9990315710099629,
            0.9997497700502079,
            0.9984205112141518,
            0.9973614155295181,
        ],
    );
    check(
        adadelta.rho(0.8).weight_decay(0.1).maximize(true),
        [
            1.0011180305380436,
            0.9996416375846289,
            1.0000521356461924,
            1.000214346959357,
            1.0003827647658232,
            0.9997276441850788,
            1.00066791396502,
            1.0014204629384313,
        ],
    );
}

#[test]
fn adamax() {
    let adamax = AdamaxOptions::default().lr(0.1);
    check(
        adamax,
        [
            0.900000001,
            0.9289473692763158,
            0.9379970092770177,
            0.9407795415946688,
            0.9398230964652398,
            0.9444269259034973,
            0.938519959639156,
            0.9270212896806032,
        ],
    );
    check(
        adamax.betas(0.8, 0.99).weight_decay(0.1),
        [
            0.9000000009090909,
            0.9299592794013959,
            0.9349660909463511,
            0.9320943939070757,
            0.924547565150988,
            0.9250116599927363,
            0.9101402543548809,
            0.8874891245437735,
        ],
    );
}

#[test]
fn nadam() {
    let nadam = NAdamOptions::default().lr(0.1);
    check(
        nadam,
        [
            0.8943548219229727,
            0.9850105709376239,
            0.9638830473226355,
            0.9522043493613184,
            0.9383521070095192,
            0.968998074383326,
            0.9094231238520015,
            0.8596507831915117,
        ],
    );
    check(
        nadam.weight_decay(0.1).momentum_decay(0.1),
        [
            0.8942937539202864,
            0.9814728026816344,
            0.9550656767402501,
            0.9375435631006676,
            0.917292184451941,
            0.9401909604059455,
            0.8751343995331152,
            0.8199338229070565,
        ],
    );
    check(
        nadam.weight_decay(0.1).decoupled_weight_decay(true),
        [
            0.8843548219229727,
            0.9661670227183942,
            0.9353778288762218,
            0.9143453526261424,
            0.8913496567480818,
            0.9130821275544077,
            0.8443763557475391,
            0.7861602515295738,
        ],
    );
}

#[test]
fn radam() {
    let radam = RAdamOptions::default().lr(0.1);
    check(
        radam,
        [
            0.9,
            0.9578947368421054,
            0.9759759176539134,
            0.9815298577527795,
            0.9796227004184043,
            0.9798674403273641,
            0.9794716246397105,
            0.9785367792324875,
        ],
    );
    check(
        radam.weight_decay(0.1).decoupled_weight_decay(true),
        [
            0.89,
            0.9389947368421052,
            0.9476859702854923,
            0.9437630506815033,
            0.9324182628403132,
            0.9233388201208698,
            0.9137096162320075,
            0.9036376746624645,
        ],
    );
    check(
        radam.weight_decay(0.1).betas(0.8, 0.9),
        [
            0.89,
            0.9472777777777778,
            0.9567069672131148,
            0.9512322748369788,
            0.9371195439160327,
            0.9373267661274117,
            0.9277446605664166,
            0.9103076927430678,
        ],
    );
}

#[test]
fn rprop_and_asgd() {
    let rprop = RpropOptions::default().lr(0.1);
    check(rprop, [0.9, 0.9, 0.85, 0.79, 0.718, 0.718, 0.682, 0.6388]);
    check(
        rprop.etas(0.4, 1.5).step_sizes(0.05, 0.12).maximize(true),
        [1.1, 1.1, 1.15, 1.225, 1.3375, 1.3375, 1.3875, 1.4625],
    );
    check(
        AsgdOptions::default().lr(0.1).lambd(0.01).t0(3.0).weight_decay(0.1),
        [
            0.8889999983459711,
            1.0790784535004956,
            1.0173012346172732,
            0.9811921357182717,
            0.9455060268321154,
            0.9849576083470216,
            0.8746192273781068,
            0.7904399735100892,
        ],
    );
}

#[test]
fn what_the_first_rules_can_also_be_told() {
    check(
        AdamOptions::default().lr(0.1).amsgrad(true).maximize(true),
        [
            1.099999999,
            1.0633896465279251,
            1.0497205803261784,
            1.044899814830348,
            1.0467402367705991,
            1.0372619489445056,
            1.0493520548156865,
            1.0734844009034175,
        ],
    );
    check(
        AdamWOptions::default().lr(0.1).amsgrad(true),
        [
            0.899000001,
            0.9347113534710749,
            0.9474457083193505,
            0.9513190281068615,
            0.9485272871385035,
            0.9570570476774586,
            0.9440098847586003,
            0.9189335287861108,
        ],
    );
    check(
        SgdOptions::default().lr(0.1).momentum(0.9).nesterov(true).weight_decay(0.1).maximize(true),
        [
            1.171,
            0.841651,
            0.814784531,
            0.785198661811,
            0.7759856657454909,
            0.6425170295936674,
            0.7521713044864561,
            0.8948515503710662,
        ],
    );
}

/// Adam, which fails at gradients of two numbers and at infinite ones.
#[derive(Clone)]
struct Fails(AdamOptions);

impl Rule for Fails {
    fn lr(&self) -> f64 {
        Rule::lr(&self.0)
    }

    fn state(&self, p: &Tensor) -> Result<State> {
        self.0.state(p)
    }

    fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()> {
        self.0.update(p, grad, lr, state)?;
        if grad.numel() == 2 {
            return Err(Error::new(ErrorKind::Value("two numbers".into())));
        }
        let last = grad.flatten()?.i(-1)?;
        let finite = last.isfinite()?;
        straightline::ops::aten::_assert_async_msg(&finite, "an infinite gradient")
    }
}

fn leaf(n: i64) -> Tensor {
    Tensor::ones([n]).unwrap().requires_grad_(true).unwrap()
}

fn values(optimizer: &dyn Optimizer) -> Vec<Vec<f32>> {
    let state = optimizer.state_dict().unwrap();
    let lists = state.iter().filter(|(name, _)| !name.ends_with(".lr")).map(|(_, t)| t.clone());
    let all = optimizer.parameters().into_iter().chain(lists);
    all.map(|t| t.detach().unwrap().flatten().unwrap().to_vec::<f32>().unwrap()).collect()
}

#[test]
fn a_first_step_that_fails_changes_nothing() {
    let parameters = [leaf(3), leaf(2), leaf(1)];
    let rule = Fails(AdamOptions::default().lr(0.1));
    let optimizer = Optim::<Fails>::new(parameters.clone(), rule).unwrap();
    for p in &parameters {
        p.set_grad(Some(&p.ones_like().unwrap())).unwrap();
    }
    let before = values(&optimizer);
    let e = optimizer.step().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Value(text) if text == "two numbers"), "{e}");
    assert_eq!(values(&optimizer), before);
    // without the one at which it fails
    parameters[1].set_grad(None).unwrap();
    optimizer.step().unwrap();
    let after = values(&optimizer);
    assert!(after[0][0] < 1.0 && after[1] == before[1] && after[2][0] < 1.0);
    // a gradient of a new kind
    parameters[1].set_grad(Some(&Tensor::ones([2]).unwrap())).unwrap();
    assert!(optimizer.step().is_err());
    assert_eq!(values(&optimizer), after);
}

#[test]
fn a_later_step_that_fails_says_what_it_has_changed() {
    let parameters = [leaf(3), leaf(4), leaf(1)];
    let rule = Fails(AdamOptions::default().lr(0.1));
    let optimizer = Optim::<Fails>::new(parameters.clone(), rule).unwrap();
    let grads = |x: f32| {
        for (p, x) in parameters.iter().zip([1.0, x, 1.0]) {
            p.set_grad(Some(&p.full_like(x).unwrap())).unwrap();
        }
    };
    grads(1.0);
    optimizer.step().unwrap();
    let before = values(&optimizer);
    grads(f32::INFINITY);
    let e = optimizer.step().unwrap_err();
    let ErrorKind::PartialStep { updated: 1, all: 3, source } = e.kind() else { panic!("{e}") };
    assert!(source.to_string().contains("an infinite gradient"), "{source}");
    let after = values(&optimizer);
    assert!(after[0] != before[0] && after[2] == before[2]);
}

#[test]
fn a_compiled_step_that_fails_changes_nothing() {
    let parameters = [leaf(3), leaf(4)];
    let rule = Fails(AdamOptions::default().lr(0.1));
    let optimizer = Optim::<Fails>::new(parameters.clone(), rule).unwrap();
    let (inside, stepped) = (optimizer.clone(), parameters.clone());
    let step = compile(move |x: &Tensor| {
        for p in &stepped {
            p.set_grad(None)?;
        }
        let loss = stepped[0].sum()?.add(stepped[1].mul(x)?.sum()?)?;
        loss.backward()?;
        inside.step()?;
        loss.detach()
    });
    step.call(&Tensor::ones([4]).unwrap()).unwrap();
    let before = values(&optimizer);
    let e = step.call(&Tensor::full([4], f32::INFINITY).unwrap()).unwrap_err();
    assert!(e.to_string().contains("an infinite gradient"), "{e}");
    assert_eq!(values(&optimizer), before);
    step.call(&Tensor::ones([4]).unwrap()).unwrap();
    assert!(values(&optimizer) != before);
}
