use super::*;

type C = Complex<f64>;

/// Numbers without a pattern.
fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * i + 7 * i + 3) as f64).sin() * 2.0).collect()
}

/// An `n` by `n` matrix.
fn complex(n: usize) -> Vec<C> {
    let x = numbers(2 * n * n);
    x.chunks_exact(2).map(|x| C::new(x[0], x[1])).collect()
}

/// Numbers between -1 and 1 without a pattern, of which large matrices are well-conditioned.
fn spread(n: usize) -> Vec<f64> {
    let mut state = n as u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn spread_complex(n: usize) -> Vec<C> {
    let x = spread(2 * n * n);
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
    let r: Vec<T> = (0..n * n).map(|e| if e % n <= e / n { f[e] } else { T::default() }).collect();
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

    let h: Vec<T> = (a.iter().zip(&adjoint(a, n))).map(|(x, y)| *x + *y).collect();
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
    let back: Vec<T> =
        (0..n).map(|i| (0..n).fold(T::default(), |sum, j| sum + s[j * n + i] * x[j])).collect();
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
    // beyond the orders from which on matrices are faer's
    for n in [33, 70] {
        let (x, z) = (spread(n * n), spread_complex(n));
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
    assert_eq!(cholesky(&mut [C::ONE + i, i, -i, C::of(2.0) + i], 2, false), 0);
    assert!(hermitian(&mut [f64::NAN; 4], 2, &mut [0.0; 2], true) > 0);
}

/// Both ways to the same factors: pivots, too, are LAPACK's.
fn as_by_columns<T: Field<Part = f64>>(a: &[T], m: usize, n: usize) {
    let k = m.min(n);
    let (mut f, mut p) = (a.to_vec(), vec![0; k]);
    let (mut g, mut q) = (a.to_vec(), vec![0; k]);
    assert_eq!(lu(&mut f, m, n, &mut p), 0);
    assert_eq!(lu::lu_by_columns(&mut g, m, n, &mut q), 0);
    assert_eq!(p, q);
    near(&f, &g);
}

#[test]
fn large_factors_are_those_of_small_ones() {
    for (m, n) in [(40, 40), (64, 33), (33, 64), (200, 35)] {
        as_by_columns(&spread(m * n), m, n);
        as_by_columns(&spread_complex(m.max(n))[..m * n], m, n);
    }
}

/// What is promised of singular and indefinite matrices and of NaN is so of large ones.
#[test]
fn large_matrices_without_factors_are_named() {
    let n = 50;
    let mut a = spread(n * n);
    a[6 * n..7 * n].fill(0.0);
    let mut p = vec![0; n];
    assert_eq!(lu(&mut a.clone(), n, n, &mut p), 7);
    let mut f = a.clone();
    f[3] = f64::NAN;
    lu(&mut f, n, n, &mut p);
    assert!(f.iter().any(|x| x.is_nan()));

    let mut s = product(&a, &adjoint(&a, n), n);
    s.iter_mut().step_by(n + 1).for_each(|x| *x += 1.0);
    let positive = s.clone();
    assert_eq!(cholesky(&mut s, n, false), 0);
    let mut bad = positive.clone();
    bad[9 * (n + 1)] = -1.0;
    // the other half is not read
    bad[10 * n + 3] = f64::NAN;
    assert_eq!(cholesky(&mut bad, n, false), 10);
    // what came before the minor is the factor
    near(&bad[..9], &s[..9]);
    let mut nan = positive;
    nan[5 * (n + 1)] = f64::NAN;
    assert_eq!(cholesky(&mut nan, n, true), 6);
}

fn solves_triangles<T: Field<Part = f64>>(a: &[T], n: usize, columns: usize) {
    for upper in [false, true] {
        for unit in [false, true] {
            // the other half, and a diagonal of ones, are not read
            let read = |i: usize, j: usize| (i == j && !unit) || (i < j) == upper && i != j;
            let nan = T::of(f64::NAN);
            let t: Vec<T> = (0..n * n)
                .map(|e| match (e % n, e / n) {
                    (i, j) if !read(i, j) => nan,
                    (i, j) if i == j => a[e] + T::of(3.0),
                    _ => a[e].scaled(1.0 / n as f64),
                })
                .collect();
            for form in [Form::Plain, Form::Transposed, Form::Adjoint] {
                let b = &a[..n * columns];
                let mut x = b.to_vec();
                solve_triangular(&t, n, &mut x, upper, form, unit);
                let value = |i: usize, j: usize| match (i == j, read(i, j)) {
                    (true, false) => T::ONE,
                    (false, false) => T::default(),
                    _ => t[j * n + i],
                };
                let element = |i: usize, j: usize| match form {
                    Form::Plain => value(i, j),
                    Form::Transposed => value(j, i),
                    Form::Adjoint => value(j, i).conj(),
                };
                let back: Vec<T> = (0..n * columns)
                    .map(|e| {
                        let x = &x[e / n * n..e / n * n + n];
                        (0..n).fold(T::default(), |sum, j| sum + element(e % n, j) * x[j])
                    })
                    .collect();
                near(&back, b);
            }
        }
    }
}

#[test]
fn triangles_of_every_kind() {
    for (n, columns) in [(3, 3), (9, 1), (9, 2), (40, 5), (40, 1)] {
        solves_triangles(&spread(n * n), n, columns);
        solves_triangles(&spread_complex(n), n, columns);
    }
    // a diagonal with a zero divides by it
    let mut a = spread(81);
    a[40] = 0.0;
    let mut x = spread(81);
    solve_triangular(&a, 9, &mut x, true, Form::Plain, false);
    assert!(x.chunks_exact(9).all(|x| !x[4].is_finite()));
}

/// Matrices whose values coincide.
#[test]
fn spectra_at_the_margins() {
    let n = 40;
    let (mut zero, mut w) = (vec![0.0; n * n], vec![1.0; n]);
    assert_eq!(hermitian(&mut zero, n, &mut w, true), 0);
    near(&zero, &identity(n));
    near(&w, &vec![0.0; n]);
    let (mut one, mut v, mut s) = (identity::<f64>(n), identity(n), vec![0.0; n]);
    singular_values(&mut one, n, n, &mut v, &mut s);
    near(&product(&one, &adjoint(&v, n), n), &identity(n));
}

/// A matrix with one vector: what grows while it is looked for is scaled.
#[test]
fn a_large_matrix_with_too_few_vectors() {
    let n = 140;
    let a: Vec<f64> = (0..n * n).map(|e| if e % n <= e / n { 1.0 } else { 0.0 }).collect();
    let (mut v, mut re, mut im) = (a.clone(), vec![0.0; n], vec![0.0; n]);
    assert_eq!(general(&mut v, n, &mut re, &mut im, true), 0);
    assert!(v.iter().all(|x| x.is_finite()));
    near(&re, &vec![1.0; n]);
    let (mut v, mut w): (Vec<C>, _) = (a.iter().map(|x| C::from(*x)).collect(), vec![C::ONE; n]);
    assert_eq!(general_complex(&mut v, n, &mut w, true), 0);
    assert!(finite(&v));
}

/// Blocks of reflectors do what the reflectors do one by one, with every shape and a matrix that
/// lacks rank.
fn reflects<T: Field<Part = f64>>(a: &[T], m: usize, n: usize) {
    let k = m.min(n);
    let (mut f, mut tau) = (a.to_vec(), vec![T::default(); k]);
    qr(&mut f, m, n, &mut tau);
    let (mut g, mut beta) = (a.to_vec(), vec![T::default(); k]);
    qr::panel(&mut g, m, 0, &mut beta, n);
    near(&f, &g);
    near(&tau, &beta);
    for columns in [k, m, 3] {
        let (mut q, mut one) = (vec![T::ONE; m * columns], vec![T::ONE; m]);
        orthogonal(&f, m, &tau, &mut q, columns);
        let last = columns - 1;
        one.fill(T::default());
        one[last] = T::ONE;
        // a single column goes reflector by reflector
        reflect_all(&f, m, &tau, &mut one, false);
        near(&q[last * m..], &one);
        let mut back = q.clone();
        reflect_all(&f, m, &tau, &mut back, true);
        let eye: Vec<T> =
            (0..m * columns).map(|e| if e % m == e / m { T::ONE } else { T::default() }).collect();
        near(&back, &eye);
        reflect_all(&f, m, &tau, &mut back, false);
        near(&back, &q);
    }
}

#[test]
fn blocks_of_reflectors() {
    for (m, n) in [(70, 70), (150, 64), (64, 100), (130, 97)] {
        reflects(&spread(m * n), m, n);
        reflects(&spread_complex(m.max(n))[..m * n], m, n);
    }
    let (m, n) = (80, 75);
    let mut a = spread(m * n);
    a[10 * m..12 * m].fill(0.0);
    reflects(&a, m, n);
}
