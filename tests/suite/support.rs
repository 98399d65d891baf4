//! What tests of one process share: the default generator.

use std::process::Command;

const ALONE: &str = "STRAIGHTLINE_TEST_ALONE";

/// Runs `body`, of the test of this name, in a process where no other test runs: for tests that
/// seed the default generator, from which any other may draw.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        return body();
    }
    let this = std::env::current_exe().expect("the path of the test binary");
    let ran = Command::new(this)
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, test)
        .output()
        .expect("the test binary runs");
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && printed.contains("1 passed"),
        "{test}, alone: {}\n{printed}{}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
}
