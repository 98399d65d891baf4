//! Questions about dtypes, as operators.

use super::common::promote;
use crate::error::Result;
use crate::tensor::Tensor;
use straightline_catalog::DType;

pub(crate) fn result_type(tensor: &Tensor, other: &Tensor) -> Result<DType> {
    promote(&[tensor, other])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::aten;

    #[test]
    fn bare_numbers_yield() {
        let x = Tensor::from_vec([1f32], 1).unwrap();
        let n = Tensor::from_vec([1i64], 1).unwrap();
        let one = Tensor::wrapped_number(1.5).unwrap();
        let of = |a, b| aten::result_type_tensor(a, b).unwrap();
        assert_eq!(of(&x, &n), DType::F32);
        assert_eq!(of(&n, &one), DType::F32);
        assert_eq!(of(&n, &Tensor::wrapped_number(2).unwrap()), DType::I64);
    }
}
