//! System calls that rustix does not provide in safe form.
//!
//! JUSTIFICATION: this is the only module of the engine with unsafe code. Everything in it is a thin, checked wrapper
//! around one call of the C library; logic lives elsewhere.
#![expect(unsafe_code, reason = "the one place for calls that have no safe form")]

mod child;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) use child::{
    Credentials, Fork, LimitValue, PreparedChild, PreparedExec, StartFailure, StartStep,
    fork_single_threaded, lives_in,
};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sends a signal by its number, which may be a real-time one, to a child that has not been reaped.
pub(crate) fn send_signal(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill has no memory preconditions.
    check(unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) }).map(drop)
}

/// Sets close-on-exec on every descriptor from this number on. Has no effect on kernels without the call.
pub(crate) fn close_on_exec_from(first: libc::c_uint) {
    // SAFETY: changes a flag of descriptors; no memory is involved.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Ends the process at once, without running anything registered for its exit.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, sigaddset only changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks these signals and returns a descriptor that becomes readable when one arrives.
pub(crate) fn signalfd(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: the set is initialised; a null old set is allowed.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) })?;
    // SAFETY: the set is initialised; -1 requests a new descriptor, which has no other owner.
    unsafe {
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Resets every signal to its default action and unblocks all, as a new program expects.
pub(crate) fn reset_signals() {
    let none = signal_set(&[]);
    // SAFETY: SIG_DFL is a valid handler for every signal; those that cannot be changed fail
    // harmlessly. The kernel's structure has no more than 32 bytes, is only read, and all zeros mean
    // SIG_DFL. The set is initialised.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        // The C library reserves these and cannot change them, so an ignored one would stay ignored in every command.
        let default = [0_u64; 4];
        for signal in 32..libc::SIGRTMIN() {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null::<u8>(), 8_usize);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Ignores a signal.
pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN is a valid handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    /// The exit code, if it exited.
    pub(crate) code: Option<i32>,
    /// The signal, if it died of one.
    pub(crate) signal: Option<i32>,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_bytes: u64,
}

fn timeval(t: libc::timeval) -> Duration {
    let micros = t.tv_sec.saturating_mul(1_000_000).saturating_add(t.tv_usec);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Reaps one child that has ended, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writing; a zeroed rusage is a valid one.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    if pid <= 0 {
        return None;
    }
    Some(Reaped {
        pid: Pid::from_raw(pid)?,
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        user: timeval(usage.ru_utime),
        system: timeval(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    })
}

/// A resource limit. (rustix lacks the first, and reading another process's.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    RealTime,
    AddressSpace,
    Cpu,
    Processes,
    OpenFiles,
    FileSize,
    Core,
    Data,
    Stack,
    ResidentSet,
    LockedMemory,
    FileLocks,
    PendingSignals,
    MessageQueues,
    Nice,
    RealTimePriority,
}

impl Resource {
    /// All there are.
    pub(crate) const ALL: [Self; 16] = [
        Self::RealTime,
        Self::AddressSpace,
        Self::Cpu,
        Self::Processes,
        Self::OpenFiles,
        Self::FileSize,
        Self::Core,
        Self::Data,
        Self::Stack,
        Self::ResidentSet,
        Self::LockedMemory,
        Self::FileLocks,
        Self::PendingSignals,
        Self::MessageQueues,
        Self::Nice,
        Self::RealTimePriority,
    ];
}

fn prlimit(
    pid: Option<Pid>,
    resource: Resource,
    new: Option<libc::rlimit>,
    old: Option<&mut libc::rlimit>,
) -> io::Result<()> {
    let resource = match resource {
        Resource::RealTime => libc::RLIMIT_RTTIME,
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::Cpu => libc::RLIMIT_CPU,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::FileSize => libc::RLIMIT_FSIZE,
        Resource::Core => libc::RLIMIT_CORE,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::Stack => libc::RLIMIT_STACK,
        Resource::ResidentSet => libc::RLIMIT_RSS,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::FileLocks => libc::RLIMIT_LOCKS,
        Resource::PendingSignals => libc::RLIMIT_SIGPENDING,
        Resource::MessageQueues => libc::RLIMIT_MSGQUEUE,
        Resource::Nice => libc::RLIMIT_NICE,
        Resource::RealTimePriority => libc::RLIMIT_RTPRIO,
    };
    let new = new.as_ref().map_or(ptr::null(), ptr::from_ref);
    let old = old.map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: each pointer is null, which is allowed, or from a reference that outlives the call.
    check(unsafe { libc::prlimit(Pid::as_raw(pid), resource, new, old) }).map(drop)
}

/// The soft and the hard limit of a process, or of this one. `u64::MAX` means unlimited.
pub(crate) fn limit(pid: Option<Pid>, resource: Resource) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    prlimit(pid, resource, None, Some(&mut limit))?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Sets the soft and the hard limit of a process, or of this one.
pub(crate) fn set_limit(pid: Option<Pid>, resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    prlimit(pid, resource, Some(libc::rlimit { rlim_cur: soft, rlim_max: hard }), None)
}

/// Returns unused memory to the system, which the C library does not do by itself if memory above it is in use.
pub(crate) fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and the locks of the allocator make it thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes the C library return every buffer from 256 KiB on to the system as soon as it is freed. By default it keeps such
/// memory after the first one, and the fragments of several large responses add up.
pub(crate) fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and the locks of the allocator make it thread-safe.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
    }
}

/// Unmaps the code of this program. The kernel maps it again as it runs, from its cache of the file.
pub(crate) fn release_code() {
    unsafe extern "C" fn release(
        object: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        _data: *mut libc::c_void,
    ) -> libc::c_int {
        let page = rustix::param::page_size();
        // SAFETY: the C library passes a valid description of an object, and its program headers are mapped.
        let (base, headers) = unsafe {
            let object = &*object;
            (
                usize::try_from(object.dlpi_addr).unwrap_or(0),
                std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()),
            )
        };
        for header in headers {
            let is_code = header.p_flags & (libc::PF_X | libc::PF_W) == libc::PF_X;
            let (Ok(at), Ok(size)) = (usize::try_from(header.p_vaddr), usize::try_from(header.p_memsz))
            else {
                continue;
            };
            if header.p_type != libc::PT_LOAD || !is_code {
                continue;
            }
            let start = (base + at).next_multiple_of(page);
            let end = (base + at + size) & !(page - 1);
            // SAFETY: this process never writes to its code, so each page equals the one in the file.
            unsafe {
                libc::madvise(
                    ptr::without_provenance_mut(start),
                    end.saturating_sub(start),
                    libc::MADV_DONTNEED,
                )
            };
        }
        // The program is the first object. Other programs use the code of libraries, too.
        1
    }
    // SAFETY: the function only reads what it gets, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(release), ptr::null_mut()) };
}

/// Returns the pages of the main thread's stack that are below all frames in use. Deep calls during a start leave them
/// occupied for as long as the process sleeps. Only for a process with one thread.
#[inline(never)]
pub(crate) fn release_stack() {
    /// Distance from this frame: the red zone, and the frames of the call below.
    const MARGIN: usize = 4 << 10;
    /// No start needs more stack than this.
    const DEPTH: usize = 256 << 10;
    let here = 0_u8;
    let page = rustix::param::page_size();
    let end = (ptr::from_ref(&here).addr() - MARGIN) & !(page - 1);
    // SAFETY: nothing below the frames in use is ever read before it is written, and the margin exceeds the frames
    // of this call. The kernel places no other mapping within this distance below the main thread's stack. It skips
    // the part that is not mapped.
    unsafe { libc::madvise(ptr::without_provenance_mut(end - DEPTH), DEPTH, libc::MADV_DONTNEED) };
}

/// The kernel's information on a TCP connection.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).map_err(io::Error::other)?;
    // SAFETY: the pointer is valid for writing as many bytes as the size says. What an older kernel does not write stays
    // zero, which every field can be.
    unsafe {
        check(libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        ))?;
        Ok(info.assume_init())
    }
}

/// The Landlock version of the kernel; `None` if it is missing or disabled.
pub(crate) fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no attributes: it reads and writes no memory.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    u32::try_from(version).ok()
}

/// Copies memory of another process, starting at `address`. Returns the number of bytes copied.
pub(crate) fn read_memory(pid: Pid, address: usize, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: ptr::without_provenance_mut(address), iov_len: buffer.len() };
    // SAFETY: the local vector is the buffer, which is valid for writing; the remote address is
    // looked up in the other process and never dereferenced here.
    let count = unsafe {
        libc::process_vm_readv(pid.as_raw_nonzero().get(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Sends SIGINT, SIGQUIT or SIGTSTP to the foreground process group of a terminal, through its master.
pub(crate) fn signal_terminal(master: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    const TIOCSIG: libc::c_ulong = 0x4004_5436;
    // SAFETY: this request takes a number, not a pointer. The last conversion fits the type of each C library.
    check(unsafe { libc::ioctl(master.as_raw_fd(), TIOCSIG as _, signal) }).map(drop)
}

/// Waits for one child. Returns whether it existed.
pub(crate) fn reap_one(pid: Pid) -> bool {
    let mut status = 0;
    // SAFETY: the pointer is valid for writing.
    unsafe { libc::waitpid(pid.as_raw_nonzero().get(), &raw mut status, 0) > 0 }
}

/// Registers a descriptor with the runtime for this interest only.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what is returned, so it is open and stays the same for as long as it is
    // registered.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Number of resident pages of files.
    fn file_pages() -> u64 {
        let text = fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(2).unwrap().parse().unwrap()
    }

    #[test]
    fn code_that_has_run_is_released() {
        // Maps the code that is used after the release, too.
        let _ = file_pages();
        let before = file_pages();
        release_code();
        let after = file_pages();
        assert!(after < before, "{before} pages before, {after} after");
    }
}
