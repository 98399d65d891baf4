//! Other processes use the mock by the folder of its names, and NVRTC lives beside it.

mod support;

use cudarc::driver::CudaContext;
use std::process::Command;
use straightline_mock_driver::build_paths;

/// What the child does: no preloading.
#[test]
fn child() {
    if std::env::var_os("STRAIGHTLINE_MOCK_CHILD").is_none() {
        return;
    }
    let context = CudaContext::new(1).expect("a device");
    let stream = context.default_stream();
    let data = stream.clone_htod(&[1, 2, 3]).unwrap();
    assert_eq!(stream.clone_dtoh(&data).unwrap(), [1, 2, 3]);
    let library = cudarc::cublaslt::result::create_handle().expect("cuBLASLt of the mock");
    // SAFETY: just made
    unsafe { cudarc::cublaslt::result::destroy_handle(library) }.unwrap();
    println!("{} devices", CudaContext::device_count().unwrap());
}

#[test]
fn a_process_with_the_folder_in_its_path() {
    let paths = build_paths().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env("LD_LIBRARY_PATH", &paths.folder)
        .env("STRAIGHTLINE_MOCK_CHILD", "1")
        .env("STRAIGHTLINE_MOCK_DEVICES", "5")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("5 devices"), "{text}");
}

#[test]
fn a_second_preload_gives_the_same_mock() {
    let (mock, _alone) = support::begin(&[]);
    let _context = support::context(0);
    let again = straightline_mock_driver::preload().unwrap();
    assert_eq!(mock.statistic("cuInit"), again.statistic("cuInit"));
    assert_eq!(again.statistic("cuInit"), Some(1));
}
