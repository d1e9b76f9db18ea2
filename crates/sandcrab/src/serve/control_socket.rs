//! [`ControlSocket`]: the socket between the parent and its server.
//!
//! The parent sends one message when it starts a server: the reason, and the listening socket, if there is one. The server
//! sends its listening socket as soon as it has one, and a second message when it listens, with the lines that the parent
//! prints. After that, only the end of the socket is a message.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{Mode, OFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;

/// `argv[0]` of a server that the parent started.
pub(super) const SERVER: &str = "sandcrab-server";
/// The text of the message with the listening socket.
pub(super) const SOCKET: &str = "socket";
/// The end of the message that the server listens and handles signals. The lines to print come before it.
pub(super) const LISTENING: &str = "listening";
/// The longest text of a message: more than two lines with a path.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// An empty message: a message has at least one byte.
const NOTHING: &str = "\n";

/// Whether the parent started this process as the server.
pub(crate) fn is_started_by_parent() -> bool {
    std::env::args_os().next().as_deref() == Some(OsStr::new(SERVER))
}

/// A message: text, and a descriptor.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) socket: Option<OwnedFd>,
}

/// Sends a message. It fits into an empty socket, so this never waits.
pub(super) fn send(to: impl AsFd, text: &str, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<_> = socket.into_iter().collect();
    if !sockets.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    }
    let text = if text.is_empty() { NOTHING } else { text };
    let text = &text.as_bytes()[..text.len().min(MAX_TEXT_BYTES)];
    sendmsg(to, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message; `None` if the other end is closed.
fn receive(from: impl AsFd) -> io::Result<Option<Message>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MAX_TEXT_BYTES];
    let received =
        recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    if received == 0 {
        return Ok(None);
    }
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    let text = String::from_utf8_lossy(&bytes[..received]).trim_end().to_owned();
    Ok(Some(Message { text, socket }))
}

/// One end of the socket.
#[derive(Debug)]
pub(super) struct ControlSocket(tokio::net::UnixStream);

impl ControlSocket {
    /// An end within a runtime.
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(stream).map(Self)
    }

    /// Sends a message.
    pub(super) fn send(&self, text: &str, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
        send(&self.0, text, socket)
    }

    /// Waits for the next message; `None` when the other end is closed.
    pub(super) async fn next(&self) -> Option<Message> {
        loop {
            self.0.readable().await.ok()?;
            match self.0.try_io(Interest::READABLE, || receive(&self.0)) {
                Ok(message) => return message,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// The next message, if it has arrived.
    pub(super) fn received(&self) -> Option<Message> {
        // Not `try_io`, which may not have seen yet that the socket is readable.
        receive(&self.0).ok().flatten()
    }

    /// Waits until the other end is closed.
    pub(super) async fn ended(&self) {
        while self.next().await.is_some() {}
    }
}

/// Takes the server's end from standard input, and the parent's message. Standard input is empty afterwards.
pub(super) fn take() -> io::Result<(UnixStream, Message)> {
    let stream = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    rustix::stdio::dup2_stdin(rustix::fs::open(
        "/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)?;
    let message = receive(&stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((stream, message))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn messages_carry_text_and_a_socket_and_then_the_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut kept, given) = UnixStream::pair().unwrap();
        send(&theirs, "it was killed", Some(given.as_fd())).unwrap();
        drop(given);
        let ours = ControlSocket::new(ours).unwrap();
        let message = ours.next().await.unwrap();
        assert_eq!(message.text, "it was killed");
        drop(message);
        assert_eq!(kept.read(&mut [0]).unwrap(), 0, "no other process has it");
        send(&theirs, "", None).unwrap();
        let message = ours.next().await.unwrap();
        assert!(message.text.is_empty() && message.socket.is_none());
        drop(theirs);
        ours.ended().await;
    }
}
