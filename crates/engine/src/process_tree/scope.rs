//! [`Scope`]: a set of processes.

use rustix::process::Pid;

use super::tag::{Nonce, Tag};
use crate::procfs::StartTime;

/// A set of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything below this process.
    Tree,
    /// The same, without this child, which has no children of its own.
    TreeBesides(Pid),
    /// Everything below this process except the [excluded](super::Ending::spare) children, and what is below those;
    /// for a zygote, whose other children are orphans of dead supervisors.
    Orphans,
    /// The processes of one command of a session: those below this one with the command's tag, and their descendants
    /// that lost it. Never the shell, never another command's.
    Command {
        /// The command's tag.
        tag: Tag,
        /// The session's shell.
        shell: Pid,
        /// Start time of the command. It decides about processes without a tag (`ulimit -R` changes it) whose parents
        /// are not conclusive: those that started since belong to the command. Without it they belong to no command.
        /// Start times have a resolution of 10 ms, so a process of an earlier command is mistaken only if it also
        /// lost its tag and started within that time.
        since: Option<StartTime>,
        /// End time of the command, if it has ended: processes that started later do not belong to it.
        until: Option<StartTime>,
    },
    /// Everything on the machine with a tag of this supervisor, and what is below; for cleaning up after a killed
    /// one. Never this process.
    Nonce(Nonce),
}

/// A process that may be in scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    /// Whether the parent is known to be in scope, and was alive at that time.
    pub(super) parent_is_member: bool,
    pub(super) start: StartTime,
    pub(super) tag: Option<Tag>,
}

impl Scope {
    /// The same for a session that has another shell by now.
    pub(super) fn set_shell(&mut self, current: Pid) {
        if let Self::Command { shell, .. } = self {
            *shell = current;
        }
    }

    /// The same for a command that has ended by this time, if it is not known to have ended before.
    pub(super) fn end_by(&mut self, time: StartTime) {
        if let Self::Command { until, .. } = self {
            *until = Some(until.map_or(time, |until| until.min(time)));
        }
    }

    /// Whether the decision needs the tag.
    pub(super) fn needs_tag(&self) -> bool {
        !matches!(self, Self::Tree | Self::TreeBesides(_) | Self::Orphans)
    }

    /// Whether a process is in scope. `me` is the calling process; `adopted` are supervisors that ran inside the
    /// scope (a command may itself run an engine), whose tags replaced the scope's.
    pub(super) fn holds(&self, me: Pid, candidate: &Candidate, adopted: &[Nonce]) -> bool {
        if candidate.pid == me {
            return false;
        }
        match self {
            Self::Tree | Self::Orphans => candidate.parent == Some(me) || candidate.parent_is_member,
            Self::TreeBesides(other) => {
                candidate.pid != *other && (candidate.parent == Some(me) || candidate.parent_is_member)
            }
            Self::Command { tag, shell, since, until } => {
                candidate.pid != *shell
                    && match candidate.tag {
                        Some(own) if own.nonce() == tag.nonce() => own == *tag,
                        Some(other) => candidate.parent_is_member || adopted.contains(&other.nonce()),
                        None => {
                            let orphan = candidate.parent == Some(me) || candidate.parent == Some(*shell);
                            let recent = since.is_some_and(|since| candidate.start >= since)
                                && until.is_none_or(|until| candidate.start <= until);
                            candidate.parent_is_member || orphan && recent
                        }
                    }
            }
            Self::Nonce(nonce) => {
                let known = |tag: Tag| tag.nonce() == *nonce || adopted.contains(&tag.nonce());
                candidate.parent_is_member || candidate.tag.is_some_and(known)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(id: i32) -> Pid {
        Pid::from_raw(id).unwrap()
    }

    #[test]
    fn a_command_holds_its_own_and_never_anothers() {
        let (mine, foreign) = (Nonce::random(), Nonce::random());
        let (me, shell, since) = (pid(10), pid(11), StartTime::now());
        let scope = Scope::Command { tag: Tag::new(mine, 5), shell, since: Some(since), until: None };
        let candidate = |tag, parent, parent_is_member| Candidate {
            pid: pid(99),
            parent: Some(parent),
            parent_is_member,
            start: since,
            tag,
        };
        let holds = |candidate| scope.holds(me, &candidate, &[]);
        assert!(holds(candidate(Some(Tag::new(mine, 5)), me, false)));
        assert!(!holds(candidate(Some(Tag::new(mine, 4)), me, false)));
        assert!(
            !holds(candidate(Some(Tag::new(mine, 4)), pid(50), true)),
            "another command's, whatever its parent is"
        );
        assert!(holds(candidate(Some(Tag::new(foreign, 1)), pid(50), true)), "an engine inside the command");
        assert!(!holds(candidate(Some(Tag::new(foreign, 1)), me, false)));
        assert!(scope.holds(me, &candidate(Some(Tag::new(foreign, 1)), me, false), &[foreign]));
        assert!(holds(candidate(None, shell, false)), "untagged since the command started");
        assert!(!holds(candidate(None, pid(50), false)));
        let own_shell = Candidate { pid: shell, ..candidate(Some(Tag::new(mine, 5)), me, false) };
        assert!(!holds(own_shell));
        let careful = Scope::Command { tag: Tag::new(mine, 5), shell, since: None, until: None };
        assert!(!careful.holds(me, &candidate(None, shell, false), &[]));
    }

    #[test]
    fn scope_excludes_the_calling_process() {
        let nonce = Nonce::random();
        let me = pid(10);
        let candidate = Candidate {
            pid: me,
            parent: Some(me),
            parent_is_member: true,
            start: StartTime::now(),
            tag: Some(Tag::new(nonce, 0)),
        };
        assert!(!Scope::Nonce(nonce).holds(me, &candidate, &[]));
        assert!(!Scope::Tree.holds(me, &candidate, &[]));
    }
}
