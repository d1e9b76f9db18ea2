//! The mount points of cgroup hierarchies, and the cgroups of this process in them.

use std::path::{Component, Path, PathBuf};

/// The two interfaces of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) version: Version,
    /// The controllers of a v1 hierarchy.
    pub(super) controllers: Vec<String>,
    /// The cgroup this process is in, as a directory.
    pub(super) own: PathBuf,
}

/// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(super) fn parse(mountinfo: &str, membership: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(|line| parse_line(line, membership)).collect()
}

fn parse_line(line: &str, membership: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let root = PathBuf::from(unescape(fields.next()?));
    let point = PathBuf::from(unescape(fields.next()?));
    let mut file_system = file_system.split(' ');
    let version = match file_system.next()? {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let options = file_system.nth(1).unwrap_or_default();
    let path = membership.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (names, path) = line.split_once(':')?;
        let found = match version {
            Version::V2 => names.is_empty(),
            Version::V1 => {
                !names.is_empty() && names.split(',').all(|name| options.split(',').any(|o| o == name))
            }
        };
        found.then_some((names, path))
    });
    let (names, path) = path?;
    Some(Mount {
        version,
        controllers: names.split(',').map(str::to_owned).filter(|name| !name.is_empty()).collect(),
        own: own_directory(&root, &point, Path::new(path))?,
    })
}

/// The directory of a cgroup in a mount that shows the hierarchy from `root` on. `None` if the mount does not show
/// it.
fn own_directory(root: &Path, point: &Path, path: &Path) -> Option<PathBuf> {
    // A path outside of the cgroup namespace's root begins with `/..`.
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let below = path.strip_prefix(root).ok()?;
    Some(if below.as_os_str().is_empty() { point.to_owned() } else { point.join(below) })
}

/// Blanks and some other characters are escaped in octal.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => plain.push_str(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine() {
        let mountinfo = "\
30 29 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 29 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 29 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 29 0:30 / /mnt rw - ext4 /dev/sda rw\n";
        let membership = "4:memory:/a/b\n3:cpu,cpuacct:/\n2:name=systemd:/x\n0::/u\n";
        let mounts = parse(mountinfo, membership);
        let own = mounts.iter().map(|mount| mount.own.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            own,
            [
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/cpu,cpuacct",
                "/sys/fs/cgroup/unified/u",
                "/sys/fs/cgroup/systemd/x"
            ]
        );
        assert_eq!(mounts[1].controllers, ["cpu", "cpuacct"]);
        assert_eq!(mounts[2].version, Version::V2);
    }

    #[test]
    fn containers_see_a_part() {
        // Without a cgroup namespace: the mount shows the container's part, the path is the host's.
        let own = |root, path| own_directory(Path::new(root), Path::new("/c"), Path::new(path));
        assert_eq!(own("/docker/1", "/docker/1"), Some("/c".into()));
        assert_eq!(own("/docker/1", "/docker/1/x"), Some("/c/x".into()));
        assert_eq!(own("/docker/1", "/docker/2"), None);
        assert_eq!(own("/", "/../2"), None);
    }

    #[test]
    fn odd_names_are_read() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }
}
