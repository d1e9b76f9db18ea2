use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::{FileErrorKind, Identity};

fn options(pattern: Pattern) -> SearchOptions {
    SearchOptions {
        pattern,
        walk: WalkOptions::default(),
        context_lines: 0,
        max_matches: 1000,
        max_bytes: 1 << 20,
    }
}

/// The matches as `name:line:column:text`, sorted, and the totals.
fn run(root: &Path, options: &SearchOptions) -> (Vec<String>, SearchSummary) {
    let found = Mutex::new(Vec::new());
    let summary = search(root, options, &Cancel::default(), &|file: FileMatches| {
        let name = file.path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let lines = file.matches.iter().map(|m| format!("{name}:{}:{}:{}", m.line, m.column, m.text));
        found.lock().unwrap().extend(lines);
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut found = found.into_inner().unwrap();
    found.sort();
    (found, summary)
}

fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("src/deep")).unwrap();
    fs::create_dir(at(".git")).unwrap();
    fs::write(at(".gitignore"), "target\n").unwrap();
    fs::create_dir(at("target")).unwrap();
    fs::write(at("target/out.txt"), "needle\n").unwrap();
    fs::write(at(".hidden"), "needle\n").unwrap();
    fs::write(at("a.rs"), "one\nfn needle() {}\r\nNeedle\n").unwrap();
    fs::write(at("src/deep/b.txt"), "x needles\nneedle").unwrap();
    fs::write(at("binary"), b"needle\0needle\n").unwrap();
    symlink("a.rs", at("link.rs")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), 0o666.into()).unwrap();
    root
}

#[test]
fn options_select_files_and_lines() {
    let root = tree();
    let of = |options: &SearchOptions| run(root.path(), options).0;
    let plain = options(Pattern::literal("needle"));
    assert_eq!(
        of(&plain),
        ["a.rs:2:4:fn needle() {}", "src/deep/b.txt:1:3:x needles", "src/deep/b.txt:2:1:needle"]
    );

    let word = Pattern { is_word: true, is_case_sensitive: false, ..Pattern::literal("needle") };
    let lines = of(&options(word));
    assert_eq!(lines, ["a.rs:2:4:fn needle() {}", "a.rs:3:1:Needle", "src/deep/b.txt:2:1:needle"]);

    assert_eq!(of(&options(Pattern::regex("^fn \\w+\\("))), ["a.rs:2:1:fn needle() {}"]);
    assert!(of(&options(Pattern::literal("^fn"))).is_empty());

    let walk = |globs: &[&str], visits_hidden, respects_ignore_files| {
        let globs = globs.iter().map(|&glob| glob.to_owned()).collect();
        let walk = WalkOptions { globs, visits_hidden, respects_ignore_files };
        let lines = of(&SearchOptions { walk, ..plain.clone() });
        let mut names: Vec<_> = lines.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        names.dedup();
        names
    };
    assert_eq!(walk(&["*.rs"], false, true), ["a.rs"]);
    assert_eq!(walk(&["!*.rs"], false, true), ["src/deep/b.txt"]);
    assert_eq!(walk(&["src/**/*.txt"], false, true), ["src/deep/b.txt"]);
    assert_eq!(walk(&[], true, true), [".hidden", "a.rs", "src/deep/b.txt"]);
    assert_eq!(walk(&[], false, false), ["a.rs", "src/deep/b.txt", "target/out.txt"]);
}

#[test]
fn totals_and_limits() {
    let root = tree();
    let (_, summary) = run(root.path(), &options(Pattern::literal("needle")));
    let expected = SearchSummary { matches: 3, files_searched: 3, unreadable: 0, is_truncated: false };
    assert_eq!(summary, expected);

    let limited = SearchOptions { max_matches: 2, ..options(Pattern::literal("needle")) };
    let (lines, summary) = run(root.path(), &limited);
    assert_eq!((lines.len(), summary.matches, summary.is_truncated), (2, 2, true));
    // Exactly as many matches as allowed is not a truncated result.
    let (_, summary) = run(root.path(), &SearchOptions { max_matches: 3, ..limited.clone() });
    assert!(!summary.is_truncated);
    let (_, summary) = run(root.path(), &SearchOptions { max_bytes: 10, ..limited });
    assert!(summary.is_truncated);
}

#[test]
fn context_is_shared_by_neighbours() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "1\n2\nhit a\n4\nhit b\n6\n7\n8\n9\nhit c\n").unwrap();
    let found = Mutex::new(Vec::new());
    let with = SearchOptions { context_lines: 2, ..options(Pattern::literal("hit")) };
    search(root.path(), &with, &Cancel::default(), &|file: FileMatches| {
        found.lock().unwrap().extend(file.matches);
        ControlFlow::Continue(())
    })
    .unwrap();
    let found = found.into_inner().unwrap();
    let context: Vec<_> = found.iter().map(|m| (m.line, m.before.join(","), m.after.join(","))).collect();
    let expected = [(3, "1,2", "4,hit b"), (5, "hit a,4", "6,7"), (10, "8,9", "")];
    assert_eq!(context, expected.map(|(line, before, after)| (line, before.to_owned(), after.to_owned())));
}

/// Many long lines around each match: they are in memory once, and are delivered in small lists.
#[test]
fn context_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), format!("hit{}\n", "x".repeat(4_000)).repeat(300)).unwrap();
    let deliveries = Mutex::new(Vec::new());
    let many = SearchOptions { context_lines: MAX_CONTEXT_LINES, ..options(Pattern::literal("hit")) };
    let all = |options: &SearchOptions| {
        let receive = |file: FileMatches| {
            deliveries.lock().unwrap().push(file.matches);
            ControlFlow::Continue(())
        };
        let summary = search(root.path(), options, &Cancel::default(), &receive).unwrap();
        (summary, std::mem::take(&mut *deliveries.lock().unwrap()))
    };
    let (summary, found) = all(&SearchOptions { max_bytes: usize::MAX, ..many.clone() });
    assert_eq!((summary.matches, summary.is_truncated), (300, false));
    assert!(found.iter().all(|matches| matches.len() == 1), "one match is larger than a list");
    let found: Vec<_> = found.into_iter().flatten().collect();
    assert_eq!((found[100].before.len(), found[100].after.len()), (50, 50));
    assert!(Arc::ptr_eq(&found[100].before[1], &found[101].before[0]));
    assert!(Arc::ptr_eq(&found[100].after[1], &found[120].before[32]));
    // Matches that are found, but not complete when the limit is reached, do not exceed it.
    let (summary, found) = all(&SearchOptions { max_bytes: 1 << 20, ..many });
    assert!(summary.is_truncated && found.len() <= 6, "{}", found.len());
    assert_eq!(summary.matches, found.len() as u64);
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let root = tempfile::tempdir().unwrap();
    let long = format!("{}needle{}\n", "ä".repeat(5000), "ö".repeat(5000));
    fs::write(root.path().join("f"), &long).unwrap();
    fs::write(root.path().join("longer"), "x".repeat(MAX_SEARCHED_LINE_BYTES + 10)).unwrap();
    let found = Mutex::new(Vec::new());
    let summary = search(
        root.path(),
        &options(Pattern::literal("needle")),
        &Cancel::default(),
        &|file: FileMatches| {
            found.lock().unwrap().extend(file.matches);
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    let [found] = &found.into_inner().unwrap()[..] else { panic!("one match") };
    assert_eq!((found.column, found.is_cut), (10_001, true));
    assert!(found.text.len() <= MAX_SHOWN_LINE_BYTES && !found.text.contains('\u{FFFD}'));
    let offset = usize::try_from(found.column - found.text_column).unwrap();
    assert!(found.text[offset..].starts_with("needle"));
    assert_eq!(summary.unreadable, 1, "the file with a line that is too long");
}

#[test]
fn odd_names_and_roots() {
    let root = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff\nname");
    fs::write(root.path().join(name), "needle\n").unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(root.path(), outside.path().join("link")).unwrap();
    let roots = [root.path().to_owned(), outside.path().join("link"), root.path().join(name)];
    for searched in roots {
        let found = Mutex::new(Vec::new());
        search(&searched, &options(Pattern::literal("needle")), &Cancel::default(), &|file: FileMatches| {
            found.lock().unwrap().push(file.path);
            ControlFlow::Continue(())
        })
        .unwrap();
        let [found] = &found.into_inner().unwrap()[..] else { panic!("one file") };
        assert_eq!(found.file_name(), Some(name));
        assert!(found.starts_with(&searched), "{found:?} below {searched:?}");
    }
    let fail = |path: &Path| {
        let failed = search(path, &options(Pattern::literal("x")), &Cancel::default(), &|_: FileMatches| {
            ControlFlow::Break(())
        });
        let Err(SearchError::File(error)) = failed else { panic!("{failed:?}") };
        error.kind
    };
    assert_eq!(fail(Path::new("/no/such")), FileErrorKind::NotFound);
    assert_eq!(fail(Path::new("/dev/zero")), FileErrorKind::NotRegular);
}

#[test]
fn reader_that_breaks_off_ends_the_search() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..500 {
        fs::write(root.path().join(number.to_string()), "needle\n").unwrap();
    }
    let cancel = Cancel::default();
    let summary = search(root.path(), &options(Pattern::literal("needle")), &cancel, &|_: FileMatches| {
        ControlFlow::Break(())
    })
    .unwrap();
    assert!(cancel.is_cancelled() && summary.files_searched < 100, "{summary:?}");
    // A huge file is not read to its end.
    let big = fs::File::create(root.path().join("0")).unwrap();
    big.set_len(1 << 40).unwrap();
    let cancel = Cancel::default();
    cancel.cancel();
    search(&root.path().join("0"), &options(Pattern::literal("x")), &cancel, &|_: FileMatches| {
        ControlFlow::Continue(())
    })
    .unwrap();
}

#[test]
fn root_threads_have_the_permissions_of_the_user() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["open", "secret"] {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("f"), "needle\n").unwrap();
    }
    fs::set_permissions(root.path().join("open/f"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(root.path().join("private"), "needle\n").unwrap();
    fs::set_permissions(root.path().join("private"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(root.path().join("secret"), fs::Permissions::from_mode(0o700)).unwrap();
    let user = Identity::of(65534, 65534, &[65534]);
    let (found, summary) = user.run(|| run(root.path(), &options(Pattern::literal("needle")))).unwrap();
    assert_eq!(found, ["open/f:1:1:needle"]);
    assert_eq!(summary.unreadable, 2);
}

proptest! {
    /// A literal search finds exactly the lines that contain the text.
    #[test]
    fn literal_search_equals_contains(lines in prop::collection::vec("[ab.*\\\\(é]{0,12}", 0..30), text in "[ab.*\\\\(é]{1,3}") {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("f"), lines.join("\n")).unwrap();
        let (found, _) = run(root.path(), &options(Pattern::literal(text.clone())));
        let numbers = |found: &[String]| -> Vec<u64> {
            let mut numbers: Vec<_> =
                found.iter().map(|line| line.split(':').nth(1).unwrap().parse().unwrap()).collect();
            numbers.sort_unstable();
            numbers
        };
        let expected: Vec<u64> =
            (1..).zip(&lines).filter(|(_, line)| line.contains(&text)).map(|(number, _)| number).collect();
        prop_assert_eq!(numbers(&found), expected);
    }
}
