use super::{Checks, First, Second};
use crate::ops::aten;
use straightline_catalog::Scalar;

#[test]
fn products() {
    let mut c = Checks::default();
    let (alpha, beta) = (Scalar::Float(0.5), Scalar::Float(1.5));
    c.of_both("mm", Second, &[&[2, 3], &[3, 2]], |x| Ok(vec![aten::mm(&x[0], &x[1])?]));
    c.of_both("mm of columns", Second, &[&[3, 2], &[2, 3]], |x| {
        Ok(vec![aten::mm(&aten::t(&x[0])?, &aten::t(&x[1])?)?])
    });
    c.of_both("addmm", Second, &[&[2], &[2, 3], &[3, 2]], |x| {
        Ok(vec![aten::addmm(&x[0], &x[1], &x[2], beta, alpha)?])
    });
    c.of_complex("addmm, complex factors", First, &[&[2, 2], &[2, 3], &[3, 2]], |x| {
        let (a, b) = (Scalar::Complex(0.5, 1.0), Scalar::Complex(-0.5, 0.3));
        Ok(vec![aten::addmm(&x[0], &x[1], &x[2], b, a)?])
    });
    c.of_both("bmm", Second, &[&[2, 2, 3], &[2, 3, 1]], |x| Ok(vec![aten::bmm(&x[0], &x[1])?]));
    c.of_both("baddbmm", Second, &[&[2, 1], &[2, 2, 3], &[2, 3, 1]], |x| {
        Ok(vec![aten::baddbmm(&x[0], &x[1], &x[2], beta, alpha)?])
    });
    c.of_both("addbmm", Second, &[&[2, 1], &[2, 2, 3], &[2, 3, 1]], |x| {
        Ok(vec![aten::addbmm(&x[0], &x[1], &x[2], beta, alpha)?])
    });
    c.of_both("mv", Second, &[&[2, 3], &[3]], |x| Ok(vec![aten::mv(&x[0], &x[1])?]));
    c.of_both("addmv", Second, &[&[2], &[2, 3], &[3]], |x| {
        Ok(vec![aten::addmv(&x[0], &x[1], &x[2], beta, alpha)?])
    });
    c.of_both("addr", Second, &[&[2, 3], &[2], &[3]], |x| {
        Ok(vec![aten::addr(&x[0], &x[1], &x[2], beta, alpha)?])
    });
    c.of("matmul", Second, &[&[2, 2, 3], &[3]], |x| Ok(vec![aten::matmul(&x[0], &x[1])?]));
    c.of("linear", Second, &[&[2, 3], &[2, 3], &[2]], |x| {
        Ok(vec![aten::linear(&x[0], &x[1], Some(&x[2]))?])
    });
    c.of("einsum", Second, &[&[2, 3], &[3, 2]], |x| Ok(vec![aten::einsum("ij,ji->i", x, None)?]));
    c.of("bilinear", Second, &[&[2, 3], &[2, 3], &[2, 3, 3]], |x| {
        Ok(vec![aten::bilinear(&x[0], &x[1], &x[2], None)?])
    });
    c.of_both("cross", Second, &[&[2, 3], &[2, 3]], |x| {
        Ok(vec![aten::linalg_cross(&x[0], &x[1], -1)?])
    });
    c.done();
}

#[test]
fn distances() {
    let mut c = Checks::default();
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        c.of(&format!("cdist {p}"), Second, &[&[3, 2], &[2, 2]], |x| {
            Ok(vec![aten::cdist(&x[0], &x[1], p, Some(2))?])
        });
        c.of(&format!("pdist {p}"), Second, &[&[3, 2]], |x| Ok(vec![aten::pdist(&x[0], p)?]));
    }
    c.of("_euclidean_dist", Second, &[&[3, 2], &[2, 2]], |x| {
        Ok(vec![aten::_euclidean_dist(&x[0], &x[1])?])
    });
    c.of("pairwise_distance", Second, &[&[3, 2], &[3, 2]], |x| {
        Ok(vec![aten::pairwise_distance(&x[0], &x[1], 2.0, 1e-6, false)?])
    });
    c.of("cosine_similarity", Second, &[&[3, 2], &[3, 2]], |x| {
        Ok(vec![aten::cosine_similarity(&x[0], &x[1], 1, 1e-8)?])
    });
    c.done();
}

#[test]
fn norms() {
    let mut c = Checks::default();
    for p in [-f64::INFINITY, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        let order = if p == 0.0 { First } else { Second };
        let p = Scalar::Float(p);
        c.of_both(&format!("vector_norm {p}"), order, &[&[2, 3]], |x| {
            Ok(vec![
                aten::linalg_vector_norm(&x[0], p, Some(&[1]), false, None)?,
                aten::linalg_vector_norm(&x[0], p, None, true, None)?,
            ])
        });
        c.of(&format!("norm {p}"), order, &[&[2, 3]], |x| {
            Ok(vec![
                aten::norm_scalar(&x[0], p)?,
                aten::norm_scalar_opt_dim(&x[0], Some(p), &[-1], false)?,
            ])
        });
    }
    for p in [1.0, 2.0, 3.0] {
        c.of_both(&format!("renorm {p}"), Second, &[&[2, 3]], |x| {
            Ok(vec![aten::renorm(&x[0], Scalar::Float(p), 0, Scalar::Float(1.5))?])
        });
    }
    c.done();
}

#[test]
fn transforms() {
    let mut c = Checks::default();
    for (n, normalization) in [(4, 0), (5, 1), (6, 2)] {
        c.of_complex("_fft_c2c", Second, &[&[2, n]], |x| {
            Ok(vec![aten::_fft_c2c(&x[0], &[0, 1], normalization, true)?])
        });
        c.of("_fft_r2c", Second, &[&[2, n]], |x| {
            Ok(vec![
                aten::_fft_r2c(&x[0], &[0, 1], normalization, true)?,
                aten::_fft_r2c(&x[0], &[0, 1], normalization, false)?,
            ])
        });
        c.of_complex("_fft_c2r", Second, &[&[2, n / 2 + 1]], |x| {
            Ok(vec![aten::_fft_c2r(&x[0], &[0, 1], normalization, n)?])
        });
    }
    c.done();
}
