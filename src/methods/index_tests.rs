use crate::{Ellipsis, Index, NewAxis, Result, Tensor, compile, step, tensor};

fn cube() -> Result<Tensor> {
    Tensor::arange(24)?.reshape([2, 3, 4])
}

fn ints(t: Result<Tensor>) -> Result<Vec<i64>> {
    t?.to_vec()
}

#[test]
fn numbers_and_ranges_are_views() -> Result<()> {
    let x = cube()?;
    assert_eq!(ints(x.i((1, 2, 3)))?, [23]);
    assert_eq!(ints(x.i((-1, -1, -1)))?, [23]);
    assert_eq!(ints(x.i((0..1, 1, ..)))?, [4, 5, 6, 7]);
    assert_eq!(ints(x.i((.., 1..=1, ..=-3)))?, [4, 5, 16, 17]);
    assert_eq!(ints(x.i((.., 0, ..=-1)))?, [0, 1, 2, 3, 12, 13, 14, 15]);
    assert_eq!(ints(x.i((Ellipsis, -2..)))?.len(), 12);
    assert_eq!(ints(x.i((0, step(.., 2), step(1..4, 2))))?, [1, 3, 9, 11]);
    assert_eq!(x.i((NewAxis, .., NewAxis, 0))?.sizes(), [1, 2, 1, 4]);
    assert_eq!(x.i((None, .., None, 0))?.sizes(), [1, 2, 1, 4]);
    assert_eq!(x.i(())?.sizes(), [2, 3, 4]);
    assert!(x.i((0, 1..))?.shares_storage_with(&x) && !x.i(..)?.is_same(&x));
    let dynamic = vec![Index::from(0), Index::from(1..3)];
    assert_eq!(x.i(dynamic)?.sizes(), [2, 4]);
    Ok(())
}

#[test]
fn tensors_lists_and_masks() -> Result<()> {
    let x = cube()?;
    let index = tensor([1, 0])?;
    assert_eq!(x.i(&index)?.sizes(), [2, 3, 4]);
    // neighbours stand where they were, others in front
    assert_eq!(x.i((.., [0, 2], [1, 3]))?.sizes(), [2, 2]);
    assert_eq!(x.i(([0, 1], .., [1, 3]))?.sizes(), [2, 3]);
    assert_eq!(x.i((.., [0, 1, 2], NewAxis))?.sizes(), [2, 3, 1, 4]);
    assert_eq!(ints(x.i((&index, 0, [1usize, 2])))?, [13, 2]);
    assert_eq!(ints(x.i((.., &index, 0)))?, [4, 0, 16, 12]);
    // a mask takes as many dimensions as it has, here with a range behind it
    let mask = tensor([[true, false, false], [false, false, true]])?;
    assert_eq!(ints(x.i((&mask, 1..3)))?, [1, 2, 21, 22]);
    assert_eq!(ints(x.i((0, [true, false, true], 0)))?, [0, 8]);
    assert_eq!(x.i(tensor(true)?)?.sizes(), [1, 2, 3, 4]);
    assert_eq!(x.i(tensor(false)?)?.sizes(), [0, 2, 3, 4]);
    assert_eq!(x.i(tensor(1)?)?.sizes(), [3, 4]);
    Ok(())
}

#[test]
fn assignment_through_every_kind() -> Result<()> {
    let x = Tensor::zeros([2, 3])?;
    let given = x.i_put_((0, step(.., 2)), 1)?;
    assert!(given.is_same(&x));
    x.i_put_(1, tensor([[2.0, 3.0, 4.0]])?)?;
    assert_eq!(x.to_vec2::<f32>()?, [[1.0, 0.0, 1.0], [2.0, 3.0, 4.0]]);
    x.i_put_((.., [2, 0]), &tensor([7.0, 8.0])?)?;
    assert_eq!(x.to_vec2::<f32>()?, [[8.0, 0.0, 7.0], [8.0, 3.0, 7.0]]);
    x.i_put_(x.eq(8.0)?, 0)?;
    x.i_put_((1, [true, false, true]), 5.0)?;
    assert_eq!(x.to_vec2::<f32>()?, [[0.0, 0.0, 7.0], [5.0, 3.0, 5.0]]);
    x.i_put_(.., -1.5)?;
    assert_eq!(x.to_vec::<f32>()?, [-1.5; 6]);
    Ok(())
}

#[test]
fn errors_are_of_the_users_line() -> Result<()> {
    let x = cube()?;
    for (result, class, says) in [
        (x.i((0, 0, 0, 0)), "IndexError", "too many indices"),
        (x.i((Ellipsis, Ellipsis)), "IndexError", "single ellipsis"),
        (x.i(2), "IndexError", "out of range"),
        (x.i(step(.., 0)), "RuntimeError", "step must be"),
        (x.i([true, false, true]), "IndexError", "mask"),
        (x.i(tensor([0.5])?), "IndexError", "indices"),
        (x.i_put_((0, 0), tensor([1, 2, 3])?), "RuntimeError", "3"),
    ] {
        let e = result.unwrap_err();
        assert!(e.to_string().contains(says), "{e}");
        assert_eq!(e.python_class(), class, "{e}");
        assert!(e.location().expect("a line").file().ends_with("index_tests.rs"), "{e}");
    }
    Ok(())
}

#[test]
fn compiled_functions_index_and_assign() -> Result<()> {
    let f = compile(|x: &Tensor| {
        let y = x.copied()?;
        y.i_put_((.., 0), x.i((.., -1))?)?;
        y.i_put_((0, [1, 2]), 9)?;
        y.i((step(.., 2), ..))
    });
    let x = Tensor::arange(12)?.reshape([3, 4])?;
    for _ in 0..2 {
        assert_eq!(f.call(&x)?.to_vec2::<i64>()?, [[3, 9, 9, 3], [11, 9, 10, 11]]);
    }
    Ok(())
}
