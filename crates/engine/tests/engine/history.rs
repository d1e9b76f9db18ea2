//! Programs of the previous version, built from the repository's history.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The last commit of protocol version 5. When the version goes up, this moves with it.
const PREVIOUS: &str = "9b45787d1fca15b09df8ed5e21cf0100b3eed372";

fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).status().unwrap();
    assert!(
        status.success(),
        "{command:?} failed; the test needs git, tar, cargo, and the repository's history"
    );
}

/// Builds a program of a package of the previous version, and returns its path.
pub(crate) fn previous_program(package: &str, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("previous-{PREVIOUS}"));
    // Another test may build another program at the same time.
    let source = place.join(format!("source-{name}"));
    std::fs::create_dir_all(&source).unwrap();
    let archive = place.join(format!("source-{name}.tar"));
    run(Command::new("git").current_dir(root).args(["archive", "--output"]).arg(&archive).args([
        PREVIOUS,
        "Cargo.toml",
        "Cargo.lock",
        "crates",
    ]));
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source));
    let target = place.join("target");
    run(Command::new(env!("CARGO"))
        .current_dir(&source)
        .args(["build", "--quiet", "--locked", "--package", package, "--bin", name, "--target-dir"])
        .arg(&target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0"));
    target.join("debug").join(name)
}
