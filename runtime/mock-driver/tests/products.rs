//! Matrix products of cuBLASLt against sums in f64.

mod support;

use cudarc::cublaslt::{Activation, CudaBlasLT, Matmul, MatmulConfig, result, sys};
use cudarc::driver::sys::CUresult as DriverCode;
use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr, DriverError};
use half::{bf16, f16};
use std::ffi::c_void;
use std::sync::Arc;
use support::{THREAD_LOCAL, begin, code, context, count};
use sys::cublasComputeType_t as Compute;
use sys::cublasLtEpilogue_t as Epilogue;
use sys::cublasLtMatmulDescAttributes_t as Of;
use sys::cublasLtMatrixLayoutAttribute_t as Layout;
use sys::cublasStatus_t as Status;
use sys::cudaDataType_t as Kind;

/// Numbers between -1 and 1 that look like chance.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}

/// The largest difference, as a part of the largest number.
fn difference(found: impl IntoIterator<Item = f64>, expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
    let mut worst = 0.0_f64;
    for (found, expected) in found.into_iter().zip(expected) {
        assert!(found.is_finite());
        worst = worst.max((found - expected).abs());
    }
    worst / largest
}

/// m x n by columns: the product of an m x k and a k x n matrix by columns.
fn product(m: usize, n: usize, k: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; m * n];
    for column in 0..n {
        for row in 0..m {
            sums[column * m + row] = (0..k).map(|at| a[at * m + row] * b[column * k + at]).sum();
        }
    }
    sums
}

/// A x B with a bias for each row and an activation, by cudarc's safe interface.
fn biased<T: Copy + DeviceRepr + cudarc::driver::ValidAsZeroBits>(
    from: fn(f64) -> T,
    to: fn(T) -> f64,
    tolerance: f64,
) -> Result<(), DriverError>
where
    CudaBlasLT: Matmul<T>,
{
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let library = CudaBlasLT::new(stream.clone()).expect("a library");
    let (m, n, k) = (24, 10, 40);
    let round = |list: Vec<f64>| list.into_iter().map(|it| to(from(it))).collect::<Vec<f64>>();
    let (a, b) = (round(numbers(m * k, 1)), round(numbers(k * n, 2)));
    let bias = round(numbers(m, 3));
    let upload =
        |list: &[f64]| stream.clone_htod(&list.iter().map(|it| from(*it)).collect::<Vec<T>>());
    let (device_a, device_b, device_bias) = (upload(&a)?, upload(&b)?, upload(&bias)?);
    let mut sums = product(m, n, k, &a, &b);
    for (index, sum) in sums.iter_mut().enumerate() {
        *sum += bias[index % m];
    }
    for activation in [None, Some(Activation::Relu), Some(Activation::Gelu)] {
        let mut out = stream.alloc_zeros::<T>(m * n)?;
        let configuration = MatmulConfig {
            transa: false,
            transb: false,
            transc: false,
            m: m as u64,
            n: n as u64,
            k: k as u64,
            alpha: 1.0,
            lda: m as i64,
            ldb: k as i64,
            beta: 0.0,
            ldc: m as i64,
            stride_a: None,
            stride_b: None,
            stride_c: None,
            stride_bias: None,
            batch_size: None,
        };
        let (bias, act) = (Some(&device_bias), activation.as_ref());
        // SAFETY: matrices of these sizes
        unsafe { library.matmul(configuration, &device_a, &device_b, &mut out, bias, act) }
            .expect("a product");
        let expected: Vec<f64> = sums
            .iter()
            .map(|sum| match activation {
                None => *sum,
                Some(Activation::Relu) => sum.max(0.0),
                Some(Activation::Gelu) => gelu(*sum),
            })
            .collect();
        let found = stream.clone_dtoh(&out)?;
        let worst = difference(found.into_iter().map(to), &expected);
        assert!(worst < tolerance, "{activation:?}: {worst}");
    }
    assert_eq!(count(&mock, "products"), 3);
    Ok(())
}

#[test]
fn products_with_bias_and_activation() -> Result<(), DriverError> {
    // TF32 has ten bits
    biased::<f32>(|it| it as f32, f64::from, 1e-3)?;
    biased::<f16>(|it| f16::from_f32(it as f32), f64::from, 1e-3)?;
    biased::<bf16>(|it| bf16::from_f32(it as f32), f64::from, 8e-3)
}

/// A product at the level of the library.
struct Case {
    compute: Compute,
    scale: Kind,
    /// of A and B, and of C and D
    kinds: [Kind; 2],
    epilogue: Epilogue,
    transposed: [bool; 2],
    /// rows, columns, leading dimension of A, B, C, D; batch strides
    shapes: [(u64, u64, i64); 4],
    by_rows: bool,
    batch: Option<(i32, [i64; 4])>,
    bias: u64,
    auxiliary: Option<(u64, i64)>,
}

impl Case {
    fn new(compute: Compute, scale: Kind, kinds: [Kind; 2], shapes: [(u64, u64, i64); 4]) -> Case {
        Case {
            compute,
            scale,
            kinds,
            epilogue: Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            transposed: [false; 2],
            shapes,
            by_rows: false,
            batch: None,
            bias: 0,
            auxiliary: None,
        }
    }

    /// Runs it; the factors point to values of the scale's type.
    fn run<S>(&self, stream: &CudaStream, addresses: [u64; 4], alpha: S, beta: S) -> Status {
        // SAFETY: handles of this function, attributes of their types, matrices that the tests made
        unsafe {
            let library = result::create_handle().unwrap();
            let operation = result::create_matmul_desc(self.compute, self.scale).unwrap();
            let set = |attribute, value: *const c_void, bytes| {
                result::set_matmul_desc_attribute(operation, attribute, value, bytes).unwrap();
            };
            for (attribute, flag) in
                [Of::CUBLASLT_MATMUL_DESC_TRANSA, Of::CUBLASLT_MATMUL_DESC_TRANSB]
                    .into_iter()
                    .zip(self.transposed)
            {
                let flag = i32::from(flag);
                set(attribute, (&raw const flag).cast(), 4);
            }
            set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const self.epilogue).cast(), 4);
            set(Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const self.bias).cast(), 8);
            if let Some((address, leading)) = &self.auxiliary {
                let pointer = Of::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER;
                set(pointer, (&raw const *address).cast(), 8);
                set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (&raw const *leading).cast(), 8);
            }
            let layouts: Vec<_> = self
                .shapes
                .iter()
                .enumerate()
                .map(|(index, &(rows, columns, leading))| {
                    let kind = self.kinds[index / 2];
                    let layout =
                        result::create_matrix_layout(kind, rows, columns, leading).unwrap();
                    let set = |attribute, value: *const c_void, bytes| {
                        result::set_matrix_layout_attribute(layout, attribute, value, bytes)
                            .unwrap();
                    };
                    let order = i32::from(self.by_rows);
                    set(Layout::CUBLASLT_MATRIX_LAYOUT_ORDER, (&raw const order).cast(), 4);
                    if let Some((count, strides)) = &self.batch {
                        let batch = Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
                        set(batch, (&raw const *count).cast(), 4);
                        let offset = Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
                        set(offset, (&raw const strides[index]).cast(), 8);
                    }
                    layout
                })
                .collect();
            let preference = result::create_matmul_pref().unwrap();
            let [a, b, c, d] = layouts[..].try_into().unwrap();
            let found =
                result::get_matmul_algo_heuristic(library, operation, a, b, c, d, preference);
            let status = match found {
                Err(error) => error.0,
                Ok(heuristic) => {
                    let outcome = result::matmul(
                        library,
                        operation,
                        (&raw const alpha).cast(),
                        (&raw const beta).cast(),
                        addresses[0] as *const c_void,
                        a,
                        addresses[1] as *const c_void,
                        b,
                        addresses[2] as *const c_void,
                        c,
                        addresses[3] as *mut c_void,
                        d,
                        &heuristic.algo,
                        std::ptr::null_mut(),
                        0,
                        stream.cu_stream().cast(),
                    );
                    outcome.err().map_or(Status::CUBLAS_STATUS_SUCCESS, |error| error.0)
                }
            };
            layouts.into_iter().for_each(|it| result::destroy_matrix_layout(it).unwrap());
            result::destroy_matmul_pref(preference).unwrap();
            result::destroy_matmul_desc(operation).unwrap();
            result::destroy_handle(library).unwrap();
            status
        }
    }
}

#[test]
fn transpositions_batches_and_other_addends() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let (m, n, k, batch) = (5, 4, 7, 3);
    // by rows: A is k x m and turned, B is n x k and turned
    let a: Vec<f64> = numbers(batch * m * k, 4);
    let b: Vec<f64> = numbers(batch * k * n, 5);
    // one C for all
    let c: Vec<f64> = numbers(m * n, 6);
    let (device_a, device_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let device_c = stream.clone_htod(&c)?;
    let out = stream.alloc_zeros::<f64>(batch * m * n)?;
    let shape = |rows: usize, columns: usize| (rows as u64, columns as u64, columns as i64);
    let case = Case {
        transposed: [true, true],
        by_rows: true,
        batch: Some((batch as i32, [(m * k) as i64, (k * n) as i64, 0, (m * n) as i64])),
        ..Case::new(
            Compute::CUBLAS_COMPUTE_64F,
            Kind::CUDA_R_64F,
            [Kind::CUDA_R_64F; 2],
            [shape(k, m), shape(n, k), shape(m, n), shape(m, n)],
        )
    };
    let addresses = [
        device_a.device_ptr(&stream).0,
        device_b.device_ptr(&stream).0,
        device_c.device_ptr(&stream).0,
        out.device_ptr(&stream).0,
    ];
    assert_eq!(case.run(&stream, addresses, 2.0, -1.0), Status::CUBLAS_STATUS_SUCCESS);
    let mut expected = Vec::new();
    for number in 0..batch {
        for row in 0..m {
            for column in 0..n {
                let sum: f64 = (0..k)
                    .map(|at| {
                        a[number * m * k + at * m + row] * b[number * k * n + column * k + at]
                    })
                    .sum();
                expected.push(2.0 * sum - c[row * n + column]);
            }
        }
    }
    assert!(difference(stream.clone_dtoh(&out)?, &expected) < 1e-14);
    Ok(())
}

#[test]
fn integers_are_exact() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let a: Vec<i8> = (0..64 * 8).map(|at| (at * 37 % 255) as u8 as i8).collect();
    let b: Vec<i8> = (0..64 * 4).map(|at| (at * 91 % 251) as u8 as i8).collect();
    let (device_a, device_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let out = stream.alloc_zeros::<i32>(8 * 4)?;
    let mut case = Case {
        transposed: [true, false],
        ..Case::new(
            Compute::CUBLAS_COMPUTE_32I,
            Kind::CUDA_R_32I,
            [Kind::CUDA_R_8I, Kind::CUDA_R_32I],
            [(64, 8, 64), (64, 4, 64), (8, 4, 8), (8, 4, 8)],
        )
    };
    let result = out.device_ptr(&stream).0;
    let addresses =
        [device_a.device_ptr(&stream).0, device_b.device_ptr(&stream).0, result, result];
    assert_eq!(case.run(&stream, addresses, 1_i32, 0_i32), Status::CUBLAS_STATUS_SUCCESS);
    let sums = stream.clone_dtoh(&out)?;
    for (index, sum) in sums.iter().enumerate() {
        let (row, column) = (index % 8, index / 8);
        let pairs = a[row * 64..][..64].iter().zip(&b[column * 64..][..64]);
        assert_eq!(*sum, pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>());
    }
    // only A turned and B not
    case.transposed = [false, false];
    case.shapes[0] = (8, 64, 8);
    let refused = case.run(&stream, addresses, 1_i32, 0_i32);
    assert_eq!(refused, Status::CUBLAS_STATUS_NOT_SUPPORTED);
    Ok(())
}

#[test]
fn what_gelu_keeps_for_its_gradient() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let (m, n, k) = (8, 6, 16);
    let float = |list: &[f64]| list.iter().map(|it| *it as f32).collect::<Vec<f32>>();
    let (a, b, bias) = (numbers(m * k, 7), numbers(k * n, 8), numbers(m, 9));
    let upload = |list: &[f64]| stream.clone_htod(&float(list));
    let (device_a, device_b, device_bias) = (upload(&a)?, upload(&b)?, upload(&bias)?);
    let (out, kept) = (stream.alloc_zeros::<f32>(m * n)?, stream.alloc_zeros::<f32>(m * n)?);
    let result = out.device_ptr(&stream).0;
    let addresses =
        [device_a.device_ptr(&stream).0, device_b.device_ptr(&stream).0, result, result];
    let shape = |rows: usize, columns: usize| (rows as u64, columns as u64, rows as i64);
    let mut case = Case {
        epilogue: Epilogue::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        bias: device_bias.device_ptr(&stream).0,
        auxiliary: Some((kept.device_ptr(&stream).0, m as i64)),
        ..Case::new(
            Compute::CUBLAS_COMPUTE_32F,
            Kind::CUDA_R_32F,
            [Kind::CUDA_R_32F; 2],
            [shape(m, k), shape(k, n), shape(m, n), shape(m, n)],
        )
    };
    assert_eq!(case.run(&stream, addresses, 1.0_f32, 0.0_f32), Status::CUBLAS_STATUS_SUCCESS);
    let mut before = product(m, n, k, &a, &b);
    before.iter_mut().enumerate().for_each(|(index, sum)| *sum += bias[index % m]);
    let after: Vec<f64> = before.iter().map(|sum| gelu(*sum)).collect();
    let widen = |list: Vec<f32>| list.into_iter().map(f64::from);
    assert!(difference(widen(stream.clone_dtoh(&kept)?), &before) < 1e-6);
    assert!(difference(widen(stream.clone_dtoh(&out)?), &after) < 1e-6);

    // the gradient, and the sums of its rows in the place of the bias
    case.epilogue = Epilogue::CUBLASLT_EPILOGUE_DGELU_BGRAD;
    assert_eq!(case.run(&stream, addresses, 1.0_f32, 0.0_f32), Status::CUBLAS_STATUS_SUCCESS);
    let upstream = product(m, n, k, &a, &b);
    let slope = |x: f64| (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
    let gradient: Vec<f64> =
        upstream.iter().zip(&before).map(|(it, before)| it * slope(*before)).collect();
    let sums: Vec<f64> =
        (0..m).map(|row| (0..n).map(|column| gradient[column * m + row]).sum()).collect();
    assert!(difference(widen(stream.clone_dtoh(&out)?), &gradient) < 1e-5);
    assert!(difference(widen(stream.clone_dtoh(&device_bias)?), &sums) < 1e-5);
    Ok(())
}

#[test]
fn products_are_queued_and_captured() -> Result<(), DriverError> {
    let (mock, _alone) = begin(&[]);
    let context = context(0);
    let stream: Arc<CudaStream> = context.new_stream()?;
    let mut a = stream.clone_htod(&[1.0_f32, 2.0, 3.0, 4.0])?;
    let b = stream.clone_htod(&[1.0_f32, 0.0, 0.0, 1.0])?;
    let out = stream.alloc_zeros::<f32>(4)?;
    stream.synchronize()?;
    let result = out.device_ptr(&stream).0;
    let addresses = [a.device_ptr(&stream).0, b.device_ptr(&stream).0, result, result];
    let case = Case::new(
        Compute::CUBLAS_COMPUTE_32F,
        Kind::CUDA_R_32F,
        [Kind::CUDA_R_32F; 2],
        [(2, 2, 2); 4],
    );
    stream.begin_capture(THREAD_LOCAL)?;
    assert_eq!(case.run(&stream, addresses, 10.0_f32, 0.0_f32), Status::CUBLAS_STATUS_SUCCESS);
    let graph = stream.end_capture(cudarc::driver::sys::CUgraphInstantiate_flags(0))?.unwrap();
    assert_eq!(count(&mock, "products"), 0);
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&out)?, [10.0, 20.0, 30.0, 40.0]);
    stream.memcpy_htod(&[5.0, 6.0, 7.0, 8.0], &mut a)?;
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&out)?, [50.0, 60.0, 70.0, 80.0]);

    // wrong memory is found when it runs
    let wild = [addresses[0], addresses[1], result + 8, result + 8];
    assert_eq!(case.run(&stream, wild, 1.0_f32, 0.0_f32), Status::CUBLAS_STATUS_SUCCESS);
    assert_eq!(code(stream.synchronize()), DriverCode::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(mock.last_fault().contains("cublasLtMatmul, D"), "{}", mock.last_fault());
    Ok(())
}

#[test]
fn products_that_are_refused() -> Result<(), DriverError> {
    let (_mock, _alone) = begin(&[]);
    let context = context(0);
    let stream = context.new_stream()?;
    let out = stream.alloc_zeros::<f32>(64)?;
    let address = out.device_ptr(&stream).0;
    let run = |compute, scale, kinds, shapes| {
        Case::new(compute, scale, kinds, shapes).run(&stream, [address; 4], 1.0_f32, 0.0_f32)
    };
    let (float, half) = (Kind::CUDA_R_32F, Kind::CUDA_R_16F);
    let compute = Compute::CUBLAS_COMPUTE_32F;
    // sizes that do not meet
    let shapes = [(2, 3, 2), (4, 2, 4), (2, 2, 2), (2, 2, 2)];
    let status = run(compute, float, [float; 2], shapes);
    assert_eq!(status, Status::CUBLAS_STATUS_INVALID_VALUE);
    // a leading dimension below the rows
    let status = run(compute, float, [float; 2], [(2, 2, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2)]);
    assert_eq!(status, Status::CUBLAS_STATUS_INVALID_VALUE);
    // types that do not go together
    let status = run(compute, float, [float, half], [(2, 2, 2); 4]);
    assert_eq!(status, Status::CUBLAS_STATUS_NOT_SUPPORTED);
    let status = run(Compute::CUBLAS_COMPUTE_64F, float, [float; 2], [(2, 2, 2); 4]);
    assert_eq!(status, Status::CUBLAS_STATUS_NOT_SUPPORTED);
    Ok(())
}
