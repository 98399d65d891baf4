//! Vector constants in memory beside the code.

/// A growing set of 16-byte slots whose addresses never change.
#[derive(Debug, Default)]
pub(crate) struct ConstantPool {
    // boxed slices: code refers to a chunk by address while the list grows
    chunks: Vec<Box<[Slot]>>,
    used: usize,
}

const CHUNK: usize = 64;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Slot([u64; 2]);

impl ConstantPool {
    /// Stores 16 bytes; returns the chunk's address and the byte offset in it.
    pub(crate) fn slot(&mut self, words: [u64; 2]) -> (usize, i32) {
        if self.chunks.is_empty() || self.used == CHUNK {
            self.chunks.push(vec![Slot([0; 2]); CHUNK].into());
            self.used = 0;
        }
        let i = self.used;
        self.used += 1;
        let chunk = self.chunks.last_mut().expect("just pushed");
        chunk[i] = Slot(words);
        (chunk.as_ptr() as usize, (i * size_of::<Slot>()) as i32)
    }
}
