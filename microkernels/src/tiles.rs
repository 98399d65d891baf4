//! The tiles of AMX: 32 rows by 32 columns of sums in four registers, for each instruction that
//! multiplies tiles. All of them read rows of 64 bytes and sum in 32 bits.

use std::arch::asm;

/// The layout of the tiles, as `ldtilecfg` reads it: all eight of sixteen rows of 64 bytes.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIGURATION: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// # Safety
///
/// AMX is there and permitted.
pub(super) unsafe fn configure() {
    // SAFETY: the configuration is valid, and tiles are nobody else's: the compiler makes no use of
    // them.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, readonly, preserves_flags));
    }
}

/// Gives the tiles back, so that a change of threads need not save them.
///
/// # Safety
///
/// AMX is there.
pub(super) unsafe fn release() {
    // SAFETY: the caller's contract.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) }
}

/// A product of tiles. Distances are in bytes.
pub(super) struct Tiles {
    /// Blocks: 64 bytes of each row of the left factor, 2 KiB of the right one.
    pub(super) blocks: usize,
    /// The left factor.
    pub(super) a: *const u8,
    /// From one row to the next.
    pub(super) a_row: isize,
    /// From one block to the next.
    pub(super) a_block: isize,
    /// The right factor: of each block the first sixteen columns, then the others.
    pub(super) b: *const u8,
    /// The sums.
    pub(super) c: *mut u8,
    /// From one row to the next.
    pub(super) c_row: usize,
    /// Whether `c` holds the sums of earlier blocks.
    pub(super) resume: bool,
}

/// Asks for the right factor two blocks ahead: the tiles' loads alone leave the memory idle.
macro_rules! ask_right {
    () => {
        ".irp at, 0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960
        prefetcht0 [{b} + 4096 + \\at]
        prefetcht0 [{b} + 5120 + \\at]
        .endr"
    };
}

/// The functions for 32 rows and for 16, by the instruction that multiplies.
macro_rules! products {
    ($whole:ident, $half:ident, $product:literal) => {
        /// Four tiles of sums.
        ///
        /// # Safety
        ///
        /// The machine has the instruction and the tiles are configured; the factors hold the
        /// blocks, and 32 rows of `c` are valid to write.
        pub(super) unsafe fn $whole(t: &Tiles) {
            let lower = t.c.wrapping_add(t.c_row.wrapping_mul(16));
            // SAFETY: the caller's contract.
            unsafe {
                asm!(
                    "test {resume:l}, {resume:l}",
                    "jz 2f",
                    "tileloadd tmm0, [{c} + {row}]",
                    "tileloadd tmm1, [{c} + {row} + 64]",
                    "tileloadd tmm2, [{lower} + {row}]",
                    "tileloadd tmm3, [{lower} + {row} + 64]",
                    "jmp 3f",
                    "2:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "3:",
                    "test {n}, {n}",
                    "jz 5f",
                    "4:",
                    "tileloadd tmm4, [{a} + {a_row}]",
                    "tileloadd tmm6, [{b} + {line}]",
                    "tileloadd tmm7, [{b} + {line} + 1024]",
                    concat!($product, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm5, [{a_lower} + {a_row}]",
                    concat!($product, " tmm1, tmm4, tmm7"),
                    concat!($product, " tmm2, tmm5, tmm6"),
                    concat!($product, " tmm3, tmm5, tmm7"),
                    ask_right!(),
                    "add {a}, {a_block}",
                    "add {a_lower}, {a_block}",
                    "add {b}, 2048",
                    "dec {n}",
                    "jnz 4b",
                    "5:",
                    "tilestored [{c} + {row}], tmm0",
                    "tilestored [{c} + {row} + 64], tmm1",
                    "tilestored [{lower} + {row}], tmm2",
                    "tilestored [{lower} + {row} + 64], tmm3",
                    resume = in(reg) usize::from(t.resume),
                    c = in(reg) t.c,
                    lower = in(reg) lower,
                    row = in(reg) t.c_row,
                    line = in(reg) 64_usize,
                    a_row = in(reg) t.a_row,
                    a_block = in(reg) t.a_block,
                    a = inout(reg) t.a => _,
                    a_lower = inout(reg) t.a.wrapping_offset(16 * t.a_row) => _,
                    b = inout(reg) t.b => _,
                    n = inout(reg) t.blocks => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }

        /// Two tiles of sums.
        ///
        /// # Safety
        ///
        /// As for four; the first sixteen rows of `c` are written.
        pub(super) unsafe fn $half(t: &Tiles) {
            // SAFETY: the caller's contract.
            unsafe {
                asm!(
                    "test {resume:l}, {resume:l}",
                    "jz 2f",
                    "tileloadd tmm0, [{c} + {row}]",
                    "tileloadd tmm1, [{c} + {row} + 64]",
                    "jmp 3f",
                    "2:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "3:",
                    "test {n}, {n}",
                    "jz 5f",
                    "4:",
                    "tileloadd tmm4, [{a} + {a_row}]",
                    "tileloadd tmm6, [{b} + {line}]",
                    "tileloadd tmm7, [{b} + {line} + 1024]",
                    concat!($product, " tmm0, tmm4, tmm6"),
                    concat!($product, " tmm1, tmm4, tmm7"),
                    ask_right!(),
                    "add {a}, {a_block}",
                    "add {b}, 2048",
                    "dec {n}",
                    "jnz 4b",
                    "5:",
                    "tilestored [{c} + {row}], tmm0",
                    "tilestored [{c} + {row} + 64], tmm1",
                    resume = in(reg) usize::from(t.resume),
                    c = in(reg) t.c,
                    row = in(reg) t.c_row,
                    line = in(reg) 64_usize,
                    a_row = in(reg) t.a_row,
                    a_block = in(reg) t.a_block,
                    a = inout(reg) t.a => _,
                    b = inout(reg) t.b => _,
                    n = inout(reg) t.blocks => _,
                    out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}
products!(bf16_32, bf16_16, "tdpbf16ps");
products!(signed_32, signed_16, "tdpbssd");
products!(unsigned_32, unsigned_16, "tdpbusd");
