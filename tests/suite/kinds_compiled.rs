//! Sparse, quantized and nested tensors in compiled functions: their dense parts take part, and all
//! else is refused by the operator's name and the line.

use straightline::ops::aten;
use straightline::{
    CompileOptions, DType, Error, ErrorKind, Result, Tensor, compile, compile_with, functionalize,
    tensor,
};

fn plain() -> Result<Tensor> {
    tensor([[0.0, 2.0, 0.0], [3.0, 0.0, -1.5]])
}

fn coordinates() -> Result<Tensor> {
    plain()?.to_sparse()
}

fn rows() -> Result<Tensor> {
    plain()?.to_sparse_csr()
}

fn quantized() -> Result<Tensor> {
    plain()?.quantize_per_tensor(0.1, 3, DType::QInt8)
}

fn per_channel() -> Result<Tensor> {
    let scales = Tensor::from_vec([0.3f64, 0.7], 2)?;
    plain()?.quantize_per_channel(&scales, &tensor([1, 20])?, 0, DType::QUInt8)
}

fn nested() -> Result<Tensor> {
    Tensor::nested(&[tensor([[1.0, 2.0]])?, tensor([[3.0, 4.0], [5.0, 6.0]])?])
}

type Make = fn() -> Result<Tensor>;
type Program = fn(&Tensor) -> Result<Tensor>;

/// Calls the function compiled, twice, on its argument, and once with the tensor closed over.
#[track_caller]
fn same(make: Make, f: Program) -> Result<()> {
    let expected = f(&make()?)?;
    let check = |got: Tensor| {
        assert!(got.equal(&expected)?, "{got} and {expected}");
        assert_eq!((got.dtype(), got.sizes()), (expected.dtype(), expected.sizes()));
        Ok::<(), Error>(())
    };
    let compiled = compile(f);
    check(compiled.call(&make()?)?)?;
    let argument = make()?;
    let before = straightline::dispatch::call_count();
    let replayed = compiled.call(&argument)?;
    assert_eq!(straightline::dispatch::call_count(), before, "a replay dispatches");
    check(replayed)?;
    assert_eq!(compiled.variants(), 1, "{:?}", compiled.events());
    check(functionalize(f).call(&argument)?)?;
    let closed = compile(move |x: &Tensor| f(&argument)?.mul(x));
    check(closed.call(&tensor(1)?)?)?;
    check(closed.call(&tensor(1)?)?)
}

#[test]
fn dense_parts_are_computed_with() -> Result<()> {
    same(coordinates, |x| x.values()?.mul(2))?;
    same(coordinates, |x| x.indices()?.add(1))?;
    same(coordinates, |x| x.to_dense()?.exp())?;
    same(coordinates, |x| x.values()?.mul(aten::_nnz(x)?))?;
    same(rows, |x| x.values()?.neg())?;
    same(rows, |x| aten::crow_indices(x)?.add(aten::col_indices(x)?.sum()?))?;
    same(quantized, |x| x.dequantize()?.mul(2))?;
    same(quantized, |x| x.int_repr()?.mul(2))?;
    same(quantized, |x| x.int_repr()?.mul(x.q_scale()?)?.sub(x.q_zero_point()?))?;
    same(per_channel, |x| x.dequantize())?;
    same(per_channel, |x| x.int_repr()?.to_dtype(DType::F32))?;
    same(nested, |x| aten::values(x)?.square())?;
    same(nested, |x| x.to_padded(-7.0)?.mul(2))?;
    same(nested, |x| x.unbind(0)?[1].matmul(&x.select(0, 0)?.t()?))?;
    same(nested, |x| x.nested_sizes()?.sum_dim(0))?;
    Ok(())
}

#[test]
fn coordinates_that_repeat_are_added() -> Result<()> {
    let at = tensor([[0, 0, 1], [1, 1, 0]])?;
    let x = Tensor::sparse_coo(&at, &tensor([1.0, 2.0, 4.0])?, [2, 2])?;
    let f = compile(|x: &Tensor| x.to_dense());
    assert_eq!(f.call(&x)?.to_vec::<f32>()?, [0.0, 3.0, 4.0, 0.0]);
    // as in eager execution, values are those of coalesced tensors
    let values = |x: &Tensor| x.values();
    let (eager, compiled) = (values(&x).unwrap_err(), compile(values).call(&x).unwrap_err());
    assert_eq!(eager.python_class(), compiled.python_class());
    assert!(compiled.to_string().contains("uncoalesced"), "{compiled}");
    Ok(())
}

#[test]
fn a_write_to_a_part_is_a_write_to_the_tensor() -> Result<()> {
    let f = compile(|x: &Tensor| x.values()?.mul_(10)?.sum());
    let x = coordinates()?;
    for factor in [10.0, 100.0] {
        f.call(&x)?;
        assert!(x.to_dense()?.equal(&plain()?.mul(factor)?)?);
    }
    assert_eq!(f.variants(), 1);
    Ok(())
}

#[test]
fn what_is_no_tensor_is_structure() -> Result<()> {
    let f = compile(|x: &Tensor| x.dequantize());
    for (scale, zero, variants) in [(0.1, 3, 1), (0.2, 3, 2), (0.2, 0, 3), (0.1, 3, 3)] {
        let x = plain()?.quantize_per_tensor(scale, zero, DType::QInt8)?;
        assert!(f.call(&x)?.equal(&x.dequantize()?)?);
        assert_eq!(f.variants(), variants);
    }
    let x = per_channel()?;
    assert!(f.call(&x)?.equal(&x.dequantize()?)?);
    let g = compile(|x: &Tensor| x.to_padded(0.0));
    let more = Tensor::nested(&[tensor([[1.0]])?, tensor([[2.0]])?, tensor([[3.0]])?])?;
    for x in [nested()?, more, nested()?] {
        assert!(g.call(&x)?.equal(&x.to_padded(0.0)?)?);
    }
    assert_eq!(g.variants(), 2);
    Ok(())
}

#[test]
fn a_tensor_of_another_kind_is_handed_through() -> Result<()> {
    let f = compile(|x: &Tensor| Ok((x.clone(), x.values()?.sum()?)));
    let x = coordinates()?;
    for _ in 0..2 {
        let (same, sum) = f.call(&x)?;
        assert!(same.is_same(&x));
        assert_eq!(sum.item::<f32>()?, 3.5);
    }
    Ok(())
}

/// The operator, and what makes the argument.
#[test]
fn all_else_is_refused_by_name_and_line() -> Result<()> {
    let refused: [(&str, Make, Program); 13] = [
        ("aten::mm", coordinates, |x| x.matmul(&x.to_dense()?.t()?)),
        ("aten::relu", coordinates, |x| x.relu()),
        ("aten::mul.Tensor", coordinates, |x| x.mul(x)),
        ("aten::_to_dense", rows, |x| x.to_dense()),
        ("aten::mm", rows, |x| x.matmul(&Tensor::ones([3, 1])?)),
        ("aten::relu", quantized, |x| x.relu()),
        ("aten::relu", nested, |x| x.relu()),
        ("aten::add.Tensor", nested, |x| x.add(x)),
        ("aten::_to_sparse", plain, |x| x.to_sparse()?.to_dense()),
        ("aten::_to_sparse_csr", plain, |x| x.to_sparse_csr()?.values()),
        ("aten::quantize_per_tensor", plain, |x| {
            x.quantize_per_tensor(0.1, 0, DType::QInt8)?.dequantize()
        }),
        ("aten::_nested_tensor_from_tensor_list", plain, |x| {
            Tensor::nested(&x.unbind(0)?)?.to_padded(0.0)
        }),
        ("aten::_sparse_coo_tensor_with_dims_and_tensors", plain, |x| {
            let at = tensor([[0, 1], [1, 0]])?;
            Tensor::sparse_coo(&at, &x.select(1, 0)?, [2, 2])?.to_dense()
        }),
    ];
    for (op, make, f) in refused {
        let argument = make()?;
        let errors = [
            compile(f).call(&argument).unwrap_err(),
            functionalize(f).call(&argument).unwrap_err(),
        ];
        for e in errors {
            let said = e.to_string();
            assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{op}: {e}");
            assert!(said.contains(&format!("`{op}`")), "{op}: {e}");
            assert!(said.contains("kinds_compiled.rs"), "{op}: {e}");
        }
        // eagerly it works, and where that is allowed
        let expected = f(&argument)?;
        let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
        let fallback = compile_with(options, f);
        assert_eq!(fallback.call(&argument)?.sizes(), expected.sizes());
    }
    Ok(())
}
