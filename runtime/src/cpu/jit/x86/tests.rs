use super::dtypes::fold_of;
use super::encode::{Address, Assembler, Gpr, Mask, Opcode, Rm};
use super::ir::{Body, Format, Inst, Node};
use super::lower::{Shape, lower};
use super::vectors::{Vectors, Width};
use crate::cpu::math::Prims;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::ReduceOp;

/// The instructions up to the first return.
fn disassemble(code: &[u8]) -> Vec<String> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let mut out = Vec::new();
    let mut inst = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut inst);
        let mut text = String::new();
        formatter.format(&inst, &mut text);
        assert!(!inst.is_invalid(), "bad encoding after {out:?}");
        let last = text == "ret";
        out.push(text);
        if last {
            break;
        }
    }
    out
}

pub(super) fn check(want: &[&str], f: impl FnOnce(&mut Assembler)) {
    check_with(Vectors::Zmm, want, f);
}

pub(super) fn check_with(vectors: Vectors, want: &[&str], f: impl FnOnce(&mut Assembler)) {
    check_lanes(vectors, Width::W32, want, f);
}

pub(super) fn check_lanes(
    vectors: Vectors,
    width: Width,
    want: &[&str],
    f: impl FnOnce(&mut Assembler),
) {
    let mut asm = Assembler::new(vectors, width);
    f(&mut asm);
    asm.ret();
    let got = disassemble(&asm.finish());
    assert_eq!(got[..got.len() - 1], *want);
}

#[test]
fn registers_of_all_banks() {
    check(
        &[
            "vaddps zmm0,zmm1,zmm2",
            "vsubps zmm31,zmm30,zmm29",
            "vmulps zmm8,zmm16,zmm24",
            "vdivps zmm17,zmm9,zmm3",
            "vminps zmm1,zmm2,zmm3",
            "vmaxps zmm1{k2},zmm2,zmm3",
            "vsqrtps zmm20,zmm11",
            "vrndscaleps zmm5,zmm19,9",
            "vscalefps zmm5,zmm19,zmm8",
            "vpaddd zmm1,zmm2,zmm3",
            "vpsubd zmm1,zmm2,zmm3",
            "vpandd zmm1,zmm2,zmm3",
            "vpord zmm1,zmm2,zmm3",
            "vpxord zmm1,zmm2,zmm3",
            "vpslld zmm25,zmm3,17h",
            "vpsrld zmm2,zmm30,1",
            "vpsrad zmm2,zmm3,1Fh",
            "vcmplt_oqps k5,zmm1,zmm31",
            "vpcmpgtd k7,zmm16,zmm1",
            "vpcmpeqd k2{k1},zmm6,zmm1",
            "vblendmps zmm21{k3},zmm4,zmm5",
            "vfmadd132ps zmm1,zmm2,zmm3",
            "vfmadd213ps zmm1,zmm2,zmm3",
            "vfmadd231ps zmm1,zmm2,zmm3",
            "vcvttps2dq zmm1,zmm2",
            "vcvtdq2ps zmm1,zmm2",
            "vmovaps zmm13,zmm27",
            "vshuff32x4 zmm0,zmm9,zmm9,4Eh",
            "vpermilps zmm0,zmm9,0B1h",
        ],
        |a| {
            let none = Mask::None;
            a.evex(Opcode::ADD, none, 0, 1, Rm::Reg(2), None);
            a.evex(Opcode::SUB, none, 31, 30, Rm::Reg(29), None);
            a.evex(Opcode::MUL, none, 8, 16, Rm::Reg(24), None);
            a.evex(Opcode::DIV, none, 17, 9, Rm::Reg(3), None);
            a.evex(Opcode::MIN, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::MAX, Mask::Merge(2), 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::SQRT, none, 20, 0, Rm::Reg(11), None);
            a.evex(Opcode::ROUND, none, 5, 0, Rm::Reg(19), Some(9));
            a.evex(Opcode::SCALEF, none, 5, 19, Rm::Reg(8), None);
            a.evex(Opcode::IADD, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::ISUB, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::AND, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::OR, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::XOR, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::SHIFT, none, 6, 25, Rm::Reg(3), Some(23));
            a.evex(Opcode::SHIFT, none, 2, 2, Rm::Reg(30), Some(1));
            a.evex(Opcode::SHIFT, none, 4, 2, Rm::Reg(3), Some(31));
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
            a.evex(Opcode::PERMUTE, none, 0, 0, Rm::Reg(9), Some(0xb1));
        },
    );
}

#[test]
fn short_vectors() {
    check_with(
        Vectors::Ymm,
        &[
            "vaddps ymm0,ymm1,ymm2",
            "vsubps ymm15,ymm14,ymm13",
            "vmulps ymm8,ymm7,ymm9",
            "vdivps ymm7,ymm9,ymm3",
            "vminps ymm1,ymm2,ymm3",
            "vmaxps ymm1,ymm2,ymm3",
            "vsqrtps ymm10,ymm11",
            "vroundps ymm5,ymm9,9",
            "vpaddd ymm1,ymm2,ymm3",
            "vpsubd ymm1,ymm2,ymm3",
            "vpand ymm1,ymm2,ymm3",
            "vpor ymm1,ymm2,ymm3",
            "vpxor ymm1,ymm2,ymm3",
            "vandps ymm1,ymm2,ymm3",
            "vorps ymm1,ymm2,ymm3",
            "vxorps ymm1,ymm2,ymm3",
            "vpslld ymm12,ymm3,17h",
            "vpsrld ymm2,ymm13,1",
            "vpsrad ymm2,ymm3,1Fh",
            "vcmplt_oqps ymm5,ymm1,ymm11",
            "vpcmpgtd ymm7,ymm12,ymm1",
            "vpcmpeqd ymm2,ymm6,ymm1",
            "vblendvps ymm12,ymm4,ymm5,ymm13",
            "vfmadd132ps ymm1,ymm2,ymm3",
            "vfmadd213ps ymm1,ymm2,ymm3",
            "vfmadd231ps ymm11,ymm12,ymm13",
            "vcvttps2dq ymm1,ymm2",
            "vcvtdq2ps ymm1,ymm2",
            "vmovaps ymm13,ymm7",
            "vperm2f128 ymm0,ymm9,ymm9,1",
            "vpermilps ymm0,ymm9,0B1h",
            "vmovd xmm15,esi",
            "vpbroadcastd ymm15,xmm15",
        ],
        |a| {
            let mut v = |op, reg, v, rm, imm| a.vector(op, reg, v, Rm::Reg(rm), imm);
            v(Opcode::ADD, 0, 1, 2, None);
            v(Opcode::SUB, 15, 14, 13, None);
            v(Opcode::MUL, 8, 7, 9, None);
            v(Opcode::DIV, 7, 9, 3, None);
            v(Opcode::MIN, 1, 2, 3, None);
            v(Opcode::MAX, 1, 2, 3, None);
            v(Opcode::SQRT, 10, 0, 11, None);
            v(Opcode::ROUND, 5, 0, 9, Some(9));
            v(Opcode::IADD, 1, 2, 3, None);
            v(Opcode::ISUB, 1, 2, 3, None);
            v(Opcode::AND, 1, 2, 3, None);
            v(Opcode::OR, 1, 2, 3, None);
            v(Opcode::XOR, 1, 2, 3, None);
            v(Opcode::AND_TRUTH, 1, 2, 3, None);
            v(Opcode::OR_TRUTH, 1, 2, 3, None);
            v(Opcode::XOR_TRUTH, 1, 2, 3, None);
            v(Opcode::SHIFT, 6, 12, 3, Some(23));
            v(Opcode::SHIFT, 2, 2, 13, Some(1));
            v(Opcode::SHIFT, 4, 2, 3, Some(31));
            v(Opcode::CMP, 5, 1, 11, Some(0x11));
            v(Opcode::IGT, 7, 12, 1, None);
            v(Opcode::IEQ, 2, 6, 1, None);
            v(Opcode::BLEND_SIGNS, 12, 4, 5, Some(13 << 4));
            v(Opcode::FMA132, 1, 2, 3, None);
            v(Opcode::FMA213, 1, 2, 3, None);
            v(Opcode::FMA231, 11, 12, 13, None);
            v(Opcode::TO_INT, 1, 0, 2, None);
            v(Opcode::TO_FLOAT, 1, 0, 2, None);
            v(Opcode::MOVE, 13, 0, 7, None);
            v(Opcode::HALVES, 0, 9, 9, Some(1));
            v(Opcode::PERMUTE, 0, 0, 9, Some(0xb1));
            a.vex(Opcode::FROM_GPR, false, 15, 0, Rm::Reg(6), None);
            a.vex(Opcode::SPREAD, true, 15, 0, Rm::Reg(15), None);
        },
    );
}

#[test]
fn memory_operands_of_short_vectors() {
    check_with(
        Vectors::Ymm,
        &[
            "vmovups ymm14,[r8+rax]",
            "vmaskmovps ymm3,ymm15,[rbp+rax+20h]",
            "vmaskmovps [r13+rax+60h],ymm15,ymm7",
            "vmovups [rsp+40h],ymm2",
            "vmovups ymm2,[rsp+4001h]",
            "vbroadcastss ymm9,[rdi+18h]",
            "vaddps ymm1,ymm2,[r12+rax]",
            "vmovss [rdi+10h],xmm13",
            // the second constant of 32 bytes
            "vcmpgt_oqps ymm2,ymm1,[0A0h]",
            "vpcmpgtd ymm15,ymm15,[0C0h]",
        ],
        |a| {
            let rax = Gpr::RAX;
            let mem = |b, d| Rm::Mem(Address::Indexed(Gpr(b), rax, 0, d));
            let base = |b: Gpr, d| Address::Base(b, d);
            a.vector(Opcode::LOAD, 14, 0, mem(8, 0), None);
            a.vector(Opcode::LOAD_PART, 3, 15, mem(5, 32), None);
            a.vector(Opcode::STORE_PART, 7, 15, mem(13, 96), None);
            let (s, t) = (base(Gpr::RSP, 64), base(Gpr::RSP, 0x4001));
            a.vector(Opcode::STORE, 2, 0, Rm::Mem(s), None);
            a.vector(Opcode::LOAD, 2, 0, Rm::Mem(t), None);
            a.vector(Opcode::BROADCAST, 9, 0, Rm::Lane(base(Gpr::RDI, 24)), None);
            a.vector(Opcode::ADD, 1, 2, mem(12, 0), None);
            a.vex(Opcode::STORE_LANE, false, 13, 0, Rm::Lane(base(Gpr::RDI, 16)), None);
            let first = a.constant(7);
            let second = Address::Pool(a.constant(9));
            assert_eq!((first, a.constant(7)), (0, 0));
            a.vector(Opcode::CMP, 2, 1, Rm::Mem(second), Some(0x1e));
            let numbers = Address::Pool(a.numbers_from(0));
            a.vector(Opcode::IGT, 15, 15, Rm::Mem(numbers), None);
        },
    );
}

#[test]
fn memory_operands() {
    check(
        &[
            "vmovups zmm30,[r8+rax]",
            "vmovups zmm3{k1}{z},[rbp+rax+40h]",
            "vmovups [r13+rax+0C0h]{k1},zmm17",
            "vmovups [rsp+80h],zmm2",
            "vmovups zmm2,[rsp+4001h]",
            "vbroadcastss zmm9,[rdi+18h]",
            "vaddps zmm1,zmm2,[r12+rax]",
            "vmulps zmm1,zmm2,[rdi+8]{1to16}",
            "vmovss [rdi+10h],xmm25",
            "vcmpgt_oqps k2,zmm1,[80h]{1to16}",
        ],
        |a| {
            let none = Mask::None;
            let rax = Gpr::RAX;
            let mem = |b, d| Rm::Mem(Address::Indexed(Gpr(b), rax, 0, d));
            let base = |b: Gpr, d| Address::Base(b, d);
            a.evex(Opcode::LOAD, none, 30, 0, mem(8, 0), None);
            a.evex(Opcode::LOAD, Mask::Zero(1), 3, 0, mem(5, 64), None);
            a.evex(Opcode::STORE, Mask::Merge(1), 17, 0, mem(13, 192), None);
            let (s, t) = (base(Gpr::RSP, 128), base(Gpr::RSP, 0x4001));
            a.evex(Opcode::STORE, none, 2, 0, Rm::Mem(s), None);
            a.evex(Opcode::LOAD, none, 2, 0, Rm::Mem(t), None);
            let (p, q, r) = (base(Gpr::RDI, 24), base(Gpr::RDI, 8), base(Gpr::RDI, 16));
            a.evex(Opcode::BROADCAST, none, 9, 0, Rm::Lane(p), None);
            a.evex(Opcode::ADD, none, 1, 2, mem(12, 0), None);
            a.evex(Opcode::MUL, none, 1, 2, Rm::Bcst(q), None);
            a.evex(Opcode::STORE_LANE, none, 25, 0, Rm::Lane(r), None);
            let word = Address::Pool(a.constant(7));
            a.evex(Opcode::CMP, none, 2, 1, Rm::Bcst(word), Some(0x1e));
        },
    );
}

#[test]
fn masks_and_integers() {
    check(
        &[
            "kandw k2,k3,k4",
            "korw k5,k6,k7",
            "kxorw k1,k2,k3",
            "knotw k6,k2",
            "kmovd k1,edx",
            "push rbx",
            "push r15",
            "sub rsp,80h",
            "mov r9,[rdi+8]",
            "mov rbp,[rdi+200h]",
            "mov eax,5",
            "mov rcx,rsi",
            "shr rcx,5",
            "add rax,40h",
            "and rsi,0Fh",
            "dec rcx",
            "shl rdx,cl",
            "je 0",
            "vzeroupper",
            "pop r15",
            "prefetcht0 [r9+rax*4+40h]",
            "prefetcht0 [rbx+rax*2]",
            "prefetcht0 [r13+rax*4]",
        ],
        |a| {
            let top = a.label();
            a.bind(top);
            a.mask_op(0x41, 2, 3, 4);
            a.mask_op(0x45, 5, 6, 7);
            a.mask_op(0x47, 1, 2, 3);
            a.mask_not(6, 2);
            a.mask_from_rdx(1);
            a.push(Gpr(3));
            a.push(Gpr(15));
            a.sub_imm(Gpr::RSP, 128);
            a.load(Gpr(9), Gpr::RDI, 8);
            a.load(Gpr(5), Gpr::RDI, 512);
            a.mov_imm(Gpr::RAX, 5);
            a.mov(Gpr::RCX, Gpr::RSI);
            a.shr_imm(Gpr::RCX, 5);
            a.add_imm(Gpr::RAX, 64);
            a.and_imm(Gpr::RSI, 15);
            a.dec(Gpr::RCX);
            a.shl_rdx_cl();
            a.jump_zero(top);
            a.zero_upper();
            a.pop(Gpr(15));
            let at = |b, scale, d| Address::Indexed(Gpr(b), Gpr::RAX, scale, d);
            a.prefetch(at(9, 2, 64));
            a.prefetch(at(3, 1, 0));
            a.prefetch(at(13, 2, 0));
        },
    );
}

fn plain(unroll: u32) -> Shape {
    Shape { unroll, single: true, tail: true }
}

#[test]
fn every_strip_leaves_clean_upper_halves() {
    for vectors in [Vectors::Ymm, Vectors::Zmm] {
        let mut b = Body::new(vectors, Width::W32);
        let x = b.push(Inst::Load(0, Format::Lanes));
        let y = b.f(2.0);
        let z = b.mul(x, y);
        b.push(Inst::Store(1, Format::Lanes, z));
        b.streams = 2;
        let text = disassemble(&lower(&b, plain(4)).expect("fits"));
        let n = text.len();
        assert_eq!(text[n - 2..], ["vzeroupper", "ret"], "{text:#?}");
        assert!(text.iter().all(|l| !l.starts_with("movups")));
    }
}

#[test]
fn more_values_than_registers_go_to_the_stack() {
    // all loads of one stream stay alive until the sum that reads them in order of definition
    for vectors in [Vectors::Ymm, Vectors::Zmm] {
        let mut b = Body::new(vectors, Width::W32);
        let x: Vec<Node> = (0..40).map(|_| b.push(Inst::Load(0, Format::Lanes))).collect();
        let mut sum = b.f(0.0);
        for v in x {
            sum = b.fma(v, v, sum);
        }
        b.push(Inst::Store(1, Format::Lanes, sum));
        b.streams = 2;
        let text = disassemble(&lower(&b, plain(1)).expect("fits"));
        let spills = text.iter().filter(|l| l.starts_with("vmovups [rsp")).count();
        assert!(spills >= 8, "{text:#?}");
        assert!(text.iter().any(|l| l.starts_with("sub rsp")));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut b = Body::new(Vectors::Zmm, Width::W32);
    let x = b.push(Inst::Load(0, Format::Lanes));
    let sum = fold_of(ReduceOp::Sum, DType::F32).expect("a reduction");
    for k in 0..8 {
        b.push(Inst::Accumulate(k, sum, x));
        b.folds.push(sum);
    }
    b.streams = 1;
    assert!(lower(&b, plain(4)).is_err());
    assert!(lower(&b, plain(2)).is_ok());
}

#[test]
fn calls_of_scalar_routines() {
    check(
        &[
            "kmovw edx,k5",
            "test edx,edx",
            "mov [rsp+840h],rcx",
            "mov rcx,1122334455667788h",
            "call rax",
            "vpbroadcastd zmm17,eax",
        ],
        |a| {
            a.edx_from_mask(5);
            a.test_edx();
            a.store(Gpr::RCX, Address::Base(Gpr::RSP, 0x840));
            a.mov_address(Gpr::RCX, 0x1122_3344_5566_7788);
            a.call_rax();
            a.vector(Opcode::SPREAD_GPR, 17, 0, Rm::Reg(0), None);
        },
    );
    check(&["kmovq [rsp+808h],k1", "kmovq k7,[rsp+838h]", "mov rsp,[rsp+800h]"], |a| {
        a.store_mask(1, Address::Base(Gpr::RSP, 0x808));
        a.load_mask(7, Address::Base(Gpr::RSP, 0x838));
        a.load(Gpr::RSP, Gpr::RSP, 0x800);
    });
    check_lanes(Vectors::Zmm, Width::W64, &["kmovb edx,k5"], |a| a.edx_from_mask(5));
    check_lanes(Vectors::Ymm, Width::W32, &["vmovmskps edx,ymm9"], |a| a.edx_from_signs(9));
    check_lanes(Vectors::Ymm, Width::W64, &["vmovmskpd edx,ymm1"], |a| a.edx_from_signs(1));
    check_lanes(Vectors::Zmm, Width::W64, &["vpbroadcastq zmm2,rax"], |a| {
        a.vector(Opcode::SPREAD_GPR, 2, 0, Rm::Reg(0), None);
    });
}
