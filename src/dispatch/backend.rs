//! Names of backends from outside.
//!
//! `PrivateUse1`, `PrivateUse2` and `PrivateUse3` are backends that this crate has no kernels for:
//! keys, tables and tensors are ready for them. `PrivateUse1` can be given a name of its own.

use straightline_catalog::device;
use straightline_catalog::key::DispatchKey;

pub use device::RenameBackendError;

/// The end of the names of keys that belong to `PrivateUse1`.
const SUFFIX: &str = "PrivateUse1";

/// Names `PrivateUse1`: `name` becomes a device string, tensors print it, and errors about missing
/// kernels say it. Once per process; the same name again changes nothing.
///
/// The keys keep their names, so registrations are still at
/// [`DispatchKey::PrivateUse1`]. `PrivateUse2` and `PrivateUse3` cannot be renamed.
///
/// ```
/// use straightline::dispatch::rename_backend;
/// use straightline::{Device, DeviceType, Tensor};
///
/// rename_backend("mychip")?;
/// let device: Device = "mychip:0".parse()?;
/// assert_eq!(device.kind, DeviceType::PrivateUse1);
/// assert_eq!(device.to_string(), "mychip:0");
/// assert!(rename_backend("another").is_err());
/// assert!(rename_backend("cuda").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// It has another name already, the name belongs to a device type, or it is not an identifier.
pub fn rename_backend(name: &str) -> Result<(), RenameBackendError> {
    device::rename_private_use_1(name)
}

/// The name of the backend of a key in an error: the key's own, with the name given to
/// `PrivateUse1` in place of that word.
pub(super) fn backend_name(key: DispatchKey) -> String {
    match (key.name().strip_suffix(SUFFIX), device::private_use_1_name()) {
        (Some(prefix), Some(name)) => format!("{prefix}{name}"),
        _ => key.name().to_string(),
    }
}
