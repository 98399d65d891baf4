//! Strips: straight-line loops in vectors of 256 or 512 bits, called by address from the code
//! that Cranelift generates.
//!
//! A strip runs a body over `n` consecutive elements, the last ones under a mask. Cranelift has no
//! vectors wider than 128 bits; it keeps the control flow and the addresses, and strips take the
//! hot inner loops of unit stride. Where a stage does not qualify, Cranelift's own vector loop
//! runs, with the same results.
//!
//! | file | what is in it |
//! |---|---|
//! | `opcodes`, `encode` | instructions, and how they are encoded |
//! | `ir` | the body, which the math functions record themselves into |
//! | `memory` | elements that are shorter than lanes |
//! | `routines`, `calls` | calls of scalar routines, behind the end |
//! | `regalloc` | registers by linear scan |
//! | `pairs` | two vectors at a time |
//! | `lower`, `folds` | loops, masks, constants; accumulators |
//! | `stage` | which stages qualify |
//! | `columns` | kernels whose stages go over the rows of many columns |
//! | `rows` | kernels that reduce rows, several of them at once |
//! | `asks` | what is asked of the memory before it is needed |
//! | `turned` | operands that are transposed beside the others |
//! | `translate`, `operations`, `dtypes` | the instructions of a stage as a body |
//! | `ranges` | which 64-bit integers lanes of 32 bits hold |
//! | `vectors` | the registers: AVX2's or AVX-512's |

mod asks;
mod calls;
mod columns;
mod dtypes;
mod encode;
mod folds;
mod ir;
mod lower;
mod memory;
mod opcodes;
mod operations;
mod pairs;
mod ranges;
mod regalloc;
mod routines;
mod rows;
mod stage;
mod translate;
mod turned;
mod vectors;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_lanes;
#[cfg(test)]
mod tests_narrow;

use straightline_passes::schedule::loops::{AxisId, Val};

pub(super) use asks::busiest;
pub(super) use columns::columns_of;
pub(super) use rows::rows_of;
pub(super) use stage::{part_strip, strip_of};
pub(super) use vectors::Vectors;

/// The strip of a stage: a function of a table and a number of elements. The table has an address
/// per stream, then a number per parameter (in 8 bytes each), then room for one per reduction.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    /// The machine code, until it is in place.
    pub(super) code: Vec<u8>,
    /// Which of the kernel's strips it is, once its code is in place.
    pub(super) number: usize,
    /// Where elements come from and go to.
    pub(super) streams: Vec<Stream>,
    pub(super) params: Vec<Param>,
    /// The operands that it reads from tiles.
    pub(super) turned: Option<Turned>,
    /// The number of reductions.
    pub(super) folds: usize,
    /// The chains of additions of a sum: the lanes of as many vectors as the longest step has, so
    /// that blocks are whole steps.
    pub(super) chains: i64,
}

/// A number that a strip is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    /// An invariant value.
    Value(Val),
    /// The lane axis at the strip's first element.
    Begin,
}

/// The operands of a kernel that a strip reads from tiles.
#[derive(Clone, Debug)]
pub(super) struct Turned {
    /// The axis along which their elements are neighbours.
    pub(super) axis: AxisId,
    /// How many values of that axis a tile has.
    pub(super) rows: i64,
    /// How many elements along the lanes.
    pub(super) columns: i64,
    /// The loads, and the sizes of their elements.
    pub(super) loads: Vec<(usize, i64)>,
}

impl Turned {
    /// Bytes of all tiles.
    pub(super) fn bytes(&self) -> i64 {
        self.loads.iter().map(|l| self.tile_bytes(l.1)).sum()
    }

    fn tile_bytes(&self, size: i64) -> i64 {
        size * self.rows * self.columns
    }

    /// Where the tile of a load begins, and how many bytes its rows are apart.
    pub(super) fn tile(&self, load: usize) -> Option<(i64, i64)> {
        let at = self.loads.iter().position(|l| l.0 == load)?;
        let before = self.loads[..at].iter().map(|l| self.tile_bytes(l.1)).sum();
        Some((before, self.loads[at].1 * self.columns))
    }
}

/// The strip of the first stage of a kernel for several rows at once. The stage's own, for one row,
/// has as many chains of additions for a row.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) count: i64,
    pub(super) strip: Strip,
}

/// Elements that a strip goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Those of a load or store, so many rows after the current one: rows of the stage if it goes over
    /// columns, of the grid otherwise.
    Access { inst: usize, row: i64 },
    /// The finished reductions of the columns, of an instruction of an earlier stage.
    Carry { stage: usize, inst: usize },
    /// The running results of a reduction of the columns, by its place among those of the stage.
    Total(usize),
    /// Those of a block of rows.
    Part(usize),
}

/// The strips of a kernel that goes over columns, all of whose stages have some.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) stages: Vec<ColumnStage>,
}

/// The strips of a stage.
#[derive(Clone, Debug)]
pub(super) struct ColumnStage {
    /// Over so many rows at once: several first, if at all, then one.
    pub(super) passes: Vec<(i64, Strip)>,
    /// Sets the results to what reductions begin with, and takes those of a block of rows into the
    /// others; of a stage with reductions.
    pub(super) ends: Option<[Strip; 2]>,
}

impl Columns {
    /// All strips.
    pub(super) fn strips(&mut self) -> impl Iterator<Item = &mut Strip> {
        self.stages.iter_mut().flat_map(|s| {
            let passes = s.passes.iter_mut().map(|p| &mut p.1);
            passes.chain(s.ends.iter_mut().flatten())
        })
    }
}
