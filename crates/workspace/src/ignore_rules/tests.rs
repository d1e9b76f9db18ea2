//! Ignore rules: the same as those of the walker of ripgrep, and files that must not be read.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::mpsc;
use std::time::Duration;

use ignore::WalkBuilder;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode};

use super::*;
use crate::archive::{PackOptions, pack};
use crate::find::{FindOptions, find};
use crate::pattern::Pattern;
use crate::search::{SearchOptions, search};
use crate::walk::{Cancel, WalkOptions};

/// Files at which the rules are tried, and directories that may have rules.
const FILES: [&str; 8] = ["a", "b.log", ".h", "x/a", "x/b.log", "x/.h/a", "x/y/a", "x/y/b.log"];
const DIRECTORIES: [&str; 5] = ["", "x", "x/y", "x/.h", "work"];

fn options(walk: WalkOptions) -> FindOptions {
    FindOptions { walk, limit: 1_000, max_bytes: 1 << 20, ..FindOptions::default() }
}

/// What the walker itself finds, with its own ignore files.
fn expected(root: &Path, options: &WalkOptions) -> Vec<PathBuf> {
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(!options.visits_hidden)
        .git_global(false)
        .current_dir(root)
        .overrides(options.overrides(root).unwrap())
        .sort_by_file_name(Ord::cmp);
    let found = builder.build().filter_map(Result::ok);
    found.filter(|entry| entry.depth() > 0).map(ignore::DirEntry::into_path).collect()
}

fn found(root: &Path, walk: WalkOptions) -> Vec<PathBuf> {
    find(root, &options(walk), &Cancel::default()).unwrap().paths
}

/// A file of rules: where, and its lines.
fn rules() -> impl Strategy<Value = (&'static str, &'static str, Vec<&'static str>)> {
    let name = prop::sample::select(vec![".ignore", ".gitignore", ".git/info/exclude", ".jj/x"]);
    let lines = [
        "a", "!a", "/a", "x/", "!x", "y/a", "*.log", "!*.log", "**/y", ".h", "!.h", "/x/**", "[", "# a",
        "a\r",
    ];
    let lines = prop::collection::vec(prop::sample::select(lines.to_vec()), 1..4);
    (prop::sample::select(DIRECTORIES.to_vec()), name, lines)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn rules_are_those_of_the_walker(
        files in prop::collection::vec(rules(), 0..6),
        root in prop::sample::select(vec!["", "x", "x/y", "link"]),
        visits_hidden: bool,
        glob in prop::option::of(prop::sample::select(vec!["!b.log", "!x"])),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for file in FILES {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
        }
        // A repository around all, so that nothing outside matters, and a linked work tree of it.
        fs::create_dir_all(at(".git/worktrees/work")).unwrap();
        fs::create_dir_all(at("work/x")).unwrap();
        fs::write(at("work/x/a"), "").unwrap();
        fs::write(at("work/.git"), format!("gitdir: {}\n", at(".git/worktrees/work").display())).unwrap();
        fs::write(at(".git/worktrees/work/commondir"), "../..\n").unwrap();
        for (directory, name, lines) in files {
            let path = at(directory).join(name);
            // Not below the file .git of the work tree.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                fs::write(path, lines.join("\n")).unwrap();
            }
        }
        symlink("x", at("link")).unwrap();
        // With the slash, the walk follows the link.
        let root = if root == "link" { at(root).join("") } else { at(root) };
        let globs = glob.into_iter().map(ToOwned::to_owned).collect();
        let walk = WalkOptions { globs, visits_hidden, respects_ignore_files: true };
        prop_assert_eq!(found(&root, walk.clone()), expected(&root, &walk));
    }
}

/// What must not be read to its end, at every place where rules are looked for.
#[test]
fn special_files_neither_block_nor_fill_the_memory() {
    for name in [".ignore", ".gitignore", ".git/info/exclude", ".git", ".git-directory/commondir"] {
        for is_fifo in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir_all(at(".git-directory")).unwrap();
            if name.starts_with(".git-directory") {
                fs::write(at(".git"), format!("gitdir: {}\n", at(".git-directory").display())).unwrap();
            } else if name != ".git" {
                fs::create_dir_all(at(".git/info")).unwrap();
            }
            if is_fifo {
                rustix::fs::mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            } else {
                symlink("/dev/zero", at(name)).unwrap();
            }
            fs::create_dir(at("below")).unwrap();
            fs::write(at("below/a"), "x").unwrap();
            within_time(folder.path());
        }
    }
}

/// Fails if an operation blocks: its thread cannot be ended.
fn within_time(root: &Path) {
    let (done, ended) = mpsc::channel();
    let root = root.to_owned();
    std::thread::spawn(move || {
        let paths = found(&root, WalkOptions::default());
        let lines = SearchOptions {
            pattern: Pattern::literal("x"),
            walk: WalkOptions::default(),
            context_lines: 0,
            max_matches: 10,
            max_bytes: 1 << 20,
        };
        let receiver = |_| std::ops::ControlFlow::Continue(());
        let summary = search(&root, &lines, &Cancel::default(), &receiver).unwrap();
        let packing = PackOptions { respects_gitignore: true, ..PackOptions::default() };
        pack(&root, &packing, std::io::sink()).unwrap();
        drop(done.send((paths, summary.matches)));
    });
    let (paths, matches) = ended.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!((paths.len(), matches), (2, 1));
}

#[test]
fn size_and_number_of_rules_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("x/y")).unwrap();
    for name in ["a", "x/b", "x/y/c"] {
        fs::write(at(name), "").unwrap();
    }
    let names = || found(folder.path(), WalkOptions::default()).len();
    let rule = "abc\n";
    // Comments are no rules, but they are lines.
    let lines = |count: usize| format!("{}a\nb\nc\n", "#\n".repeat(count - 4));
    for (allowed, refused) in [
        (lines(MAX_IGNORE_LINES), lines(MAX_IGNORE_LINES + 1)),
        (
            format!("a\nb\nc\n#{}", "x".repeat(MAX_IGNORE_BYTES - 7)),
            format!("a\nb\nc\n#{}", "x".repeat(MAX_IGNORE_BYTES - 6)),
        ),
    ] {
        fs::write(at(".ignore"), allowed).unwrap();
        assert_eq!(names(), 2);
        fs::write(at(".ignore"), refused).unwrap();
        assert_eq!(names(), 5);
    }
    // The rules of a directory and of those above it share the limit.
    fs::write(at(".ignore"), format!("a\n{}", rule.repeat(MAX_IGNORE_LINES / 2))).unwrap();
    fs::write(at("x/.ignore"), format!("b\n{}", rule.repeat(MAX_IGNORE_LINES / 2))).unwrap();
    fs::write(at("x/y/.ignore"), "c\n").unwrap();
    assert_eq!(found(folder.path(), WalkOptions::default()), [at("x"), at("x/b"), at("x/y")]);
    fs::write(at("x/.ignore"), "\u{feff}b\r\n\\\u{20}\n").unwrap();
    fs::write(at("x/y/.ignore"), b"c\n\xff\n!c\n").unwrap();
    assert_eq!(found(folder.path(), WalkOptions::default()), [at("x"), at("x/y")]);
}
