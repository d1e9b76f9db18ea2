//! Round trips of generated folders, and archives with random changes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{names, options, packed, snapshot, unpacked};
use super::*;

/// A file to create. Names that exist are passed over.
#[derive(Debug, Clone)]
enum Made {
    File { content: Vec<u8>, mode: u32 },
    Directory { mode: u32 },
    Symlink(Vec<u8>),
    HardLink,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 1..12), vec(any::<u8>(), 90..110), Just(vec![b'x'; 255])]
        .prop_map(|name| {
            name.into_iter()
                .map(|byte| if matches!(byte, 0 | b'/') { b'_' } else { byte })
                .collect::<Vec<_>>()
        })
        .prop_filter("special", |name| !matches!(name.as_slice(), b"." | b".."))
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        (vec(any::<u8>(), 0..2000), 0..0o1000u32).prop_map(|(content, mode)| Made::File { content, mode }),
        (0..0o1000u32).prop_map(|mode| Made::Directory { mode: mode | 0o700 }),
        name().prop_map(Made::Symlink),
        Just(Made::HardLink),
    ]
}

fn make(folder: &Path, all: &[(Vec<Vec<u8>>, Made)]) {
    fs::create_dir(folder).unwrap();
    let mut last = None;
    for (path, made) in all {
        let path = path.iter().fold(folder.to_owned(), |path, name| path.join(OsStr::from_bytes(name)));
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        let set = |mode: &u32| fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        match made {
            Made::File { content, mode } => {
                fs::write(&path, content).unwrap();
                // Readable for users that are not root.
                set(&(mode | 0o400));
                last = Some(path.clone());
            }
            Made::Directory { mode } => {
                fs::create_dir(&path).unwrap();
                set(mode);
            }
            Made::Symlink(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
            Made::HardLink => {
                if let Some(last) = &last {
                    fs::hard_link(last, &path).unwrap();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn folders_survive(all in vec((vec(name(), 1..4), made()), 0..20), is_compressed: bool) {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, copy) = (scratch.path().join("folder"), scratch.path().join("copy"));
        make(&folder, &all);
        let format = if is_compressed { ArchiveFormat::TarZst } else { ArchiveFormat::Tar };
        unpacked(&packed(&folder, &options(format)), &copy).unwrap();
        prop_assert_eq!(snapshot(&copy), snapshot(&folder));
    }

    /// Whatever an archive says, nothing outside of the folder changes, and after an error nothing at all.
    #[test]
    fn changed_archives_stay_inside(
        all in vec((vec(name(), 1..4), made()), 0..8),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        is_sum_right: bool,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        make(&at("folder"), &all);
        let mut archive = packed(&at("folder"), &options(ArchiveFormat::Tar));
        for (at, to) in changes {
            let at = at.index(archive.len());
            archive[at] = to;
            if is_sum_right {
                // So that the change is not refused because of the sum of its header.
                let block = at / 512 * 512;
                let mut header = tar::Header::new_old();
                header.as_mut_bytes().copy_from_slice(&archive[block..block + 512]);
                header.set_cksum();
                archive[block..block + 512].copy_from_slice(header.as_bytes());
            }
        }
        fs::create_dir(at("target")).unwrap();
        fs::write(at("target/old"), "old").unwrap();
        let before = snapshot(&at("folder"));
        if unpacked(&archive, &at("target")).is_err() {
            prop_assert_eq!(names(&at("target")), ["old"]);
        }
        prop_assert_eq!(snapshot(&at("folder")), before);
        prop_assert_eq!(names(scratch.path()), ["folder", "target"]);
    }
}
