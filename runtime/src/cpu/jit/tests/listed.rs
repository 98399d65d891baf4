//! Elements picked by listed positions, and read backwards.

use super::scheduled::check;

const DTYPES: [&str; 9] = ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "u8", "bool"];

#[test]
fn what_runs_backwards() {
    for d in DTYPES {
        check(&format!(
            "graph(%x: {d}[3,21], %y: {d}[21,3]) {{
  %0: {d}[3,21] = aten::flip(%x, dims=[1])
  %1: {d}[21,3] = aten::flip(%y, dims=[0, 1])
  %2: {d}[3,21] = aten::t(%1)
  %3: {d}[3,21] = aten::maximum(%0, %2)
  return %0, %3
}}"
        ));
    }
}

#[test]
fn pads_and_neighbours() {
    for d in DTYPES {
        check(&format!(
            "graph(%x: {d}[2,3,4,9]) {{
  %0: {d}[2,3,7,14] = aten::reflection_pad2d(%x, padding=[3, 2, 1, 2])
  %1: {d}[2,3,7,14] = aten::replication_pad2d(%x, padding=[6, -1, 0, 3])
  %2: {d}[2,3,7,14] = aten::maximum(%0, %1)
  %3: {d}[2,3,8,18] = aten::upsample_nearest2d(%x, output_size=[8, 18], scales_h=2.0, scales_w=2.0)
  %4: {d}[2,3,3,20] = aten::_upsample_nearest_exact2d(%x, output_size=[3, 20], scales_h=none, scales_w=none)
  return %2, %3, %4
}}"
        ));
    }
}

#[test]
fn rows_and_long_ranges() {
    // rows as strips, sums of picked elements, a range that threads share
    check(
        "graph(%x: f32[2,5,37]) {
  %0: f32[2,9,37] = aten::replication_pad2d(%x, padding=[0, 0, 3, 1])
  %1: f32[2,9,37] = aten::relu(%0)
  return %1
}",
    );
    check(
        "graph(%x: f32[4,33]) {
  %0: f32[4,50] = aten::reflection_pad1d(%x, padding=[9, 8])
  %1: f32[4,50] = aten::mul.Scalar(%0, other=2)
  %2: f32[4] = aten::sum.dim_IntList(%1, dim=[1], keepdim=false, dtype=none)
  %3: f32[50] = aten::sum.dim_IntList(%1, dim=[0], keepdim=false, dtype=none)
  return %2, %3
}",
    );
    check(
        "graph(%x: f32[1,20000]) {
  %0: f32[1,20006] = aten::reflection_pad1d(%x, padding=[3, 3])
  %1: f32[1,20006] = aten::flip(%0, dims=[-1])
  %2: f32[1,20006] = aten::neg(%1)
  return %2
}",
    );
}

#[test]
fn filled_pads() {
    for d in DTYPES {
        let fill = if d == "bool" { "true" } else { "7" };
        check(&format!(
            "graph(%x: {d}[2,4,9], %l: {d}[3,40]) {{
  %0: {d}[2,9,15] = aten::constant_pad_nd(%x, pad=[2, 4, 3, 2], value={fill})
  %1: {d}[2,3,8] = aten::constant_pad_nd(%x, pad=[-2, 1, 0, -1], value=0)
  %2: {d}[5,57] = aten::constant_pad_nd(%l, pad=[1, 16, 1, 1], value={fill})
  %3: {d}[5,57] = aten::maximum(%2, %2)
  return %0, %1, %3
}}"
        ));
    }
    // one row after the other through all of a kernel's stages
    check(
        "graph(%x: f32[4,60]) {
  %0: f32[4,81] = aten::constant_pad_nd(%x, pad=[10, 11], value=-1)
  %1: f32[4,81] = aten::exp(%0)
  %2: f32[4,1] = aten::sum.dim_IntList(%1, dim=[1], keepdim=true, dtype=none)
  %3: f32[4,81] = aten::div.Tensor(%1, %2)
  %4: i64[4] = aten::argmax(%0, dim=1, keepdim=false)
  return %3, %4
}",
    );
}

#[test]
fn rolled_and_circular() {
    for d in DTYPES {
        check(&format!(
            "graph(%x: {d}[4,33]) {{
  %0: {d}[4,30] = aten::slice.Tensor(%x, dim=1, start=3, end=33, step=1)
  %1: {d}[4,3] = aten::slice.Tensor(%x, dim=1, start=0, end=3, step=1)
  %2: {d}[4,33] = aten::cat([%0, %1], dim=1)
  %3: {d}[4,69] = aten::cat([%1, %x, %x], dim=1)
  return %2, %3
}}"
        ));
    }
}

#[test]
fn joined_in_place_and_shared_among_threads() {
    for d in DTYPES {
        check(&format!(
            "graph(%x: {d}[3,5], %y: {d}[3,40], %z: {d}[3,1]) {{
  %0: {d}[3,46] = aten::cat([%x, %y, %z], dim=1)
  %1: {d}[3,46] = aten::maximum(%0, %0)
  %2: {d}[6,40] = aten::cat([%y, %y], dim=0)
  %3: {d}[6,40] = aten::maximum(%2, %2)
  return %1, %3
}}"
        ));
    }
    check(
        "graph(%x: f32[20003], %y: f32[9000]) {
  %0: f32[29003] = aten::cat([%x, %y], dim=0)
  %1: f32[29003] = aten::neg(%0)
  %2: f32[29040] = aten::constant_pad_nd(%1, pad=[17, 20], value=1)
  return %2
}",
    );
}
