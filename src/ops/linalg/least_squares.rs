//! Least squares.

use super::spectral::{double, fresh, none, svd, wide, wide_columns, with_double, zeros};
use super::{batch, of_columns, shape};
use crate::error::{Error, Result};
use crate::ops::by_dtype::check_field;
use crate::ops::common::needs_data;
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::Tensor;
use num_complex::Complex;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::linalg::Field;

/// What a driver of [`lstsq`] delivers beside the solution.
struct Driver {
    residuals: bool,
    rank: bool,
    values: bool,
}

/// The shortest of the vectors for which `a x` is nearest to `b`; squared distances, ranks and
/// singular values as far as the driver of LAPACK that is named computes them.
pub(crate) fn lstsq(
    a: &Tensor,
    b: &Tensor,
    rcond: Option<f64>,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let refuse = |text: String| Err(Error::runtime(format!("torch.linalg.lstsq: {text}")));
    if a.dim() < 2 {
        return refuse("input must have at least 2 dimensions.".into());
    }
    if b.dim() < 1 {
        return refuse("other must have at least 1 dimension.".into());
    }
    let vector = b.dim() == 1 || (a.dim() == b.dim() + 1 && a.sizes()[..b.dim()] == *b.sizes());
    if !vector && a.dim() != b.dim() && a.dim() < b.dim() {
        return refuse(format!(
            "input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, but got {} and {}",
            a.dim(),
            b.dim()
        ));
    }
    if a.dtype() != b.dtype() {
        return refuse(format!(
            "Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
            a.dtype().torch_name(),
            b.dtype().torch_name()
        ));
    }
    let columns_of_b = match vector {
        true => view::unsqueeze(b, -1)?,
        false => b.clone(),
    };
    let (m, n) = shape(a);
    let (rows, r) = shape(&columns_of_b);
    if rows != m {
        let place = if vector { -1 } else { -2 };
        return refuse(format!("input.size(-2) should match other.size({place})"));
    }
    if batch(a) != batch(&columns_of_b) {
        return refuse("input.size(i) should match other.size(i) for all batch dimensions".into());
    }
    let gives = match driver.unwrap_or("gelsy") {
        "gels" => Driver { residuals: true, rank: false, values: false },
        "gelsy" => Driver { residuals: false, rank: true, values: false },
        "gelsd" | "gelss" => Driver { residuals: true, rank: true, values: true },
        _ => {
            return refuse(
                "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)".into(),
            );
        }
    };
    ensure!(
        check_field("linalg_lstsq_cpu", a).is_ok(),
        "This function doesn't handle types other than float and double"
    );
    if gives.residuals && gives.rank && m > n {
        needs_data("linalg_lstsq", a)?;
    }
    let (u, s, vh) = svd(a, false, true, None)?;
    let k = m.min(n);
    let (memory, distances) = (
        // the columns lie in memory for the longer side, as LAPACK leaves them
        zeros(a, double(a.dtype()), &[r, m.max(n)])?,
        fresh(a, DType::F64, &[r])?,
    );
    let ranks = fresh(a, DType::I64, &[])?;
    let mut full_rank = true;
    if memory.storage().has_data() {
        let (u, s, v) = (wide_columns(&u)?, wide(&s)?, wide(&vh)?);
        let b = wide_columns(&columns_of_b)?;
        let rcond = rcond.unwrap_or_else(|| {
            let epsilon = match a.dtype().to_real() {
                DType::F32 => f64::from(f32::EPSILON),
                _ => f64::EPSILON,
            };
            epsilon * m.max(n) as f64
        });
        with_double!(a.dtype(), T => {
            let (u, s, v, b, mut x, mut distances, mut ranks) = (u.elements::<T>()?, s.elements::<f64>()?, v.elements::<T>()?, b.elements::<T>()?, memory.elements_mut::<T>()?, distances.elements_mut::<f64>()?, ranks.elements_mut::<i64>()?);
            for (i, rank) in ranks.iter_mut().enumerate() {
                let s = &s[i * k..(i + 1) * k];
                let least = rcond.max(0.0) * s.first().copied().unwrap_or(0.0);
                let used = match gives.rank {
                    true => s.iter().take_while(|s| **s > least).count(),
                    false => s.iter().take_while(|s| **s > 0.0).count(),
                };
                *rank = used as i64;
                full_rank &= !gives.rank || used == n;
                for c in 0..r {
                    let b = &b[(i * r + c) * m..(i * r + c + 1) * m];
                    let x = &mut x[(i * r + c) * m.max(n)..(i * r + c + 1) * m.max(n)];
                    let mut left = b.to_vec();
                    for j in 0..used {
                        let u = &u[(i * k + j) * m..(i * k + j + 1) * m];
                        let v = &v[(i * k + j) * n..(i * k + j + 1) * n];
                        let along = (u.iter().zip(b))
                            .fold(T::default(), |sum, (u, b)| sum + u.conj() * *b);
                        let part = along.scaled(1.0 / s[j]);
                        for (x, v) in x.iter_mut().zip(v) {
                            *x += part * v.conj();
                        }
                        for (left, u) in left.iter_mut().zip(u) {
                            *left -= along * *u;
                        }
                    }
                    distances[i * r + c] = left.iter().map(|l| (*l * l.conj()).re()).sum();
                }
            }
        });
    }
    let of_dtype = |t: &Tensor| copy::to_dtype(t, a.dtype());
    let solution = view::slice(&of_columns(&of_dtype(&memory)?)?, -2, Some(0), Some(n as i64), 1)?;
    let solution = match vector {
        true => view::squeeze_dim(&solution, -1)?,
        false => solution,
    };
    let or_none = |wanted: bool, t: Tensor| if wanted { Ok(t) } else { none(a, t.dtype()) };
    Ok((
        solution,
        or_none(
            gives.residuals && m > n && full_rank,
            copy::to_dtype(&distances, a.dtype().to_real())?,
        )?,
        or_none(gives.rank, ranks)?,
        or_none(gives.values, s)?,
    ))
}
