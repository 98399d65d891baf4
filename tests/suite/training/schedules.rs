//! Learning rates before steps 0, 1, ..., as PyTorch gives them.

use straightline::nn::{Linear, Module};
use straightline::optim::{
    Better, ChainedLr, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, Cycle, CyclicLr,
    ExponentialLr, LambdaLr, LinearLr, LrScheduler, MultiStepLr, MultiplicativeLr, OneCycleLr,
    Optimizer, PolynomialLr, ReduceLrOnPlateau, Schedule, SequentialLr, Sgd, StepLr,
};

fn optimizer() -> Sgd {
    Sgd::new(Linear::new(1, 1).unwrap().parameters(), 1.0).unwrap()
}

#[track_caller]
fn check(schedule: impl Schedule, expected: &[f64]) {
    let optimizer = optimizer();
    let scheduler = LrScheduler::new(schedule, &optimizer).unwrap();
    for (step, expected) in expected.iter().enumerate() {
        let found = optimizer.lr(0).unwrap();
        assert!((found - expected).abs() < 1e-6, "step {step}: {found}, not {expected}");
        scheduler.step(&optimizer).unwrap();
    }
}

#[test]
fn functions_of_the_step() {
    check(StepLr { every: 2, gamma: 0.1 }, &[1.0, 1.0, 0.1, 0.1, 0.01]);
    check(MultiStepLr { milestones: vec![1, 3], gamma: 0.5 }, &[1.0, 0.5, 0.5, 0.25, 0.25]);
    check(ExponentialLr { gamma: 0.5 }, &[1.0, 0.5, 0.25]);
    check(LinearLr { start: 0.25, end: 1.0, steps: 4 }, &[0.25, 0.4375, 0.625, 0.8125, 1.0, 1.0]);
    check(ConstantLr { factor: 0.5, steps: 3 }, &[0.5, 0.5, 0.5, 1.0]);
    check(PolynomialLr { steps: 5, power: 2.0 }, &[1.0, 0.64, 0.36, 0.16, 0.04, 0.0, 0.0]);
    check(LambdaLr(|e| 1.0 / (e + 1) as f64), &[1.0, 0.5, 1.0 / 3.0]);
    check(MultiplicativeLr(|e| 1.0 / (e + 1) as f64), &[1.0, 0.5, 1.0 / 6.0]);
}

#[test]
fn cosines() {
    check(
        CosineAnnealingLr { period: 6, min: 0.1 },
        &[1.0, 0.939711, 0.775, 0.55, 0.325, 0.160289, 0.1, 0.160289],
    );
    let restarts = CosineAnnealingWarmRestarts { first: 3, factor: 2, min: 0.0 };
    check(restarts, &[1.0, 0.75, 0.25, 1.0, 0.933013, 0.75, 0.5, 0.25, 0.066987, 1.0]);
    check(
        OneCycleLr::new(1.0, 8),
        &[0.04, 0.819275, 0.971942, 0.811746, 0.555984, 0.283061, 0.076642, 4e-06],
    );
}

#[test]
fn sequences_and_cycles() {
    let warmup = LinearLr { start: 0.5, end: 1.0, steps: 2 };
    check(
        SequentialLr::new(warmup).then(2, CosineAnnealingLr { period: 4, min: 0.0 }),
        &[0.5, 0.75, 1.0, 0.853553, 0.5, 0.146447, 0.0, 0.146447],
    );
    let cycle = |cycle| CyclicLr { min: 0.1, max: 0.5, up: 2, down: 2, cycle };
    check(cycle(Cycle::Triangular), &[0.1, 0.3, 0.5, 0.3, 0.1, 0.3, 0.5]);
    check(cycle(Cycle::Halving), &[0.1, 0.3, 0.5, 0.3, 0.1, 0.2, 0.3]);
    check(cycle(Cycle::Exponential(0.5)), &[0.1, 0.2, 0.2, 0.125, 0.1]);
}

#[test]
fn schedules_at_once() {
    let constant = ConstantLr { factor: 0.5, steps: 3 };
    check(
        ChainedLr::new(constant).and(ExponentialLr { gamma: 0.9 }),
        &[0.5, 0.45, 0.405, 0.729, 0.6561, 0.59049],
    );
    let cosine = CosineAnnealingLr { period: 6, min: 0.1 };
    check(
        ChainedLr::new(LinearLr { start: 0.25, end: 1.0, steps: 4 }).and(cosine),
        &[
            0.25, 0.41489178, 0.49605775, 0.46325005, 0.33507695, 0.16298868, 0.1, 0.16028856,
            0.325, 0.55,
        ],
    );
    check(
        ChainedLr::new(MultiStepLr { milestones: vec![2, 3], gamma: 0.5 })
            .and(MultiplicativeLr(|_| 0.95))
            .and(PolynomialLr { steps: 5, power: 2.0 }),
        &[1.0, 0.608, 0.16245, 0.034295, 0.00814506, 0.0, 0.0, 0.0],
    );
}

#[test]
fn more_of_each() {
    check(
        OneCycleLr { linear: true, ..OneCycleLr::new(1.0, 10) },
        &[0.04, 0.52, 1.0, 0.85714343, 0.71428686, 0.57143029, 0.42857371, 0.28571714, 0.14286057],
    );
    check(
        SequentialLr::new(ConstantLr { factor: 0.1, steps: 2 })
            .then(2, ExponentialLr { gamma: 0.9 })
            .then(5, StepLr { every: 1, gamma: 0.5 }),
        &[0.1, 0.1, 1.0, 0.9, 0.81, 1.0, 0.5, 0.25],
    );
    check(
        CyclicLr { min: 0.1, max: 0.5, up: 3, down: 2, cycle: Cycle::Exponential(0.9) },
        &[0.1, 0.22, 0.316, 0.3916, 0.23122, 0.1, 0.1708588, 0.22754584, 0.27218688],
    );
    let optimizer = optimizer();
    let mut plateau = ReduceLrOnPlateau {
        better: Better::Higher,
        factor: 0.5,
        patience: 1,
        threshold: 0.1,
        absolute: true,
        cooldown: 1,
        min_lr: 0.2,
        ..Default::default()
    };
    let metrics = [1.0, 1.05, 1.2, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1];
    let rates = metrics.map(|m| {
        plateau.step(&optimizer, m).unwrap();
        optimizer.lr(0).unwrap()
    });
    assert_eq!(rates, [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2]);
}

#[test]
fn a_plateau_has_patience_and_cools_down() {
    let optimizer = optimizer();
    let mut plateau = ReduceLrOnPlateau { patience: 2, cooldown: 1, ..Default::default() };
    let mut rates = Vec::new();
    for metric in [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0] {
        plateau.step(&optimizer, metric).unwrap();
        rates.push(optimizer.lr(0).unwrap());
    }
    let expected = [1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.01];
    for (found, expected) in rates.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12, "{rates:?}");
    }
    let mut plateau =
        ReduceLrOnPlateau { better: Better::Higher, patience: 0, ..Default::default() };
    plateau.step(&optimizer, 0.5).unwrap();
    plateau.step(&optimizer, 0.4).unwrap();
    assert!((optimizer.lr(0).unwrap() - 0.001).abs() < 1e-12);
}

#[test]
fn a_schedule_goes_on_where_it_was() {
    let optimizer = optimizer();
    let schedule = || CosineAnnealingLr { period: 6, min: 0.1 };
    let first = LrScheduler::new(schedule(), &optimizer).unwrap();
    for _ in 0..3 {
        first.step(&optimizer).unwrap();
    }
    let second = LrScheduler::new(schedule(), &optimizer).unwrap();
    second.load_state_dict(&first.state_dict().unwrap()).unwrap();
    second.step(&optimizer).unwrap();
    assert_eq!(second.last_step().unwrap(), 4);
    assert!((optimizer.lr(0).unwrap() - 0.325).abs() < 1e-12);
}
