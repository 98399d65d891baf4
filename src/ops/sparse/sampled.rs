//! Products that are wanted at, or start from, the places of a matrix in compressed-row form.

use super::csr::{build_csr, csr};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// The row of each element.
fn rows_of(crow: &Tensor) -> Result<Tensor> {
    let begins = aten::to_dtype(crow, DType::I64, false, false, None)?.to_vec::<i64>()?;
    let rows = begins.windows(2).enumerate().flat_map(|(i, ends)| {
        let n = usize::try_from(ends[1] - ends[0]).unwrap_or(0);
        std::iter::repeat_n(i as i64, n)
    });
    Tensor::from_vec(rows.collect::<Vec<i64>>(), -1)
}

/// `beta self + alpha (mat1 @ mat2)` at the places of `self`.
pub(crate) fn sampled_addmm(
    t: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let refuse = |text: String| Err(Error::runtime(format!("sampled_addmm: {text}")));
    let parts = csr(t)?;
    for (m, name) in [(mat1, "mat1"), (mat2, "mat2")] {
        if m.kind_without_memory().is_some() {
            return refuse(format!("Expected {name} to have strided layout"));
        }
        if m.dim() != 2 {
            return refuse(format!("Expected {name} to be a matrix, got {}-D tensor", m.dim()));
        }
    }
    if mat1.dtype() != mat2.dtype() || mat1.dtype() != t.dtype() {
        return refuse(format!(
            "Expected mat1 and mat2 to have the same dtype as self, {}, but got {} and {}",
            t.dtype().torch_name(),
            mat1.dtype().torch_name(),
            mat2.dtype().torch_name()
        ));
    }
    let (m, k, n) = (mat1.sizes()[0], mat1.sizes()[1], mat2.sizes()[1]);
    if k != mat2.sizes()[0] {
        return refuse(format!(
            "mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {}x{n})",
            mat2.sizes()[0]
        ));
    }
    if t.sizes() != [m, n] {
        return refuse(format!(
            "self.shape {:?} should match the shape of the product, [{m}, {n}]",
            t.sizes()
        ));
    }
    let left = aten::index_select(mat1, 0, &rows_of(&parts.crow)?)?;
    let right = aten::index_select(&aten::t(mat2)?, 0, &parts.col)?;
    let products =
        aten::sum_dim_int_list(&aten::mul_tensor(&left, &right)?, Some(&[-1]), false, None)?;
    let kept = aten::mul_scalar(&parts.values, beta)?;
    let values = aten::add_tensor(&kept, &products, alpha)?;
    build_csr(parts.crow.clone(), parts.col.clone(), values, t.sizes())
}

/// A product in which the terms of each element are reduced otherwise than by adding them up; rows
/// without elements are 0. The second result, for gradients, is empty.
pub(crate) fn mm_reduce(t: &Tensor, other: &Tensor, how: &str) -> Result<(Tensor, Tensor)> {
    let refuse = |text: String| Err(Error::runtime(format!("sparse_mm_reduce: {text}")));
    let parts = csr(t)?;
    if other.kind_without_memory().is_some() {
        return refuse("Expected tensor to have Strided Layout".into());
    }
    let by = match how {
        "sum" | "mean" | "amax" | "amin" => how,
        _ => return refuse(format!("reduce type of {how} has not been enabled.")),
    };
    if other.dim() != 2 || other.sizes()[0] != t.sizes()[1] {
        return refuse(format!(
            "Expected a tensor of dimension 2 and tensor.size[0] == {} but got sizes {:?}",
            t.sizes()[1],
            other.sizes()
        ));
    }
    if other.dtype() != t.dtype() {
        return refuse(format!(
            "Expected 'other' to have scalar type {} but got {}",
            t.dtype().torch_name(),
            other.dtype().torch_name()
        ));
    }
    let terms = aten::mul_tensor(
        &aten::unsqueeze(&parts.values, -1)?,
        &aten::index_select(other, 0, &parts.col)?,
    )?;
    let sizes = [t.sizes()[0], other.sizes()[1]];
    let (dtype, device) = (Some(t.dtype()), Some(t.device()));
    let zeros = aten::zeros(&sizes, dtype, None, device, None)?;
    let rows = aten::unsqueeze(&rows_of(&parts.crow)?, -1)?;
    let rows = aten::expand(&rows, terms.sizes(), false)?;
    let out = aten::scatter_reduce_two(&zeros, 0, &rows, &terms, by, false)?;
    let none = aten::empty_memory_format(&[0], Some(DType::I64), None, device, None, None)?;
    Ok((out, none))
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::aten;
    use straightline_catalog::Layout;

    #[test]
    fn products_at_the_places_of_a_matrix() {
        let a = Tensor::from_vec([0f32, 2.0, 0.0, 1.0, 0.0, -3.0, 0.0, 0.0, 0.0], 9);
        let a = a.unwrap().view(&[3, 3]).unwrap();
        let a = aten::_to_sparse_csr(&a, None).unwrap();
        let b = Tensor::from_vec([-2f32, -1.0, 0.0, 1.0, 2.0, 3.0], 6).unwrap();
        let b = b.view(&[3, 2]).unwrap();
        let y = aten::sparse_sampled_addmm(&a, &b, &b.t().unwrap(), 2.into(), 3.into()).unwrap();
        assert_eq!(y.layout(), Layout::SparseCsr);
        let values = aten::values(&y).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(values, [1.0, -1.0, 3.0]);
        for (how, want) in [
            ("sum", [0.0, 2.0, -8.0, -10.0, 0.0, 0.0]),
            ("mean", [0.0, 2.0, -4.0, -5.0, 0.0, 0.0]),
            ("amax", [0.0, 2.0, -2.0, -1.0, 0.0, 0.0]),
            ("amin", [0.0, 2.0, -6.0, -9.0, 0.0, 0.0]),
        ] {
            let (y, _) = aten::_sparse_mm_reduce_impl(&a, &b, how).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), want, "{how}");
        }
        assert!(aten::_sparse_mm_reduce_impl(&a, &b, "prod").is_err());
        assert!(aten::sparse_sampled_addmm(&a, &b, &b, 1.into(), 1.into()).is_err());
    }
}
