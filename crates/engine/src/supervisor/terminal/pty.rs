//! [`Pty`]: a new pseudo-terminal.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown, fstat};
use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::process_tree::InputFile;
use crate::sys::Credentials;
use crate::terminal::TerminalSize;

/// A new pseudo-terminal. The slave is for the program: it must be closed in this process when the program has it,
/// because the kernel discards unread output when a session ends while another process has the slave open.
#[derive(Debug)]
pub(super) struct Pty {
    /// Our end, which is non-blocking.
    pub(super) master: OwnedFd,
    /// The program's end.
    pub(super) slave: OwnedFd,
    pub(super) file: InputFile,
}

impl Pty {
    /// Opens one of this size that belongs to a user, or to this process's own.
    pub(super) fn open(size: TerminalSize, owner: Option<&Credentials>) -> rustix::io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        unlockpt(&master)?;
        let slave = open_slave(&master)?;
        if let Some(owner) = owner {
            fchown(&slave, Some(Uid::from_raw(owner.user)), Some(Gid::from_raw(owner.group)))?;
            fchmod(&slave, Mode::RUSR | Mode::WUSR | Mode::WGRP)?;
        }
        let mut modes = tcgetattr(&slave)?;
        // So that the line discipline erases whole characters.
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        set_size(&master, size)?;
        ioctl_fionbio(&master, true)?;
        let stat = fstat(&slave)?;
        Ok(Self { master, file: InputFile::terminal(&stat), slave })
    }
}

/// Opens the slave of a master, without a path, which may lead to another mount of the file system.
pub(super) fn open_slave(master: impl AsFd) -> rustix::io::Result<OwnedFd> {
    ioctl_tiocgptpeer(master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
}

/// Sets the size of a terminal. If it changes, the kernel sends SIGWINCH to the foreground process group.
pub(super) fn set_size(master: impl AsFd, size: TerminalSize) -> rustix::io::Result<()> {
    let TerminalSize { cols, rows } = size;
    tcsetwinsize(master, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })
}
