//! CUDA C to machine code or PTX, by NVRTC.

use crate::loader::{Found, availability};
use cudarc::nvrtc::{result, sys};
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::time::{Duration, Instant};

/// What is made of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// Machine code for GPUs of this compute capability.
    Cubin {
        /// 9.0 is 90.
        capability: u32,
    },
    /// Text that a driver (or an interpreter) turns into code for GPUs of this capability or later.
    Ptx {
        /// 9.0 is 90.
        capability: u32,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cubin { capability } => write!(f, "sm_{capability}"),
            Target::Ptx { capability } => write!(f, "compute_{capability}"),
        }
    }
}

/// A compiled program.
#[derive(Clone, PartialEq, Debug)]
pub struct Binary {
    /// What it was compiled for.
    pub target: Target,
    /// Machine code, or PTX without the zero at its end.
    pub code: Vec<u8>,
    /// What each kernel uses, as the assembler reports it: empty for PTX.
    pub resources: Vec<Resources>,
    /// How long NVRTC took.
    pub took: Duration,
}

/// What a kernel uses of a multiprocessor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resources {
    /// The kernel.
    pub kernel: String,
    /// Registers of each thread.
    pub registers: u32,
    /// Bytes of registers that are stored to memory, and loaded, for want of registers.
    pub spilled: (u32, u32),
    /// Bytes of memory of each thread.
    pub stack: u32,
}

/// Why there is no binary.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompileError {
    /// NVRTC is not on this machine.
    #[error("CUDA programs can not be compiled here: {reason}")]
    Unavailable {
        /// What is missing, and what to do.
        reason: String,
    },
    /// A file of the folder that `STRAIGHTLINE_CUDA_GOLDENS` names is not what it should be.
    #[error(
        "{file} {why}: renew the folder by running the tests that use it with STRAIGHTLINE_CUDA_GOLDENS_RENEW=1, as \
         `.ci/renew-goldens` does"
    )]
    Golden {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// NVRTC refuses the program.
    #[error("NVRTC gives {code} for {target}:\n{log}")]
    Refused {
        /// Its error.
        code: String,
        /// For what it was to compile.
        target: Target,
        /// What it says of the program.
        log: String,
    },
}

/// The options that decide what a program computes: a part of what a binary is kept under.
pub const OPTIONS: &[&str] = &["--fmad=false", "--std=c++17", "--no-cache"];

/// Compiles a program.
///
/// ```
/// use straightline_cuda::nvrtc::{CompileError, Target, compile};
/// match compile("__global__ void nothing() {}", Target::Ptx { capability: 90 }) {
///     Ok(binary) => assert!(binary.code.starts_with(b"//")),
///     Err(e) => assert!(matches!(e, CompileError::Unavailable { .. })),
/// }
/// ```
///
/// # Errors
///
/// [`CompileError`].
pub fn compile(text: &str, target: Target) -> Result<Binary, CompileError> {
    if let Found::Missing { reason } = &availability().nvrtc {
        return Err(CompileError::Unavailable { reason: reason.clone() });
    }
    let refused = |e: result::NvrtcError, log: String| CompileError::Refused {
        code: format!("{:?}", e.0),
        target,
        log,
    };
    let begin = Instant::now();
    let source = CString::new(text).map_err(|_| CompileError::Refused {
        code: "NVRTC_ERROR_INVALID_INPUT".into(),
        target,
        log: "the program has a zero byte in it".into(),
    })?;
    let program = result::create_program(&source, None).map_err(|e| refused(e, String::new()))?;
    let program = Program(program);
    let mut options: Vec<String> = OPTIONS.iter().map(|o| o.to_string()).collect();
    options.push(format!("--gpu-architecture={target}"));
    options.push("--ptxas-options=-v".into());
    // SAFETY: the program has been created and is destroyed when it goes out of scope.
    let compiled = unsafe { result::compile_program(program.0, &options) };
    let log = program.log();
    compiled.map_err(|e| refused(e, log.clone()))?;
    let code = match target {
        // SAFETY: the program has been compiled.
        Target::Ptx { .. } => text_of(unsafe { result::get_ptx(program.0) }).into_bytes(),
        Target::Cubin { .. } => program.cubin().map_err(|e| refused(e, log.clone()))?,
    };
    Ok(Binary { target, code, resources: resources(&log), took: begin.elapsed() })
}

struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was created, and nobody else destroys it.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn text_of(bytes: Result<Vec<c_char>, result::NvrtcError>) -> String {
    let bytes: Vec<u8> = bytes.unwrap_or_default().iter().map(|c| *c as u8).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program exists.
        text_of(unsafe { result::get_program_log(self.0) })
    }

    fn cubin(&self) -> Result<Vec<u8>, result::NvrtcError> {
        let mut size = 0;
        // SAFETY: the program has been compiled; it writes as many bytes as it says.
        unsafe {
            sys::nvrtcGetCUBINSize(self.0, &mut size).result()?;
            let mut code = vec![0u8; size];
            sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()).result()?;
            Ok(code)
        }
    }
}

/// What the assembler's report says of each kernel.
fn resources(log: &str) -> Vec<Resources> {
    let mut all: Vec<Resources> = Vec::new();
    for line in log.lines() {
        let number_before = |what: &str| -> Option<u32> {
            let (before, _) = line.split_once(what)?;
            before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_string();
            all.push(Resources { kernel, registers: 0, spilled: (0, 0), stack: 0 });
        } else if let Some(last) = all.last_mut() {
            let bytes = (number_before(" bytes spill stores"), number_before(" bytes spill loads"));
            if let (Some(stores), Some(loads)) = bytes {
                last.spilled = (stores, loads);
                last.stack = number_before(" bytes stack frame").unwrap_or_default();
            }
            if let Some(n) = number_before(" registers") {
                last.registers = n;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'k0_exp' for 'sm_90'\n\
                   ptxas info    : Function properties for k0_exp\n    \
                   16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 34 registers, used 1 barriers, 384 bytes cmem[0]\n";
        let want =
            Resources { kernel: "k0_exp".into(), registers: 34, spilled: (8, 12), stack: 16 };
        assert_eq!(resources(log), [want]);
    }
}
