//! [`Identity`]: the user whose permissions an operation has.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The user whose permissions an operation has: the user that commands run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(Option<Credentials>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Credentials {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Identity {
    /// The user of this process.
    pub fn own() -> Self {
        Self(None)
    }

    /// Another user. Only root can take its identity.
    pub fn of(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let groups = groups.iter().copied().map(Gid::from_raw).collect();
        Self(Some(Credentials { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), groups }))
    }

    /// Whether this thread acts as another user. A thread that it creates does so, too, and cannot change back.
    pub fn is_taken() -> bool {
        rustix::process::geteuid() != rustix::process::getuid()
    }

    /// Runs an operation with the permissions of the user. It must not move to another thread.
    ///
    /// Fails if the thread cannot take the identity; then the operation has not run.
    pub fn run<T>(&self, operation: impl FnOnce() -> T) -> io::Result<T> {
        let Some(credentials) = &self.0 else { return Ok(operation()) };
        let _restore = Restore::take(credentials)?;
        Ok(operation())
    }
}

/// The identity of a thread before a change.
struct Restore {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Restore {
    fn take(to: &Credentials) -> io::Result<RestoreOnDrop> {
        let before = Self {
            uid: rustix::process::geteuid(),
            gid: rustix::process::getegid(),
            groups: rustix::process::getgroups()?,
        };
        set_thread_groups(&to.groups)?;
        // From here on, a failure restores what has been changed. The real and saved ids stay, so that the thread can
        // return, and commands of the user can neither signal nor trace it.
        let restore = RestoreOnDrop(before);
        set_thread_res_gid(restore.0.gid, to.gid, restore.0.gid)?;
        set_thread_res_uid(restore.0.uid, to.uid, restore.0.uid)?;
        Ok(restore)
    }

    fn give_back(&self) -> io::Result<()> {
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_groups(&self.groups)?;
        Ok(())
    }
}

/// Gives the identity back to the thread when it is dropped, also after a panic.
struct RestoreOnDrop(Restore);

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        if self.0.give_back().is_err() {
            // The thread would act as another user in later operations.
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    const NOBODY: u32 = 65534;

    #[test]
    fn root_operation_has_the_permissions_of_the_user() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(at("secret"), "secret").unwrap();
        fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink(at("secret"), at("link")).unwrap();

        let user = Identity::of(NOBODY, NOBODY, &[NOBODY]);
        let refused = user.run(|| fs::read(at("link"))).unwrap().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        user.run(|| fs::write(at("own"), "x")).unwrap().unwrap();
        let own = fs::metadata(at("own")).unwrap();
        assert_eq!((own.uid(), own.gid()), (NOBODY, NOBODY));
        // The thread has its own identity again.
        assert_eq!(fs::read(at("link")).unwrap(), b"secret");
        assert!(rustix::process::geteuid().is_root());
    }

    #[test]
    fn root_panic_gives_the_identity_back() {
        let user = Identity::of(NOBODY, NOBODY, &[]);
        std::panic::catch_unwind(|| user.run(|| panic!("expected"))).unwrap_err();
        assert!(rustix::process::geteuid().is_root());
    }
}
