//! Printing tensors that are not plain memory, as PyTorch prints them: sparse, quantized, nested.

use crate::methods::display::{LINE_WIDTH, goes_without_saying, list};
use crate::ops::nested;
use crate::ops::quantized;
use crate::ops::sparse;
use crate::tensor::Tensor;
use std::fmt::Write as _;
use straightline_catalog::DType;

/// The elements of a part, or why they can not be read.
fn body(t: &Tensor, indent: usize) -> String {
    crate::methods::display::body(t, indent).unwrap_or_else(|e| format!("<{e}>"))
}

/// The columns that `tensor(` takes.
const INDENT: usize = 7;

impl Tensor {
    /// The text of a tensor that is not plain memory; `None` for those that are.
    pub(super) fn text_of_kind(&self) -> Option<String> {
        if let Some((indices, values)) = sparse::coo_parts(self) {
            let parts = [("indices", indices), ("values", values)];
            let nnz = values.sizes()[0];
            return Some(self.sparse_text(&parts, nnz, true));
        }
        if let Some((crow, col, values)) = sparse::csr_parts(self) {
            let parts = [("crow_indices", crow), ("col_indices", col), ("values", values)];
            return Some(self.sparse_text(&parts, values.numel(), false));
        }
        if let Some(parts) = nested::texts(self) {
            return Some(nested_text(&parts));
        }
        if self.is_quantized() {
            return quantized::describe(self).map(|(real, how)| self.quantized_text(&real, how));
        }
        self.kind_without_memory()
            .map(|(what, _)| format!("tensor(<{what} of sizes ({})>)", list(self.sizes())))
    }

    fn sparse_text(&self, parts: &[(&str, &Tensor)], nnz: i64, newline: bool) -> String {
        let mut text = String::from("tensor(");
        for (i, (name, t)) in parts.iter().enumerate() {
            if i > 0 {
                text.push_str(",\n");
                text.push_str(&" ".repeat(INDENT));
            }
            let prefix = format!("{name}=tensor(");
            let elements = if t.storage().has_data() {
                body(t, INDENT + prefix.len())
            } else {
                "...".to_string()
            };
            text.push_str(&prefix);
            text.push_str(&elements);
            if t.numel() == 0 || !t.storage().has_data() {
                let _ = write!(text, ", size=({})", list(t.sizes()));
            }
            text.push(')');
        }
        let mut suffixes = Vec::new();
        if !self.device().is_cpu() {
            suffixes.push(format!("device='{}'", self.device()));
        }
        suffixes.push(format!("size=({})", list(self.sizes())));
        if !self.device().is_meta() {
            suffixes.push(format!("nnz={nnz}"));
        }
        suffixes.extend(dtype_suffix(self.dtype()));
        suffixes.push(format!("layout={}", self.layout()));
        with_suffixes(text, &suffixes, newline)
    }

    fn quantized_text(&self, real: &Tensor, how: Vec<String>) -> String {
        let text = format!("tensor({}", body(real, INDENT));
        let mut suffixes = vec![
            format!("size=({})", list(self.sizes())),
            format!("dtype=torch.{}", self.dtype().torch_name()),
        ];
        suffixes.extend(how);
        with_suffixes(text, &suffixes, false)
    }
}

fn nested_text(parts: &[String]) -> String {
    let indented: Vec<String> = parts
        .iter()
        .map(|p| p.lines().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n"))
        .collect();
    format!("nested_tensor([\n{}\n])", indented.join(",\n"))
}

fn dtype_suffix(dtype: DType) -> Option<String> {
    (!goes_without_saying(dtype)).then(|| format!("dtype=torch.{}", dtype.torch_name()))
}

/// Adds what comes after the elements, in lines of [`LINE_WIDTH`].
fn with_suffixes(mut text: String, suffixes: &[String], mut newline: bool) -> String {
    let mut column = text.len() - text.rfind('\n').map_or(0, |i| i + 1) + 2;
    for suffix in suffixes {
        if newline || column + suffix.len() + 2 > LINE_WIDTH {
            text.push_str(",\n");
            text.push_str(&" ".repeat(INDENT));
            column = INDENT + suffix.len();
            newline = false;
        } else {
            text.push_str(", ");
            column += suffix.len() + 2;
        }
        text.push_str(suffix);
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::common::python_float;
    use crate::{Device, Layout};
    use straightline_catalog::DType;

    // The texts are what PyTorch 2.15 prints.
    #[test]
    fn sparse_tensors_print_as_pytorch() {
        let i = Tensor::from_slice(&[0i64, 1, 1, 2, 0, 2], &[2, 3]).unwrap();
        let v = Tensor::from_vec([3f32, 4.0, 5.0], 3).unwrap();
        let s = Tensor::sparse_coo(&i, &v, &[2, 3]).unwrap();
        assert_eq!(
            s.to_string(),
            "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n       \
             values=tensor([3., 4., 5.]),\n       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
        );
        assert_eq!(
            s.to_dtype(DType::F64).unwrap().to_string(),
            "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n       \
             values=tensor([3., 4., 5.]),\n       \
             size=(2, 3), nnz=3, dtype=torch.float64, layout=torch.sparse_coo)"
        );
        assert_eq!(
            s.to_sparse_csr().unwrap().to_string(),
            "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n       \
             values=tensor([3., 4., 5.]), size=(2, 3), nnz=3,\n       layout=torch.sparse_csr)"
        );
        let eye = Tensor::from_slice(&[1f32, 0.0, 0.0, 1.0], &[2, 2]).unwrap();
        assert_eq!(
            eye.to_sparse_csr().unwrap().to_string(),
            "tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([0, 1]),\n       \
             values=tensor([1., 1.]), size=(2, 2), nnz=2, layout=torch.sparse_csr)"
        );
        let none =
            crate::ops::aten::zeros(&[2, 3], None, Some(Layout::Sparse), Some(Device::CPU), None);
        assert_eq!(
            none.unwrap().to_string(),
            "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n       \
             size=(2, 3), nnz=0, layout=torch.sparse_coo)"
        );
    }

    #[test]
    fn floats_are_pythons() {
        for (x, want) in
            [(0.1, "0.1"), (1.0, "1.0"), (1e-5, "1e-05"), (2.5e20, "2.5e+20"), (-0.0, "-0.0")]
        {
            assert_eq!(python_float(x), want);
        }
    }
}
