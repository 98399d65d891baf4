use crate::{DType, Error, Result, Tensor, compile};
use num_complex::Complex;

fn f32s(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("f32 in memory")
}

#[test]
fn signs_chain_without_question_marks() -> Result<()> {
    let x = Tensor::from_vec([1f32, 2.0], 2)?;
    let y = Tensor::from_vec([4f32, 8.0], 2)?;
    assert_eq!(f32s(&(&x * 2.0 + 1.0)), [3.0, 5.0]);
    assert_eq!(f32s(&(&x * &x + &y * &y)), [17.0, 68.0]);
    assert_eq!(f32s(&(-(&x * &y) / (2.0 * &x))), [-2.0, -4.0]);
    assert_eq!(f32s(&(1.0 - &x)), [0.0, -1.0]);
    assert_eq!(f32s(&(4.0 / &x)), [4.0, 2.0]);
    assert_eq!(f32s(&(2 * &x - 1)), [1.0, 3.0]);
    assert_eq!(f32s(&((2.0 * &x).abs()? + x.square()?)), [3.0, 8.0]);
    assert_eq!(f32s(&(&x + 1f32 + 1u8 + 1usize + 1i32)), [5.0, 6.0]);
    assert_eq!(f32s(&(x + y)), [5.0, 10.0]);
    Ok(())
}

#[test]
fn numbers_keep_their_kind() -> Result<()> {
    let i = Tensor::from_vec([7i32, -7], 2)?;
    assert_eq!((&i * 2).dtype(), DType::I32);
    assert_eq!((&i * 2.0).dtype(), DType::F32);
    assert_eq!((2 - &i).to_vec::<i32>()?, [-5, 9]);
    assert_eq!((&i / 2).to_vec::<f32>()?, [3.5, -3.5]);
    // the sign of the divisor, as in PyTorch and Python; `fmod` has Rust's
    assert_eq!((&i % 4).to_vec::<i32>()?, [3, 1]);
    assert_eq!((10 % &i).to_vec::<i32>()?, [3, -4]);
    let h = Tensor::from_vec([half::f16::ONE], 1)?;
    assert_eq!((&h + 1.0f64).dtype(), DType::F16);
    assert_eq!((1.0 / &h).dtype(), DType::F16);
    let c = &h * Complex::new(0.0f64, 1.0);
    assert!(c.dtype().is_complex());
    Ok(())
}

#[test]
fn bits() -> Result<()> {
    let (a, b) = (Tensor::from_vec([3i64, 12], 2)?, Tensor::from_vec([6i64, 10], 2)?);
    assert_eq!((&a & &b).to_vec::<i64>()?, [2, 8]);
    assert_eq!((&a | 1).to_vec::<i64>()?, [3, 13]);
    assert_eq!((1 ^ &a).to_vec::<i64>()?, [2, 13]);
    assert_eq!((&a << 2 >> 1).to_vec::<i64>()?, [6, 24]);
    let mask = a.gt(5)? | a.lt(&b)?;
    assert_eq!((!&mask).to_vec::<bool>()?, [false, false]);
    assert_eq!((!mask & true).to_vec::<bool>()?, [false, false]);
    Ok(())
}

#[test]
fn assigning_forms_write_in_place() -> Result<()> {
    let mut x = Tensor::from_vec([1f32, 2.0], 2)?;
    let handle = x.clone();
    x += &handle;
    x *= 3;
    x -= 1.0;
    x /= 5.0;
    x %= 2.0;
    assert_eq!(f32s(&handle), [1.0, f32s(&x)[1]]);
    assert!(handle.is_same(&x));
    let mut bits = Tensor::from_vec([6i64], 1)?;
    bits &= 3;
    bits |= 8;
    bits ^= 1;
    bits <<= 2;
    bits >>= 1;
    assert_eq!(bits.to_vec::<i64>()?, [22]);
    Ok(())
}

/// What a panicking closure said.
fn message(f: impl FnOnce()) -> String {
    let f = std::panic::AssertUnwindSafe(f);
    let payload = std::panic::catch_unwind(f).expect_err("a sign that cannot be computed");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_failing_sign_names_operator_and_line() -> Result<()> {
    let (a, b) = (Tensor::from_vec([1f32, 2.0], 2)?, Tensor::from_vec([1f32, 2.0, 3.0], 3)?);
    for said in [message(|| drop(&a + &b)), message(|| a.clone().add_assign_for_test(&b))] {
        assert!(said.contains("f32[2]") && said.contains("f32[3]"), "{said}");
        assert!(said.contains("operators_tests.rs"), "{said}");
    }
    let said = message(|| drop(2.0 - Tensor::from_vec([true], 1).expect("one element")));
    assert!(said.contains("operators_tests.rs"), "{said}");
    Ok(())
}

impl Tensor {
    fn add_assign_for_test(mut self, other: &Tensor) {
        self += other;
    }
}

/// What the function cannot do is the call's error, as it is at every later call.
#[test]
fn a_failing_sign_is_the_error_of_a_compiled_call() -> Result<()> {
    let f = compile(|x: &Tensor| {
        let three = Tensor::from_vec([1f32, 2.0, 3.0], 3)?;
        Ok(x * 2.0 + three)
    });
    let error: Error = f.call(&Tensor::from_vec([1f32, 2.0], 2)?).unwrap_err();
    assert_eq!(error.op(), Some("aten::add.Tensor"));
    let at = error.location().expect("the user's line");
    assert!(at.file().ends_with("operators_tests.rs"));
    // the thread captures and runs on as if nothing had happened
    let three = Tensor::from_vec([1f32, 2.0, 3.0], 3)?;
    assert_eq!(f32s(&f.call(&three)?), [3.0, 6.0, 9.0]);
    Ok(())
}

/// A panic of the function's own is not the crate's to catch.
#[test]
#[should_panic(expected = "of its own")]
fn other_panics_go_through_a_capture() {
    let f = compile(|_: &Tensor| -> Result<Tensor> { panic!("of its own") });
    let _ = f.call(&Tensor::from_vec([1f32], 1).expect("one element"));
}
