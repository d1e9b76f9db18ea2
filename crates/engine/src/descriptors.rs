//! Descriptors that are sent over a Unix socket (`SCM_RIGHTS`), each with the first byte of its frame.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends bytes with a file. Returns how many bytes the socket has accepted; the file is sent with the first of them.
pub(crate) fn send_with_file(socket: impl AsFd, bytes: &[u8], file: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let parts = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(&socket, &parts, &mut ancillary, SendFlags::NOSIGNAL))
}

/// Reads bytes, and appends the files that came with them: `None` for a file for which no descriptor was free. A file ends the
/// read, also if more data follows.
pub(crate) fn receive_with_files(
    socket: impl AsFd,
    chunk: &mut [u8],
    files: &mut VecDeque<Option<OwnedFd>>,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(chunk)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            files.extend(came.map(Some));
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        files.push_back(None);
    }
    Ok(received.bytes)
}
