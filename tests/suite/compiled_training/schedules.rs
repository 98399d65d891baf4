//! Learning rates that change from step to step, and loss scaling, around and in a compiled step.

use super::*;
use straightline::nn::Parameter;
use straightline::optim::{
    ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, Cycle, CyclicLr, ExponentialLr,
    GradScaler, GradScalerOptions, LambdaLr, LinearLr, LrScheduler, MultiStepLr, OneCycleLr,
    PolynomialLr, Schedule, SequentialLr, Sgd, StepLr,
};
use straightline::{CompileOptions, DType, compile_with};

// what PyTorch gives

const SGD: [f64; 6] = [0.5, 1.05, 1.1725, 1.03275, 1.0948625, 0.90076375];

const ADAM: [f64; 6] = [
    0.5000000045454546,
    0.6595582539181749,
    0.6801821340965982,
    0.6344732145498722,
    0.6399311796310423,
    0.6040956144055044,
];

const SCALED_SGD: [f64; 8] = [
    0.6250003749996249,
    -0.08749891250108766,
    -0.08749891250108766,
    -1.1037478962521041,
    -1.1037478962521041,
    -1.643372356627644,
    -2.3790343709656296,
    -3.416129808870192,
];

const SCALED_ADAMW: [f64; 8] = [
    0.49500000666667326,
    -0.00747498669998331,
    -0.00747498669998331,
    -0.50743760509981,
    -0.50743760509981,
    -0.7141182101556292,
    -0.9646352657949451,
    -1.2696436521603802,
];

const SCALES: [f32; 8] = [4.0, 8.0, 4.0, 4.0, 2.0, 2.0, 4.0, 4.0];

fn number(x: f64) -> Tensor {
    Tensor::with(DType::F64).literal([x]).unwrap()
}

/// A parameter of one number, and a step of an optimiser for the loss `w * x`, whose gradient is
/// `x`.
fn one<R: Rule + Send + Sync + 'static>(
    options: R,
) -> (Parameter, Optim<R>, Compiled<Tensor, Tensor>) {
    let w = Parameter::new(&number(1.0)).unwrap();
    let optimizer = Optim::<R>::new([w.tensor().clone()], options).unwrap();
    let (mine, inside) = (w.clone(), optimizer.clone());
    let step = compile(move |x: &Tensor| {
        inside.zero_grad()?;
        let loss = mine.mul(x)?.sum()?;
        loss.backward()?;
        inside.step()?;
        loss.detach()
    });
    (w, optimizer, step)
}

/// PyTorch's values of the parameter, from 1 with the gradients 1, -2, 0.5, 1, -1, 2, a learning
/// rate of 0.5, and StepLR(2, 0.5) after each step.
#[track_caller]
fn follows<R: Rule + Send + Sync + 'static>(options: R, expected: [f64; 6]) {
    let (w, optimizer, step) = one(options);
    let scheduler = LrScheduler::new(StepLr { every: 2, gamma: 0.5 }, &optimizer).unwrap();
    for (i, (g, expected)) in [1.0, -2.0, 0.5, 1.0, -1.0, 2.0].into_iter().zip(expected).enumerate()
    {
        let before = call_count();
        step.call(&number(g)).unwrap();
        if i > 0 {
            assert_eq!(call_count(), before, "calls in step {i}");
        }
        scheduler.step(&optimizer).unwrap();
        let found = w.item::<f64>().unwrap();
        assert!((found - expected).abs() < 1e-12, "step {i}: {found}, not {expected}");
    }
    assert_eq!(step.variants(), 1);
    all_compiled(&step);
}

#[test]
fn a_compiled_step_follows_a_schedule_around_it() {
    follows(SgdOptions::default().lr(0.5).momentum(0.9), SGD);
    follows(AdamOptions::default().lr(0.5).weight_decay(0.1).amsgrad(true), ADAM);
}

#[test]
fn a_schedule_in_the_step_is_part_of_the_plan() {
    let w = Parameter::new(&number(1.0)).unwrap();
    let options = SgdOptions::default().lr(0.5).momentum(0.9);
    let optimizer = Sgd::new([w.tensor().clone()], options).unwrap();
    let scheduler = LrScheduler::new(StepLr { every: 2, gamma: 0.5 }, &optimizer).unwrap();
    let (mine, inside, schedule) = (w.clone(), optimizer.clone(), scheduler.clone());
    let step = compile(move |x: &Tensor| {
        inside.zero_grad()?;
        let loss = mine.mul(x)?.sum()?;
        loss.backward()?;
        inside.step()?;
        schedule.step(&inside)?;
        loss.detach()
    });
    for (g, expected) in [1.0, -2.0, 0.5, 1.0, -1.0, 2.0].into_iter().zip(SGD) {
        step.call(&number(g)).unwrap();
        assert!((w.item::<f64>().unwrap() - expected).abs() < 1e-12);
    }
    assert_eq!(step.variants(), 1);
    assert_eq!((scheduler.last_step().unwrap(), optimizer.lr(0).unwrap()), (6, 0.0625));
    // outside it goes on where it was
    scheduler.step(&optimizer).unwrap();
    scheduler.step(&optimizer).unwrap();
    assert_eq!(optimizer.lr(0).unwrap(), 0.03125);
}

/// The plan's learning rates are those of eager code, over two groups.
#[track_caller]
fn alike(schedule: impl Fn() -> Box<dyn Schedule + Send + Sync>, steps: u64) {
    let optimizer = || {
        let parameter = || Parameter::new(&number(1.0)).unwrap().tensor().clone();
        let mut optimizer = Sgd::new([parameter()], 1.0).unwrap();
        optimizer.add_group([parameter()], 0.3).unwrap();
        optimizer
    };
    let (eager, compiled) = (optimizer(), optimizer());
    let a = LrScheduler::new(schedule(), &eager).unwrap();
    let b = LrScheduler::new(schedule(), &compiled).unwrap();
    let inside = compiled.clone();
    let step = compile(move |x: &Tensor| {
        b.step(&inside)?;
        x.mul(1)
    });
    for i in 0..steps {
        a.step(&eager).unwrap();
        step.call(&number(0.0)).unwrap();
        for group in 0..2 {
            let (a, b) = (eager.lr(group).unwrap(), compiled.lr(group).unwrap());
            assert!((a - b).abs() < 1e-12, "step {}: {a} and {b}", i + 1);
        }
    }
    assert_eq!(step.variants(), 1);
    all_compiled(&step);
}

#[test]
fn every_schedule_without_a_function_can_be_captured() {
    alike(|| Box::new(StepLr { every: 3, gamma: 0.1 }), 8);
    alike(|| Box::new(MultiStepLr { milestones: vec![1, 3, 3], gamma: 0.5 }), 5);
    alike(|| Box::new(ExponentialLr { gamma: 0.9 }), 4);
    alike(|| Box::new(CosineAnnealingLr { period: 6, min: 0.1 }), 14);
    alike(|| Box::new(CosineAnnealingWarmRestarts { first: 3, factor: 2, min: 0.1 }), 25);
    alike(|| Box::new(CosineAnnealingWarmRestarts { first: 3, factor: 1, min: 0.0 }), 8);
    alike(|| Box::new(LinearLr { start: 0.25, end: 1.0, steps: 4 }), 6);
    alike(|| Box::new(ConstantLr { factor: 0.5, steps: 3 }), 5);
    alike(|| Box::new(PolynomialLr { steps: 5, power: 2.0 }), 7);
    alike(|| Box::new(OneCycleLr::new(1.0, 10)), 10);
    alike(|| Box::new(OneCycleLr { linear: true, ..OneCycleLr::new(1.0, 10) }), 10);
    for cycle in [Cycle::Triangular, Cycle::Halving, Cycle::Exponential(0.9)] {
        alike(move || Box::new(CyclicLr { min: 0.1, max: 0.5, up: 3, down: 2, cycle }), 12);
    }
    let warmup = || LinearLr { start: 0.5, end: 1.0, steps: 2 };
    let sequence =
        move || SequentialLr::new(warmup()).then(2, CosineAnnealingLr { period: 4, min: 0.0 });
    alike(move || Box::new(sequence()), 9);
}

#[test]
fn a_schedule_that_ends_fails_in_the_plan_as_well() {
    let optimizer = Sgd::new([leaf(&[1], 1)], 1.0).unwrap();
    let scheduler = LrScheduler::new(OneCycleLr::new(1.0, 3), &optimizer).unwrap();
    let inside = optimizer.clone();
    let step = compile(move |x: &Tensor| {
        scheduler.step(&inside)?;
        x.mul(1)
    });
    for _ in 0..3 {
        step.call(&number(0.0)).unwrap();
    }
    let last = optimizer.lr(0).unwrap();
    let text = step.call(&number(0.0)).unwrap_err().to_string();
    assert!(text.contains("The specified number of total steps is 3"), "{text}");
    assert_eq!(optimizer.lr(0).unwrap(), last);
}

#[test]
fn a_schedule_of_a_rust_function_stays_outside() {
    let optimizer = Sgd::new([leaf(&[3], 1)], 0.1).unwrap();
    let schedule = LrScheduler::new(LambdaLr(|e| 0.5f64.powf(e as f64)), &optimizer).unwrap();
    let inside = optimizer.clone();
    let f = compile(move |x: &Tensor| {
        schedule.step(&inside)?;
        x.mul(1)
    });
    let line = line!() - 3;
    let text = f.call(&random(&[3], 1)).unwrap_err().to_string();
    assert!(
        text.contains("LrScheduler::step") && text.contains(&format!("schedules.rs:{line}")),
        "{text}"
    );
    assert_eq!(optimizer.lr(0).unwrap(), 0.1);
}

fn scaler() -> GradScaler {
    let options = GradScalerOptions::default().init_scale(4.0).growth_interval(2);
    GradScaler::new_with(options).unwrap()
}

const GRADS: [f64; 8] = [1.0, 1.0, f64::INFINITY, 1.0, f64::NAN, -1.0, 0.5, 1.0];

/// Scaled steps, in a function: the parameter and the scale after each.
fn scaled<R: Rule + Send + Sync + 'static>(options: R, compiled: bool) -> Vec<(f64, f32, bool)> {
    let w = Parameter::new(&number(1.0)).unwrap();
    let optimizer = Optim::<R>::new([w.tensor().clone()], options).unwrap();
    let (scaler, mine) = (scaler(), w.clone());
    let inside = scaler.clone();
    let step = compile(move |x: &Tensor| {
        optimizer.zero_grad()?;
        inside.scale(&mine.mul(x)?.sum()?)?.backward()?;
        inside.unscale_(&optimizer)?;
        clip_grad_norm_(&[mine.tensor().clone()], 0.75)?;
        let stepped = inside.step(&optimizer)?;
        inside.update()?;
        Ok(stepped)
    });
    let each = GRADS.into_iter().enumerate().map(|(i, g)| {
        let before = call_count();
        let x = number(g);
        let stepped = if compiled { step.call(&x) } else { step.eager(&x) }.unwrap();
        assert!(!compiled || i == 0 || call_count() <= before + 1, "calls in step {i}");
        let stepped = stepped.item::<bool>().unwrap();
        (w.item::<f64>().unwrap(), scaler.factor().unwrap(), stepped)
    });
    let found = each.collect();
    if compiled {
        assert_eq!(step.variants(), 1);
        all_compiled(&step);
    }
    found
}

#[track_caller]
fn scales<R: Rule + Send + Sync + Copy + 'static>(options: R, expected: [f64; 8]) {
    for compiled in [false, true] {
        let found = scaled(options, compiled);
        for (i, ((w, scale, stepped), expected)) in found.iter().zip(expected).enumerate() {
            assert!((w - expected).abs() < 1e-12, "step {i}: {w}, not {expected}");
            assert_eq!(*scale, SCALES[i], "step {i}");
            assert_eq!(*stepped, GRADS[i].is_finite(), "step {i}");
        }
    }
}

#[test]
fn a_scaler_in_the_step_skips_infinite_ones_as_pytorch() {
    scales(SgdOptions::default().lr(0.5).momentum(0.9), SCALED_SGD);
    scales(AdamWOptions::default().lr(0.5), SCALED_ADAMW);
}

#[test]
fn a_scaled_step_ends_where_it_began() {
    let optimizer = Sgd::new([leaf(&[3], 1)], 0.1).unwrap();
    let w = optimizer.parameters().remove(0);
    w.set_grad(Some(&random(&[3], 2))).unwrap();
    // it begins in the function
    let scaler = scaler();
    let (inside, mine) = (scaler.clone(), optimizer.clone());
    let f = compile(move |x: &Tensor| {
        inside.step(&mine)?;
        x.mul(1)
    });
    let line = line!() - 3;
    let before = bits(&w);
    let text = f.call(&random(&[3], 1)).unwrap_err().to_string();
    assert!(
        text.contains("does not end in the function")
            && text.contains(&format!("schedules.rs:{line}")),
        "{text}"
    );
    assert_eq!(bits(&w), before);
    // and nothing is left of it
    scaler.step(&optimizer).unwrap();
    assert!(bits(&w) != before);
    // it begins outside of a function
    let (inside, mine) = (scaler.clone(), optimizer.clone());
    let f = compile(move |x: &Tensor| {
        inside.step(&mine)?;
        inside.update()?;
        x.mul(1)
    });
    let text = f.call(&random(&[3], 1)).unwrap_err().to_string();
    assert!(text.contains("has begun outside"), "{text}");
    scaler.update().unwrap();
    f.call(&random(&[3], 1)).unwrap();
    // a plan made between steps is none for the middle of one
    scaler.unscale_(&optimizer).unwrap();
    let text = f.call(&random(&[3], 1)).unwrap_err().to_string();
    assert!(text.contains("has begun outside"), "{text}");
    scaler.update().unwrap();
    f.call(&random(&[3], 1)).unwrap();
    all_compiled(&f);
    // the scale alone may be read anywhere
    let inside = scaler.clone();
    let f = compile(move |x: &Tensor| inside.scale(x));
    let scaled = f.call(&number(0.5)).unwrap().item::<f64>().unwrap();
    assert_eq!(scaled, 0.5 * f64::from(scaler.factor().unwrap()));
}

#[test]
fn a_scaled_step_whose_capture_is_given_up_runs_eagerly() {
    let optimizer = Sgd::new([leaf(&[1], 1)], 1.0).unwrap();
    let w = optimizer.parameters().remove(0);
    let (scaler, mine, begin) = (scaler(), w.clone(), w.detach().unwrap().item::<f32>().unwrap());
    let inside = scaler.clone();
    let options = CompileOptions { eager_fallback: true, ..Default::default() };
    let step = compile_with(options, move |x: &Tensor| {
        optimizer.zero_grad()?;
        inside.scale(&mine.mul(x)?.sum()?)?.backward()?;
        inside.unscale_(&optimizer)?;
        let size = mine.grad().expect("a gradient").item::<f32>()?;
        inside.step(&optimizer)?;
        inside.update()?;
        x.mul(size)
    });
    for i in 1..4 {
        step.call(&tensor([0.25]).unwrap()).unwrap();
        let now = w.detach().unwrap().item::<f32>().unwrap();
        assert!((now - (begin - 0.25 * i as f32)).abs() < 1e-6);
    }
    assert_eq!(scaler.factor().unwrap(), 8.0);
}
