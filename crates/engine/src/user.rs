//! [`User`]: the user that commands run as.

use std::collections::BTreeSet;
use std::ffi::OsString;

use minicbor::{Decode, Encode};
use rustix::process::{getegid, geteuid, getgroups};
use uzers::os::unix::UserExt;

use crate::sys::Credentials;

/// A user of this machine, with everything that is needed to switch to it: nothing is looked up after a fork.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct User {
    /// The user id.
    #[n(0)]
    pub uid: u32,
    /// The group id.
    #[n(1)]
    pub gid: u32,
    /// The supplementary groups.
    #[n(2)]
    pub groups: Vec<u32>,
    /// The name; the user id if the user database has no entry.
    #[n(3)]
    pub name: String,
    /// The home directory.
    #[n(4)]
    pub home: String,
    /// The login shell.
    #[n(5)]
    pub shell: String,
}

/// Why a user cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// The user does not exist.
    #[error("user {0:?} not found; give a user name, a user id, or UID:GID")]
    NotFound(String),
    /// A user id without an entry in the user database requires a group.
    #[error("user {0} has no entry in the user database; give UID:GID")]
    NoGroup(u32),
}

const NO_HOME: &str = "/";
const NO_SHELL: &str = "/bin/sh";

impl User {
    /// Finds a user by name, user id, or `UID:GID`. With an explicit group it has no supplementary groups. Queries
    /// the user database, which may block if it is on a network.
    pub fn find(text: &str) -> Result<Self, UserError> {
        let not_found = || UserError::NotFound(text.to_owned());
        if let Some((uid, gid)) = text.split_once(':') {
            let (uid, gid) = (number(uid).ok_or_else(not_found)?, number(gid).ok_or_else(not_found)?);
            let known = uzers::get_user_by_uid(uid).map(|user| Self::of(&user));
            let user = known.unwrap_or_else(|| Self::unnamed(uid, gid));
            return Ok(Self { gid, groups: vec![gid], ..user });
        }
        // Names take precedence over numbers, as in chown.
        if let Some(user) = uzers::get_user_by_name(text) {
            return Ok(Self::of(&user).or_own());
        }
        let uid = number(text).ok_or_else(not_found)?;
        let user = uzers::get_user_by_uid(uid).map(|user| Self::of(&user)).ok_or(UserError::NoGroup(uid))?;
        Ok(user.or_own())
    }

    /// If this is the user of this process, returns it with the groups of the process.
    fn or_own(self) -> Self {
        if self.is_own() { Self::own() } else { self }
    }

    /// The user of this process.
    pub fn own() -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let known = uzers::get_user_by_uid(uid).map(|user| Self::of(&user));
        let user = known.unwrap_or_else(|| Self::unnamed(uid, gid));
        let groups = getgroups().unwrap_or_default().into_iter().map(rustix::process::Gid::as_raw);
        Self { gid, groups: groups.collect(), ..user }
    }

    fn unnamed(uid: u32, gid: u32) -> Self {
        Self {
            uid,
            gid,
            groups: vec![gid],
            name: uid.to_string(),
            home: NO_HOME.into(),
            shell: NO_SHELL.into(),
        }
    }

    fn of(user: &uzers::User) -> Self {
        let gid = user.primary_group_id();
        let groups = uzers::get_user_groups(user.name(), gid).unwrap_or_default();
        let mut groups: Vec<u32> = groups.iter().map(uzers::Group::gid).collect();
        if !groups.contains(&gid) {
            groups.push(gid);
        }
        let text = |path: &std::path::Path, otherwise: &str| match path.to_string_lossy().into_owned() {
            path if path.is_empty() => otherwise.to_owned(),
            path => path,
        };
        Self {
            uid: user.uid(),
            gid,
            groups,
            name: user.name().to_string_lossy().into_owned(),
            home: text(user.home_dir(), NO_HOME),
            shell: text(user.shell(), NO_SHELL),
        }
    }

    /// Whether this process runs as this user.
    pub fn is_own(&self) -> bool {
        self.uid == geteuid().as_raw()
    }

    /// Whether this process runs as this user, but in other groups.
    pub(crate) fn is_own_in_other_groups(&self) -> bool {
        self.is_own() && !self.has_groups_of(&Self::own())
    }

    /// Whether this process runs as this user, but in other groups that it cannot change to: only root can change
    /// groups, and its own group stays the same.
    pub(crate) fn is_own_in_refused_groups(&self) -> bool {
        let can_change = self.gid == getegid().as_raw() && geteuid().is_root();
        self.is_own_in_other_groups() && !can_change
    }

    fn has_groups_of(&self, other: &Self) -> bool {
        let all = |user: &Self| user.groups.iter().copied().chain([user.gid]).collect::<BTreeSet<_>>();
        self.gid == other.gid && all(self) == all(other)
    }

    /// `HOME`, `USER`, `LOGNAME` and `SHELL` of the user.
    pub fn env(&self) -> [(OsString, OsString); 4] {
        let Self { name, home, shell, .. } = self;
        [("HOME", home), ("USER", name), ("LOGNAME", name), ("SHELL", shell)]
            .map(|(name, value)| (name.into(), value.into()))
    }

    /// The credentials to switch to this user; `None` if this process already has them.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        let Self { uid, gid, groups, .. } = self;
        let is_same = self.is_own() && !self.is_own_in_other_groups();
        (!is_same).then(|| Credentials { user: *uid, group: *gid, groups: groups.clone() })
    }
}

/// A user or group id. The highest number is invalid: system calls interpret it as "unchanged".
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_compared_as_a_whole() {
        let user = |groups: &[u32]| User { groups: groups.to_vec(), ..User::unnamed(7, 8) };
        // The list of groups of a process may or may not include its primary group.
        assert!(user(&[9, 8]).has_groups_of(&user(&[9])));
        assert!(!user(&[8]).has_groups_of(&user(&[8, 9])) && !user(&[9]).has_groups_of(&user(&[8])));
        let own = User::own();
        assert!(!own.is_own_in_other_groups() && own.credentials().is_none());
        let fewer = User::find(&format!("{}:{}", own.uid, own.gid)).unwrap();
        assert_eq!(fewer.credentials().is_some(), own.groups.iter().any(|group| *group != own.gid));
    }

    #[test]
    fn a_user_is_found_by_name_number_and_group() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid, root.name.as_str()), (0, 0, "root"));
        assert_eq!(User::find("0").unwrap(), root);
        let unnamed = User::find("54321:54322").unwrap();
        assert_eq!((unnamed.uid, unnamed.gid, unnamed.groups.as_slice()), (54_321, 54_322, &[54_322][..]));
        assert_eq!((unnamed.name.as_str(), unnamed.home.as_str()), ("54321", "/"));
        assert!(matches!(User::find("54321"), Err(UserError::NoGroup(54_321))));
        for text in ["", "no such user", "-1", "4294967295", "1:x", ":", "1:2:3", "root:root", "99999999999"]
        {
            assert!(matches!(User::find(text), Err(UserError::NotFound(_))), "{text:?}");
        }
    }
}
