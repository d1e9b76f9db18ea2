//! Whether the shell has children: asked after every command, so the kernel's list is kept open.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::process::Pid;

use crate::process_tree::walk;
use crate::procfs;

/// The list of one shell's children.
#[derive(Debug, Default)]
pub(super) struct ShellChildren(Option<(Pid, File)>);

impl ShellChildren {
    /// Whether this shell has any child, ended but unreaped ones included.
    pub(super) fn any(&mut self, shell: Pid) -> bool {
        if self.0.as_ref().is_none_or(|(pid, _)| *pid != shell) {
            let opened = File::open(procfs::children_path(shell, shell));
            self.0 = opened.ok().map(|file| (shell, file));
        }
        match &self.0 {
            Some((_, file)) => file.read_at(&mut [0; 16], 0).is_ok_and(|n| n > 0),
            // A kernel without such lists: look at every process.
            None => !walk::descendants(shell).is_empty(),
        }
    }
}
