//! The processes of a [`Scope`] found by an ending, each with its pidfd.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::member::{Member, ScanAction, ScanResult};
use super::scope::{Candidate, Scope};
use super::tag::{Nonce, Tag};
use super::walk::{all_with_nonce, command_line, find_ancestor, is_supervisor, walk};
use crate::end::{KillReceipt, Killed, Leftover};
use crate::procfs::{self, Stat};
use crate::sys::{self, Resource};

/// Maximum number of pidfds held at a time. Further processes get one for each signal.
const MAX_HELD: usize = 512;

/// All members found so far.
#[derive(Debug)]
pub(super) struct Members {
    scope: Scope,
    me: Pid,
    list: Vec<Member>,
    /// The latest member of each process id.
    by_pid: HashMap<Pid, usize>,
    held: usize,
    adopted: Vec<Nonce>,
    /// Whether all have been signalled.
    all_asked: bool,
    /// Processes that are excluded, with everything below them.
    spared: HashSet<Pid>,
}

/// Whether the process behind a pidfd has ended.
fn has_ended(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

impl Members {
    pub(super) fn new(scope: Scope) -> Self {
        let me = getpid();
        let (by_pid, spared) = (HashMap::new(), HashSet::new());
        Self { scope, me, list: Vec::new(), by_pid, held: 0, adopted: Vec::new(), all_asked: false, spared }
    }

    /// Sets processes that are excluded, with everything below them.
    pub(super) fn spare(&mut self, spared: HashSet<Pid>) {
        self.spared = spared;
    }

    /// Marks all members as signalled.
    pub(super) fn set_all_asked(&mut self) {
        self.all_asked = true;
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    pub(super) fn scope_mut(&mut self) -> &mut Scope {
        &mut self.scope
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.list.iter()
    }

    /// Scans everything in scope, and acts on each live member as soon as it is found: a process that forks and exits
    /// exists only for a moment.
    pub(super) fn look(&mut self, act: ScanAction) -> ScanResult {
        for member in &mut self.list {
            member.alive = false;
        }
        let mut found = ScanResult::default();
        if let Scope::Nonce(nonce) = self.scope {
            if !matches!(act, ScanAction::Look) {
                // Of a process with a copied tag, only a living parent tells that it is in scope.
                let mut first = ScanResult::default();
                self.look_for_nonce(nonce, ScanAction::Look, &mut first);
                self.list.iter_mut().for_each(|member| member.alive = false);
                found.new = first.new;
            }
            self.look_for_nonce(nonce, act, &mut found);
        } else {
            found.incomplete = !walk(self.me, &mut |pid| self.consider(pid, act, &mut found));
        }
        found
    }

    /// Scans the processes that carry a supervisor's tags, and those below them.
    fn look_for_nonce(&mut self, nonce: Nonce, act: ScanAction, found: &mut ScanResult) {
        let mut roots = all_with_nonce(nonce);
        for adopted in self.adopted.clone() {
            roots.extend(all_with_nonce(adopted));
        }
        for pid in roots {
            if self.consider(pid, act, found).is_some() {
                found.incomplete |= !walk(pid, &mut |pid| self.consider(pid, act, found));
            }
        }
    }

    /// Checks one process, and acts on it if it is in scope. The order matters: first the pidfd, then everything that
    /// decides (see the module's documentation).
    fn consider(&mut self, pid: Pid, act: ScanAction, found: &mut ScanResult) -> Option<Stat> {
        if self.spared.contains(&pid) {
            return None;
        }
        if let Some(&index) = self.by_pid.get(&pid) {
            let stat = Stat::of(pid)?;
            if stat.start == self.list[index].start {
                if !stat.ended && !self.list[index].alive {
                    self.list[index].alive = true;
                    found.alive += 1;
                    self.act(index, act, &stat);
                }
                return Some(stat);
            }
        }
        let fd = self.open(pid)?;
        let stat = Stat::of(pid)?;
        if stat.ended {
            return Some(stat);
        }
        let tag = if self.scope.needs_tag() { Tag::of(pid) } else { None };
        let parent_is_member = stat.parent.is_some_and(|parent| self.is_living_member(parent));
        let candidate = Candidate { pid, parent: stat.parent, parent_is_member, start: stat.start, tag };
        if !self.scope.holds(self.me, &candidate, &self.adopted) {
            return Some(stat);
        }
        let has_other_nonce =
            matches!(self.scope, Scope::Nonce(own) if tag.is_some_and(|tag| tag.nonce() != own));
        if has_other_nonce && !parent_is_member && self.is_kept(pid) {
            return None;
        }
        self.adopt(tag);
        let fd = (self.held < MAX_HELD).then_some(fd);
        self.held += usize::from(fd.is_some());
        let member = Member {
            pid,
            start: stat.start,
            command: command_line(pid),
            fd,
            doomed: false,
            sent: None,
            alive: true,
            refused: false,
        };
        let index = self.list.len();
        self.list.push(member);
        self.by_pid.insert(pid, index);
        found.alive += 1;
        found.new += 1;
        self.act(index, act, &stat);
        Some(stat)
    }

    /// A member with another supervisor's tag was started by this scope's command.
    fn adopt(&mut self, tag: Option<Tag>) {
        let own = match self.scope {
            Scope::Tree | Scope::TreeBesides(_) | Scope::Orphans => return,
            Scope::Command { tag, .. } => tag.nonce(),
            Scope::Nonce(nonce) => nonce,
        };
        if let Some(other) = tag.map(Tag::nonce)
            && other != own
            && !self.adopted.contains(&other)
        {
            self.adopted.push(other);
        }
    }

    /// Whether a process belongs to a live supervisor that is not in scope. Its tag alone says nothing: a member may
    /// have copied it to itself. Processes that a supervisor in scope has left behind are below none.
    fn is_kept(&self, pid: Pid) -> bool {
        let supervisor_of = |ancestor: Pid| match self.is_living_member(ancestor) {
            true => Some(false),
            false => is_supervisor(ancestor).then_some(true),
        };
        // If that cannot be found out now, another scan may.
        find_ancestor(pid, supervisor_of).map_or(true, |kept| kept == Some(true))
    }

    /// Whether this id belongs to a live member.
    pub(super) fn is_living_member(&self, pid: Pid) -> bool {
        let Some(&index) = self.by_pid.get(&pid) else {
            return false;
        };
        let member = &self.list[index];
        match &member.fd {
            Some(fd) => !has_ended(fd.as_fd()),
            None => Stat::of(pid).is_some_and(|stat| stat.start == member.start && !stat.ended),
        }
    }

    fn open(&mut self, pid: Pid) -> Option<OwnedFd> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Some(fd),
            Err(Errno::MFILE | Errno::NFILE) => {
                // They can all be opened again.
                self.list.iter_mut().for_each(|member| member.fd = None);
                self.held = 0;
                pidfd_open(pid, PidfdFlags::empty()).ok()
            }
            Err(_) => None,
        }
    }

    /// Whether a signalled member that still lives has started this process since: its signal handler may need it to
    /// clean up.
    fn belongs_to_handler(&self, stat: &Stat) -> bool {
        let was_asked = |parent: &Pid| {
            let index = self.by_pid.get(parent);
            index.is_some_and(|&index| self.list[index].sent.is_some()) && self.is_living_member(*parent)
        };
        self.all_asked && stat.parent.as_ref().is_some_and(was_asked)
    }

    fn act(&mut self, index: usize, act: ScanAction, stat: &Stat) {
        let sent = self.list[index].sent;
        match act {
            ScanAction::Look => {}
            ScanAction::Ask(signal) if sent.is_none() => {
                if self.belongs_to_handler(stat) {
                    return;
                }
                if self.send(index, signal) && signal != Signal::CONT {
                    self.send(index, Signal::CONT);
                    self.list[index].sent = Some(signal);
                }
            }
            ScanAction::Kill if sent != Some(Signal::KILL) => {
                self.send(index, Signal::KILL);
            }
            ScanAction::Ask(_) | ScanAction::Kill => {}
            ScanAction::Starve => {
                // A process that may raise the limit again is not stopped by it; nothing depends on it.
                let _ignored = sys::set_limit(Some(self.list[index].pid), Resource::Processes, 0, 0);
            }
        }
    }

    /// Sends SIGHUP to all live members, if all of them are shells with job control.
    pub(super) fn hang_up_shells(&mut self) {
        let living: Vec<usize> = (0..self.list.len()).filter(|index| self.list[*index].alive).collect();
        if living.iter().all(|index| procfs::has_job_control(self.list[*index].pid)) {
            for index in living {
                self.send(index, Signal::HUP);
            }
        }
    }

    /// Signals a member through its pidfd.
    fn send(&mut self, index: usize, signal: Signal) -> bool {
        let (pid, start) = (self.list[index].pid, self.list[index].start);
        let opened;
        let fd = if let Some(fd) = &self.list[index].fd {
            fd
        } else {
            let Some(fd) = self.open(pid) else {
                return false;
            };
            if Stat::of(pid).is_none_or(|stat| stat.start != start) {
                return false;
            }
            opened = fd;
            &opened
        };
        let result = pidfd_send_signal(fd, signal);
        let member = &mut self.list[index];
        match result {
            Ok(()) => {
                member.sent = Some(signal);
                member.refused = false;
                true
            }
            Err(error) => {
                member.refused = error == Errno::PERM;
                false
            }
        }
    }

    /// Whether a live member has not been killed yet.
    pub(super) fn any_unharmed(&self) -> bool {
        let harmed = |member: &Member| member.doomed || member.sent == Some(Signal::KILL);
        self.list.iter().any(|member| member.alive && !harmed(member))
    }

    /// Marks all live members as killed by something other than our signal.
    pub(super) fn mark_killed(&mut self) {
        self.list.iter_mut().filter(|member| member.alive).for_each(|member| member.doomed = true);
    }

    /// A pidfd of a member that is still alive, if one is held. Also marks members that have ended since the last
    /// scan.
    pub(super) fn first_alive(&mut self) -> Option<BorrowedFd<'_>> {
        let position = self.list.iter_mut().position(|member| {
            let Some(fd) = &member.fd else { return false };
            member.alive = member.alive && !has_ended(fd.as_fd());
            member.alive
        })?;
        self.list[position].fd.as_ref().map(AsFd::as_fd)
    }

    /// The pidfd of the first member that was alive at the last scan.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.list.iter().filter(|member| member.alive).find_map(|member| member.fd.as_ref()).map(AsFd::as_fd)
    }

    /// The result. Members that ended by themselves before a signal reached them are not included.
    pub(super) fn receipt(&mut self) -> KillReceipt {
        let mut receipt = KillReceipt::default();
        for member in std::mem::take(&mut self.list) {
            let pid = member.pid.as_raw_nonzero().get().unsigned_abs();
            if member.alive {
                receipt.survivors.push(Leftover { pid, command: member.command });
            } else if let Some(signal) = if member.doomed { Some(Signal::KILL) } else { member.sent } {
                receipt.killed.push(Killed { pid, command: member.command, signal: signal.as_raw() });
            }
        }
        receipt
    }
}
