//! What the driver refuses.

use cudarc::driver::sys::CUresult;
use std::fmt;

/// A call of the driver failed.
///
/// Work runs after the call that queued it has returned, so its failure shows at a later call:
/// `recent` then names what was launched since the device was last waited for. With
/// `STRAIGHTLINE_CUDA_BLOCKING=1` each launch is waited for, and the failing one reports itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverError {
    /// The driver's function.
    pub call: &'static str,
    /// The error's name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub code: String,
    /// The device, if one was meant.
    pub device: Option<u32>,
    /// Kernels that may have failed, the latest last.
    pub recent: Vec<String>,
}

impl DriverError {
    pub(super) fn new(call: &'static str, code: CUresult, device: Option<u32>) -> DriverError {
        DriverError { call, code: format!("{code:?}"), device, recent: Vec::new() }
    }

    /// Whether work on the device has failed, after which its context serves no call any more.
    ///
    /// ```
    /// use straightline_cuda::driver::DriverError;
    /// let e = DriverError {
    ///     call: "cuStreamSynchronize",
    ///     code: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
    ///     device: Some(0),
    ///     recent: vec!["k0_add".into()],
    /// };
    /// assert!(e.is_of_work() && e.to_string().contains("k0_add"));
    /// ```
    pub fn is_of_work(&self) -> bool {
        const OF_WORK: [&str; 7] = [
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "CUDA_ERROR_MISALIGNED_ADDRESS",
            "CUDA_ERROR_LAUNCH_FAILED",
            "CUDA_ERROR_LAUNCH_TIMEOUT",
            "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            "CUDA_ERROR_INVALID_ADDRESS_SPACE",
            "CUDA_ERROR_ASSERT",
        ];
        OF_WORK.contains(&self.code.as_str())
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.starts_with("CUDA_") {
            true => write!(f, "{} gives {}", self.call, self.code)?,
            // what is said where there is no driver to call
            false => write!(f, "{}", self.code)?,
        }
        if let Some(device) = self.device {
            write!(f, " on cuda:{device}")?;
        }
        if !self.recent.is_empty() {
            let names = self.recent.join("`, `");
            write!(
                f,
                "; launched since the device was last waited for: `{names}` (STRAIGHTLINE_CUDA_BLOCKING=1 tells which)"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for DriverError {}
