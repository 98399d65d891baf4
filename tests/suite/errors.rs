//! What errors say, and their classes.

use straightline::dispatch::{DispatchKey, all_operators, operator};
use straightline::{Device, DeviceType, Error, ErrorKind, Graph, Result, Tensor, compile, tensor};

/// PyTorch 2.15's classes of these calls.
#[test]
fn linear_algebra_fails_with_a_kind_of_its_own() -> Result<()> {
    use straightline::ops::aten;
    let singular = Tensor::zeros([2, 2])?;
    let indefinite = tensor([[-1.0, 0.0], [0.0, 1.0]])?;
    let nan = Tensor::full([2, 2], f64::NAN)?;
    type Call = fn(&Tensor) -> Result<Tensor>;
    let calls: [(&Tensor, Call, &str); 14] = [
        (&singular, |a| a.inverse(), "_LinAlgError"),
        (&singular, |a| a.solve(a), "_LinAlgError"),
        (&singular, |a| a.matrix_power(-1), "_LinAlgError"),
        (
            &singular,
            |a| aten::cholesky_inverse(a, false),
            "_LinAlgError",
        ),
        (
            &singular,
            |a| Ok(aten::linalg_inv_ex(a, true)?.0),
            "_LinAlgError",
        ),
        (&indefinite, |a| a.cholesky(), "_LinAlgError"),
        (
            &indefinite,
            |a| Ok(aten::linalg_cholesky_ex(a, false, true)?.0),
            "_LinAlgError",
        ),
        (&nan, |a| Ok(a.svd_with(true)?.1), "_LinAlgError"),
        (&nan, |a| a.svdvals(), "_LinAlgError"),
        (&nan, |a| a.pinv(), "_LinAlgError"),
        (&nan, |a| a.matrix_norm_with(2), "_LinAlgError"),
        (&nan, |a| Ok(a.eig()?.0), "RuntimeError"),
        (
            &singular,
            |a| Ok(aten::linalg_lu_factor(a, true)?.0),
            "RuntimeError",
        ),
        (
            &singular,
            |a| Tensor::zeros([2, 3])?.solve(a),
            "RuntimeError",
        ),
    ];
    for (i, (a, f, class)) in calls.into_iter().enumerate() {
        let eager = f(a).unwrap_err();
        let compiled = compile(f).call(a).unwrap_err();
        for e in [eager, compiled] {
            assert_eq!(e.python_class(), class, "{i}: {e}");
            let own = matches!(e.kind(), ErrorKind::LinAlg(_));
            assert_eq!(own, class == "_LinAlgError", "{i}: {e}");
        }
    }
    Ok(())
}

/// Alone: other tests register kernels for this backend.
#[test]
fn a_missing_backend_is_told_in_three_lines() {
    super::support::alone("errors::a_missing_backend_is_told_in_three_lines", || {
        struct Handle;
        let device = Device::new(DeviceType::Cuda);
        let x = Tensor::opaque(Handle, &[2], straightline::DType::F32, device).build();
        let e: Error = x.unwrap().relu().unwrap_err();
        let said = e.to_string();
        assert_eq!(e.python_class(), "NotImplementedError");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines[0].contains("This build has no CUDA"), "{said}");
        assert!(
            lines[1].contains("only available for these backends: [CPU"),
            "{said}"
        );
        assert!(lines[2].contains("dump_table"), "{said}");
    });
}

#[test]
fn default_overloads_have_their_short_names() -> Result<()> {
    // an operator whose overloads have names all of them is called by the base name of PyTorch's first one
    for (short, full) in [
        ("aten::add", "aten::add.Tensor"),
        ("aten::slice", "aten::slice.Tensor"),
        ("aten::mul", "aten::mul.Tensor"),
        ("aten::sum", "aten::sum"),
        ("aten::relu", "aten::relu"),
        ("aten::transpose", "aten::transpose.int"),
        ("aten::select", "aten::select.int"),
    ] {
        assert_eq!(operator(short)?.name().to_string(), full, "{short}");
    }
    assert!(operator("aten::no_such_operator").is_err());
    let relu = all_operators()
        .into_iter()
        .find(|op| op.name().to_string() == "aten::relu");
    assert!(relu.is_some_and(|op| op.has_kernel(DispatchKey::CPU)));
    Ok(())
}

#[test]
fn graphs_are_of_this_crate() -> Result<()> {
    let f = compile(|x: &Tensor| x.relu());
    let traced = f.trace(&tensor([1.0])?)?;
    let graph: &Graph = traced.graph();
    let again = Graph::parse(&graph.to_string()).expect("its text parses");
    assert_eq!(again.call_count(), 1);
    Ok(())
}
