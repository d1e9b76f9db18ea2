//! [`Disk`]: a small file system.

use std::process::Command;

/// A small file system in memory, unmounted on drop.
pub(crate) struct Disk {
    pub(crate) path: std::path::PathBuf,
}

impl Disk {
    /// Mounts a new file system of this size. Needs root.
    pub(crate) fn mount(path: std::path::PathBuf, size: &str) -> Self {
        std::fs::create_dir(&path).unwrap();
        let mut command = Command::new("mount");
        let status =
            command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path).status();
        assert!(status.unwrap().success(), "mounting needs root, as on the machines that run the tests");
        Self { path }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}
