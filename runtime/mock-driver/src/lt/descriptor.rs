//! Descriptors: of a product, of a matrix, of what an algorithm may use. Their attributes are
//! bytes, as callers set and get them.

use super::Status;
use crate::abi::Handle;
use crate::driver::new_handle;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a descriptor is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Library,
    Product,
    Matrix,
    Preference,
}

/// A descriptor: the bytes of each attribute that was set.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    of: Of,
    attributes: BTreeMap<i32, Vec<u8>>,
}

static TABLE: Mutex<BTreeMap<Handle, Descriptor>> = Mutex::new(BTreeMap::new());

/// A new descriptor with some attributes.
pub(crate) fn create(of: Of, attributes: &[(i32, &[u8])]) -> Handle {
    let handle = new_handle();
    let attributes = attributes.iter().map(|(number, bytes)| (*number, bytes.to_vec())).collect();
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.insert(handle, Descriptor { of, attributes });
    handle
}

/// The descriptor of a handle.
pub(crate) fn get(of: Of, handle: Handle) -> Result<Descriptor, Status> {
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.get(&handle).filter(|row| row.of == of).cloned().ok_or(Status::INVALID_VALUE)
}

/// Takes a descriptor away.
pub(crate) fn destroy(of: Of, handle: Handle) -> Result<(), Status> {
    get(of, handle)?;
    TABLE.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    Ok(())
}

/// Sets an attribute; `bytes` are as many as it has.
pub(crate) fn set(of: Of, handle: Handle, number: i32, bytes: Vec<u8>) -> Result<(), Status> {
    if size(of, number) != Some(bytes.len()) {
        return Err(Status::INVALID_VALUE);
    }
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let row = table.get_mut(&handle).filter(|row| row.of == of).ok_or(Status::INVALID_VALUE)?;
    row.attributes.insert(number, bytes);
    Ok(())
}

/// Bytes of an attribute; `None` if there is none of this number.
pub(crate) fn size(of: Of, number: i32) -> Option<usize> {
    Some(match (of, number) {
        // type, transpositions, fill, epilogue, types of bias and so on
        (Of::Product, 0..=7 | 15 | 22 | 26 | 31..=35 | 37) => 4,
        // pointers, strides and leading dimensions
        (Of::Product, 8 | 10..=14 | 17..=21 | 23 | 24 | 36 | 38) => 8,
        (Of::Product, 25) => 1,
        (Of::Matrix, 0 | 1 | 5 | 8) => 4,
        (Of::Matrix, 2..=4 | 6 | 7) => 8,
        (Of::Preference, 0 | 3 | 5..=9) => 4,
        (Of::Preference, 1 | 12) => 8,
        _ => return None,
    })
}

impl Descriptor {
    fn bytes<const N: usize>(&self, number: i32) -> Option<[u8; N]> {
        self.attributes.get(&number)?.as_slice().try_into().ok()
    }

    /// The bytes of an attribute: as set, or its default.
    pub(crate) fn raw(&self, number: i32) -> Option<Vec<u8>> {
        let size = size(self.of, number)?;
        if let Some(bytes) = self.attributes.get(&number) {
            return Some(bytes.clone());
        }
        Some(match size {
            4 => self.int(number).to_le_bytes().to_vec(),
            8 => self.long(number).to_le_bytes().to_vec(),
            size => vec![0; size],
        })
    }

    /// An attribute of four bytes, or its default.
    pub(crate) fn int(&self, number: i32) -> i32 {
        let default = match (self.of, number) {
            // the epilogue that does nothing; full matrices; types that follow D's
            (Of::Product, 7) => 1,
            (Of::Product, 6) => 2,
            (Of::Product, 22 | 26) => -1,
            // a batch of one
            (Of::Matrix, 5) => 1,
            (Of::Preference, 5..=8) => 256,
            _ => 0,
        };
        self.bytes(number).map_or(default, i32::from_le_bytes)
    }

    /// An attribute of eight bytes, or zero.
    pub(crate) fn long(&self, number: i32) -> i64 {
        self.bytes(number).map_or(0, i64::from_le_bytes)
    }
}
