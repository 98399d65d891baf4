//! A matrix product with its epilogue.

use super::Status;
use super::descriptor::Descriptor;
use super::kind::{Compute, Kind};
use crate::code::Code;
use crate::driver::{Driver, Failure};
use half::f16;

/// A matrix in device memory.
#[derive(Clone, Debug)]
struct Matrix {
    address: u64,
    kind: Kind,
    rows: usize,
    columns: usize,
    /// elements from one column to the next, or from one row to the next if it lies by rows
    leading: usize,
    by_rows: bool,
    batch: usize,
    stride: i64,
}

impl Matrix {
    fn new(layout: &Descriptor, address: u64) -> Result<Matrix, Status> {
        let size = |number| usize::try_from(layout.long(number)).map_err(|_| Status::INVALID_VALUE);
        let matrix = Matrix {
            address,
            kind: Kind::of(layout.int(0)).ok_or(Status::NOT_SUPPORTED)?,
            rows: size(2)?,
            columns: size(3)?,
            leading: size(4)?,
            by_rows: match layout.int(1) {
                0 => false,
                1 => true,
                _ => return Err(Status::NOT_SUPPORTED),
            },
            batch: usize::try_from(layout.int(5)).map_err(|_| Status::INVALID_VALUE)?,
            stride: layout.long(6),
        };
        let line = if matrix.by_rows { matrix.columns } else { matrix.rows };
        if matrix.leading < line || matrix.rows == 0 || matrix.columns == 0 || matrix.batch == 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(matrix)
    }

    fn index(&self, row: usize, column: usize) -> usize {
        if self.by_rows { row * self.leading + column } else { column * self.leading + row }
    }

    /// Bytes from the first to the last element of one of the batch.
    fn span(&self) -> usize {
        (self.index(self.rows - 1, self.columns - 1) + 1) * self.kind.bytes()
    }

    fn at(&self, number: usize) -> u64 {
        self.address.wrapping_add_signed(self.stride * number as i64 * self.kind.bytes() as i64)
    }

    /// The bytes of one of the batch.
    fn load(&self, driver: &Driver, number: usize, name: &str) -> Result<Vec<u8>, Failure> {
        read(driver, self.at(number), self.span(), name)
    }
}

fn read(driver: &Driver, address: u64, bytes: usize, name: &str) -> Result<Vec<u8>, Failure> {
    let mut data = vec![0; bytes];
    match driver.memory.read(address, &mut data) {
        Ok(()) => Ok(data),
        Err(error) => Err(failure(name, &error)),
    }
}

fn failure(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure { code: Code::ILLEGAL_ADDRESS, text: format!("cublasLtMatmul, {name}: {error}") }
}

/// A factor: a number, or where it is on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Factor {
    Value(f64),
    Device(u64),
}

/// Lines of a matrix, one behind the other.
enum Packed {
    Narrow(Vec<f32>),
    Wide(Vec<f64>),
}

impl Packed {
    /// The sum of each line of k.
    fn sums(&self, k: usize) -> Vec<f64> {
        match self {
            Packed::Narrow(values) => {
                let line = |line: &[f32]| line.iter().map(|value| f64::from(*value)).sum();
                values.chunks(k).map(line).collect()
            }
            Packed::Wide(values) => values.chunks(k).map(|line| line.iter().sum()).collect(),
        }
    }
}

/// A sum of products in f32, in sixteen lanes.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    let (left, left_rest) = left.as_chunks::<16>();
    let (right, right_rest) = right.as_chunks::<16>();
    for (a, b) in left.iter().zip(right) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}

/// What happens to results. The bits of `cublasLtEpilogue_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Epilogue(i32);

impl Epilogue {
    /// Those that are computed: all but the ones with the bit masks of RELU.
    const KNOWN: [i32; 12] = [1, 2, 4, 6, 32, 36, 160, 164, 192, 208, 256, 512];

    fn new(number: i32) -> Result<Epilogue, Status> {
        if Self::KNOWN.contains(&number) {
            Ok(Epilogue(number))
        } else {
            Err(Status::NOT_SUPPORTED)
        }
    }

    fn has(self, bit: i32) -> bool {
        self.0 & bit != 0
    }

    fn gradient(self) -> bool {
        self.has(64)
    }
}

/// `cublasLtMatmul`, with everything that it says, as it is queued.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    compute: Compute,
    scale: Kind,
    alpha: Factor,
    beta: Factor,
    transposed: [bool; 2],
    a: Matrix,
    b: Matrix,
    c: Matrix,
    d: Matrix,
    epilogue: Epilogue,
    bias: u64,
    bias_kind: Kind,
    bias_stride: i64,
    auxiliary: u64,
    auxiliary_kind: Kind,
    auxiliary_leading: usize,
    auxiliary_stride: i64,
    /// scratch memory that its algorithm uses
    pub(crate) workspace: (u64, usize),
}

/// The pieces of a call.
pub(crate) struct Call<'a> {
    pub(crate) operation: &'a Descriptor,
    /// of A, B, C and D
    pub(crate) layouts: [&'a Descriptor; 4],
    pub(crate) addresses: [u64; 4],
    pub(crate) alpha: Factor,
    pub(crate) beta: Factor,
}

impl Product {
    /// Checks a call: what the library would refuse is refused.
    pub(crate) fn new(call: &Call<'_>) -> Result<Product, Status> {
        let operation = call.operation;
        let matrix = |index: usize| Matrix::new(call.layouts[index], call.addresses[index]);
        let (a, b, c, d) = (matrix(0)?, matrix(1)?, matrix(2)?, matrix(3)?);
        let compute = Compute::of(operation.int(0)).ok_or(Status::NOT_SUPPORTED)?;
        let scale = Kind::of(operation.int(1)).ok_or(Status::NOT_SUPPORTED)?;
        let transposed = |number| match operation.int(number) {
            0 => Ok(false),
            1 | 2 => Ok(true),
            _ => Err(Status::INVALID_VALUE),
        };
        let transposed = [transposed(3)?, transposed(4)?];
        if operation.int(5) != 0 || a.kind != b.kind || c.kind != d.kind {
            return Err(Status::NOT_SUPPORTED);
        }
        if !compute.takes(a.kind, d.kind, scale) {
            return Err(Status::NOT_SUPPORTED);
        }
        let of = |matrix: &Matrix, turned: bool| {
            if turned { (matrix.columns, matrix.rows) } else { (matrix.rows, matrix.columns) }
        };
        let ((m, k), (k_of_b, n)) = (of(&a, transposed[0]), of(&b, transposed[1]));
        let fits =
            k == k_of_b && [&c, &d].iter().all(|matrix| (matrix.rows, matrix.columns) == (m, n));
        let batches = [&a, &b, &c].iter().all(|matrix| matrix.batch == d.batch);
        if !fits || !batches {
            return Err(Status::INVALID_VALUE);
        }
        if compute == Compute::I32 {
            // the integer kernels want A by its columns of k, in fours
            let in_fours = [m, n, k, a.leading, b.leading].iter().all(|size| size % 4 == 0);
            if a.by_rows == transposed[0] || b.by_rows != transposed[1] || !in_fours {
                return Err(Status::NOT_SUPPORTED);
            }
        }
        let epilogue = Epilogue::new(operation.int(7))?;
        let kind = |number| match operation.int(number) {
            -1 => Ok(d.kind),
            number => Kind::of(number).ok_or(Status::NOT_SUPPORTED),
        };
        let auxiliary_leading = operation.long(12) as usize;
        if epilogue.has(128) && auxiliary_leading < m {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Product {
            compute,
            scale,
            alpha: call.alpha,
            beta: call.beta,
            transposed,
            epilogue,
            bias: operation.long(8).cast_unsigned(),
            bias_kind: kind(26)?,
            bias_stride: operation.long(10),
            auxiliary: operation.long(11).cast_unsigned(),
            auxiliary_kind: kind(22)?,
            auxiliary_leading,
            auxiliary_stride: operation.long(13),
            workspace: (0, 0),
            a,
            b,
            c,
            d,
        })
    }

    fn inner(&self) -> usize {
        if self.transposed[0] { self.a.rows } else { self.a.columns }
    }

    /// Nanoseconds, at 200 T multiplications and additions in a second.
    pub(crate) fn estimate(&self) -> u64 {
        (self.d.batch * self.d.rows * self.d.columns * self.inner()) as u64 / 100_000
    }

    fn factor(&self, driver: &Driver, factor: Factor) -> Result<f64, Failure> {
        match factor {
            Factor::Value(value) => Ok(value),
            Factor::Device(address) => {
                let bytes = read(driver, address, self.scale.bytes(), "a factor")?;
                Ok(self.scale.read(&bytes, 0))
            }
        }
    }

    /// Computes D.
    pub(crate) fn compute(&self, driver: &mut Driver) -> Result<(), Failure> {
        let (alpha, beta) = (self.factor(driver, self.alpha)?, self.factor(driver, self.beta)?);
        if self.workspace.1 > 0 {
            // the algorithm's intermediate results, which nobody may read
            let (address, bytes) = self.workspace;
            let poison = [crate::driver::memory::POISON];
            driver
                .memory
                .fill(address, &poison, bytes as u64)
                .map_err(|error| failure("the workspace", &error))?;
        }
        for number in 0..self.d.batch {
            self.compute_one(driver, number, alpha, beta)?;
        }
        Ok(())
    }

    fn compute_one(
        &self,
        driver: &mut Driver,
        number: usize,
        alpha: f64,
        beta: f64,
    ) -> Result<(), Failure> {
        let (m, n) = (self.d.rows, self.d.columns);
        let left = self.a.load(driver, number, "A")?;
        let right = self.b.load(driver, number, "B")?;
        // rows of A and columns of B, each in one piece
        let left = self.pack(&self.a, &left, m, !self.transposed[0]);
        let right = self.pack(&self.b, &right, n, self.transposed[1]);
        let addend = if beta == 0.0 { None } else { Some(self.c.load(driver, number, "C")?) };
        // elements between columns keep what they are
        let mut result = self.d.load(driver, number, "D")?;
        let bias = self.bias_values(driver, number, m)?;
        let mut auxiliary = self.auxiliary_bytes(driver, number)?;
        let mut sums = vec![0.0; m];
        for column in 0..n {
            for row in 0..m {
                let sum = self.dot(&left, row, &right, column);
                let mut value = alpha * sum;
                if let Some(addend) = &addend {
                    value += beta * self.c.kind.read(addend, self.c.index(row, column));
                }
                if let Some(bias) = &bias {
                    value += bias[row];
                }
                if self.compute != Compute::F64 && self.compute != Compute::I32 {
                    value = f64::from(value as f32);
                }
                if let Some(bytes) = &mut auxiliary {
                    let index = column * self.auxiliary_leading + row;
                    if self.epilogue.gradient() {
                        value *= gelu_slope(self.auxiliary_kind.read(bytes, index));
                    } else {
                        self.auxiliary_kind.write(bytes, index, value);
                    }
                }
                if self.epilogue.has(2) {
                    value = value.max(0.0);
                }
                if self.epilogue.has(32) {
                    value = gelu(value);
                }
                sums[row] += value;
                self.d.kind.write(&mut result, self.d.index(row, column), value);
            }
        }
        let written = |error| failure("D", &error);
        driver.memory.write(self.d.at(number), &result).map_err(written)?;
        if let Some(bytes) = auxiliary.filter(|_| !self.epilogue.gradient()) {
            let error = |error| failure("the auxiliary matrix", &error);
            driver.memory.write(self.auxiliary_at(number), &bytes).map_err(error)?;
        }
        self.write_bias_gradient(driver, number, &sums, &left, &right)
    }

    /// The lines of a matrix along k, as the multiplication sees them.
    fn pack(&self, matrix: &Matrix, bytes: &[u8], lines: usize, by_rows: bool) -> Packed {
        let k = self.inner();
        let places = (0..lines).flat_map(|line| {
            (0..k).map(move |inner| if by_rows { (line, inner) } else { (inner, line) })
        });
        let indices = places.map(|(row, column)| matrix.index(row, column));
        let values = indices.map(|index| self.compute.round(matrix.kind.read(bytes, index)));
        match self.compute {
            Compute::F64 | Compute::I32 | Compute::F16 => Packed::Wide(values.collect()),
            _ => Packed::Narrow(values.map(|value| value as f32).collect()),
        }
    }

    /// The sum of products of two lines of k.
    fn dot(&self, left: &Packed, row: usize, right: &Packed, column: usize) -> f64 {
        let k = self.inner();
        match (left, right) {
            (Packed::Narrow(left), Packed::Narrow(right)) => {
                f64::from(dot(&left[row * k..][..k], &right[column * k..][..k]))
            }
            (Packed::Wide(left), Packed::Wide(right)) => {
                let pairs = left[row * k..][..k].iter().zip(&right[column * k..][..k]);
                if self.compute == Compute::F16 {
                    let add = |sum: f16, (a, b): (&f64, &f64)| {
                        f16::from_f32((a * b) as f32 + sum.to_f32())
                    };
                    pairs.fold(f16::ZERO, add).to_f64()
                } else {
                    // integers of 32 bits are exact
                    pairs.map(|(a, b)| a * b).sum()
                }
            }
            _ => f64::NAN,
        }
    }

    fn bias_values(
        &self,
        driver: &Driver,
        number: usize,
        m: usize,
    ) -> Result<Option<Vec<f64>>, Failure> {
        if !self.epilogue.has(4) {
            return Ok(None);
        }
        let bytes = read(driver, self.bias_at(number), m * self.bias_kind.bytes(), "the bias")?;
        Ok(Some((0..m).map(|row| self.bias_kind.read(&bytes, row)).collect()))
    }

    fn bias_at(&self, number: usize) -> u64 {
        let step = self.bias_stride * number as i64 * self.bias_kind.bytes() as i64;
        self.bias.wrapping_add_signed(step)
    }

    fn auxiliary_at(&self, number: usize) -> u64 {
        let step = self.auxiliary_stride * number as i64 * self.auxiliary_kind.bytes() as i64;
        self.auxiliary.wrapping_add_signed(step)
    }

    fn auxiliary_bytes(&self, driver: &Driver, number: usize) -> Result<Option<Vec<u8>>, Failure> {
        if !self.epilogue.has(128) {
            return Ok(None);
        }
        let elements = (self.d.columns - 1) * self.auxiliary_leading + self.d.rows;
        let bytes = elements * self.auxiliary_kind.bytes();
        read(driver, self.auxiliary_at(number), bytes, "the auxiliary matrix").map(Some)
    }

    /// The gradient of a bias: sums of D's rows, or of A or B along k.
    fn write_bias_gradient(
        &self,
        driver: &mut Driver,
        number: usize,
        sums: &[f64],
        left: &Packed,
        right: &Packed,
    ) -> Result<(), Failure> {
        let k = self.inner();
        let sums = match self.epilogue.0 {
            208 => sums.to_vec(),
            256 => left.sums(k),
            512 => right.sums(k),
            _ => return Ok(()),
        };
        let mut bytes = vec![0; sums.len() * self.bias_kind.bytes()];
        for (index, sum) in sums.iter().enumerate() {
            self.bias_kind.write(&mut bytes, index, *sum);
        }
        let error = |error| failure("the gradient of the bias", &error);
        driver.memory.write(self.bias_at(number), &bytes).map_err(error)
    }
}

const GELU_OUTER: f64 = 0.797_884_560_802_865_4;
const GELU_CUBE: f64 = 0.044_715;

/// The approximation by tanh, which cuBLASLt has.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (GELU_OUTER * (x + GELU_CUBE * x * x * x)).tanh())
}

fn gelu_slope(x: f64) -> f64 {
    let tanh = (GELU_OUTER * (x + GELU_CUBE * x * x * x)).tanh();
    let slope = GELU_OUTER * (1.0 + 3.0 * GELU_CUBE * x * x);
    0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_gelu_is_its_derivative() {
        for x in [-3.0, -0.5, 0.0, 0.1, 2.0] {
            let step = 1e-5;
            let by_difference = (gelu(x + step) - gelu(x - step)) / (2.0 * step);
            assert!((gelu_slope(x) - by_difference).abs() < 1e-9, "at {x}");
        }
        assert!((gelu(1.0) - 0.841_191_990_608).abs() < 1e-9);
    }

    #[test]
    fn the_bits_of_epilogues() {
        let epilogue = |number| {
            Epilogue::new(number).map(|it| (it.has(4), it.has(32), it.has(128), it.gradient()))
        };
        assert_eq!(epilogue(36), Ok((true, true, false, false)));
        assert_eq!(epilogue(164), Ok((true, true, true, false)));
        assert_eq!(epilogue(192), Ok((false, false, true, true)));
        assert_eq!(epilogue(208), Ok((false, false, true, true)));
        assert_eq!(epilogue(136), Err(Status::NOT_SUPPORTED));
    }
}
