//! An entry of an archive that is JSON.

use crate::error::Result;
use crate::program::ProgramError;
use serde::de::DeserializeOwned;

/// An entry that is JSON.
pub(super) fn json<T: DeserializeOwned>(entry: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| {
        let reason = match e.classify() {
            serde_json::error::Category::Data => format!("it is not as the format says: {e}"),
            _ => format!("it is no JSON: {e}"),
        };
        ProgramError::Description { entry: entry.to_owned(), reason }.into()
    })
}
