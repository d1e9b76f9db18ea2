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

/// A file system that never answers, until it is dropped.
pub(crate) struct HungDisk {
    pub(crate) path: std::path::PathBuf,
    /// Holds the file system's side of the connection.
    holder: std::process::Child,
}

impl HungDisk {
    /// Mounts one. Needs root. `None` if the kernel has no FUSE.
    pub(crate) fn mount(path: std::path::PathBuf) -> Option<Self> {
        use std::io::BufRead;
        std::fs::create_dir(&path).unwrap();
        // The connection belongs to the descriptor, which nothing ever reads.
        let script = "exec 3<>/dev/fuse && \
            mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 hung \"$1\" && echo mounted && read -r";
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash"]).arg(&path);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "mounted\n" {
            holder.wait().unwrap();
            return None;
        }
        Some(Self { path, holder })
    }
}

impl Drop for HungDisk {
    fn drop(&mut self) {
        // Operations that wait fail when the connection is closed.
        drop(self.holder.stdin.take());
        drop(self.holder.wait());
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}
