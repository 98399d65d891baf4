//! Writes by index and through windows that overlap.

use straightline::ops::aten;
use straightline::{Result, Tensor, compile};

fn counted(n: i64) -> Tensor {
    Tensor::arange(n).unwrap()
}

type Write = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// What PyTorch 2.15 refuses: an element might be written before it is read.
#[test]
fn what_is_written_by_index_lies_apart_from_what_is_read() {
    let writes: [(&str, Write); 9] = [
        ("scatter_", |x, i, s| aten::scatter_src_(x, 0, i, s)),
        ("scatter_add_", |x, i, s| aten::scatter_add_(x, 0, i, s)),
        ("scatter_reduce_", |x, i, s| aten::scatter_reduce_two_(x, 0, i, s, "prod", false)),
        ("index_add_", |x, i, s| aten::index_add_(x, 0, i, s, 1.into())),
        ("index_copy_", |x, i, s| aten::index_copy_(x, 0, i, s)),
        ("index_reduce_", |x, i, s| aten::index_reduce_(x, 0, i, s, "prod", true)),
        ("index_put_", |x, i, s| aten::index_put_(x, &[Some(i.clone())], s, false)),
        ("index_put_ accumulating", |x, i, s| aten::index_put_(x, &[Some(i.clone())], s, true)),
        ("put_", |x, i, s| aten::put_(x, i, s, false)),
    ];
    let index = Tensor::from_slice(&[1i64, 0, 3, 2], [4]).unwrap();
    for (name, f) in writes {
        // the tensor itself, elements of it at other places, and elements of others
        for (at, refused) in [(0, true), (1, true), (4, false)] {
            let base = counted(8).to_dtype(straightline::DType::F32).unwrap();
            let (x, s) = (base.slice(0, 0, 4, 1), base.slice(0, at, at + 4, 1));
            let (x, s, i) = (x.unwrap(), s.unwrap(), index.clone());
            let compiled = compile(move |(x, s): &(Tensor, Tensor)| f(x, &i, s));
            for result in [
                f(&x, &index, &s),
                compiled
                    .call(&(x.copied().unwrap(), s.copied().unwrap()))
                    .and_then(|_| compiled.call(&(x.clone(), s.clone()))),
            ] {
                match result {
                    Ok(_) => assert!(!refused, "{name} from {at}"),
                    Err(e) => assert!(
                        refused && e.to_string().contains("a single memory location"),
                        "{name} from {at}: {e}"
                    ),
                }
            }
        }
    }
}

#[test]
fn a_window_that_overlaps_itself_is_written_in_part() {
    let f = |x: &Tensor| {
        // rows (3, 5, 7) and (7, 9, 11)
        let window = aten::as_strided(x, &[2, 3], &[4, 2], Some(3))?;
        let last = aten::t(&window)?.slice(0, 2, 3, 1)?;
        last.add_(100)?;
        x.copied()
    };
    let want = f(&counted(12)).unwrap();
    assert_eq!(want.to_vec::<i64>().unwrap()[7], 107);
    let got = compile(f).call(&counted(12)).unwrap();
    assert!(aten::equal(&got, &want).unwrap(), "{got} {want}");
}

#[test]
fn nothing_is_written_through_a_view_without_elements() {
    let f = |x: &Tensor| {
        let past = aten::unfold(&aten::select_int(x, 0, 3)?, 0, 1, 2)?;
        let none = aten::slice_tensor(&past, 0, Some(2), None, 1)?;
        none.mul_(&none)?;
        x.copied()
    };
    let x = || aten::as_strided(&counted(24), &[4, 3], &[6, 2], Some(1)).unwrap();
    let got = compile(f).call(x()).unwrap();
    assert!(aten::equal(&got, &x()).unwrap(), "{got}");
}
