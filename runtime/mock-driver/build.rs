//! Names the library as programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // `dlopen("libcuda.so.1")` finds a library that is loaded already by its SONAME
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    }
}
