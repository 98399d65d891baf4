//! The package with the module that was built beside this test: imported by Python, and pytest's tests,
//! where `STRAIGHTLINE_PYTHON` (or `python3`) has numpy and pytest. Without them it says so.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What pytest runs.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// The folder that the test was built into, with the module.
fn built() -> PathBuf {
    let mut path = std::env::current_exe().expect("a path of this test");
    path.pop();
    path
}

fn python() -> String {
    std::env::var("STRAIGHTLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn has(module: &str) -> bool {
    let import = Command::new(python()).args(["-c", &format!("import {module}")]).output();
    import.is_ok_and(|o| o.status.success())
}

/// A copy of the package with the module.
fn package(into: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("straightline");
    let to = into.join("straightline");
    std::fs::create_dir_all(&to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("the package") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|e| e == "py" || e == "pyi") {
            std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    let (prefix, suffix, name) =
        (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX, "_native");
    let module = built().join(format!("{prefix}{name}{suffix}"));
    let importable = if cfg!(windows) { "_native.pyd" } else { "_native.abi3.so" };
    std::fs::copy(module, to.join(importable)).expect("the module, which cargo has built");
}

#[test]
fn the_package_imports_and_passes_its_tests() {
    let Ok(version) = Command::new(python()).arg("--version").output() else {
        eprintln!("SKIPPED: there is no {} on this machine", python());
        return;
    };
    // the module is for Pythons with the interpreter lock, from 3.10 on
    let fits = "import sys, sysconfig; \
                sys.exit(sys.version_info < (3, 10) or bool(sysconfig.get_config_var('Py_GIL_DISABLED')))";
    if !Command::new(python()).args(["-c", fits]).status().is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: {} is older than 3.10, or free-threaded", python());
        return;
    }
    let folder = std::env::temp_dir().join(format!("straightline-python-{}", std::process::id()));
    package(&folder);
    let run = |args: &[&str]| {
        let status = Command::new(python())
            .args(args)
            // where no package without the module is found first
            .current_dir(&folder)
            .env("PYTHONPATH", &folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .status();
        assert!(
            status.expect("Python").success(),
            "{} {args:?}",
            String::from_utf8_lossy(&version.stdout)
        );
    };
    run(&["-c", "import straightline; assert straightline.__version__"]);
    match ["numpy", "pytest"].into_iter().find(|m| !has(m)) {
        None => run(&["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]),
        Some(missing) => eprintln!("SKIPPED, but for the import: {} has no {missing}", python()),
    }
    let _ = std::fs::remove_dir_all(folder);
}
