use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

fn options(pattern: Pattern, replacement: &str) -> ReplaceOptions {
    ReplaceOptions {
        pattern,
        replacement: replacement.into(),
        walk: WalkOptions::default(),
        is_dry_run: false,
        max_diff_bytes: 1 << 20,
        records: Records::none(),
    }
}

fn run(root: &Path, options: &ReplaceOptions) -> Replaced {
    replace(root, options, &Cancel::default()).unwrap()
}

#[test]
fn literal_and_groups() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("f");
    fs::write(&file, "a $1 b\nkey = value\n").unwrap();
    let done = run(root.path(), &options(Pattern::literal("$1"), "$0\\n"));
    assert_eq!(
        (fs::read_to_string(&file).unwrap().as_str(), done.replacements),
        ("a $0\\n b\nkey = value\n", 1)
    );
    run(root.path(), &options(Pattern::regex(r"^(\w+) = (?P<v>\w+)$"), "${v}: $1 $$"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a $0\\n b\nvalue: key $\n");
    // A pattern may span lines.
    let done = run(root.path(), &options(Pattern::regex(r"b\nvalue"), "c"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a $0\\n c: key $\n");
    assert_eq!(done.files[0].replacements, 1);
}

#[test]
fn dry_run_changes_nothing_and_shows_the_diff() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("f");
    fs::write(&file, "1\n2\n3\n4\nold\n6\n7\n8\n9\n").unwrap();
    let dry = ReplaceOptions { is_dry_run: true, ..options(Pattern::literal("old"), "new") };
    let done = run(root.path(), &dry);
    assert!(fs::read_to_string(&file).unwrap().contains("old"));
    let [changed] = &done.files[..] else { panic!("{done:?}") };
    let name = file.to_string_lossy();
    let name = name.trim_start_matches('/');
    let expected =
        format!("--- a/{name}\n+++ b/{name}\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-old\n+new\n 6\n 7\n 8\n");
    assert_eq!((changed.diff.as_str(), changed.is_diff_truncated), (expected.as_str(), false));
}

#[test]
fn files_that_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("binary"), b"old\0old").unwrap();
    fs::write(at("none"), "nothing").unwrap();
    fs::write(at("large"), "old ".repeat(MAX_REPLACED_FILE_BYTES / 4 + 1)).unwrap();
    fs::write(at("grows"), "old ".repeat(MAX_REPLACED_FILE_BYTES / 8)).unwrap();
    fs::write(at("text"), b"old \xff old").unwrap();
    std::os::unix::fs::symlink("text", at("link")).unwrap();
    let change = options(Pattern::literal("old"), "much longer");
    let done = replace(root.path(), &change, &Cancel::default()).unwrap();
    let changed: Vec<_> = done.files.iter().map(|file| file.path.file_name().unwrap().to_owned()).collect();
    assert_eq!((changed, done.replacements), (vec!["text".into()], 2));
    assert_eq!(fs::read(at("text")).unwrap(), b"much longer \xff much longer");
    assert_eq!(fs::read(at("binary")).unwrap(), b"old\0old");
    let skipped: Vec<_> =
        done.skipped.iter().map(|s| (s.path.file_name().unwrap().to_str().unwrap(), s.error.kind)).collect();
    let large = FileErrorKind::TooLarge;
    assert_eq!(skipped, [("grows", large), ("large", large)]);
}

#[test]
fn mode_is_kept_and_no_other_file_is_left() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("script");
    fs::write(&file, "old\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
    let done = run(root.path(), &options(Pattern::literal("old"), "new"));
    assert_eq!((done.files.len(), fs::read_to_string(&file).unwrap().as_str()), (1, "new\n"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn root_file_that_the_user_may_not_write_is_skipped() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for name in ["mine", "theirs"] {
        fs::write(root.path().join(name), "old\n").unwrap();
        fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    std::os::unix::fs::chown(root.path().join("mine"), Some(65534), Some(65534)).unwrap();
    let user = crate::Identity::of(65534, 65534, &[65534]);
    let done = user.run(|| run(root.path(), &options(Pattern::literal("old"), "new"))).unwrap();
    let [skipped] = &done.skipped[..] else { panic!("{done:?}") };
    assert_eq!((skipped.error.kind, done.files.len()), (FileErrorKind::PermissionDenied, 1));
    assert_eq!(fs::read_to_string(root.path().join("theirs")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(root.path().join("mine")).unwrap(), "new\n");
}

#[test]
fn diffs_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(root.path().join(name), "old line\n".repeat(60_000)).unwrap();
    }
    let done = run(
        root.path(),
        &ReplaceOptions { max_diff_bytes: MAX_DIFF_BYTES, ..options(Pattern::literal("old"), "new") },
    );
    let [first, second] = &done.files[..] else { panic!("two files") };
    assert!(first.is_diff_truncated && first.diff.len() <= MAX_DIFF_BYTES && first.diff.ends_with('\n'));
    assert!(second.is_diff_truncated && second.diff.len() < 1000);
    assert_eq!(done.replacements, 120_000);
    assert!(!fs::read_to_string(root.path().join("b")).unwrap().contains("old"));
}

#[test]
fn files_with_many_lines_have_no_diff() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    for (lines, is_truncated) in [(MAX_DIFF_LINES, false), (MAX_DIFF_LINES + 1, true)] {
        fs::write(&file, format!("old{}", "\n".repeat(lines))).unwrap();
        let done = run(&file, &options(Pattern::literal("old"), "new"));
        assert_eq!(
            (done.files[0].is_diff_truncated, done.files[0].diff.is_empty()),
            (is_truncated, is_truncated)
        );
        assert!(fs::read_to_string(&file).unwrap().starts_with("new\n"));
    }
    // Only the new text has many.
    fs::write(&file, "x".repeat(MAX_DIFF_LINES + 1)).unwrap();
    let done = run(&file, &options(Pattern::literal("x"), "\n"));
    assert!(done.files[0].is_diff_truncated && done.files[0].diff.is_empty());
}

/// The paths of the directories are too long to be opened.
#[test]
fn number_of_skipped_directories_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    let mut deep = root.path().to_owned();
    while deep.as_os_str().len() + 255 < 4095 {
        deep.push("x".repeat(254));
    }
    fs::create_dir_all(&deep).unwrap();
    let deep = rustix::fs::open(&deep, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for number in 0..=MAX_REPLACED_FILES {
        rustix::fs::mkdirat(&deep, format!("{number:0255}"), rustix::fs::Mode::RWXU).unwrap();
    }
    let done = run(root.path(), &options(Pattern::literal("old"), "new"));
    assert_eq!((done.skipped.len(), done.is_truncated), (MAX_REPLACED_FILES, true));
}

proptest! {
    /// The literal replacement is that of the standard library.
    #[test]
    fn literal_replacement_equals_that_of_str(text in "[ab$\\\\\n]{0,60}", from in "[ab$\\\\\n]{1,3}", to in "[ab$1]{0,5}") {
        let regex = Pattern::literal(from.clone()).file_regex().unwrap();
        let given = options(Pattern::literal(from.clone()), &to);
        let (new, count) = replace_all(text.as_bytes(), &regex, &given, &Cancel::default()).unwrap();
        let expected = text.replace(&from, &to);
        prop_assert_eq!(count, text.matches(&from).count() as u64);
        if count > 0 {
            prop_assert_eq!(String::from_utf8(new).unwrap(), expected);
        }
    }
}

#[test]
fn one_huge_replacement_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, vec![b'a'; 1 << 20]).unwrap();
    let replaced = run(directory.path(), &options(Pattern::regex("(?s).+"), &"$0".repeat(100_000)));
    assert_eq!(replaced.skipped.len(), 1);
    assert_eq!(replaced.skipped[0].error.kind, FileErrorKind::TooLarge);
    assert_eq!(std::fs::read(&path).unwrap().len(), 1 << 20);
}

#[test]
fn lines_end_at_the_last_line_break() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    for (pattern, replacement, old, new) in [
        ("^", "> ", "a\nb\n", "> a\n> b\n"),
        ("^", "> ", "a\nb", "> a\n> b"),
        ("$", ";", "a\nb\n", "a;\nb;\n"),
        (r"\z", "end", "a\n", "a\nend"),
        ("^$", "x", "\n\n", "x\nx\n"),
    ] {
        fs::write(&path, old).unwrap();
        replace(&path, &options(Pattern::regex(pattern), replacement), &Cancel::default()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), new, "{pattern:?} in {old:?}");
    }
}

/// The diffs are those of the `diff` program.
#[test]
fn diffs_can_be_applied() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    for old in ["a\rold\rb\nc\n", "old\r", "x\r\nold\r\n", "1\n2\n3\n4\nold\n6\n7\n8\n9\n", "old"] {
        fs::write(&path, old).unwrap();
        let result = replace(&path, &options(Pattern::literal("old"), "new"), &Cancel::default()).unwrap();
        let diff = &result.files[0].diff;
        let lines: Vec<_> = diff.split_inclusive('\n').skip(3).collect();
        let side = |sign: char| -> String {
            let mut text = String::new();
            for line in &lines {
                match line.strip_prefix([' ', sign]) {
                    Some(content) => text.push_str(content),
                    None if line.starts_with('\\') => {}
                    None => continue,
                }
            }
            text
        };
        // Both sides of the hunk are parts of the files, apart from the line break that the marker takes away.
        assert!(format!("{old}\n").contains(&side('-')), "{diff:?}");
        assert!(format!("{}\n", old.replace("old", "new")).contains(&side('+')), "{diff:?}");
        assert_eq!(diff.contains("No newline"), !old.ends_with('\n'), "{diff:?}");
    }
}
