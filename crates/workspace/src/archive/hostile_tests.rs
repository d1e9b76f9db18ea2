//! Archives that try to write elsewhere, or to exhaust the machine.

use std::fs;

use super::entry::{Attributes, Entry, EntryKind};
use super::tests::{names, snapshot, unpacked};
use super::*;

fn entry(kind: EntryKind, path: &str, link: &str) -> Entry {
    let attributes = Attributes { mode: 0o777, ..Attributes::default() };
    Entry { kind, path: path.into(), link: link.into(), attributes, size: 0, segments: None }
}

fn file(path: &str) -> Entry {
    entry(EntryKind::File, path, "")
}

fn link(path: &str, to: &str) -> Entry {
    entry(EntryKind::Symlink, path, to)
}

fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        write::write_header(&mut bytes, entry).unwrap();
    }
    write::end(&mut bytes).unwrap();
    bytes
}

/// Refused, and nothing has changed.
fn assert_refused(what: &str, archive: &[u8]) {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir(at("outside")).unwrap();
    fs::write(at("outside/file"), "outside").unwrap();
    fs::create_dir(at("target")).unwrap();
    fs::write(at("target/old"), "old").unwrap();
    let before = snapshot(&at("outside"));
    let error = unpacked(archive, &at("target")).unwrap_err();
    assert!(matches!(error, ArchiveError::Invalid(_)), "{what}: {error}");
    assert_eq!(snapshot(&at("outside")), before, "{what}");
    assert_eq!(
        (names(&at("target")), names(scratch.path())),
        (vec!["old".into()], ["outside", "target"].map(Into::into).into())
    );
}

#[test]
fn entries_outside_of_the_folder() {
    for path in ["../outside/x", "a/../../outside/x", "..", "/etc/x", "//x", "a/..", "a/../b"] {
        assert_refused(path, &archive(&[file(path)]));
        assert_refused(path, &archive(&[entry(EntryKind::Directory, path, "")]));
        assert_refused(path, &archive(&[file("a"), entry(EntryKind::HardLink, "b", path)]));
    }
    assert_refused("through a link", &archive(&[link("l", "../../outside"), file("l/x")]));
    assert_refused(
        "through a link",
        &archive(&[link("l", "../../outside"), entry(EntryKind::Directory, "l", "")]),
    );
    assert_refused("through a link", &archive(&[link("l", "."), entry(EntryKind::Directory, "l/x", "")]));
    assert_refused(
        "through a link",
        &archive(&[link("l", "../../outside"), entry(EntryKind::HardLink, "h", "l/file")]),
    );
    assert_refused("over a link", &archive(&[link("l", "../../outside/file"), file("l")]));
    assert_refused(
        "hard link to a link",
        &archive(&[link("l", "../../outside/file"), entry(EntryKind::HardLink, "h", "l"), file("h")]),
    );
    assert_refused(
        "hard link to a directory",
        &archive(&[entry(EntryKind::Directory, "d", ""), entry(EntryKind::HardLink, "h", "d")]),
    );
    assert_refused("hard link to nothing", &archive(&[entry(EntryKind::HardLink, "h", "nothing")]));
    assert_refused(
        "link over a directory",
        &archive(&[file("d/x"), link("d", "../../outside"), file("d/file")]),
    );
    assert_refused("file over a directory", &archive(&[file("d/x"), file("d")]));
    assert_refused("directory over a file", &archive(&[file("d"), file("d/x")]));
    assert_refused("a file twice", &archive(&[file("a"), file("a")]));
    assert_refused("the folder is a link", &archive(&[link("./", "../outside")]));
}

#[test]
fn types_and_headers_that_are_refused() {
    for kind in [b'3', b'4', b'V', b'M', b'z'] {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..1].copy_from_slice(b"d");
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(0);
        header.set_mode(0o666);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        assert_refused("type", &[header.as_bytes().as_slice(), &[0; 1024]].concat());
    }
    assert_refused("empty", b"");
    assert_refused("text", &b"hello ".repeat(1000));
    assert_refused("zeros without an end", &[0; 512]);
    assert_refused("data after the end", &[vec![0; 1024], b"x".repeat(512)].concat());
    assert_refused("squashfs", &[b"hsqs".to_vec(), vec![0; 4096]].concat());
    assert_refused("depth", &archive(&[file(&format!("{}x", "d/".repeat(600)))]));
    assert_refused("name", &archive(&[file(&"x".repeat(256))]));
    assert_refused("path", &archive(&[file(&"xxxxxxxxx/".repeat(500))]));
}

#[test]
fn extension_headers_are_bounded() {
    let header = |kind: tar::EntryType, size: u64| {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..1].copy_from_slice(b"x");
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o666);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    for kind in [
        tar::EntryType::XHeader,
        tar::EntryType::GNULongName,
        tar::EntryType::GNULongLink,
        tar::EntryType::XGlobalHeader,
    ] {
        assert_refused("huge", &header(kind, u64::MAX));
        assert_refused("large", &[header(kind, 2 << 20), vec![b'x'; 2 << 20]].concat());
    }
    // Many small ones before one entry.
    assert_refused("many", &header(tar::EntryType::XHeader, 0).repeat(3_000));
    assert_refused("huge file", &header(tar::EntryType::Regular, 1 << 60));
    let mut records = Vec::new();
    pax::append(&mut records, b"size", b"18446744073709551615");
    let padded = [records.clone(), vec![0; 512 - records.len()]].concat();
    let huge =
        [header(tar::EntryType::XHeader, records.len() as u64), padded, header(tar::EntryType::Regular, 0)]
            .concat();
    assert_refused("overflow", &huge);
}

#[test]
fn sparse_maps_are_checked() {
    for segments in [
        vec![sparse::Segment { offset: u64::MAX, length: 1 }],
        vec![sparse::Segment { offset: 10, length: 0 }, sparse::Segment { offset: 5, length: 0 }],
        vec![sparse::Segment { offset: 0, length: 101 }],
    ] {
        let mut one = file("sparse");
        (one.size, one.segments) = (100, Some(segments.clone()));
        let stored: u64 = segments.iter().map(|segment| segment.length).sum();
        let mut bytes = Vec::new();
        write::write_header(&mut bytes, &one).unwrap();
        bytes.extend(vec![b'x'; usize::try_from(stored.next_multiple_of(512)).unwrap_or(512)]);
        write::end(&mut bytes).unwrap();
        assert_refused("map", &bytes);
    }
}

/// They are kept until the directory is left.
#[test]
fn extended_attributes_of_nested_directories_are_bounded() {
    let directory = |path: String| {
        let mut one = entry(EntryKind::Directory, &path, "");
        one.attributes.xattrs = vec![(b"user.large".to_vec(), vec![b'x'; 1_000_000])];
        one
    };
    let nested: Vec<_> = (1..=5).map(|depth| directory("d/".repeat(depth))).collect();
    assert_refused("nested", &archive(&nested));
    // Each of many small ones needs memory too.
    let mut many = entry(EntryKind::Directory, "./", "");
    many.attributes.xattrs = vec![(b"user.a".to_vec(), Vec::new()); 34_000];
    let below: Vec<_> = (0..2)
        .map(|depth| Entry { path: format!("./{}", "d/".repeat(depth)).into(), ..many.clone() })
        .collect();
    assert_refused("many", &archive(&below));
    // Beside each other, and repeated, they are not kept.
    let mut flat: Vec<_> = (0..6).map(|number| directory(format!("{number}/"))).collect();
    flat.extend((0..6).map(|_| directory("5/".into())));
    flat.extend((0..6).map(|_| directory("./".into())));
    let scratch = tempfile::tempdir().unwrap();
    unpacked(&archive(&flat), &scratch.path().join("target")).unwrap();
}
