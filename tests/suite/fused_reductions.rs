//! Reductions in one kernel with what they reduce: elements that are picked, compared, positions.

use straightline::{DType, Result, Tensor, compile};

/// Small whole numbers, so that sums are exact in any order.
fn numbers(d: DType, sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let all: Vec<i64> = (0..n).map(|i| i * 7 % 5 + i / 16 % 3).collect();
    Tensor::from_slice(&all, sizes).unwrap().to(d).unwrap()
}

fn same(
    what: &str,
    x: &Tensor,
    f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static + Copy,
) {
    let (want, got) = (f(x).unwrap(), compile(f).call(x).unwrap());
    assert_eq!((got.sizes(), got.dtype()), (want.sizes(), want.dtype()), "{what}");
    assert!(got.equal(&want).unwrap(), "{what}:\n{got}\n{want}");
}

#[test]
fn rows_that_are_picked() {
    use DType::{BF16, F32, F64, I32, I64, U8};
    for d in [F32, F64, I64, I32, U8, BF16] {
        for width in [8, 16, 33, 100] {
            let table = numbers(d, &[9, width]);
            for ids in
                [&[3i64, 1][..], &[0, 1, 2], &[8, 1, 2, 2, 1, 0], &[4, 0, 7, 1, 3, 2, 8, 5, 6]]
            {
                let ids = Tensor::from_slice(ids, &[ids.len() as i64]).unwrap();
                let what = format!("{d} {width} {ids}");
                let of = |f: fn(&Tensor) -> Result<Tensor>| {
                    let (want, ids) = (f(&table.embedding(&ids).unwrap()).unwrap(), ids.clone());
                    let rows = compile(move |(x, i): &(Tensor, Tensor)| f(&x.embedding(i)?));
                    let got = rows.call((&table, &ids)).unwrap();
                    assert!(got.equal(&want).unwrap(), "{what}:\n{got}\n{want}");
                };
                of(|x| x.sum_dim(1));
                of(|x| x.amax([1]));
                of(|x| x.argmax(1));
                of(|x| x.gt(4)?.any_dim(1));
                of(|x| x.sum_dim(1)?.add(x.amin([1])?));
            }
        }
    }
}

#[test]
fn truth_over_columns() {
    use DType::{F32, F64, I32, I64, U8};
    for d in [F32, F64, I64, I32, U8] {
        for sizes in [&[5i64, 240][..], &[5, 16, 15], &[33, 8, 40], &[3, 64], &[70, 100]] {
            let x = numbers(d, sizes);
            let what = format!("{d} {sizes:?}");
            same(&what, &x, |x| x.any_dim(0));
            same(&what, &x, |x| x.all_dim(0));
            same(&what, &x, |x| x.gt(5)?.any_dim(0));
            same(&what, &x, |x| x.gt(0)?.all_dim(0));
            same(&what, &x, |x| x.gt(5)?.amax([0]));
            same(&what, &x, |x| x.gt(3)?.sum_dim(0));
            same(&what, &x, |x| x.argmax(0));
        }
    }
}

#[test]
fn counts_and_long_sums_with_what_they_add() {
    for sizes in [&[300i64, 1000][..], &[77, 1021], &[3, 5, 7, 1000], &[100_003]] {
        for d in [DType::F32, DType::F64, DType::I64, DType::I32, DType::U8] {
            let x = numbers(d, sizes);
            let what = format!("{d} {sizes:?}");
            same(&what, &x, |x| x.eq(3)?.sum());
            same(&what, &x, |x| x.ne(3)?.sum_dim(-1));
            same(&what, &x, |x| x.to(DType::I64)?.sum());
            same(&what, &x, |x| x.mul(2)?.amax([] as [i64; 0]));
            same(&what, &x, |x| x.gt(5)?.any());
        }
    }
}

#[test]
fn positions_in_a_kernel() {
    for d in [DType::F32, DType::F64, DType::I64, DType::I32, DType::BF16, DType::U8, DType::Bool] {
        for sizes in [&[16i64, 16][..], &[33, 70], &[4, 9, 65]] {
            let x = numbers(d, sizes);
            let what = format!("{d} {sizes:?}");
            same(&what, &x, |x| x.tril());
            same(&what, &x, |x| x.triu_with(-3));
            same(&what, &x, |x| {
                let places = Tensor::arange(x.size(-1)?)?;
                x.to(DType::F32)?.mul(&places.sub(7)?)
            });
        }
    }
}
