//! Instructions on lanes of 8 and 16 bits, and strips that have some.

use super::encode::{Address, Assembler, Gpr, Mask, Opcode, Rm};
use super::tests::check_lanes;
use super::vectors::{Vectors, Width};

/// What is there for both widths, of registers 1 to 3.
fn common(a: &mut Assembler) {
    a.vector(Opcode::IADD, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::ISUB, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::IMUL, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::IMIN, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::IMAX, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::IGT, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::IEQ, 1, 2, Rm::Reg(3), None);
    a.vector(Opcode::SHIFT, 6, 1, Rm::Reg(2), Some(8));
    a.vector(Opcode::SHIFT, 2, 1, Rm::Reg(2), Some(8));
    a.vector(Opcode::BROADCAST, 9, 0, Rm::Lane(Address::Base(Gpr::RDI, 24)), None);
}

#[test]
fn bytes() {
    check_lanes(
        Vectors::Zmm,
        Width::W8,
        &[
            "vpaddb zmm1,zmm2,zmm3",
            "vpsubb zmm1,zmm2,zmm3",
            "vpmullw zmm1,zmm2,zmm3",
            "vpminsb zmm1,zmm2,zmm3",
            "vpmaxsb zmm1,zmm2,zmm3",
            "vpcmpgtb k1,zmm2,zmm3",
            "vpcmpeqb k1,zmm2,zmm3",
            "vpsllw zmm1,zmm2,8",
            "vpsrlw zmm1,zmm2,8",
            "vpbroadcastb zmm9,[rdi+18h]",
            "vpminub zmm1,zmm30,zmm3",
            "vpmaxub zmm1,zmm2,zmm23",
            "vpord zmm1,zmm2,zmm3",
            "vpblendmb zmm21{k3},zmm4,zmm5",
            "vmovdqu8 zmm3{k1}{z},[rbp+rax+40h]",
            "vmovdqu8 [r13+rax+0C0h]{k1},zmm17",
            "vmovups zmm3,[r8+rax]",
        ],
        |a| {
            common(a);
            let none = Mask::None;
            let mem = |b, d| Rm::Mem(Address::Indexed(Gpr(b), Gpr::RAX, 0, d));
            a.evex(Opcode::UMIN, none, 1, 30, Rm::Reg(3), None);
            a.evex(Opcode::UMAX, none, 1, 2, Rm::Reg(23), None);
            a.evex(Opcode::OR, none, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::BLEND, Mask::Merge(3), 21, 4, Rm::Reg(5), None);
            a.evex(Opcode::LOAD_NARROW, Mask::Zero(1), 3, 0, mem(5, 64), None);
            a.evex(Opcode::STORE_NARROW, Mask::Merge(1), 17, 0, mem(13, 192), None);
            a.evex(Opcode::LOAD, none, 3, 0, mem(8, 0), None);
        },
    );
    check_lanes(
        Vectors::Ymm,
        Width::W8,
        &[
            "vpaddb ymm1,ymm2,ymm3",
            "vpsubb ymm1,ymm2,ymm3",
            "vpmullw ymm1,ymm2,ymm3",
            "vpminsb ymm1,ymm2,ymm3",
            "vpmaxsb ymm1,ymm2,ymm3",
            "vpcmpgtb ymm1,ymm2,ymm3",
            "vpcmpeqb ymm1,ymm2,ymm3",
            "vpsllw ymm1,ymm2,8",
            "vpsrlw ymm1,ymm2,8",
            "vpbroadcastb ymm9,[rdi+18h]",
            "vpminub ymm1,ymm2,ymm3",
            "vpmaxub ymm1,ymm2,ymm13",
            "vpblendvb ymm12,ymm4,ymm5,ymm13",
        ],
        |a| {
            common(a);
            a.vector(Opcode::UMIN, 1, 2, Rm::Reg(3), None);
            a.vector(Opcode::UMAX, 1, 2, Rm::Reg(13), None);
            a.vector(Opcode::BLEND_SIGNS, 12, 4, Rm::Reg(5), Some(13 << 4));
        },
    );
}

#[test]
fn words() {
    check_lanes(
        Vectors::Zmm,
        Width::W16,
        &[
            "vpaddw zmm1,zmm2,zmm3",
            "vpsubw zmm1,zmm2,zmm3",
            "vpmullw zmm1,zmm2,zmm3",
            "vpminsw zmm1,zmm2,zmm3",
            "vpmaxsw zmm1,zmm2,zmm3",
            "vpcmpgtw k1,zmm2,zmm3",
            "vpcmpeqw k1,zmm2,zmm3",
            "vpsllw zmm1,zmm2,8",
            "vpsrlw zmm1,zmm2,8",
            "vpbroadcastw zmm9,[rdi+18h]",
            "vpxord zmm1,zmm2,zmm3",
            "vpblendmw zmm21{k3},zmm4,zmm5",
            "vmovdqu16 zmm3{k1}{z},[rbp+rax*2+40h]",
            "vmovdqu16 [r13+rax*2+0C0h]{k1},zmm17",
        ],
        |a| {
            common(a);
            let mem = |b, d| Rm::Mem(Address::Indexed(Gpr(b), Gpr::RAX, 1, d));
            a.evex(Opcode::XOR, Mask::None, 1, 2, Rm::Reg(3), None);
            a.evex(Opcode::BLEND, Mask::Merge(3), 21, 4, Rm::Reg(5), None);
            a.evex(Opcode::LOAD_NARROW, Mask::Zero(1), 3, 0, mem(5, 64), None);
            a.evex(Opcode::STORE_NARROW, Mask::Merge(1), 17, 0, mem(13, 192), None);
        },
    );
    check_lanes(
        Vectors::Ymm,
        Width::W16,
        &[
            "vpaddw ymm1,ymm2,ymm3",
            "vpsubw ymm1,ymm2,ymm3",
            "vpmullw ymm1,ymm2,ymm3",
            "vpminsw ymm1,ymm2,ymm3",
            "vpmaxsw ymm1,ymm2,ymm3",
            "vpcmpgtw ymm1,ymm2,ymm3",
            "vpcmpeqw ymm1,ymm2,ymm3",
            "vpsllw ymm1,ymm2,8",
            "vpsrlw ymm1,ymm2,8",
            "vpbroadcastw ymm9,[rdi+18h]",
            "vpblendvb ymm12,ymm4,ymm5,ymm13",
        ],
        |a| {
            common(a);
            a.vector(Opcode::BLEND_SIGNS, 12, 4, Rm::Reg(5), Some(13 << 4));
        },
    );
}

#[test]
fn masks_of_many_lanes() {
    for width in [Width::W8, Width::W16] {
        check_lanes(
            Vectors::Zmm,
            width,
            &[
                "kandq k2,k3,k4",
                "korq k5,k6,k7",
                "kxorq k1,k2,k3",
                "knotq k6,k2",
                "kmovq k1,rdx",
                "mov rdx,[r9+rcx*8-8]",
            ],
            |a| {
                a.mask_op(0x41, 2, 3, 4);
                a.mask_op(0x45, 5, 6, 7);
                a.mask_op(0x47, 1, 2, 3);
                a.mask_not(6, 2);
                a.mask_from_rdx(1);
                a.load_word(Gpr::RDX, Address::Indexed(Gpr(9), Gpr::RCX, 3, -8));
            },
        );
    }
    // the constants of narrow lanes fill words
    for (vectors, more) in [(Vectors::Zmm, 1), (Vectors::Ymm, 8)] {
        for width in [Width::W8, Width::W16] {
            let mut a = Assembler::new(vectors, width);
            assert_eq!([a.constant(1), a.constant(0x80), a.constant(1)], [0, more, 0]);
        }
    }
}
