//! What the build script makes of an entry's methods, and what it refuses.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the build script's own files, of which this uses a part"
)]

#[path = "../build/composite.rs"]
mod composite;
#[path = "../build/docs.rs"]
mod docs;
#[path = "../build/kernels.rs"]
mod kernels;
#[path = "../build/methods.rs"]
mod methods;
#[path = "../build/op.rs"]
mod op;

use methods::Methods;
use op::Declared;
use straightline_catalog::entry::{ENTRIES, Entry, Method};

/// An operator's entry with these methods in place of its own.
fn entry(name: &str, methods: &'static [Method]) -> Entry {
    let named = |e: &&Entry| e.declares && e.op.schema().name.to_string() == name;
    let entry = ENTRIES.iter().find(named).expect("an entry");
    Entry { methods, ..*entry }
}

/// The methods of an entry, written with all operators there are.
fn written(entry: &Entry) -> Result<String, String> {
    let all: Vec<Declared<'_>> = (ENTRIES.iter().filter(|e| e.declares))
        .map(|e| Declared::new(e).expect("an operator"))
        .collect();
    let op = Declared::new(entry)?;
    let mut methods = Methods::new(&all);
    methods.add(&op)?;
    Ok(methods.finish())
}

/// The text of one method of an operator, without its documentation.
fn code(operator: &str, call: &'static str) -> Result<String, String> {
    let method =
        Method { call, doc: Some("Done."), example: Some("tensor(1)?;"), doc_aliases: &[] };
    let text = written(&entry(operator, Box::leak(Box::new([method]))))?;
    let code = text.lines().map(str::trim);
    let code = code.filter(|l| !l.starts_with("///") && !l.starts_with('#') && !l.is_empty());
    Ok(code.collect::<Vec<_>>().join(" "))
}

fn refusal(operator: &str, call: &'static str) -> String {
    code(operator, call).expect_err(call)
}

#[test]
fn a_method_has_the_arguments_that_its_line_names() {
    let sum = code("aten::sum.dim_IntList", "sum_keepdim(dim! as dims, keepdim=True)");
    assert_eq!(
        sum.unwrap(),
        "impl Tensor { pub fn sum_keepdim(&self, dims: impl Ints) -> Result<Tensor> { \
         aten::sum_dim_int_list(self, Some(&dims.ints()), true, None) } }"
    );
    let cat = code("aten::cat", "cat(tensors, dim)").unwrap();
    assert!(cat.contains("pub fn cat(tensors: impl Tensors, dim: impl Int)"), "{cat}");
    // the first tensor that is not named is the method's own
    let search = code("aten::searchsorted.Tensor", "searchsorted(self as values)").unwrap();
    assert!(
        search
            .contains("aten::searchsorted_tensor(self, values.as_ref(), false, false, None, None)"),
        "{search}"
    );
}

#[test]
fn a_number_goes_where_the_line_says() {
    let add = code("aten::add.Tensor", "add[_](other or add.Scalar)").unwrap();
    for call in [
        "Other::Number(other) => aten::add_scalar(self, other, Scalar::Int(1))",
        "Other::Number(other) => aten::add_scalar_(self, other, Scalar::Int(1))",
        "Other::Owned(other) => aten::add_tensor_(self, &other, Scalar::Int(1))",
    ] {
        assert!(add.contains(call), "{add}");
    }
    let wrapped = code("aten::atan2", "atan2(other or number)").unwrap();
    assert!(wrapped.contains("other => aten::atan2(self, &other.into_tensor()?)"), "{wrapped}");
}

#[test]
fn the_first_of_several_results() {
    let first = code("aten::_unique2", "unique().0").unwrap();
    assert!(
        first.contains("-> Result<Tensor> { Ok(aten::_unique2(self, true, false, false)?.0) }")
    );
    let message = refusal("aten::sqrt", "sqrt().0");
    assert!(message.contains("`aten::sqrt` has one result"), "{message}");
}

#[test]
fn lines_that_do_not_fit_the_schema_are_refused() {
    for (operator, call, want) in [
        ("aten::sqrt", "sqrt", "`sqrt` is no method"),
        ("aten::sqrt", "square root()", "`square root` is no name"),
        ("aten::sqrt", "sqrt(dim)", "`aten::sqrt` has no argument `dim`"),
        ("aten::sqrt", "sqrt(dim=1)", "`aten::sqrt` has no argument `dim`"),
        ("aten::max.dim", "max_dim()", "`dim` has no default: name it"),
        ("aten::max.dim", "max_dim(dim!)", "`!` is for what may be missing"),
        ("aten::max.dim", "max_dim(dim, dim=1)", "`dim` twice"),
        ("aten::sum.dim_IntList", "sum_dim(dim)", "write `dim!`"),
        ("aten::max.dim", "max_dim(dim, keepdim=7)", "`keepdim=7`"),
        ("aten::max.dim", "max_dim(dim or number)", "`dim` is no tensor"),
        ("aten::add.Tensor", "add(other or sub.Number)", "no entry declares `sub.Number`"),
        (
            "aten::add.Tensor",
            "add(other or sub.Tensor)",
            "`aten::sub.Tensor` takes no number there",
        ),
        (
            "aten::where.self",
            "where_cond(self as a or number, other as b or number)",
            "write the method by hand",
        ),
        ("aten::max.dim", "max_dim[_](dim)", "no entry declares `max_.dim`"),
    ] {
        let message = refusal(operator, call);
        assert!(message.contains(want), "{call}: {message}");
    }
}

#[test]
fn a_method_is_documented_with_an_example() {
    const METHODS: [&[Method]; 2] = [
        &[Method {
            call: "sqrt()",
            doc: None,
            example: Some("tensor(4)?.sqrt()?;"),
            doc_aliases: &[],
        }],
        &[Method { call: "sqrt()", doc: Some("The root."), example: None, doc_aliases: &[] }],
    ];
    for (methods, want) in METHODS.into_iter().zip(["needs a `doc`", "needs an `example`"]) {
        let message = written(&entry("aten::sqrt", methods)).unwrap_err();
        assert!(message.contains(want), "{message}");
    }
}

#[test]
fn an_example_uses_what_it_names() {
    let test =
        docs::doc_test("let x = tensor(1)?.to(DType::F64)?;\nassert_eq!(scalar_tensor(x), 1);\n");
    assert!(test.starts_with("use straightline::{DType, tensor};\n"), "{test}");
    assert!(test.ends_with("# Ok::<(), straightline::Error>(())\n"));
    let own = docs::doc_test("use straightline::ops::aten;\naten::ones(Tensor)");
    assert!(own.starts_with("use straightline::ops::aten;\naten"), "{own}");
}
