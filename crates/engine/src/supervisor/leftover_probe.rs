//! Checks whether a command may have leftovers. This runs after every command, so the kernel's lists of children are
//! kept open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::Pid;

use crate::process_tree::walk::{self, ChildrenFile};
use crate::procfs;

/// The lists of children of the supervisor and of its shell.
#[derive(Debug)]
pub(super) struct LeftoverProbe {
    own: ChildrenFile,
    of_shell: Option<(Pid, File)>,
}

impl LeftoverProbe {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { own: ChildrenFile::open()?, of_shell: None })
    }

    /// Whether any process exists besides this shell and the template, zombies included. Cheap; nearly always false.
    /// A shell that has reported that it has no children need not be asked: the list of a new process takes longer to
    /// open than a fork takes to run `true`.
    pub(super) fn any_besides(
        &mut self,
        shell: Option<Pid>,
        template: Option<Pid>,
        is_childless: bool,
    ) -> bool {
        // In this order: the children of a shell that exits in between are ours at the second check.
        let shell_has_some = !is_childless && shell.is_some_and(|shell| self.shell_has_children(shell));
        shell_has_some || self.has_children([shell, template])
    }

    /// Whether the supervisor has other children, zombies included.
    pub(super) fn has_children(&self, besides: [Option<Pid>; 2]) -> bool {
        self.own.any_besides(besides).unwrap_or(true)
    }

    fn shell_has_children(&mut self, shell: Pid) -> bool {
        // A list that cannot be read is of an old process: the current one with this id has another.
        for _ in 0..2 {
            if self.of_shell.as_ref().is_none_or(|(pid, _)| *pid != shell) {
                let opened = File::open(procfs::children_path(shell, shell));
                self.of_shell = opened.ok().map(|file| (shell, file));
            }
            let Some((_, file)) = &self.of_shell else { break };
            match file.read_at(&mut [0; 16], 0) {
                Ok(n) => return n > 0,
                Err(_) => self.of_shell = None,
            }
        }
        // A kernel without such lists: scan all processes.
        !walk::descendants(shell).is_empty()
    }
}
