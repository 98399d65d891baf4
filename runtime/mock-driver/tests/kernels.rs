//! The committed PTX is what NVRTC 13.0 makes of its source. Where NVRTC is not installed, the test
//! says so and passes: the other tests read the PTX.

mod support;

use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts, sys};

const SOURCE: &str = include_str!("kernels/basic.cu");

#[test]
fn the_ptx_is_that_of_its_source() {
    // NVRTC looks for libcuda itself, and has to live with this one
    let (mock, _alone) = support::begin(&[]);
    // SAFETY: loads a library if there is one
    if !unsafe { sys::is_culib_present() } {
        eprintln!("skipped: NVRTC is not installed, basic.ptx was not compared with its source");
        return;
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: places for two numbers
    assert!(unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().is_ok());
    if (major, minor) != (13, 0) {
        eprintln!("skipped: NVRTC is {major}.{minor}, basic.ptx was made by 13.0");
        return;
    }
    let options = CompileOptions {
        // assertions have the name of their file in them
        name: Some("basic.cu".to_owned()),
        arch: Some("compute_90"),
        options: vec!["--std=c++17".to_owned(), "--fmad=true".to_owned()],
        ..Default::default()
    };
    let made = match compile_ptx_with_opts(SOURCE, options) {
        Ok(ptx) => ptx.to_src(),
        Err(error) => panic!("{error:?}"),
    };
    // the build of the compiler may differ
    let body = |text: &str| text.split_once(".version").map(|(_, body)| body.to_owned());
    assert_eq!(body(&made), body(support::BASIC), "compile kernels/basic.cu again");
    assert_eq!(mock.last_fault(), "");
}
