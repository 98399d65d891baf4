//! What the registration of definitions, kernels and fallbacks accepts and refuses.

use super::*;
use straightline_catalog::key::DispatchKey as K;

#[test]
fn refusals() {
    let _turn = turn();
    let mut lib = Library::new("t_refuse").unwrap();
    lib.def("known(Tensor x) -> Tensor").unwrap();
    let mut cpu = Library::implementation("t_refuse", K::CPU).unwrap();
    let mut wild = Library::fallbacks(K::Undefined).unwrap();
    let mut taken = Library::fallbacks(K::TESTING_ONLY_GenericMode).unwrap();
    taken.fallback(says(0)).unwrap();
    let unary = |x: &Tensor| Ok(x.clone());

    for (got, want) in [
        (
            message(Library::new("t_refuse")),
            "Only a single TORCH_LIBRARY can be used to register the namespace t_refuse",
        ),
        (message(Library::new("_")), "'_' is not a namespace"),
        (message(Library::fragment("a::b")), "'a::b' is not a namespace"),
        (
            message(cpu.def("g(Tensor x) -> Tensor")),
            "Cannot define an operator inside of a TORCH_LIBRARY_IMPL block",
        ),
        (
            message(lib.def("known(Tensor x) -> Tensor")),
            "with the same name and overload name multiple times",
        ),
        (
            message(lib.def("known(int x) -> Tensor")),
            "Original registration: registered at src/dispatch/tests/registration.rs:",
        ),
        (
            message(lib.def("other::g(Tensor x) -> Tensor")),
            "Explicitly provided namespace (other) does not match",
        ),
        (message(lib.def("g")), "only the operator name was given"),
        (message(lib.def_with("g", says(0))), "only the operator name was given"),
        (message(lib.def("g(t x) -> t")), "type variables"),
        (message(lib.def("g.default(int x) -> int")), "default is not a legal overload name"),
        (message(lib.def("g(Tensor x -> Tensor")), "<--- HERE"),
        (
            message(cpu.impl_at("known", K::CUDA, unary)),
            "Explicitly provided dispatch key (CUDA) is inconsistent",
        ),
        (message(cpu.impl_("other::known", unary)), "Explicitly provided namespace (other)"),
        (message(lib.impl_at("known", K::Dense, unary)), "Dense has no slot of its own"),
        (
            message(lib.fallback(says(0))),
            "Cannot define a fallback for the operators of one namespace (t_refuse)",
        ),
        (message(wild.fallback(says(0))), "a fallback needs a dispatch key"),
        (
            message(wild.fallback_at(K::TESTING_ONLY_GenericMode, says(1))),
            "Tried to register multiple backend fallbacks for the same dispatch key TESTING_ONLY_GenericMode; \
             previous registration registered at",
        ),
        (message(operator("t_refuse::nothing")), "Could not find schema for t_refuse::nothing."),
    ] {
        assert!(got.contains(want), "{got}\n  lacks: {want}");
    }
}

#[test]
fn kernels_must_fit_the_schema() {
    let mut lib = Library::new("t_fit").unwrap();
    lib.def("f(Tensor x, int n) -> Tensor").unwrap();
    let one = message(lib.impl_at("f", K::CPU, |x: &Tensor| Ok(x.clone())));
    for want in [
        "  operator: t_fit::f\n",
        "  expected schema: t_fit::f(Tensor x, int n) -> Tensor\n",
        "  inferred schema: (Tensor _0) -> Tensor _0\n",
        "  reason: The number of arguments is different. 2 vs 1.",
    ] {
        assert!(one.contains(want), "{one}");
    }
    let other = message(lib.impl_at("f", K::CPU, |x: &Tensor, _: f64| Ok(x.clone())));
    assert!(other.contains("Type mismatch in argument 2: int vs float"), "{other}");
    let ret = message(lib.impl_at("f", K::CPU, |_: &Tensor, n: i64| Ok(n)));
    assert!(ret.contains("Type mismatch in return 1: Tensor vs int"), "{ret}");
    // a boxed kernel has no types to check
    lib.impl_at("f", K::CPU, says(1)).unwrap();

    // the same, with the schema last
    lib.impl_at("late", K::CPU, |x: &Tensor| Ok(x.clone())).unwrap();
    let late: OperatorHandle = find(&"t_fit::late".parse().unwrap()).unwrap();
    assert!(late.schema().is_none());
    assert!(dangling_impls().contains(&late));
    assert!(
        message(operator("t_fit::late"))
            .contains("but we found an implementation; did you forget to def()")
    );
    assert!(dump(late).starts_with("name: t_fit::late\nschema: (none)\nCPU: registered at"));
    let error = message(lib.def("late(int n) -> Tensor"));
    assert!(error.contains("Type mismatch in argument 1: int vs Tensor"), "{error}");
    assert!(late.schema().is_none());
    assert_eq!(lib.def("late(Tensor x) -> Tensor").unwrap(), late);
}

#[test]
fn a_schema_is_inferred_from_a_kernel() {
    let mut lib = Library::new("t_infer").unwrap();
    let op = lib
        .def_with("g.ov", |x: &Tensor, n: Option<i64>, s: &[Scalar]| {
            Ok((x.clone(), n.unwrap_or(s.len() as i64)))
        })
        .unwrap();
    assert_eq!(
        op.schema().unwrap().to_string(),
        "t_infer::g.ov(Tensor _0, int? _1, Scalar[] _2) -> (Tensor _0, int _1)"
    );
    assert!(dump(op).contains("alias analysis kind: CONSERVATIVE\n"));
    // without a key, the kernel serves every backend
    assert!(op.has_kernel(K::CompositeImplicitAutograd));
    // a kernel at `Undefined` is one without a key
    lib.def("h(Tensor x) -> int").unwrap();
    lib.impl_at("h", K::CATCH_ALL, says(1)).unwrap();
    assert!(operator("t_infer::h").unwrap().has_kernel(K::CompositeImplicitAutograd));
}

#[test]
fn dumps_read_as_c10s() {
    let _turn = turn();
    let mut lib = Library::new("t_dump").unwrap();
    lib.at("ops.yaml", 7);
    let op = lib.def("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor").unwrap();
    let add = |a: &Tensor, _: &Tensor, _: Scalar| Ok(a.clone());
    lib.at("cpu.rs", 1).impl_at("add.Tensor", K::CPU, add).unwrap();
    lib.at("more.rs", 2).impl_at("add.Tensor", K::CPU, says(0)).unwrap();
    lib.at("ag.rs", 3).impl_at("add.Tensor", K::Autograd, add).unwrap();
    lib.at("f.rs", 6).impl_at("add.Tensor", K::Tracer, Kernel::fallthrough()).unwrap();
    assert_eq!(
        dump(op),
        "name: t_dump::add.Tensor\n\
         schema: t_dump::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n\
         debug: registered at ops.yaml:7\n\
         alias analysis kind: FROM_SCHEMA\n\
         Tracer: registered at f.rs:6 :: (none) [ fallthrough boxed ]\n\
         CPU: registered at more.rs:2 :: (none) [ boxed ]\n\
         CPU (inactive): registered at cpu.rs:1 :: (Tensor _0, Tensor _1, Scalar _2) -> Tensor _0 [ boxed unboxed ]\n\
         Autograd[alias]: registered at ag.rs:3 :: (Tensor _0, Tensor _1, Scalar _2) -> Tensor _0 [ boxed unboxed ]\n"
    );
    let table = dump_table(op);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "CPU: registered at more.rs:2 [kernel]");
    assert!(lines.contains(&"Tracer: fallthrough registered at f.rs:6 [kernel]"));
    assert!(lines.contains(&"AutogradCPU: registered at ag.rs:3 [autograd kernel]"));
    assert!(lines.iter().any(|l| l.starts_with("BackendSelect: fallthrough registered at ")
        && l.ends_with(" [backend fallback]")));
    assert!(dump_registrations(Some(K::Tracer)).lines().any(|l| l == "t_dump::add.Tensor"));
    assert!(!dump_registrations(Some(K::CUDA)).contains("t_dump::add.Tensor"));
    assert!(dump_registrations(None).lines().any(|l| l == "t_dump::add.Tensor"));
}

#[test]
fn a_single_cpu_kernel_gives_the_table_of_its_fallbacks() {
    let _turn = turn();
    let mut lib = Library::new("t_lines").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, says(0)).unwrap();
    let keys: Vec<String> =
        dump_table(op).lines().map(|l| l.split(':').next().unwrap().to_string()).collect();
    assert_eq!(keys[..2], ["CPU", "Meta"]);
    // ascending by slot
    let mut sorted = keys.clone();
    sorted.sort_by_key(|k| {
        let key = K::ALL.iter().find(|x| x.name() == k).unwrap();
        DispatchKeySet::from(*key).table_index()
    });
    assert_eq!(keys, sorted);
}

#[test]
fn history_is_restored_newest_first() {
    let mut lib = Library::new("t_history").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    let run = || {
        let mut stack = vec![cpu().into()];
        op.call_boxed(&mut stack).map(|()| int(&stack)).ok()
    };
    let block = |id| {
        let mut b = Library::implementation("t_history", K::CPU).unwrap();
        b.impl_("f", says(id)).unwrap();
        b
    };
    assert_eq!(run(), None);
    let (one, two, three) = (block(1), block(2), block(3));
    assert_eq!(run(), Some(3));
    drop(two); // not the active one
    assert_eq!(run(), Some(3));
    drop(three);
    assert_eq!(run(), Some(1));
    drop(one);
    assert_eq!(run(), None);
    assert!(!op.has_kernel(K::CPU));
}

#[test]
fn the_schema_may_go_before_its_kernels() {
    let mut kernels = Library::implementation("t_orphan", K::CPU).unwrap();
    let lib = {
        let mut lib = Library::new("t_orphan").unwrap();
        lib.def("f(Tensor x) -> int").unwrap();
        lib
    };
    kernels.impl_("f", |_: &Tensor| Ok(5i64)).unwrap();
    let name = "t_orphan::f".parse().unwrap();
    drop(lib);
    assert!(find_schema(&name).is_none());
    assert!(find(&name).is_some());
    drop(kernels);
    assert!(find(&name).is_none());
    // the namespace is free again
    Library::new("t_orphan").unwrap();
}

#[test]
fn a_fallback_on_an_alias_fills_its_keys() {
    let _turn = turn();
    let mut wild = Library::fallbacks(K::CompositeImplicitAutogradNestedTensor).unwrap();
    wild.fallback(says(9)).unwrap();
    let mut lib = Library::new("t_alias").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    for key in [K::NestedTensorCPU, K::NestedTensorMeta, K::AutogradNestedTensor] {
        assert!(op.has_computed_kernel(key), "{key}");
    }
    let mut again = Library::fallbacks(K::NestedTensorCUDA).unwrap();
    assert!(message(again.fallback(says(1))).contains("NestedTensorCUDA; previous registration"));
    drop(wild);
    assert!(!op.has_computed_kernel(K::NestedTensorCPU));
}

/// Section 4.2: what is accepted, and the result.
#[test]
fn accepted() {
    let _turn = turn();
    let mut lib = Library::new("t_accept").unwrap();
    let unary = |x: &Tensor| Ok(x.clone());
    // a definition with a function: for all backends
    let both = lib.def_with("both(Tensor x) -> Tensor", unary).unwrap();
    assert_eq!(both.registered_keys(), [K::CompositeImplicitAutograd]);
    // the namespace said again; overloads beside each other
    lib.def("t_accept::named(Tensor x) -> Tensor").unwrap();
    lib.def("named.more(Tensor x, int n) -> Tensor").unwrap();
    lib.impl_at("t_accept::named", K::CPU, unary).unwrap();
    // the block's key, said again
    let mut cuda = Library::implementation("t_accept", K::CUDA).unwrap();
    cuda.impl_at("named", K::CUDA, unary).unwrap();
    cuda.impl_at("both", K::Undefined, unary).unwrap();
    let named = operator("t_accept::named").unwrap();
    assert_eq!(named.registered_keys(), [K::CPU, K::CUDA]);
    assert!(both.has_kernel(K::CUDA), "no key means the block's");
    // the kernel of an undefined operator
    cuda.impl_("t_accept::dangling", unary).unwrap();
    let dangling = find(&"t_accept::dangling".parse().unwrap()).unwrap();
    assert_eq!(dangling.registered_keys(), [K::CUDA]);
    // a fallback's own key wins over the block's
    let mut wild = Library::fallbacks(K::TESTING_ONLY_GenericWrapper).unwrap();
    wild.fallback_at(K::TESTING_ONLY_GenericMode, says(3)).unwrap();
    assert!(named.has_computed_kernel(K::TESTING_ONLY_GenericMode));
    assert!(!named.has_computed_kernel(K::TESTING_ONLY_GenericWrapper));
}

/// Section 4.2: the errors of duplicates name both places.
#[test]
fn duplicates_name_both_places() {
    let mut lib = Library::new("t_twice").unwrap();
    lib.at("first.rs", 1).def("f(Tensor x) -> Tensor").unwrap();
    let mut more = Library::fragment("t_twice").unwrap();
    more.at("second.rs", 2);
    for schema in ["f(Tensor x) -> Tensor", "f(int x) -> int"] {
        let text = message(more.def(schema));
        assert!(
            text.contains("registered at first.rs:1") && text.contains("registered at second.rs:2"),
            "{text}"
        );
    }
    // and leave what was there
    let f = operator("t_twice::f").unwrap();
    assert_eq!(f.schema().unwrap().to_string(), "t_twice::f(Tensor x) -> Tensor");
    let text = message(Library::new("t_twice"));
    assert_eq!(text.matches("registration.rs:").count(), 2, "{text}");
    assert!(message(lib.def("f.__x(int x) -> int")).contains("__x is not a legal overload name"));
    // a kernel that does not fit leaves no trace, and names the schema's place and its own
    more.at("third.rs", 3);
    let text = message(more.impl_at("f", K::CPU, |x: &Tensor, _: i64| Ok(x.clone())));
    assert!(text.contains("first.rs:1") && text.contains("third.rs:3"), "{text}");
    assert!(f.registered_keys().is_empty());
    // types that differ among typed kernels: the schema allows `int` only
    let text = message(more.impl_at("f", K::CPU, |_: &Tensor| Ok(1i64)));
    assert!(text.contains("Type mismatch in return 1"), "{text}");
}

/// Section 4.3: each key has a history of its own, and every way out of it restores.
#[test]
fn histories_are_per_key() {
    let mut lib = Library::new("t_histories").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    let mut blocks: Vec<(Library, String)> = Vec::new();
    let keys = [K::CPU, K::CUDA, K::CPU, K::CompositeImplicitAutograd, K::CPU, K::CUDA];
    for (i, key) in keys.into_iter().enumerate() {
        let before = dump(op) + &dump_table(op);
        let mut block = Library::implementation("t_histories", key).unwrap();
        block.at("h.rs", i as u32).impl_("f", says(i as i64)).unwrap();
        blocks.push((block, before));
    }
    let text = dump(op);
    let order: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("h.rs:"))
        .map(|l| l.split(" ::").next().unwrap())
        .collect();
    assert_eq!(
        order,
        [
            "CPU: registered at h.rs:4",
            "CPU (inactive): registered at h.rs:2",
            "CPU (inactive): registered at h.rs:0",
            "CUDA: registered at h.rs:5",
            "CUDA (inactive): registered at h.rs:1",
            "CompositeImplicitAutograd[alias]: registered at h.rs:3",
        ]
    );
    while let Some((block, before)) = blocks.pop() {
        drop(block);
        assert_eq!(dump(op) + &dump_table(op), before);
    }
}
