//! Modules: PTX text, read when it is loaded.

use super::{Driver, Failure, new_handle};
use crate::abi::Handle;
use crate::code::{Code, Outcome};
use std::sync::Arc;
use straightline_ptx_interpreter::Loaded;

/// The newest PTX that the driver of CUDA 13.0 reads.
const NEWEST: (u32, u32) = (9, 0);

/// The newest target that the device is: compute capability 9.0.
const TARGET: u32 = 90;

/// A loaded module.
pub(crate) struct Module {
    pub(crate) context: Handle,
    /// what was read
    pub(crate) text: Arc<straightline_ptx_interpreter::Module>,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) functions: Vec<Handle>,
}

/// What an image is that is no PTX.
pub(crate) fn foreign(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x7F, b'E', b'L', b'F'] => Some("a CUBIN"),
        [0x50, 0xED, 0x55, 0xBA] | [0xB1, 0x43, 0x62, 0x46] => Some("a fat binary"),
        [b'B', b'C', 0xC0, 0xDE] => Some("NVVM bitcode"),
        _ => None,
    }
}

/// The version that PTX says it is.
fn version(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(".version"))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.trim().parse().ok()?))
}

/// The compute capability that PTX is for, as `sm_90a` says it.
fn target(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    let digits = line.trim().strip_prefix("sm_")?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

impl Driver {
    /// Reads PTX and puts its variables into the memory of a context's device.
    pub(crate) fn load(&mut self, context: Handle, text: &str) -> Result<Handle, Failure> {
        let failed = |code, text| Failure { code, text };
        if let Some(version) = version(text).filter(|version| *version > NEWEST) {
            return Err(failed(
                Code::UNSUPPORTED_PTX_VERSION,
                format!(
                    "PTX version {}.{} is newer than {}.{}, the newest that this driver reads",
                    version.0, version.1, NEWEST.0, NEWEST.1
                ),
            ));
        }
        if let Some(target) = target(text).filter(|target| *target > TARGET) {
            return Err(failed(
                Code::NO_BINARY_FOR_GPU,
                format!("PTX for sm_{target} does not run on a device of sm_{TARGET}"),
            ));
        }
        let module = straightline_ptx_interpreter::Module::parse(text)
            .map_err(|error| failed(Code::INVALID_PTX, error.to_string()))?;
        let loaded = module
            .load(&mut self.memory)
            .map_err(|error| failed(Code::OUT_OF_MEMORY, error.to_string()))?;
        let handle = new_handle();
        self.modules.insert(
            handle,
            Module {
                context,
                text: Arc::new(module),
                loaded: Arc::new(loaded),
                functions: Vec::new(),
            },
        );
        Ok(handle)
    }

    /// Takes a module and its functions away.
    pub(crate) fn unload(&mut self, handle: Handle) {
        if let Some(module) = self.modules.remove(&handle) {
            for function in module.functions {
                self.functions.remove(&function);
            }
            // a kernel that runs has its own clone, and the lock
            if let Some(loaded) = Arc::into_inner(module.loaded) {
                let _ = loaded.unload(&mut self.memory);
            }
        }
    }

    /// The module of a handle.
    pub(crate) fn module(&self, handle: Handle) -> Outcome<&Module> {
        let module = self.modules.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        self.intact(module.context)?;
        Ok(module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_apart() {
        assert_eq!(foreign(b"\x7fELF"), Some("a CUBIN"));
        assert_eq!(foreign(b"//\nx"), None);
        assert_eq!(version("// a comment\n.version 9.4\n.target sm_90"), Some((9, 4)));
        assert_eq!(version(".target sm_90"), None);
        assert_eq!(target(".version 9.0\n.target sm_90a, debug"), Some(90));
        assert_eq!(target(".version 9.0\n.target sm_120"), Some(120));
    }
}
