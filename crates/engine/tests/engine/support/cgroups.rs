//! The cgroups of supervisors, found and removed without the engine's help.

use std::path::{Path, PathBuf};

/// The cgroups that have this in front of their names, in all hierarchies.
pub(crate) fn with_prefix(prefix: &str) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut found = Vec::new();
    for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        collect(Path::new(line.split(' ').nth(4).unwrap()), prefix, &mut found);
    }
    found
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<PathBuf>) {
    for path in folders_in(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(prefix) {
            found.push(path);
        } else if !name.starts_with("sandcrab-") {
            collect(&path, prefix, found);
        }
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Removes a cgroup with those in it, if they are empty. What was frozen in them when their supervisor
/// was killed goes on, so that it can end.
pub(crate) fn remove(path: &Path) {
    for folder in folders_in(path) {
        remove(&folder);
    }
    for (file, value) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        if path.join(file).exists() {
            drop(std::fs::write(path.join(file), value));
        }
    }
    drop(std::fs::remove_dir(path));
}
