//! Backups and restores, beside `tar` and `zstd`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use super::super::http::{Server, expect, post};
use super::super::{FigureError, FigureLimit, Row, Table};
use super::{in_turns, run, timed};

/// Large files beside the many small ones of the tree.
const LARGE_FILES: u32 = 50;
const LARGE_FILE_BYTES: usize = 4 << 20;

/// Measures a backup of a folder with the tree and some large files, and its restore.
pub(super) fn push_backups(server: &Server, tree: &Path, table: &mut Table) -> Result<(), FigureError> {
    write_large(&tree.join("large"))?;
    let beside = |name: &str| tree.with_file_name(name);
    let (archive, tarball) = (beside("archive"), beside("tarball"));
    let ask = |path: &str, body: serde_json::Value| {
        let answer = server.connect()?.ask_whole(&post(path, &body.to_string()))?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        expect(answer["success"] == true, "a backup or restore failed")
    };
    let create = || ask("/api/backup/create", serde_json::json!({"dir": tree, "archivePath": archive}));
    let tar = || shell("tar c -C \"$1\" . | zstd -T0 -q -f -o \"$2\"", tree, &tarball);
    let (figure, floor) = in_turns(|| timed(create), || timed(tar))?;
    let name = "backup of 100,000 files and 200 MiB; floor: tar and zstd -T0";
    table.push(Row::new(name, figure).floor(floor).limit(FigureLimit::AtMostTimesFloor(1.2)));

    let restore =
        || ask("/api/backup/restore", serde_json::json!({"dir": beside("restored"), "archivePath": archive}));
    // A restore replaces a folder and is on the disk when it ends.
    let untar = || {
        shell(
            "mkdir \"$2.new\" && zstd -dcq \"$1\" | tar x -C \"$2.new\" && sync -f \"$2.new\" && rm -rf \"$2\" && mv \"$2.new\" \"$2\"",
            &tarball,
            &beside("untarred"),
        )
    };
    let (figure, floor) = in_turns(|| timed(restore), || timed(untar))?;
    let name = "restore in place of the old folder; floor: zstd, tar, sync and rm";
    table.push(Row::new(name, figure).floor(floor).limit(FigureLimit::AtMostTimesFloor(1.3)));
    Ok(())
}

/// Runs a script with two paths as its arguments.
fn shell(script: &str, from: &Path, to: &Path) -> Result<(), FigureError> {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script, "bash"]).args([from, to]);
    run(command)
}

/// Files of words that compress about as well as source code.
fn write_large(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    let mut state = 1_u64;
    for file in 0..LARGE_FILES {
        let mut text = Vec::with_capacity(LARGE_FILE_BYTES + 32);
        while text.len() < LARGE_FILE_BYTES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            write!(text, "word{} ", (state >> 33) % 5_000)?;
        }
        fs::write(directory.join(format!("{file}.txt")), text)?;
    }
    Ok(())
}
