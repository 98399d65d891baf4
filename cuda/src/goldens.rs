//! PTX that was compiled before, for tests on machines without NVRTC.
//!
//! `STRAIGHTLINE_CUDA_GOLDENS` names a folder of it (`cuda/goldens` in the repository), in which a file is named
//! after text, options, target and NVRTC's version. Where NVRTC is missing, a program is what the folder has of
//! it. Where NVRTC of that version is there, what it makes is compared with the folder, and written there if
//! `STRAIGHTLINE_CUDA_GOLDENS_RENEW` is `1`.

use crate::loader::{Found, availability};
use crate::nvrtc::{self, Binary, CompileError, Target};
use crate::programs::{head, name};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of NVRTC that has made them.
const VERSION: (u32, u32) = (13, 0);

const RENEW: &str = "STRAIGHTLINE_CUDA_GOLDENS_RENEW";

/// The folder, if one is named.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os("STRAIGHTLINE_CUDA_GOLDENS").filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// A program of the folder, or what NVRTC makes of it, compared with the folder.
pub(crate) fn binary(folder: &Path, text: &str, target: Target) -> Result<Binary, CompileError> {
    let file = folder.join(name(&head(text, target, VERSION))).with_extension("ptx");
    let kept = std::fs::read(&file).ok();
    let version = match &availability().nvrtc {
        Found::Here { version, .. } => *version,
        Found::Missing { reason } => {
            return match kept {
                Some(code) => {
                    Ok(Binary { target, code, resources: Vec::new(), took: Duration::ZERO })
                }
                None => Err(CompileError::Unavailable {
                    reason: format!("{reason}; and {} has no {}", folder.display(), file.display()),
                }),
            };
        }
    };
    let binary = nvrtc::compile(text, target)?;
    if version != VERSION || kept.as_ref() == Some(&binary.code) {
        return Ok(binary);
    }
    let stale = |why: String| CompileError::Golden { file: file.display().to_string(), why };
    match std::env::var(RENEW).is_ok_and(|v| v == "1") {
        true => std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&file, &binary.code))
            .map_err(|e| stale(e.to_string()))?,
        false if kept.is_some() => return Err(stale("is not what NVRTC makes".into())),
        false => return Err(stale("is not there".into())),
    }
    Ok(binary)
}
