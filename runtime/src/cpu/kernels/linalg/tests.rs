use super::*;

type C = Complex<f64>;

/// Numbers without a pattern.
fn numbers(n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * i + 7 * i + 3) as f64).sin() * 2.0)
        .collect()
}

/// An `n` by `n` matrix.
fn complex(n: usize) -> Vec<C> {
    let x = numbers(2 * n * n);
    x.chunks_exact(2).map(|x| C::new(x[0], x[1])).collect()
}

fn adjoint<T: Field>(a: &[T], n: usize) -> Vec<T> {
    (0..n * n).map(|e| a[e % n * n + e / n].conj()).collect()
}

fn near<T: Field<Part = f64>>(a: &[T], b: &[T]) {
    assert_eq!(a.len(), b.len());
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((*x - *y).abs() < 1e-11, "element {i}");
    }
}

fn solves<T: Field<Part = f64>>(a: &[T], n: usize) {
    let (mut f, mut p) = (a.to_vec(), vec![0; n]);
    assert_eq!(lu(&mut f, n, n, &mut p), 0);
    for form in [Form::Plain, Form::Transposed, Form::Adjoint] {
        let mut x = a[..n].to_vec();
        lu_solve(&f, n, &p, &mut x, form);
        let element = |i: usize, j: usize| match form {
            Form::Plain => a[j * n + i],
            Form::Transposed => a[i * n + j],
            Form::Adjoint => a[i * n + j].conj(),
        };
        let back: Vec<T> = (0..n)
            .map(|i| (0..n).fold(T::default(), |sum, j| sum + element(i, j) * x[j]))
            .collect();
        near(&back, &a[..n]);
    }
}

fn factors<T: Field<Part = f64>>(a: &[T], n: usize) {
    let s = product(a, &adjoint(a, n), n);
    let mut l = s.clone();
    assert_eq!(cholesky(&mut l, n, false), 0);
    near(&product(&l, &adjoint(&l, n), n), &s);
    let mut u = s.clone();
    assert_eq!(cholesky(&mut u, n, true), 0);
    near(&u, &adjoint(&l, n));

    let (mut f, mut tau, mut q) = (a.to_vec(), vec![T::default(); n], identity(n));
    qr(&mut f, n, n, &mut tau);
    orthogonal(&f, n, &tau, &mut q, n);
    let r: Vec<T> = (0..n * n)
        .map(|e| if e % n <= e / n { f[e] } else { T::default() })
        .collect();
    near(&product(&q, &r, n), a);
    near(&product(&adjoint(&q, n), &q, n), &identity(n));
    assert!((0..n).all(|i| r[i * (n + 1)].im() == 0.0));
    let mut back = a.to_vec();
    reflect_all(&f, n, &tau, &mut back, true);
    near(&back, &r);
    reflect_all(&f, n, &tau, &mut back, false);
    near(&back, a);
}

fn spectra<T: Field<Part = f64>>(a: &[T], n: usize) {
    let (mut u, mut v, mut s) = (a.to_vec(), identity(n), vec![0.0; n]);
    singular_values(&mut u, n, n, &mut v, &mut s);
    near(&product(&u, &adjoint(&v, n), n), a);
    near(&product(&adjoint(&v, n), &v, n), &identity(n));
    assert!(s.windows(2).all(|s| s[0] >= s[1]));

    let h: Vec<T> = (a.iter().zip(&adjoint(a, n)))
        .map(|(x, y)| *x + *y)
        .collect();
    let (mut v, mut w) = (h.clone(), vec![0.0; n]);
    assert_eq!(hermitian(&mut v, n, &mut w, true), 0);
    assert!(w.windows(2).all(|w| w[0] <= w[1]));
    let stretched: Vec<T> = (0..n * n).map(|e| v[e].scaled(w[e / n])).collect();
    near(&product(&h, &v, n), &stretched);
    near(&product(&adjoint(&v, n), &v, n), &identity(n));
    let (mut b, mut alone) = (h.clone(), vec![0.0; n]);
    hermitian(&mut b, n, &mut alone, false);
    near(&alone, &w);
}

fn indefinite<T: Field<Part = f64>>(a: &[T], n: usize, hermitian: bool) {
    let mirror = |x: T| if hermitian { x.conj() } else { x };
    // without a diagonal of its own, so that it takes blocks of two rows
    let s: Vec<T> = (0..n * n)
        .map(|e| match (e % n, e / n) {
            (i, j) if i == j => T::of(if i % 3 == 2 { 0.5 } else { 0.0 }),
            (i, j) if i > j => a[j * n + i],
            (i, j) => mirror(a[i * n + j]),
        })
        .collect();
    let (mut ld, mut pivots) = (s.clone(), vec![0; n]);
    assert_eq!(ldl(&mut ld, n, &mut pivots, hermitian), 0);
    let mut x = a[..n].to_vec();
    ldl_solve(&ld, n, &pivots, &mut x, hermitian);
    let back: Vec<T> = (0..n)
        .map(|i| (0..n).fold(T::default(), |sum, j| sum + s[j * n + i] * x[j]))
        .collect();
    near(&back, &a[..n]);
}

#[test]
fn real_and_complex_matrices() {
    for n in [1, 2, 3, 5, 8] {
        let (x, z) = (numbers(n * n), complex(n));
        solves(&x, n);
        solves(&z, n);
        factors(&x, n);
        factors(&z, n);
        spectra(&x, n);
        spectra(&z, n);
    }
    for n in [2, 3, 5, 8] {
        indefinite(&numbers(n * n), n, false);
        indefinite(&complex(n), n, false);
        indefinite(&complex(n), n, true);
    }
}

#[test]
fn what_has_no_factor_is_named() {
    assert_eq!(lu(&mut [1.0, 2.0, 2.0, 4.0], 2, 2, &mut [0; 2]), 2);
    assert_eq!(cholesky(&mut [1.0, 2.0, 2.0, 1.0], 2, false), 2);
    let i = C::new(0.0, 1.0);
    // the imaginary part of the diagonal is not read
    assert_eq!(
        cholesky(&mut [C::ONE + i, i, -i, C::of(2.0) + i], 2, false),
        0
    );
    assert!(hermitian(&mut [f64::NAN; 4], 2, &mut [0.0; 2], true) > 0);
}
