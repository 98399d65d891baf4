use super::{In, KernelError, Out, Strided};
use straightline_passes::formula::{self, Attribute, Builder, Program, record};
use straightline_passes::ir::{DType, Op};

/// # Safety
///
/// As for the operands of [`formula`].
unsafe fn run(
    program: &Program,
    outs: &[Strided<'_>],
    inputs: &[Strided<'_>],
) -> Result<(), KernelError> {
    // SAFETY: as promised by the caller.
    let (outs, inputs): (Vec<Out<'_>>, Vec<In<'_>>) = unsafe {
        let apart = outs.len() != 1;
        let outs = outs.iter().map(|o| Out::new(*o)).collect();
        let inputs = inputs.iter();
        match apart {
            true => (outs, inputs.map(|i| In::new(*i)).collect()),
            false => (outs, inputs.map(|i| In::upon(*i)).collect()),
        }
    };
    super::Formula::new(program.clone()).run(&outs, &inputs)
}

fn strided<'a, T>(
    data: &'a mut [T],
    dtype: DType,
    sizes: &'a [i64],
    strides: &'a [i64],
) -> Strided<'a> {
    Strided { ptr: data.as_mut_ptr().cast(), dtype, sizes, strides }
}

fn program(
    op: Op,
    dtype: DType,
    inputs: usize,
    attributes: &[(&'static str, Attribute)],
) -> Program {
    let operands: Vec<(usize, DType)> = (0..inputs).map(|i| (i, dtype)).collect();
    let formula = formula::of(op).expect("a formula");
    record(dtype, &operands, attributes, formula.record).expect("defined for these operands")
}

#[test]
fn rows_longer_than_tiles_and_odd_ends() {
    let p = program(Op::hardswish, DType::F32, 1, &[]);
    for n in [1usize, 63, 1024, 1025, 70_001] {
        let mut x: Vec<f32> = (0..n).map(|i| (i % 97) as f32 * 0.1 - 5.0).collect();
        let mut y = vec![0f32; n];
        let sizes = [n as i64];
        // SAFETY: both have n elements.
        unsafe {
            let out = strided(&mut y, DType::F32, &sizes, &[1]);
            run(&p, &[out], &[strided(&mut x, DType::F32, &sizes, &[1])]).unwrap();
        }
        for (x, y) in x.iter().zip(&y) {
            assert_eq!(*y, x * (x + 3.0).clamp(0.0, 6.0) / 6.0);
        }
    }
}

#[test]
fn strides_broadcasts_and_in_place() {
    // the result over the memory of its first operand, which is transposed; a row and a number
    // beside it
    let p = program(Op::addcmul, DType::F64, 3, &[("value", 2.0.into())]);
    let mut x: Vec<f64> = (0..12).map(f64::from).collect();
    let (mut row, mut one) = (vec![1.0f64, 2.0, 3.0], vec![10.0f64]);
    let sizes = [4, 3];
    // SAFETY: the strides stay within each buffer.
    unsafe {
        let a = strided(&mut x, DType::F64, &sizes, &[1, 4]);
        let b = strided(&mut row, DType::F64, &sizes, &[0, 1]);
        let c = strided(&mut one, DType::F64, &sizes, &[0, 0]);
        run(&p, &[a], &[a, b, c]).unwrap();
    }
    for (i, y) in x.iter().enumerate() {
        assert_eq!(*y, i as f64 + 2.0 * 10.0 * (i / 4 + 1) as f64);
    }
}

#[test]
fn half_types_compute_widened() {
    let p = program(Op::silu_backward, DType::BF16, 2, &[]);
    let value = |i: usize| ::half::bf16::from_f32(i as f32 * 0.01 - 3.0);
    let n = 700;
    let mut g: Vec<::half::bf16> = (0..n).map(|_| ::half::bf16::from_f32(0.5)).collect();
    // every second element
    let mut x: Vec<::half::bf16> = (0..2 * n).map(|i| value(i / 2)).collect();
    let mut y = vec![::half::bf16::ZERO; n];
    let sizes = [n as i64];
    // SAFETY: n elements each at their strides.
    unsafe {
        let out = strided(&mut y, DType::BF16, &sizes, &[1]);
        let g = strided(&mut g, DType::BF16, &sizes, &[1]);
        run(&p, &[out], &[g, strided(&mut x, DType::BF16, &sizes, &[2])]).unwrap();
    }
    for (i, y) in y.iter().enumerate() {
        let x = value(i).to_f64();
        let s = 1.0 / (1.0 + (-x).exp());
        let want = 0.5 * s * (1.0 + x * (1.0 - s));
        assert!((y.to_f64() - want).abs() <= want.abs() / 250.0 + 1e-6, "{x}: {y} {want}");
    }
}

#[test]
fn two_results_and_shared_parts() {
    let operands = [(0, DType::F32)];
    let p = record(DType::F32, &operands, &[], |b| {
        formula::activation::log_sigmoid_forward(b).map(|y| y.into_iter().collect())
    })
    .unwrap();
    let mut x = [-30.0f32, -1.0, 0.0, 1.0, 30.0];
    let (mut y, mut z) = ([0f32; 5], [0f32; 5]);
    // SAFETY: five elements each.
    unsafe {
        let outs =
            [strided(&mut y, DType::F32, &[5], &[1]), strided(&mut z, DType::F32, &[5], &[1])];
        run(&p, &outs, &[strided(&mut x, DType::F32, &[5], &[1])]).unwrap();
    }
    for i in 0..5 {
        let x = f64::from(x[i]);
        assert!((f64::from(z[i]) - (-x.abs()).exp()).abs() < 1e-7);
        assert!((f64::from(y[i]) + (-x).exp().ln_1p()).abs() < 1e-5);
    }
}

#[test]
fn operations_in_a_half_type_round_each_time() {
    // 1 + 2^-11 is lost in f16, so (x + 2^-11) - x is 0
    let p = record(DType::F16, &[(0, DType::F16)], &[], |b| {
        let x = b.operand(0)?;
        let more = b.plus_n(x, 1.0 / 2048.0);
        Some([b.minus(more, x)].into_iter().collect())
    })
    .unwrap();
    let mut x = [::half::f16::ONE; 3];
    let mut y = [::half::f16::ONE; 3];
    // SAFETY: three elements each.
    unsafe {
        let out = strided(&mut y, DType::F16, &[3], &[1]);
        run(&p, &[out], &[strided(&mut x, DType::F16, &[3], &[1])]).unwrap();
    }
    assert_eq!(y, [::half::f16::ZERO; 3]);
}

#[test]
fn integer_division_by_zero_is_an_error() {
    let p = program(Op::floor_divide, DType::I32, 2, &[]);
    let (mut x, mut y, mut z) = ([-7i32, 7], [2i32, 0], [0i32; 2]);
    // SAFETY: two elements each.
    unsafe {
        let a = strided(&mut x, DType::I32, &[2], &[1]);
        let b = strided(&mut y, DType::I32, &[2], &[1]);
        let out = strided(&mut z, DType::I32, &[2], &[1]);
        assert_eq!(run(&p, &[out], &[a, b]), Err(KernelError::DivisionByZero));
    }
    y[1] = 2;
    // SAFETY: as above.
    unsafe {
        let a = strided(&mut x, DType::I32, &[2], &[1]);
        let b = strided(&mut y, DType::I32, &[2], &[1]);
        let out = strided(&mut z, DType::I32, &[2], &[1]);
        run(&p, &[out], &[a, b]).unwrap();
    }
    assert_eq!(z, [-4, 3]);
}
