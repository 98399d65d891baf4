//! `_int_mm` against PyTorch's results and errors, eager and compiled.

use straightline::ops::aten;
use straightline::{DType, Device, Result, Tensor, compile};

/// Bytes whose rows and columns differ, -128 and 127 among them.
fn bytes(rows: i64, cols: i64) -> Tensor {
    let number = |at: i64| (((at / cols) * 31 + (at % cols) * 17) % 256 - 128) as i8;
    let data: Vec<i8> = (0..rows * cols).map(number).collect();
    Tensor::from_slice(&data, [rows, cols]).unwrap()
}

fn ints(t: &Tensor) -> Vec<i32> {
    assert_eq!(t.dtype(), DType::I32);
    t.to_vec().unwrap()
}

/// What PyTorch 2.15 gives for 3x70 and 70x5 of them, and with the left one shifted to `uint8`.
const SIGNED: [i32; 15] = [
    -23719, 29608, 38647, 15942, 42389, -17912, -10127, -30758, -17597, -20820, 49335, 11578,
    26813, 10304, -22589,
];
const UNSIGNED: [i32; 15] = [
    -42023, -32984, -2697, -4154, 43541, -36216, -72719, -72102, -37693, -19668, 31031, -51014,
    -14531, -9792, -21437,
];

#[test]
fn products_of_bytes_are_pytorchs() {
    let (a, b) = (bytes(3, 70), bytes(70, 5));
    let u = (a.to_dtype(DType::I32).unwrap() + 128).to_dtype(DType::U8).unwrap();
    let compiled = compile(|(x, y): (&Tensor, &Tensor)| aten::_int_mm(x, y));
    for (left, want) in [(&a, SIGNED), (&u, UNSIGNED)] {
        let y = aten::_int_mm(left, &b).unwrap();
        assert_eq!((y.sizes(), ints(&y)), (&[3i64, 5][..], want.to_vec()));
        for _ in 0..2 {
            assert_eq!(ints(&compiled.call((left, &b)).unwrap()), want);
        }
        let out = Tensor::with(DType::I32).zeros([3, 5]).unwrap();
        aten::_int_mm_out(left, &b, &out).unwrap();
        assert_eq!(ints(&out), want);
    }
    // the transposed product, of views
    let turned = aten::_int_mm(&b.t().unwrap(), &a.t().unwrap()).unwrap();
    assert_eq!(ints(&turned.t().unwrap().contiguous().unwrap()), SIGNED);
    // a sum that does not fit in 32 bits
    let least =
        |sizes: [i64; 2]| aten::full(&sizes, (-128).into(), Some(DType::I8), None, None, None);
    let y = aten::_int_mm(&least([1, 140_000]).unwrap(), &least([140_000, 1]).unwrap()).unwrap();
    assert_eq!(ints(&y), [-2_001_207_296]);
    // no steps, and no rows
    let zeros = |sizes: [i64; 2]| Tensor::with(DType::I8).zeros(sizes).unwrap();
    assert_eq!(ints(&aten::_int_mm(&zeros([2, 0]), &zeros([0, 3])).unwrap()), [0; 6]);
    assert_eq!(aten::_int_mm(&zeros([0, 2]), &zeros([2, 3])).unwrap().sizes(), [0, 3]);
}

#[test]
fn sizes_and_dtypes_are_known_without_data() {
    let meta = |t: &Tensor| t.to_device(Device::META);
    let (a, b) = (meta(&bytes(3, 70)).unwrap(), meta(&bytes(70, 5)).unwrap());
    let y = aten::_int_mm(&a, &b).unwrap();
    assert_eq!((y.sizes(), y.dtype(), y.device()), (&[3i64, 5][..], DType::I32, Device::META));
}

/// The text and the class of an error.
fn refused(result: Result<Tensor>) -> (String, &'static str) {
    let error = result.unwrap_err();
    (error.to_string(), error.python_class())
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let (a, b) = (bytes(3, 5), bytes(5, 4));
    let float = |t: &Tensor| t.to_dtype(DType::F32).unwrap();
    let row = |t: &Tensor| t.select(0, 0).unwrap();
    let cases = [
        (aten::_int_mm(&row(&a), &b), "self must be a matrix, got 1-D tensor", "RuntimeError"),
        (aten::_int_mm(&a, &row(&b)), "Dimension out of range", "IndexError"),
        (
            aten::_int_mm(&a, &bytes(4, 4)),
            "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x4)",
            "RuntimeError",
        ),
        (aten::_int_mm(&float(&a), &b), "Expected self dtype to be int8 or uint8", "RuntimeError"),
        (aten::_int_mm(&a, &float(&b)), "Expected mat2 dtype to be of type int8", "RuntimeError"),
    ];
    for (result, text, class) in cases {
        let (found, of) = refused(result);
        assert!(found.contains(text) && of == class, "{found}: {of}");
    }
    let out = |dtype: DType, sizes: &[i64]| Tensor::with(dtype).zeros(sizes).unwrap();
    let cases = [
        (out(DType::I8, &[3, 4]), "Expected result dtype to be int32", "RuntimeError"),
        (out(DType::I32, &[4, 4]), "Expected result.size(0) to be 3 but got 4", "RuntimeError"),
        (out(DType::I32, &[3, 3]), "Expected result.size(1) to be 4 but got 3", "RuntimeError"),
        (out(DType::I32, &[3]), "Dimension out of range", "IndexError"),
        (out(DType::I32, &[3, 4, 1]), "Expected result to be of dimension 2", "RuntimeError"),
        (out(DType::I32, &[4, 3]).t().unwrap(), "Expected result to be contiguous", "RuntimeError"),
    ];
    for (out, text, class) in cases {
        let (found, of) = refused(aten::_int_mm_out(&a, &b, &out));
        assert!(found.contains(text) && of == class, "{found}: {of}");
    }
}
