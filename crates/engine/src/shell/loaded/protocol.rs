//! The packets between supervisor and object, as in `object/object.h`.

use std::ffi::OsStr;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::shell::{CommandEnd, Done, ShellUsage};

const MAGIC: u32 = 0x4241_5244;
pub(super) const MAX_PACKET: usize = 64 << 10;
pub(super) const RUN: u32 = 1;
pub(super) const SNAPSHOT: u32 = 2;
pub(super) const FORK: u32 = 3;
pub(super) const ONCE: u32 = 1;
pub(super) const IN_FILE: u32 = 2;
pub(super) const HAS_CWD: u32 = 4;
pub(super) const SET_STATUS: u32 = 8;
pub(super) const LOW_URGENCY: u32 = 16;
pub(super) const HAS_TAG: u32 = 32;
pub(super) const HAS_CGROUP: u32 = 64;
pub(super) const AHEAD: u32 = 128;
pub(super) const IF_CHANGED: u32 = 256;
pub(super) const READY: u32 = 1;
pub(super) const DONE: u32 = 2;
pub(super) const REFUSED: u32 = 3;
pub(super) const STATE: u32 = 4;
pub(super) const FORKED: u32 = 5;
const NAME_BYTES: usize = 64;
const REQUEST_BYTES: usize = 32;
pub(super) const REPORT_BYTES: usize = 48;
pub(super) const MAX_FDS: usize = 6;

/// The header of a request.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) status: i32,
    pub(super) tag: u64,
}

impl Request {
    pub(super) fn encode(self, sequence: u32, body_bytes: u32) -> [u8; REQUEST_BYTES] {
        let Self { kind, flags, status, tag } = self;
        let mut header = [0; REQUEST_BYTES];
        let fields = [MAGIC, kind, flags, sequence, status.cast_unsigned(), body_bytes];
        for (bytes, field) in header.chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_ne_bytes());
        }
        header[24..].copy_from_slice(&tag.to_ne_bytes());
        header
    }
}

/// A report of the object.
#[derive(Clone, Copy)]
pub(super) struct ReportPacket<'a>(&'a [u8; REPORT_BYTES]);

impl<'a> ReportPacket<'a> {
    /// Returns `None` if the bytes did not come from the object.
    pub(super) fn new(bytes: &'a [u8; REPORT_BYTES]) -> Option<Self> {
        Some(Self(bytes)).filter(|packet| packet.word(0) == MAGIC)
    }

    fn word(self, at: usize) -> u32 {
        let bytes = self.0;
        u32::from_ne_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]])
    }

    fn long(self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 1)) << 32
    }

    pub(super) fn kind(self) -> u32 {
        self.word(1)
    }

    /// The sequence number of the request to which it refers.
    pub(super) fn sequence(self) -> u32 {
        self.word(2)
    }

    /// An exit status, a process id or an errno.
    pub(super) fn value(self) -> i32 {
        self.word(3).cast_signed()
    }

    /// The content of a report of the kind [`DONE`].
    pub(super) fn done(self) -> Done {
        Done {
            status: self.value(),
            how: match self.word(4) {
                0 => CommandEnd::Normal,
                2 => CommandEnd::Interrupted,
                3 => CommandEnd::Signal,
                _ => CommandEnd::Exit,
            },
            is_childless: self.word(5) == 1,
            usage: Some(ShellUsage {
                user: Duration::from_micros(self.long(6)),
                system: Duration::from_micros(self.long(8)),
                max_rss_bytes: self.long(10).saturating_mul(1024),
            }),
        }
    }
}

pub(super) fn push_string(body: &mut Vec<u8>, string: &OsStr) -> io::Result<()> {
    if string.as_bytes().contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in a directory or variable"));
    }
    body.extend_from_slice(string.as_bytes());
    body.push(0);
    Ok(())
}

pub(super) fn push_variable(body: &mut Vec<u8>, name: &OsStr, value: Option<&OsStr>) -> io::Result<()> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name for a variable"));
    }
    let Some(value) = value else {
        body.push(b'-');
        return push_string(body, name);
    };
    body.push(b'+');
    body.extend_from_slice(name.as_bytes());
    body.push(b'=');
    push_string(body, value)
}

/// Appends `struct hello` and what follows it.
pub(super) fn hello(to: &mut Vec<u8>, fds: [RawFd; 2], name: &[u8], late: &[u8]) {
    // Never truncates: the name has 47 bytes, the rest less than 4096.
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0).to_ne_bytes();
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(name);
    to.extend_from_slice(&MAGIC.to_ne_bytes());
    to.extend_from_slice(&fds[0].to_ne_bytes());
    to.extend_from_slice(&fds[1].to_ne_bytes());
    to.extend_from_slice(&length(name));
    to.extend_from_slice(&padded);
    to.extend_from_slice(&length(late));
    to.extend_from_slice(late);
}
