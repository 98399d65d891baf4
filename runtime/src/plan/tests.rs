//! Plans end to end: arguments, arenas, threads, runtime kernels.

use super::*;
use smallvec::smallvec;
use straightline_passes::ir::{self, Arg, DType, Dims, Scalar};
use straightline_passes::schedule::loops::*;

fn buffer(kind: BufferKind, len: usize) -> Buffer {
    Buffer { dtype: DType::F32, len, kind, name: String::new() }
}

fn along(axis: u32) -> Index {
    Index { terms: smallvec![(AxisId(axis), 1)], ..Index::default() }
}

fn inst(op: Op) -> Inst {
    Inst::new(op, DType::F32)
}

/// `to[i] = from[i] * by + by` as a kernel.
fn scale(from: u32, to: u32, n: i64, by: f64) -> Step {
    Step::Kernel(Kernel {
        name: "scale".into(),
        grid: smallvec![Axis { id: AxisId(0), extent: n }],
        stages: vec![Stage {
            axes: smallvec![],
            body: vec![
                inst(Op::Load { mem: Mem::Buffer(BufferId(from)), index: along(0) }),
                inst(Op::Const(Scalar::Float(by))),
                inst(Op::Binary(BinaryOp::Mul, Val(0), Val(1))),
                inst(Op::Binary(BinaryOp::Add, Val(2), Val(1))),
                inst(Op::Store { mem: Mem::Buffer(BufferId(to)), index: along(0), value: Val(3) }),
            ],
        }],
        vectorize: Vectorize::Grid,
        scratch: vec![],
        work_per_point: 4,
        in_any_order: false,
        ops: vec![],
    })
}

/// input -> arena -> arena -> output, three kernels.
fn chain(n: i64) -> Schedule {
    let bytes = (n as usize * 4).next_multiple_of(64);
    Schedule {
        buffers: vec![
            buffer(BufferKind::Input(0), n as usize),
            buffer(BufferKind::Arena { offset: 0 }, n as usize),
            buffer(BufferKind::Arena { offset: bytes }, n as usize),
            buffer(BufferKind::Output(0), n as usize),
        ],
        steps: vec![scale(0, 1, n, 2.0), scale(1, 2, n, 0.5), scale(2, 3, n, 4.0)],
        arena_bytes: 2 * bytes,
        ..Schedule::default()
    }
}

fn run_chain(plan: &Plan, x: &mut [f32]) -> Vec<f32> {
    let mut y = vec![0f32; x.len()];
    // SAFETY: both slices have the elements that the schedule says.
    unsafe { plan.run(&[ArgPtr::new(x.as_mut_ptr().cast())], &[], &[y.as_mut_ptr().cast()]) }
        .expect("runs");
    y
}

#[test]
fn temporaries_pass_through_the_arena() {
    for n in [1, 6, 64, 1000] {
        let plan = Plan::compile(chain(n), &PlanOptions::default()).expect("compiles");
        let mut x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let y = run_chain(&plan, &mut x);
        for (x, y) in x.iter().zip(&y) {
            assert_eq!(*y, ((x * 2.0 + 2.0) * 0.5 + 0.5) * 4.0 + 4.0);
        }
        assert!(plan.code_bytes() > 0);
        assert_eq!(plan.timings().passes().len(), 2);
    }
}

#[test]
fn a_plan_measures_its_steps_if_asked() {
    let plain = Plan::compile(chain(6), &PlanOptions::default()).expect("compiles");
    assert_eq!(plain.step_times(), None);
    let options = PlanOptions { time_steps: true, ..PlanOptions::default() };
    for n in [6, 100_000] {
        let plan = Plan::compile(chain(n), &options).expect("compiles");
        assert_eq!(plan.step_times(), Some(StepTimes::default()));
        let mut x = vec![1f32; n as usize];
        for runs in 1..4 {
            assert!(run_chain(&plan, &mut x).iter().all(|y| *y == 14.0));
            let times = plan.step_times().expect("measured");
            assert_eq!((times.runs, times.steps.len()), (runs, 3));
        }
        // what did not end well is not a run
        // SAFETY: nothing is run without arguments.
        unsafe { plan.run(&[], &[], &[]) }.expect_err("no arguments");
        assert_eq!(plan.step_times().map(|t| t.runs), Some(3));
    }
}

#[test]
fn sixty_four_threads_share_a_plan() {
    let plan = Plan::compile(chain(301), &PlanOptions::default()).expect("compiles");
    std::thread::scope(|scope| {
        for t in 0..64 {
            let plan = &plan;
            scope.spawn(move || {
                for round in 0..50 {
                    let mut x = vec![(t * 100 + round) as f32; 301];
                    let want = ((x[0] * 2.0 + 2.0) * 0.5 + 0.5) * 4.0 + 4.0;
                    assert!(run_chain(plan, &mut x).iter().all(|y| *y == want));
                }
            });
        }
    });
}

#[test]
fn missing_arguments_are_an_error() {
    let plan = Plan::compile(chain(4), &PlanOptions::default()).expect("compiles");
    // SAFETY: nothing is run without arguments.
    let error = unsafe { plan.run(&[], &[], &[]) }.expect_err("no arguments");
    assert_eq!(
        error.to_string(),
        "the plan takes 1 inputs, 0 parameters and 1 outputs; it was given 0, 0 and 0"
    );
}

#[test]
fn texts_are_kept_on_request() {
    let options = PlanOptions { keep_clif: true, keep_asm: true, ..PlanOptions::default() };
    let plan = Plan::compile(chain(64), &options).expect("compiles");
    assert!(plan.clif().expect("kept").contains("function"));
    assert!(!plan.asm().expect("kept").is_empty());
    let plan = Plan::compile(chain(64), &PlanOptions::default()).expect("compiles");
    assert!(plan.clif().is_none() && plan.asm().is_none());
}

fn view(buffer: u32, sizes: &[i64], strides: &[i64]) -> BufferView {
    BufferView {
        buffer: BufferId(buffer),
        dtype: DType::F32,
        sizes: Dims::from_slice(sizes),
        strides: Dims::from_slice(strides),
        offset: 0,
    }
}

/// `out = activation(a @ b + bias) + residual` over a batch, `b` shared or not.
fn product(batch: i64, shared: bool, pack_b: bool, activation: Activation) -> Schedule {
    let (m, k, n) = (3, 5, 4);
    let b_batch = if shared { 0 } else { k * n };
    let dense = |rows, cols| [rows * cols, cols, 1];
    Schedule {
        buffers: vec![
            buffer(BufferKind::Input(0), (batch * m * k) as usize),
            buffer(BufferKind::Parameter(0), (batch * k * n) as usize),
            buffer(BufferKind::Parameter(1), n as usize),
            buffer(BufferKind::Input(1), (batch * m * n) as usize),
            buffer(BufferKind::Output(0), (batch * m * n) as usize),
        ],
        steps: vec![Step::Extern(Extern::Matmul(Matmul {
            a: view(0, &[batch, m, k], &dense(m, k)),
            b: view(1, &[batch, k, n], &[b_batch, n, 1]),
            out: view(4, &[batch, m, n], &dense(m, n)),
            bias: Some(view(2, &[n], &[1])),
            activation,
            residual: (activation != Activation::None)
                .then(|| view(3, &[batch, m, n], &dense(m, n))),
            pack_b,
        }))],
        ..Schedule::default()
    }
}

#[test]
fn products_with_and_without_packing_agree_and_see_new_weights() {
    for batch in [1, 3] {
        for (shared, activation) in [
            (true, Activation::Relu),
            (false, Activation::Relu),
            (true, Activation::None),
            (false, Activation::None),
        ] {
            let plans = [true, false].map(|pack| {
                let s = product(batch, shared, pack, activation);
                Plan::compile(s, &PlanOptions::default()).expect("compiles")
            });
            let len = |per: i64| (batch * per) as usize;
            let mut a: Vec<f32> = (0..len(15)).map(|i| (i % 7) as f32 - 3.0).collect();
            let mut w: Vec<f32> = (0..len(20)).map(|i| (i % 5) as f32 - 2.0).collect();
            let mut bias = [1f32, -2.0, 3.0, -4.0];
            let mut residual: Vec<f32> = (0..len(12)).map(|i| i as f32).collect();
            // weights that stay, and that change from call to call
            for version in [0, 1, 2, 2, 2, 3, 3] {
                w[1] = version as f32;
                let mut want = vec![0f32; len(12)];
                for (i, out) in want.iter_mut().enumerate() {
                    let (z, r, c) = (i / 12, i / 4 % 3, i % 4);
                    let zb = if shared { 0 } else { z };
                    let sum: f32 =
                        (0..5).map(|t| a[z * 15 + r * 5 + t] * w[zb * 20 + t * 4 + c]).sum();
                    let x = sum + bias[c];
                    *out = match activation {
                        Activation::None => x,
                        _ => x.max(0.0) + residual[i],
                    };
                }
                for plan in &plans {
                    let mut y = vec![0f32; len(12)];
                    let weight = ArgPtr { ptr: w.as_mut_ptr().cast(), version };
                    // SAFETY: the slices have the elements that the schedule says.
                    unsafe {
                        plan.run(
                            &[
                                ArgPtr::new(a.as_mut_ptr().cast()),
                                ArgPtr::new(residual.as_mut_ptr().cast()),
                            ],
                            &[weight, ArgPtr::new(bias.as_mut_ptr().cast())],
                            &[y.as_mut_ptr().cast()],
                        )
                    }
                    .expect("runs");
                    assert_eq!(y, want, "batch {batch} shared {shared} {activation:?}");
                }
            }
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_an_error() {
    let mut s = product(1, true, false, Activation::None);
    let Step::Extern(Extern::Matmul(m)) = &mut s.steps[0] else { unreachable!("made above") };
    m.b.sizes[1] = 6;
    let error = Plan::compile(s, &PlanOptions::default()).expect_err("k differs");
    assert!(matches!(error, PlanError::Matmul { step: 0, .. }), "{error}");
}

/// An operator from outside of this name.
fn named(op: &str) -> ir::Op {
    let schema = format!("{op}(Tensor x, int by) -> Tensor");
    ir::Op::define(&schema.parse().expect("a schema"), &["pure"])
}

fn extern_schedule(op: &str) -> Schedule {
    Schedule {
        buffers: vec![
            buffer(BufferKind::Input(0), 4),
            buffer(BufferKind::Arena { offset: 0 }, 4),
            buffer(BufferKind::Output(0), 4),
        ],
        steps: vec![
            scale(0, 1, 4, 1.0),
            Step::Extern(Extern::Op {
                op: named(op),
                args: vec![Arg::Tensor(0), Arg::Scalar(Scalar::Int(10))],
                inputs: vec![view(1, &[4], &[1])],
                outputs: vec![view(2, &[4], &[1])],
                unread: 0,
                site: None,
            }),
        ],
        arena_bytes: 64,
        ..Schedule::default()
    }
}

fn registry() -> Arc<ExternRegistry> {
    let mut r = ExternRegistry::new();
    r.register(named("test::add"), |cx: &ExternCtx<'_>| {
        let by = cx.args[1].as_int().ok_or("no number")? as f32;
        for i in 0..cx.outputs[0].sizes[0] as usize {
            // SAFETY: the views have four contiguous elements.
            unsafe {
                *cx.outputs[0].ptr.cast::<f32>().add(i) =
                    *cx.inputs[0].ptr.cast::<f32>().add(i) + by
            };
        }
        Ok(())
    });
    r.register(named("test::fail"), |_: &ExternCtx<'_>| Err("it does not work".into()));
    r.register(named("test::panic"), |_: &ExternCtx<'_>| panic!("out of luck"));
    Arc::new(r)
}

#[test]
fn runtime_kernels_are_called_by_name_and_may_fail() {
    let options = PlanOptions { externs: registry(), ..PlanOptions::default() };
    let mut x = [1f32, 2.0, 3.0, 4.0];
    let mut run = |op: &str| {
        let plan = Plan::compile(extern_schedule(op), &options)?;
        let mut y = [0f32; 4];
        // SAFETY: four elements each.
        unsafe { plan.run(&[ArgPtr::new(x.as_mut_ptr().cast())], &[], &[y.as_mut_ptr().cast()]) }
            .map(|()| y)
    };
    assert_eq!(run("test::add").expect("runs"), [12.0, 13.0, 14.0, 15.0]);
    let failed = run("test::fail").expect_err("fails").to_string();
    assert_eq!(failed, "test::fail failed (step 1): it does not work");
    let panicked = run("test::panic").expect_err("panics").to_string();
    assert_eq!(panicked, "test::panic failed (step 1): out of luck");
    match run("test::missing") {
        Err(PlanError::UnsupportedOperator { op, step: 1 }) => assert_eq!(op, "test::missing"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn malformed_loop_ir_is_an_error() {
    let broken: [fn(&mut Kernel); 4] = [
        |k| k.stages[0].body[3].op = Op::Binary(BinaryOp::Add, Val(2), Val(9)),
        |k| k.stages[0].body[0].op = Op::Load { mem: Mem::Buffer(BufferId(7)), index: along(0) },
        |k| k.stages[0].body[1].op = Op::Carry { stage: 0, value: Val(0) },
        |k| k.stages[0].body[2].dtype = DType::I64,
    ];
    for (i, f) in broken.into_iter().enumerate() {
        let mut s = chain(8);
        let Step::Kernel(k) = &mut s.steps[0] else { unreachable!("made above") };
        f(k);
        let error = Plan::compile(s, &PlanOptions::default()).expect_err("malformed");
        assert!(error.to_string().contains("malformed"), "{i}: {error}");
    }
}
