//! Compiles the object that the engine loads into bash (`src/shell/object/`).
//!
//! It is not linked into the engine: it becomes a file that the engine carries as bytes. Without a C
//! compiler the bytes are empty, and shells use the portable driver.

use std::path::{Path, PathBuf};
use std::{env, fs};

const SOURCES: &str = "src/shell/object";

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=build.rs");
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("getter.so");
    if let Err(reason) = compile(&output) {
        println!("cargo::warning=shells will use the portable driver: {reason}");
        fs::write(&output, []).expect("OUT_DIR is writable");
    }
}

fn compile(output: &Path) -> Result<(), String> {
    let target = env::var("TARGET").map_err(|e| e.to_string())?;
    if !target.contains("-linux-") {
        return Err(format!("not for {target}"));
    }
    // The object runs inside the machine's bash, whose C library is glibc whatever ours is.
    let compiler = cc::Build::new()
        .target(&target.replace("-musl", "-gnu"))
        .opt_level(2)
        .debug(false)
        .pic(true)
        .warnings(true)
        .cargo_metadata(false)
        .cargo_warnings(false)
        .try_get_compiler()
        .map_err(|e| e.to_string())?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a compiler leaves no process behind that could hold the pipe open"
    )]
    let result = compiler
        .to_command()
        .args(["-std=gnu11", "-shared", "-s", "-Wl,-z,nodelete", "-Wl,-z,now", "-fvisibility=hidden", "-o"])
        .arg(output)
        .args(sources()?)
        .output()
        .map_err(|e| format!("{}: {e}", compiler.path().display()))?;
    if result.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&result.stderr).lines().next().unwrap_or("the C compiler failed").into())
}

fn sources() -> Result<Vec<PathBuf>, String> {
    let folder = fs::read_dir(SOURCES).map_err(|e| e.to_string())?;
    let mut files: Vec<_> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    Ok(files)
}
