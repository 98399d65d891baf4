//! Instructions on 64-bit lanes, on integers, and between elements of different lengths.

use super::encode::{Address, Assembler, Conversion, Gpr, Mask, Opcode, Rm};
use super::tests::{check, check_lanes, check_with};
use super::vectors::{Vectors, Width};

#[test]
fn long_lanes() {
    check_lanes(
        Vectors::Zmm,
        Width::W64,
        &[
            "vaddpd zmm0,zmm1,zmm2",
            "vsubpd zmm31,zmm30,zmm29",
            "vmulpd zmm1,zmm2,[rdi+8]{1to8}",
            "vdivpd zmm17,zmm9,zmm3",
            "vminpd zmm1,zmm2,zmm3",
            "vmaxpd zmm1{k2},zmm2,zmm3",
            "vsqrtpd zmm20,zmm11",
            "vrndscalepd zmm5,zmm19,9",
            "vscalefpd zmm5,zmm19,zmm8",
            "vpaddq zmm1,zmm2,zmm3",
            "vpsubq zmm1,zmm2,zmm3",
            "vpmullq zmm1,zmm2,zmm30",
            "vpminsq zmm1,zmm2,zmm3",
            "vpmaxsq zmm1,zmm2,zmm3",
            "vpandq zmm1,zmm2,zmm3",
            "vporq zmm1,zmm2,zmm3",
            "vpxorq zmm1,zmm2,zmm3",
            "vpsllq zmm25,zmm3,17h",
            "vpsrlq zmm2,zmm30,1",
            "vpsraq zmm2,zmm3,3Fh",
            "vpsllvq zmm2,zmm3,zmm4",
            "vpsrlvq zmm2,zmm3,zmm4",
            "vpsravq zmm2,zmm3,zmm4",
            "vcmplt_oqpd k5,zmm1,zmm31",
            "vpcmpgtq k7,zmm16,zmm1",
            "vpcmpeqq k2{k1},zmm6,zmm1",
            "vblendmpd zmm21{k3},zmm4,zmm5",
            "vfmadd132pd zmm1,zmm2,zmm3",
            "vfmadd213pd zmm1,zmm2,zmm3",
            "vfmadd231pd zmm1,zmm2,zmm3",
            "vcvttpd2qq zmm1,zmm2",
            "vcvtqq2pd zmm1,zmm2",
            "vmovapd zmm13,zmm27",
            "vshuff64x2 zmm0,zmm9,zmm9,4Eh",
            "vpermilpd zmm0,zmm9,55h",
            "vbroadcastsd zmm9,[rdi+18h]",
            "vmovupd zmm3{k1}{z},[rbp+rax*8+40h]",
            "vmovupd [r13+rax*8+0C0h]{k1},zmm17",
            "vmovsd [rdi+10h],xmm25",
            "vcmpgt_oqpd k2,zmm1,[148h]{1to8}",
        ],
        |a| {
            let none = Mask::None;
            let base = |d| Address::Base(Gpr::RDI, d);
            let mem = |b, d| Rm::Mem(Address::Indexed(Gpr(b), Gpr::RAX, 3, d));
            a.evex(Opcode::ADD, none, 0, 1, Rm::Reg(2), None);
            a.evex(Opcode::SUB, none, 31, 30, Rm::Reg(29), None);
            a.evex(Opcode::MUL, none, 1, 2, Rm::Bcst(base(8)), None);
            a.evex(Opcode::DIV, none, 17, 9, Rm::Reg(3), None);
            a.evex(Opcode::MIN, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::MAX, Mask::Merge(2), 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::SQRT, none, 20, 0, Rm::Reg(11), None);
            a.evex(Opcode::ROUND, none, 5, 0, Rm::Reg(19), Some(9));
            a.evex(Opcode::SCALEF, none, 5, 19, Rm::Reg(8), None);
            a.evex(Opcode::IADD, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::ISUB, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::IMUL, none, 1, 2, Rm::Reg(30), None);
            a.evex(Opcode::IMIN, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::IMAX, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::AND, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::OR, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::XOR, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::SHIFT, none, 6, 25, Rm::Reg(3), Some(23));
            a.evex(Opcode::SHIFT, none, 2, 2, Rm::Reg(30), Some(1));
            a.evex(Opcode::SHIFT_SIGNED, none, 4, 2, Rm::Reg(3), Some(63));
            a.evex(Opcode::SHIFT_LEFT_BY, none, 2, 3, Rm::Reg(4), None);
            a.evex(Opcode::SHIFT_RIGHT_BY, none, 2, 3, Rm::Reg(4), None);
            a.evex(Opcode::SHIFT_SIGNED_BY, none, 2, 3, Rm::Reg(4), None);
            a.evex(Opcode::CMP, none, 5, 1, Rm::Reg(31), Some(0x11));
            a.evex(Opcode::IGT, none, 7, 16, Rm::Reg(1), None);
            a.evex(Opcode::IEQ, Mask::Merge(1), 2, 6, Rm::Reg(1), None);
            a.evex(Opcode::BLEND, Mask::Merge(3), 21, 4, Rm::Reg(5), None);
            a.evex(Opcode::FMA132, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::FMA213, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::FMA231, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::TO_INT, none, 1, 0, Rm::Reg(2), None);
            a.evex(Opcode::TO_FLOAT, none, 1, 0, Rm::Reg(2), None);
            a.evex(Opcode::MOVE, none, 13, 0, Rm::Reg(27), None);
            a.evex(Opcode::QUARTERS, none, 0, 9, Rm::Reg(9), Some(0x4e));
            a.evex(Opcode::PERMUTE, none, 0, 0, Rm::Reg(9), Some(0x55));
            a.evex(Opcode::BROADCAST, none, 9, 0, Rm::Lane(base(24)), None);
            a.evex(Opcode::LOAD, Mask::Zero(1), 3, 0, mem(5, 64), None);
            a.evex(Opcode::STORE, Mask::Merge(1), 17, 0, mem(13, 192), None);
            a.evex(Opcode::STORE_LANE, none, 25, 0, Rm::Lane(base(16)), None);
            let (first, second) = (a.constant(7), a.constant(1 << 40));
            assert_eq!((first, second), (0, 2));
            a.evex(Opcode::CMP, none, 2, 1, Rm::Bcst(Address::Pool(second)), Some(0x1e));
        },
    );
}

#[test]
fn long_lanes_of_short_vectors() {
    check_lanes(
        Vectors::Ymm,
        Width::W64,
        &[
            "vaddpd ymm0,ymm1,ymm2",
            "vdivpd ymm15,ymm9,ymm3",
            "vsqrtpd ymm10,ymm11",
            "vroundpd ymm5,ymm9,9",
            "vpaddq ymm1,ymm2,ymm3",
            "vpsubq ymm1,ymm2,ymm3",
            "vpmuludq ymm1,ymm2,ymm3",
            "vpand ymm1,ymm2,ymm3",
            "vandpd ymm1,ymm2,ymm3",
            "vxorpd ymm1,ymm2,ymm3",
            "vpsllq ymm12,ymm3,20h",
            "vpsrlq ymm2,ymm13,1",
            "vpsllvq ymm2,ymm13,ymm1",
            "vpsrlvq ymm2,ymm13,ymm1",
            "vcmplt_oqpd ymm5,ymm1,ymm11",
            "vpcmpgtq ymm7,ymm12,ymm1",
            "vpcmpeqq ymm2,ymm6,ymm1",
            "vblendvpd ymm12,ymm4,ymm5,ymm13",
            "vfmadd132pd ymm1,ymm2,ymm3",
            "vfmadd213pd ymm1,ymm2,ymm3",
            "vfmadd231pd ymm11,ymm12,ymm13",
            "vmovapd ymm13,ymm7",
            "vpermilpd ymm0,ymm9,5",
            "vmovq xmm15,rsi",
            "vpbroadcastq ymm15,xmm15",
            "vmaskmovpd ymm3,ymm15,[rbp+rax*8+20h]",
            "vmaskmovpd [r13+rax*8+60h],ymm15,ymm7",
            "vmovupd ymm14,[r8+rax*8]",
            "vbroadcastsd ymm9,[rdi+18h]",
            "vmovsd [rdi+10h],xmm13",
        ],
        |a| {
            let mem = |b, d| Rm::Mem(Address::Indexed(Gpr(b), Gpr::RAX, 3, d));
            let mut v = |op, reg, v, rm, imm| a.vector(op, reg, v, Rm::Reg(rm), imm);
            v(Opcode::ADD, 0, 1, 2, None);
            v(Opcode::DIV, 15, 9, 3, None);
            v(Opcode::SQRT, 10, 0, 11, None);
            v(Opcode::ROUND, 5, 0, 9, Some(9));
            v(Opcode::IADD, 1, 2, 3, None);
            v(Opcode::ISUB, 1, 2, 3, None);
            v(Opcode::LOW_MUL, 1, 2, 3, None);
            v(Opcode::AND, 1, 2, 3, None);
            v(Opcode::AND_TRUTH, 1, 2, 3, None);
            v(Opcode::XOR_TRUTH, 1, 2, 3, None);
            v(Opcode::SHIFT, 6, 12, 3, Some(32));
            v(Opcode::SHIFT, 2, 2, 13, Some(1));
            v(Opcode::SHIFT_LEFT_BY, 2, 13, 1, None);
            v(Opcode::SHIFT_RIGHT_BY, 2, 13, 1, None);
            v(Opcode::CMP, 5, 1, 11, Some(0x11));
            v(Opcode::IGT, 7, 12, 1, None);
            v(Opcode::IEQ, 2, 6, 1, None);
            v(Opcode::BLEND_SIGNS, 12, 4, 5, Some(13 << 4));
            v(Opcode::FMA132, 1, 2, 3, None);
            v(Opcode::FMA213, 1, 2, 3, None);
            v(Opcode::FMA231, 11, 12, 13, None);
            v(Opcode::MOVE, 13, 0, 7, None);
            v(Opcode::PERMUTE, 0, 0, 9, Some(5));
            a.vex(Opcode::FROM_GPR, false, 15, 0, Rm::Reg(6), None);
            a.vex(Opcode::SPREAD, true, 15, 0, Rm::Reg(15), None);
            a.vector(Opcode::LOAD_PART, 3, 15, mem(5, 32), None);
            a.vector(Opcode::STORE_PART, 7, 15, mem(13, 96), None);
            a.vector(Opcode::LOAD, 14, 0, mem(8, 0), None);
            let at = |d| Rm::Lane(Address::Base(Gpr::RDI, d));
            a.vector(Opcode::BROADCAST, 9, 0, at(24), None);
            a.vex(Opcode::STORE_LANE, false, 13, 0, at(16), None);
        },
    );
}

#[test]
fn integers_of_32_bits() {
    let list = |a: &mut Assembler| {
        a.vector(Opcode::IMUL, 1, 2, Rm::Reg(3), None);
        a.vector(Opcode::IMIN, 1, 2, Rm::Reg(3), None);
        a.vector(Opcode::IMAX, 1, 2, Rm::Reg(3), None);
        a.vector(Opcode::SHIFT_LEFT_BY, 1, 2, Rm::Reg(3), None);
        a.vector(Opcode::SHIFT_RIGHT_BY, 1, 2, Rm::Reg(3), None);
        a.vector(Opcode::SHIFT_SIGNED_BY, 1, 2, Rm::Reg(3), None);
    };
    let names = ["vpmulld", "vpminsd", "vpmaxsd", "vpsllvd", "vpsrlvd", "vpsravd"];
    for (vectors, r) in [(Vectors::Ymm, "ymm"), (Vectors::Zmm, "zmm")] {
        let want = names.map(|n| format!("{n} {r}1,{r}2,{r}3"));
        check_with(vectors, &want.each_ref().map(|s| &s[..]), list);
    }
}

#[test]
fn elements_that_are_shorter_than_lanes() {
    let rax = Gpr::RAX;
    check_with(
        Vectors::Zmm,
        &[
            "vpmovzxbd zmm20,[r8+rax+10h]",
            "vpmovsxbd zmm1{k1}{z},[r8+rax+10h]",
            "vpmovzxwd zmm1,[rbp+rax*2+20h]",
            "vpmovsxwd zmm1,[rbp+rax*2+20h]",
            "vpmovzxbq zmm1,[r8+rax+8]",
            "vpmovsxbq zmm1,[r8+rax+8]",
            "vpmovsxwq zmm1,[r8+rax*2+10h]",
            "vpmovsxdq zmm1,[r8+rax*4+20h]",
            "vcvtph2ps zmm1,[r8+rax*2]",
            "vcvtph2ps zmm1,ymm31",
            "vcvtps2ph ymm31,zmm1,0",
            "vcvtps2ph [r8+rax*2]{k1},zmm17,0",
            "vpmovdb [r8+rax+10h]{k1},zmm20",
            "vpmovdw [r8+rax*2+20h],zmm1",
            "vpmovqb [r8+rax+8],zmm1",
        ],
        |a| {
            let none = Mask::None;
            let m = |b, scale, d| Rm::Mem(Address::Indexed(Gpr(b), rax, scale, d));
            let mut c = |c, mask, reg, rm, imm| a.convert(c, true, mask, reg, 0, rm, imm);
            c(Conversion::BYTES_TO_32, none, 20, m(8, 0, 16), None);
            c(Conversion::SIGNED_BYTES_TO_32, Mask::Zero(1), 1, m(8, 0, 16), None);
            c(Conversion::WORDS_TO_32, none, 1, m(5, 1, 32), None);
            c(Conversion::SIGNED_WORDS_TO_32, none, 1, m(5, 1, 32), None);
            c(Conversion::BYTES_TO_64, none, 1, m(8, 0, 8), None);
            c(Conversion::SIGNED_BYTES_TO_64, none, 1, m(8, 0, 8), None);
            c(Conversion::SIGNED_WORDS_TO_64, none, 1, m(8, 1, 16), None);
            c(Conversion::SIGNED_INTS_TO_64, none, 1, m(8, 2, 32), None);
            c(Conversion::FROM_HALF, none, 1, m(8, 1, 0), None);
            c(Conversion::FROM_HALF, none, 1, Rm::Reg(31), None);
            c(Conversion::TO_HALF, none, 1, Rm::Reg(31), Some(0));
            c(Conversion::TO_HALF, Mask::Merge(1), 17, m(8, 1, 0), Some(0));
            c(Conversion::BYTES_OF_32, Mask::Merge(1), 20, m(8, 0, 16), None);
            c(Conversion::WORDS_OF_32, none, 1, m(8, 1, 32), None);
            c(Conversion::BYTES_OF_64, none, 1, m(8, 0, 8), None);
        },
    );
    check_with(
        Vectors::Ymm,
        &[
            "vpmovzxbd ymm12,[r8+rax+8]",
            "vpmovsxbd ymm1,[r8+rax+8]",
            "vpmovzxwd ymm1,[rbp+rax*2+10h]",
            "vpmovsxwd ymm1,[rbp+rax*2+10h]",
            "vpmovzxbq ymm1,[r8+rax+4]",
            "vpmovsxbq ymm1,[r8+rax+4]",
            "vpmovsxwq ymm1,[r8+rax*2+8]",
            "vpmovsxdq ymm1,[r8+rax*4+10h]",
            "vcvtph2ps ymm1,[r8+rax*2]",
            "vcvtph2ps ymm1,xmm13",
            "vcvtps2ph xmm13,ymm1,0",
            "vcvtps2ph [r8+rax*2],ymm7,0",
            "vextracti128 xmm3,ymm12,1",
            "vpackssdw xmm3,xmm12,xmm3",
            "vpackusdw xmm3,xmm12,xmm3",
            "vpacksswb xmm3,xmm3,xmm3",
            "vpackuswb xmm3,xmm3,xmm3",
            "vshufps xmm3,xmm12,xmm3,88h",
            "vmovd [r8+rax+4],xmm12",
            "vmovq [r8+rax+8],xmm12",
            "vmovdqu [r8+rax*2+10h],xmm12",
        ],
        |a| {
            let none = Mask::None;
            let m = |b, scale, d| Rm::Mem(Address::Indexed(Gpr(b), rax, scale, d));
            let mut c = |c, long, reg, v, rm, imm| a.convert(c, long, none, reg, v, rm, imm);
            c(Conversion::BYTES_TO_32, true, 12, 0, m(8, 0, 8), None);
            c(Conversion::SIGNED_BYTES_TO_32, true, 1, 0, m(8, 0, 8), None);
            c(Conversion::WORDS_TO_32, true, 1, 0, m(5, 1, 16), None);
            c(Conversion::SIGNED_WORDS_TO_32, true, 1, 0, m(5, 1, 16), None);
            c(Conversion::BYTES_TO_64, true, 1, 0, m(8, 0, 4), None);
            c(Conversion::SIGNED_BYTES_TO_64, true, 1, 0, m(8, 0, 4), None);
            c(Conversion::SIGNED_WORDS_TO_64, true, 1, 0, m(8, 1, 8), None);
            c(Conversion::SIGNED_INTS_TO_64, true, 1, 0, m(8, 2, 16), None);
            c(Conversion::FROM_HALF, true, 1, 0, m(8, 1, 0), None);
            c(Conversion::FROM_HALF, true, 1, 0, Rm::Reg(13), None);
            c(Conversion::TO_HALF, true, 1, 0, Rm::Reg(13), Some(0));
            c(Conversion::TO_HALF, true, 7, 0, m(8, 1, 0), Some(0));
            c(Conversion::HALF_OF, true, 12, 0, Rm::Reg(3), Some(1));
            c(Conversion::PACK_32, false, 3, 12, Rm::Reg(3), None);
            c(Conversion::PACK_32_UNSIGNED, false, 3, 12, Rm::Reg(3), None);
            c(Conversion::PACK_16, false, 3, 3, Rm::Reg(3), None);
            c(Conversion::PACK_16_UNSIGNED, false, 3, 3, Rm::Reg(3), None);
            c(Conversion::SHUFFLE, false, 3, 12, Rm::Reg(3), Some(0x88));
            c(Conversion::STORE_4, false, 12, 0, m(8, 0, 4), None);
            c(Conversion::STORE_8, false, 12, 0, m(8, 0, 8), None);
            c(Conversion::STORE_16, false, 12, 0, m(8, 1, 16), None);
        },
    );
}

#[test]
fn elements_are_copied_one_by_one() {
    check(
        &[
            "lea r9,[r9+rax*2]",
            "lea rbx,[rbx+rax*8]",
            "movzx edx,byte ptr [r9+rcx-1]",
            "movzx edx,word ptr [rsp+rcx*2+1Eh]",
            "mov [rsp+rcx+1Fh],dl",
            "mov [r14+rcx*2-2],dx",
            "mov edx,[r9+rcx*4-4]",
            "mov [rsp+rcx*4+1Ch],edx",
        ],
        |a| {
            let at = |b, i, scale, d| Address::Indexed(b, i, scale, d);
            let (rax, rcx, rdx) = (Gpr::RAX, Gpr::RCX, Gpr::RDX);
            a.lea(Gpr(9), at(Gpr(9), rax, 1, 0));
            a.lea(Gpr(3), at(Gpr(3), rax, 3, 0));
            a.load_part(rdx, at(Gpr(9), rcx, 0, -1), 0);
            a.load_part(rdx, at(Gpr::RSP, rcx, 1, 30), 1);
            a.store_part(rdx, at(Gpr::RSP, rcx, 0, 31), 0);
            a.store_part(rdx, at(Gpr(14), rcx, 1, -2), 1);
            a.load_part(rdx, at(Gpr(9), rcx, 2, -4), 2);
            a.store_part(rdx, at(Gpr::RSP, rcx, 2, 28), 2);
        },
    );
}

#[test]
fn lanes_from_addresses_of_their_own() {
    let at = |b, i, scale, d| Rm::Lane(Address::Indexed(Gpr(b), Gpr(i), scale, d));
    check_with(
        Vectors::Zmm,
        &[
            "vgatherdps zmm1,k2,[r8+zmm3*4]",
            "vgatherdps zmm20,k7,[rbp+zmm31*4+80h]",
            "vgatherdps zmm9,k1,[r13+zmm12*4-0D05h]",
            "kxnorw k3,k3,k3",
        ],
        |a| {
            a.evex(Opcode::GATHER, Mask::Merge(2), 1, 0, at(8, 3, 2, 0), None);
            a.evex(Opcode::GATHER, Mask::Merge(7), 20, 16, at(5, 15, 2, 128), None);
            a.evex(Opcode::GATHER, Mask::Merge(1), 9, 0, at(13, 12, 2, -0xd05), None);
            a.mask_op(0x46, 3, 3, 3);
        },
    );
    check_lanes(Vectors::Zmm, Width::W64, &["vgatherqpd zmm17,k2,[r8+zmm20*8+40h]"], |a| {
        a.evex(Opcode::GATHER, Mask::Merge(2), 17, 16, at(8, 4, 3, 64), None)
    });
    check_with(
        Vectors::Ymm,
        &["vgatherdps ymm1,[r8+ymm3*4],ymm2", "vgatherdps ymm9,[r13+ymm12*4+80h],ymm15"],
        |a| {
            a.vex(Opcode::GATHER, true, 1, 2, at(8, 3, 2, 0), None);
            a.vex(Opcode::GATHER, true, 9, 15, at(13, 12, 2, 128), None);
        },
    );
    check_lanes(Vectors::Ymm, Width::W64, &["vgatherqpd ymm1,[rbx+ymm3*8+8],ymm2"], |a| {
        a.vex(Opcode::GATHER, true, 1, 2, at(3, 3, 3, 8), None);
    });
}
