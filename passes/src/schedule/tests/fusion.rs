//! How many kernels well-known programs become.

use super::build::{B, ints, s, t};
use crate::ir::DType;
use crate::schedule::loops::{Extern, Schedule, Step, Vectorize};

fn count(plan: &Schedule) -> (usize, usize) {
    let kernels = plan.kernels().count();
    (kernels, plan.steps.len() - kernels)
}

#[test]
fn a_chain_of_100_is_one_kernel() {
    let mut b = B::default();
    let (mut x, y) = (b.input(&[16]), b.input(&[16]));
    for _ in 0..50 {
        x = b.bin("aten::mul.Tensor", x, y);
        x = b.num("aten::add.Tensor", x, 1.0);
    }
    let plan = b.schedule(&[x]);
    assert_eq!(count(&plan), (1, 0), "{plan}");
    assert_eq!(plan.arena_bytes, 0);
    assert_eq!(plan.kernels().next().map(|k| k.ops.len()), Some(100));
}

#[test]
fn gelu_sigmoid_tanh_is_one_kernel() {
    let mut b = B::default();
    let (x, y) = (b.input(&[64, 32]), b.input(&[64, 32]));
    let sum = b.bin("aten::add.Tensor", x, y);
    let g = b.un("aten::gelu", sum);
    let sg = b.un("aten::sigmoid", x);
    let p = b.bin("aten::mul.Tensor", g, sg);
    let th = b.un("aten::tanh", y);
    let z = b.bin("aten::add.Tensor", p, th);
    let plan = b.schedule(&[z]);
    insta::assert_snapshot!(plan, @r"
    b0: f32[2048] input 0 `x0`
    b1: f32[2048] input 1 `x1`
    b2: f32[2048] output 0 `7`
    kernel sigmoid_mul_tanh_add_2more grid (i0 < 2048) vectorize grid work 48 {
      stage0 () {
        %0: f32 = load b0[i0]
        %1: f32 = load b1[i0]
        %2: f32 = add %0, %1
        %3: f32 = gelu_erf %2
        %4: f32 = sigmoid %0
        %5: f32 = mul %3, %4
        %6: f32 = tanh %1
        %7: f32 = add %5, %6
        store b2[i0] = %7
      }
    }
    return output 0 f32[64, 32]:[32, 1]
    ");
}

#[test]
fn broadcasting_keeps_two_axes() {
    let mut b = B::default();
    let (x, y) = (b.input(&[8, 4, 32]), b.input(&[32]));
    let z = b.bin("aten::add.Tensor", x, y);
    let plan = b.schedule(&[z]);
    let k = plan.kernels().next().expect("a kernel");
    let grid: Vec<i64> = k.grid.iter().map(|a| a.extent).collect();
    assert_eq!(grid, [32, 32]);
}

#[test]
fn softmax_is_one_kernel() {
    let mut b = B::default();
    let x = b.input(&[4, 16]);
    let y = b.softmax(x);
    let plan = b.schedule(&[y]);
    insta::assert_snapshot!(plan, @r"
    b0: f32[64] input 0 `x0`
    b1: f32[64] output 0 `5`
    kernel sub_exp_sum_div_1more grid (i0 < 4) vectorize stage work 352 {
      row0: f32[16]
      stage0 (i1 < 16) {
        %0: f32 = load b0[16*i0 + i1]
        %1: f32 = reduce_max %0
      }
      stage1 (i2 < 16) {
        %0: f32 = load b0[16*i0 + i2]
        %1: f32 = carry stage0.%1
        %2: f32 = sub %0, %1
        %3: f32 = exp %2
        store row0[i2] = %3
        %5: f32 = reduce_sum %3
      }
      stage2 (i3 < 16) {
        %0: f32 = load row0[i3]
        %1: f32 = carry stage1.%5
        %2: f32 = div %0, %1
        store b1[16*i0 + i3] = %2
      }
    }
    return output 0 f32[4, 16]:[16, 1]
    ");
}

#[test]
fn layer_norm_is_one_kernel() {
    let mut b = B::default();
    let (x, w, c) = (b.input(&[4, 16]), b.param(&[16]), b.param(&[16]));
    let y = b.layer_norm(x, w, c);
    let plan = b.schedule(&[y]);
    insta::assert_snapshot!(plan, @r"
    b0: f32[64] input 0 `x0`
    b1: f32[16] parameter 0 `w0`
    b2: f32[16] parameter 1 `w1`
    b3: f32[64] output 0 `13`
    kernel add_rsqrt_mul_add_6more grid (i0 < 4) vectorize stage work 528 {
      stage0 (i1 < 16) {
        %0: f32 = load b0[16*i0 + i1]
        %1: f32 = reduce_sum %0
      }
      stage1 (i2 < 16) {
        %0: f32 = load b0[16*i0 + i2]
        %1: f32 = carry stage0.%1
        %2: f32 = const 16.0
        %3: f32 = div %1, %2
        %4: f32 = sub %0, %3
        %5: f32 = mul %4, %4
        %6: f32 = reduce_sum %5
      }
      stage2 (i3 < 16) {
        %0: f32 = load b0[16*i0 + i3]
        %1: f32 = carry stage0.%1
        %2: f32 = const 16.0
        %3: f32 = div %1, %2
        %4: f32 = sub %0, %3
        %5: f32 = carry stage1.%6
        %6: f32 = div %5, %2
        %7: f32 = const 9.999999747378752e-6
        %8: f32 = add %6, %7
        %9: f32 = rsqrt %8
        %10: f32 = mul %4, %9
        %11: f32 = load b1[i3]
        %12: f32 = mul %10, %11
        %13: f32 = load b2[i3]
        %14: f32 = add %12, %13
        store b3[16*i0 + i3] = %14
      }
    }
    return output 0 f32[4, 16]:[16, 1]
    ");
}

#[test]
fn one_row_is_still_one_kernel() {
    let mut b = B::default();
    let (x, w, c) = (b.input(&[1, 64]), b.param(&[64]), b.param(&[64]));
    let y = b.layer_norm(x, w, c);
    assert_eq!(count(&b.schedule(&[y])), (1, 0));
}

#[test]
fn mlp_is_three_products_and_a_norm() {
    let mut b = B::default();
    let x = b.input(&[8, 32]);
    let w: Vec<_> = (0..3).map(|_| (b.param(&[32, 32]), b.param(&[32]))).collect();
    let (g, c) = (b.param(&[32]), b.param(&[32]));
    let h = b.linear(x, w[0].0, w[0].1);
    let h = b.un("aten::gelu", h);
    let h = b.linear(h, w[1].0, w[1].1);
    let h = b.layer_norm(h, g, c);
    let h = b.linear(h, w[2].0, w[2].1);
    let plan = b.schedule(&[h]);
    assert_eq!(count(&plan), (1, 3), "{plan}");
    insta::assert_snapshot!(plan.summary(), @r"
    1 kernels, 3 runtime calls, arena 1024 bytes
    0: matmul b10[8,32] = b0[8,32] @ b1[32,32]:(1,32) (packed), bias b2[32], gelu_erf
    1: matmul b11[8,32] = b10[8,32] @ b3[32,32]:(1,32) (packed), bias b4[32]
    2: kernel add_rsqrt_mul_add_6more grid [8] stages 3 work 1056: aten::sum.dim_IntList aten::div.Tensor aten::sub.Tensor aten::mul.Tensor aten::sum.dim_IntList aten::div.Tensor aten::add.Tensor aten::rsqrt aten::mul.Tensor aten::mul.Tensor aten::add.Tensor
    3: matmul b9[8,32] = b12[8,32] @ b5[32,32]:(1,32) (packed), bias b6[32]
    f32[256] arena +0 `12`
    f32[256] output 0 before it is written +0 `15`
    f32[256] arena +0 `26`
    return output 0 f32[8, 32]:[32, 1]
    ");
}

#[test]
fn products_take_residuals() {
    let mut b = B::default();
    let (x, w, c) = (b.input(&[8, 32]), b.param(&[32, 32]), b.param(&[32]));
    let h = b.linear(x, w, c);
    let h = b.bin("aten::add.Tensor", x, h);
    let plan = b.schedule(&[h]);
    assert_eq!(count(&plan), (0, 1), "{plan}");
    let Step::Extern(Extern::Matmul(m)) = &plan.steps[0] else {
        panic!("{plan}");
    };
    assert!(m.pack_b && m.bias.is_some() && m.residual.is_some());
}

#[test]
fn attention_is_two_products_and_a_kernel() {
    let mut b = B::default();
    // [batch, heads, length, width] made of one [length, 3 * heads * width] projection
    let qkv = b.input(&[16, 192]);
    let mask = b.param(&[16, 16]);
    let mut part = Vec::new();
    for i in 0..3 {
        let x = b.view(
            "aten::slice.Tensor",
            vec![t(qkv), s(1), s(i * 64), s(i * 64 + 64), s(1)],
            &[16, 64],
            &[192, 1],
        );
        let x = b.view("aten::view", vec![t(x), ints(&[16, 2, 32])], &[16, 2, 32], &[192, 32, 1]);
        part.push(b.view(
            "aten::permute",
            vec![t(x), ints(&[1, 0, 2])],
            &[2, 16, 32],
            &[32, 192, 1],
        ));
    }
    let kt =
        b.view("aten::transpose.int", vec![t(part[1]), s(1), s(2)], &[2, 32, 16], &[32, 1, 192]);
    let scores = b.call("aten::bmm", vec![t(part[0]), t(kt)], DType::F32, &[2, 16, 16]);
    let scaled = b.num("aten::mul.Tensor", scores, 0.17);
    let masked = b.bin("aten::add.Tensor", scaled, mask);
    let probs = b.softmax(masked);
    let out = b.call("aten::bmm", vec![t(probs), t(part[2])], DType::F32, &[2, 16, 32]);
    let plan = b.schedule(&[out]);
    assert_eq!(count(&plan), (1, 2), "{plan}");
}

#[test]
fn sums_over_leading_dimensions_run_along_the_grid() {
    let mut b = B::default();
    let x = b.input(&[64, 128]);
    let y = b.call("aten::sum.dim_IntList", vec![t(x), ints(&[0]), s(false)], DType::F32, &[128]);
    let plan = b.schedule(&[y]);
    assert_eq!(count(&plan), (1, 0));
    assert_eq!(plan.kernels().next().map(|k| k.vectorize), Some(Vectorize::Grid));
}

#[test]
fn big_full_sums_are_two_kernels() {
    let mut b = B::default();
    let x = b.input(&[1024, 1024]);
    let y = b.call("aten::sum", vec![t(x)], DType::F32, &[]);
    let plan = b.schedule(&[y]);
    assert_eq!(count(&plan), (2, 0), "{plan}");
}

#[test]
fn the_parts_of_a_big_sum_compute_what_they_add() {
    // whose rows no part may cut, in any number that is a divisor of all elements
    for sizes in [&[1000, 1000][..], &[3, 5, 7, 1000], &[128, 1000], &[1, 70, 1000]] {
        let mut b = B::default();
        let (x, row) = (b.input(sizes), b.input(&[1000]));
        let y = b.bin("aten::mul.Tensor", x, row);
        let y = b.call("aten::sum", vec![t(y)], DType::F32, &[]);
        let plan = b.schedule(&[y]);
        assert_eq!(count(&plan), (2, 0), "{plan}");
    }
}

#[test]
fn siblings_share_a_kernel() {
    let mut b = B::default();
    let x = b.input(&[64]);
    let y = b.un("aten::exp", x);
    let z = b.un("aten::neg", x);
    assert_eq!(count(&b.schedule(&[y, z])), (1, 0));
}

#[test]
fn an_activation_is_folded_once() {
    let mut b = B::default();
    let (x, w) = (b.input(&[8, 32]), b.param(&[32, 32]));
    let h = b.mm(x, w);
    let h = b.un("aten::gelu", h);
    let h = b.un("aten::gelu", h);
    assert_eq!(count(&b.schedule(&[h])), (1, 1));
}

/// One post-norm transformer layer on `[batch * length, width]`, as it is after decomposition.
fn transformer_layer(
    b: &mut B,
    x: crate::ir::graph::ValueRef,
    [batch, length, heads, head]: [i64; 4],
) -> crate::ir::graph::ValueRef {
    let (rows, width) = (batch * length, heads * head);
    let project = |b: &mut B, n_in: i64, n_out: i64, x| {
        let (w, c) = (b.param(&[n_out, n_in]), b.param(&[n_out]));
        b.linear(x, w, c)
    };
    let mut part = Vec::new();
    for _ in 0..3 {
        let y = project(b, width, width, x);
        let y = b.reshape(y, &[batch, length, heads, head]);
        let strides = [length * width, head, width, 1];
        let sizes = [batch, heads, length, head];
        let y = b.view("aten::permute", vec![t(y), ints(&[0, 2, 1, 3])], &sizes, &strides);
        let flat = [batch * heads, length, head];
        part.push(b.call("aten::reshape", vec![t(y), ints(&flat)], DType::F32, &flat));
    }
    let kt_strides = [length * head, 1, head];
    let kt_sizes = [batch * heads, head, length];
    let kt = b.view("aten::permute", vec![t(part[1]), ints(&[0, 2, 1])], &kt_sizes, &kt_strides);
    let sizes = [batch * heads, length, length];
    let scores = b.call("aten::bmm", vec![t(part[0]), t(kt)], DType::F32, &sizes);
    let scores = b.num("aten::mul.Tensor", scores, 0.125);
    let probs = b.softmax(scores);
    let sizes = [batch * heads, length, head];
    let out = b.call("aten::bmm", vec![t(probs), t(part[2])], DType::F32, &sizes);
    let out = b.reshape(out, &[batch, heads, length, head]);
    let strides = [heads * length * head, head, length * head, 1];
    let sizes = [batch, length, heads, head];
    let out = b.view("aten::permute", vec![t(out), ints(&[0, 2, 1, 3])], &sizes, &strides);
    let out = b.call("aten::clone", vec![t(out)], DType::F32, &sizes);
    let out = b.reshape(out, &[rows, width]);
    let out = project(b, width, width, out);
    let x = b.bin("aten::add.Tensor", x, out);
    let (g, c) = (b.param(&[width]), b.param(&[width]));
    let x = b.layer_norm(x, g, c);
    let h = project(b, width, 4 * width, x);
    let h = b.un("aten::gelu", h);
    let h = project(b, 4 * width, width, h);
    let x = b.bin("aten::add.Tensor", x, h);
    let (g, c) = (b.param(&[width]), b.param(&[width]));
    b.layer_norm(x, g, c)
}

#[test]
fn a_transformer_layer_copies_nothing() {
    for batch in [1, 2] {
        let mut b = B::default();
        let x = b.input(&[batch * 16, 64]);
        let y = transformer_layer(&mut b, x, [batch, 16, 2, 32]);
        let plan = b.schedule(&[y]);
        // eight products; softmax and two norms
        assert_eq!(count(&plan), (3, 8), "{}", plan.summary());
    }
}

#[test]
fn long_columns_are_summed_in_parts() {
    let kernels = |rows: i64, columns: i64| {
        let mut b = B::default();
        let x = b.input(&[rows, columns]);
        let sum = b.keep("aten::sum.dim_IntList", x, 0);
        let plan = b.schedule(&[sum]);
        crate::schedule::verify_schedule(&plan).unwrap();
        count(&plan)
    };
    assert_eq!(kernels(4096, 4096), (2, 0));
    // a prime number of rows cannot be cut evenly; a small matrix need not be
    assert_eq!(kernels(4099, 4096), (1, 0));
    assert_eq!(kernels(64, 64), (1, 0));
}
