use super::*;
use proptest::prelude::*;

fn parse(s: &str) -> FunctionSchema {
    FunctionSchema::parse(s).unwrap_or_else(|e| panic!("{e}"))
}

/// Every schema of the conformance set, in PyTorch's own canonical text.
const ATEN: &str = include_str!("../../tests/data/aten_schemas.txt");

#[test]
fn canonical_texts_print_as_they_were() {
    let mut seen = 0;
    for line in ATEN.lines() {
        let schema = parse(line);
        assert_eq!(schema.to_string(), line);
        assert_eq!(parse(&schema.to_string()), schema);
        seen += 1;
    }
    assert!(seen > 800, "{seen}");
}

#[test]
fn canonical_form() {
    for (text, want) in [
        ("f(int[2] k=0) -> ()", "f(int[2] k=0) -> ()"),
        ("f(int[2] s=[1,1]) -> ()", "f(int[2] s=1) -> ()"),
        ("f(SymInt[2] s=1) -> ()", "f(SymInt[2] s=[1, 1]) -> ()"),
        ("f(int[2]? s=1) -> ()", "f(int[2]? s=1) -> ()"),
        ("f(float x=1) -> ()", "f(float x=1.) -> ()"),
        ("f(float x=0.1) -> ()", "f(float x=0.10000000000000001) -> ()"),
        ("f(float x=1e-05) -> ()", "f(float x=1.0000000000000001e-05) -> ()"),
        ("f(float x=1e20) -> ()", "f(float x=1e+20) -> ()"),
        ("f(float x=123.5) -> ()", "f(float x=123.5) -> ()"),
        ("f(float x=-0.0) -> ()", "f(float x=-0.) -> ()"),
        ("f(Scalar x=1e3) -> ()", "f(Scalar x=1000.) -> ()"),
        ("f(ScalarType t=float) -> ()", "f(ScalarType t=6) -> ()"),
        ("f(ScalarType t=bfloat16) -> ()", "f(ScalarType t=15) -> ()"),
        ("f(Layout l=strided) -> ()", "f(Layout l=0) -> ()"),
        ("f(int reduction=Mean) -> ()", "f(int reduction=1) -> ()"),
        ("f(str s='a\"b') -> ()", "f(str s=\"a\\\"b\") -> ()"),
        ("f(Device d=\"cuda:1\") -> ()", "f(Device d=cuda:1) -> ()"),
        ("f(Tensor a, *, *, Tensor b, *) -> ()", "f(Tensor a, *, Tensor b) -> ()"),
        ("f(Tensor a) -> (Tensor)", "f(Tensor a) -> Tensor"),
        ("f(Tensor a) -> None", "f(Tensor a) -> NoneType"),
        ("f(Tensor(a!)[2] x) -> ()", "f(Tensor(a!)[2] x) -> ()"),
        ("f(Tensor(a!)[](b) x) -> ()", "f(Tensor(a!)[](b!) x) -> ()"),
        ("f(Tensor! x) -> ()", "f(Tensor! x) -> ()"),
        ("f(Tensor(a|b! -> *) x) -> Tensor(*)", "f(Tensor(a|b! -> *) x) -> Tensor(*)"),
        ("f(...) -> ...", "f(...) -> ..."),
        ("f(t x) -> (Tensor, ...)", "f(t x) -> (Tensor, ...)"),
        ("f((Tensor(a), int)? x) -> ((int, int))", "f((Tensor(a), int)? x) -> ((int, int))"),
        (
            "f(Dict(str, Tensor) d, Future(int) x, __torch__.torch.classes.q.P p) -> ()",
            "f(Dict(str, Tensor) d, Future(int) x, __torch__.torch.classes.q.P p) -> ()",
        ),
        ("f(complex z=2j, DeviceIndex i=0) -> ()", "f(complex z=2.j, int i=0) -> ()"),
    ] {
        let schema = parse(text);
        assert_eq!(schema.to_string(), want);
        assert_eq!(parse(want).to_string(), want);
    }
}

#[test]
fn errors_name_the_token() {
    for (text, want) in [
        ("f(Tensor a, ) -> ()", "expected a type but found ')' here"),
        ("f(Tensor a Tensor b) -> ()", "expected , or ) but found 'Tensor' here"),
        ("f(Frob a) -> ()", "unknown type specifier 'Frob'"),
        ("f(SymFloat a) -> ()", "unknown type specifier 'SymFloat'"),
        ("f(Tensor a=1) -> ()", "1 is not a default value for an argument of type Tensor"),
        ("f(str[] a=['x']) -> ()", "is not a default value for an argument of type str[]"),
        ("f(float a=inf) -> ()", "inf is not a default value for an argument of type float"),
        ("f(int a=99999999999999999999) -> ()", "is not a number that fits"),
        ("f(int a=0, int b) -> ()", "non-default positional argument 'b'"),
        ("f(..., int a) -> ()", "... must be the last"),
        ("f(int a=0, ...) -> ()", "cannot have the default value of argument 'a'"),
        ("f.default(int a) -> ()", "default is not a legal overload name"),
        ("f.__x(int a) -> ()", "__x is not a legal overload name"),
        ("f(int a)", "expected -> but found 'the end of the text'"),
        ("f", "expected ( but found"),
        ("a::b::c(int a) -> ()", "expected ( but found '::'"),
        ("f(int a) -> () x", "expected the end of the text but found 'x'"),
        ("f(int # a) -> ()", "expected an argument name but found '#'"),
        ("f(Tensor(a a) -> ()", "expected ) but found 'a'"),
        ("f(int[2 a) -> ()", "expected ] but found 'a'"),
        ("", "expected an operator name"),
    ] {
        let e = FunctionSchema::parse(text).expect_err(text).to_string();
        assert!(e.contains(want), "{text}: {e}");
        assert!(e.contains("~ <--- HERE"), "{text}: {e}");
    }
    let e = FunctionSchema::parse("aten::add(Tensor self Tensor other) -> Tensor").unwrap_err();
    assert_eq!(
        e.to_string(),
        "expected , or ) but found 'Tensor' here:\n\
         aten::add(Tensor self Tensor other) -> Tensor\n\
         \u{20}                     ~~~~~~ <--- HERE"
    );
}

#[test]
fn a_name_alone_is_a_declaration() {
    assert_eq!(
        Declaration::parse("my::op.ov").unwrap(),
        Declaration::Name(OperatorName::new("my::op", "ov"))
    );
    assert!(matches!(Declaration::parse("op(int x) -> ()").unwrap(), Declaration::Schema(_)));
    let name: OperatorName = "aten::add.Tensor".parse().unwrap();
    assert_eq!((name.namespace(), name.base()), (Some("aten"), "add"));
    assert!("aten::add.Tensor x".parse::<OperatorName>().is_err());
}

#[test]
fn predicates() {
    // (schema, mutable, in-place, out, view)
    for (text, mutable, inplace, out, view) in [
        ("f(Tensor self) -> Tensor", false, false, false, false),
        ("f_(Tensor(a!) self) -> Tensor(a!)", true, true, false, false),
        ("f_(Tensor(a!) self, Tensor(b!) y) -> Tensor(a!)", true, false, false, false),
        ("f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", true, false, true, false),
        ("f(Tensor(a) self, int dim) -> Tensor(a)", false, false, false, true),
        ("f(Tensor(a -> *) self) -> Tensor(a)[]", false, false, false, true),
        ("f(Tensor(a!)[] self) -> ()", true, false, false, false),
    ] {
        let s = parse(text);
        assert_eq!(
            (s.is_mutable(), s.is_inplace(), s.is_out_variant(), s.is_view()),
            (mutable, inplace, out, view),
            "{text}"
        );
    }
    let s = parse("f(Tensor x, Tensor(b!) y, Tensor(a) z) -> (Tensor(a), Tensor(b!), Tensor)");
    assert_eq!([0, 1, 2].map(|i| s.aliased_argument(i)), [Some(2), Some(1), None]);
}

#[test]
fn dispatch_relevant_types() {
    for (text, want) in [
        ("Tensor", true),
        ("Tensor?", true),
        ("Tensor[]", true),
        ("Tensor?[]", true),
        ("Tensor[]?", false),
        ("Scalar", false),
        ("Generator?", false),
    ] {
        let s = parse(&format!("f({text} x) -> ()"));
        assert_eq!(s.args[0].ty.is_dispatch_relevant(), want, "{text}");
    }
}

#[test]
fn kernel_types_are_compared_like_c10() {
    let s = parse("f(Tensor(a!) self, SymInt[2] k=1, *, ScalarType? dtype=None) -> Tensor(a!)");
    use SchemaType as T;
    let fits = [T::Tensor, T::Int.list(), T::ScalarType.optional()];
    assert_eq!(s.mismatch(&fits, &[T::Tensor]), None);
    assert_eq!(
        s.mismatch(&fits[..2], &[T::Tensor]).unwrap().to_string(),
        "The number of arguments is different. 3 vs 2."
    );
    assert_eq!(
        s.mismatch(&fits, &[]).unwrap().to_string(),
        "The number of returns is different. 1 vs 0."
    );
    let wrong = [T::Tensor, T::Float.list(), T::ScalarType.optional()];
    assert_eq!(
        s.mismatch(&wrong, &[T::Tensor]).unwrap().to_string(),
        "Type mismatch in argument 2: SymInt[2] vs float[]"
    );
    assert_eq!(
        s.mismatch(&fits, &[T::Int]).unwrap().to_string(),
        "Type mismatch in return 1: Tensor vs int"
    );
}

fn arg_type() -> impl Strategy<Value = String> {
    let atom = prop::sample::select(vec![
        "Tensor",
        "Tensor(a!)",
        "Tensor(b)",
        "int",
        "SymInt",
        "float",
        "bool",
        "str",
        "Scalar",
        "ScalarType",
        "Device",
        "Generator",
        "(Tensor, int)",
        "Dict(str, int)",
    ]);
    (atom, prop::collection::vec(prop::sample::select(vec!["[]", "?"]), 0..3))
        .prop_map(|(a, suffix)| format!("{a}{}", suffix.concat()))
}

proptest! {
    #[test]
    fn parse_print_parse_is_stable(
        args in prop::collection::vec(arg_type(), 0..6),
        kwarg_from in 0usize..7,
        returns in prop::collection::vec(arg_type(), 0..4),
    ) {
        let mut text = String::from("ns::f.o(");
        for (i, a) in args.iter().enumerate() {
            if i == kwarg_from { text += "*, "; }
            text += &format!("{a} x{i}");
            if i + 1 < args.len() { text += ", "; }
        }
        text += &format!(") -> ({})", returns.join(", "));
        let schema = parse(&text);
        let printed = schema.to_string();
        let again = parse(&printed);
        prop_assert_eq!(&again, &schema);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        if let Err(e) = FunctionSchema::parse(&text) {
            prop_assert!(e.to_string().contains("<--- HERE"));
        }
    }
}
