use super::*;

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

fn one(b: Option<Val>) -> Option<smallvec::SmallVec<[Val; 2]>> {
    b.map(|y| [y].into_iter().collect())
}

#[test]
fn a_formula_records_its_operations_in_order() {
    let slope: Attribute = 0.5.into();
    let x = [(0, DType::F32)];
    let attributes = [("negative_slope", slope)];
    let p = record(DType::F32, &x, &attributes, |b| {
        one(activation::leaky_relu(b))
    })
    .unwrap();
    let text: Vec<String> = p.body.iter().map(|i| names(&i.op)).collect();
    let expect = ["input 0", "0.0", "Gt 0 1", "0.5", "Mul 0 3", "select 2 0 4"];
    assert_eq!(text, expect);
    assert_eq!(p.outputs[..], [Val(5)]);
}

#[test]
fn half_types_widen_once_and_round_once() {
    let x = [(0, DType::BF16)];
    let p = record(DType::BF16, &x, &[], |b| one(activation::mish(b))).unwrap();
    let casts: Vec<DType> = (p.body.iter())
        .filter(|i| matches!(i.op, Op::Cast(_)))
        .map(|i| i.dtype)
        .collect();
    assert_eq!(casts, [DType::F32, DType::BF16]);
    assert_eq!(p.inst(p.outputs[0]).dtype, DType::BF16);
}

#[test]
fn formulas_say_what_they_are_not_defined_for() {
    let x = [(0, DType::I32)];
    assert!(record(DType::I32, &x, &[], |b| one(activation::elu(b))).is_none());
    // a missing operand
    assert!(record(DType::F32, &[], &[], |b| one(activation::elu(b))).is_none());
    assert!(record(DType::I32, &x, &[], |b| one(clamp::relu6(b))).is_some());
}

#[test]
fn numbers_take_the_dtype_of_the_value_beside_them() {
    let x = [(0, DType::I8)];
    let attributes = [("min_val", (-1.5).into()), ("max_val", 300.into())];
    let p = record(DType::I8, &x, &attributes, |b| one(clamp::hardtanh(b))).unwrap();
    let constants: Vec<Scalar> = (p.body.iter())
        .filter_map(|i| match i.op {
            Op::Const(c) => Some(c),
            _ => None,
        })
        .collect();
    assert_eq!(constants, [Scalar::Int(-1), Scalar::Int(127)]);
}
