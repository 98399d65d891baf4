use super::*;
use crate::ir::Op as Known;

fn names(op: &Op) -> String {
    match op {
        Op::Input(i) => format!("input {i}"),
        Op::Const(c) => format!("{c}"),
        Op::Cast(a) => format!("cast {}", a.0),
        Op::Unary(op, a) => format!("{op:?} {}", a.0),
        Op::Binary(op, a, b) => format!("{op:?} {} {}", a.0, b.0),
        Op::Compare(op, a, b) => format!("{op:?} {} {}", a.0, b.0),
        Op::Select(c, a, b) => format!("select {} {} {}", c.0, a.0, b.0),
    }
}

/// The program of an operator for a call with these operands and attributes.
fn program(
    op: Known,
    dtype: DType,
    operands: &[(usize, DType)],
    attributes: &[(&'static str, Attribute)],
) -> Option<Program> {
    record(dtype, operands, attributes, of(op).expect("a formula").record)
}

#[test]
fn a_formula_records_its_operations_in_order() {
    let slope: Attribute = 0.5.into();
    let x = [(0, DType::F32)];
    let attributes = [("negative_slope", slope)];
    let p = program(Known::leaky_relu, DType::F32, &x, &attributes).unwrap();
    let text: Vec<String> = p.body.iter().map(|i| names(&i.op)).collect();
    let expect = ["input 0", "0.0", "Gt 0 1", "0.5", "Mul 0 3", "select 2 0 4"];
    assert_eq!(text, expect);
    assert_eq!(p.outputs[..], [Val(5)]);
}

#[test]
fn half_types_widen_once_and_round_once() {
    let x = [(0, DType::BF16)];
    let p = program(Known::mish, DType::BF16, &x, &[]).unwrap();
    let casts: Vec<DType> =
        (p.body.iter()).filter(|i| matches!(i.op, Op::Cast(_))).map(|i| i.dtype).collect();
    assert_eq!(casts, [DType::F32, DType::BF16]);
    assert_eq!(p.inst(p.outputs[0]).dtype, DType::BF16);
}

#[test]
fn formulas_say_what_they_are_not_defined_for() {
    let x = [(0, DType::I32)];
    assert!(program(Known::elu, DType::I32, &x, &[]).is_none());
    // a missing operand
    assert!(program(Known::elu, DType::F32, &[], &[]).is_none());
    assert!(program(Known::relu6, DType::I32, &x, &[]).is_some());
}

#[test]
fn numbers_take_the_dtype_of_the_value_beside_them() {
    let x = [(0, DType::I8)];
    let attributes = [("min_val", (-1.5).into()), ("max_val", 300.into())];
    let p = program(Known::hardtanh, DType::I8, &x, &attributes).unwrap();
    let constants: Vec<Scalar> = (p.body.iter())
        .filter_map(|i| match i.op {
            Op::Const(c) => Some(c),
            _ => None,
        })
        .collect();
    assert_eq!(constants, [Scalar::Int(-1), Scalar::Int(127)]);
}
