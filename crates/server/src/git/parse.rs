//! Output of git in its formats for programs.

use std::collections::BTreeMap;

use sandcrab_api::git::{GitBranch, GitChange, GitCommit, GitFileStatus, GitRefUpdate};

/// The result of `git status --porcelain=v2 -z --branch`.
#[derive(Debug, Default)]
pub(crate) struct Status {
    pub(crate) branch: Option<String>,
    pub(crate) head: Option<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) ahead: u64,
    pub(crate) behind: u64,
    pub(crate) files: Vec<GitFileStatus>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn change(letter: u8) -> GitChange {
    match letter {
        b'.' => GitChange::Unmodified,
        b'M' => GitChange::Modified,
        b'A' => GitChange::Added,
        b'D' => GitChange::Deleted,
        b'R' => GitChange::Renamed,
        b'C' => GitChange::Copied,
        b'T' => GitChange::TypeChanged,
        b'U' => GitChange::Unmerged,
        b'?' => GitChange::Untracked,
        _ => GitChange::Unknown,
    }
}

/// Parses `git status --porcelain=v2 -z --branch`.
pub(crate) fn status(output: &[u8]) -> Status {
    let mut status = Status::default();
    let mut entries = output.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        let (kind, rest) = match entry {
            [kind, b' ', rest @ ..] => (*kind, rest),
            _ => continue,
        };
        // The number of fields before the path.
        let fields = match kind {
            b'#' => {
                header(&mut status, &text(rest));
                continue;
            }
            b'1' => 7,
            b'2' => 8,
            b'u' => 9,
            b'?' => 0,
            _ => continue,
        };
        let mut parts = rest.splitn(fields + 1, |byte| *byte == b' ');
        let letters = if fields == 0 { b"??" } else { parts.next().unwrap_or(b"..") };
        let Some(path) = parts.nth(fields.saturating_sub(1)) else { continue };
        let (index, worktree) = match (kind, letters) {
            (b'u', _) => (GitChange::Unmerged, GitChange::Unmerged),
            (_, [index, worktree]) => (change(*index), change(*worktree)),
            _ => continue,
        };
        let original_path = if kind == b'2' { entries.next().map(text) } else { None };
        status.files.push(GitFileStatus { path: text(path), index, worktree, original_path });
    }
    status
}

fn header(status: &mut Status, line: &str) {
    let Some((name, value)) = line.split_once(' ') else { return };
    match name {
        "branch.oid" if value != "(initial)" => status.head = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => status.branch = Some(value.to_owned()),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            for count in value.split(' ') {
                let number = |sign| count.strip_prefix(sign).and_then(|count: &str| count.parse().ok());
                status.ahead = number('+').unwrap_or(status.ahead);
                status.behind = number('-').unwrap_or(status.behind);
            }
        }
        _ => {}
    }
}

/// The format of `git log -z` that [`log`] parses.
pub(crate) const LOG_FORMAT: &str = "--format=%H%x00%P%x00%an%x00%ae%x00%aI%x00%s";
const LOG_FIELDS: usize = 6;

/// Parses `git log -z` with [`LOG_FORMAT`].
pub(crate) fn log(output: &[u8]) -> Vec<GitCommit> {
    let fields: Vec<_> = output.split(|byte| *byte == 0).map(text).collect();
    fields
        .chunks_exact(LOG_FIELDS)
        .filter_map(|fields| match fields {
            [hash, parents, author, email, date, subject] => Some(GitCommit {
                hash: hash.clone(),
                parents: parents.split_ascii_whitespace().map(Into::into).collect(),
                author: author.clone(),
                email: email.clone(),
                date: date.clone(),
                subject: subject.clone(),
            }),
            _ => None,
        })
        .collect()
}

/// The format of `git for-each-ref` that [`branches`] and [`references`] parse.
pub(crate) const REF_FORMAT: &str =
    "--format=%(refname)%00%(objectname)%00%(upstream:short)%00%(HEAD)%00%(symref)";

/// Parses `git for-each-ref` with [`REF_FORMAT`]: the branches.
pub(crate) fn branches(output: &[u8]) -> Vec<GitBranch> {
    let mut branches: Vec<_> = text(output)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\0');
            let (name, hash, upstream, head) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            // `refs/remotes/origin/HEAD` is another name of a branch.
            if fields.next().is_some_and(|target| !target.is_empty()) {
                return None;
            }
            let (name, remote) = match name.strip_prefix("refs/heads/") {
                Some(name) => (name, false),
                None => (name.strip_prefix("refs/remotes/")?, true),
            };
            Some(GitBranch {
                name: name.to_owned(),
                hash: hash.to_owned(),
                current: head == "*",
                remote,
                upstream: (!upstream.is_empty()).then(|| upstream.to_owned()),
            })
        })
        .collect();
    branches.sort_by_key(|branch| branch.remote);
    branches
}

/// Parses `git for-each-ref` with [`REF_FORMAT`]: names and hashes.
pub(crate) fn references(output: &[u8]) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let mut fields = line.split('\0');
        let (name, hash) = (fields.next()?, fields.next()?);
        // A symbolic reference changes with its target.
        let is_symbolic = fields.nth(2).is_some_and(|target| !target.is_empty());
        (!is_symbolic).then(|| (name.to_owned(), hash.to_owned()))
    };
    text(output).lines().filter_map(pair).collect()
}

/// The references that differ.
pub(crate) fn updates(before: &[(String, String)], after: &[(String, String)]) -> Vec<GitRefUpdate> {
    let mut all = BTreeMap::<&str, [Option<&String>; 2]>::new();
    for (name, hash) in before {
        all.entry(name).or_default()[0] = Some(hash);
    }
    for (name, hash) in after {
        all.entry(name).or_default()[1] = Some(hash);
    }
    all.into_iter()
        .filter(|(_, [before, after])| before != after)
        .map(|(name, [before, after])| GitRefUpdate {
            name: name.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_every_kind() {
        let hash = "0".repeat(40);
        let output = format!(
            "# branch.oid {hash}\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -3\0\
             1 .M N... 100644 100644 100644 {hash} {hash} a b\n\0\
             2 R. N... 100644 100644 100644 {hash} {hash} R100 new\0old name\0\
             u UU N... 100644 100644 100644 100644 {hash} {hash} {hash} both\0? new file\0"
        );
        let status = status(output.as_bytes());
        assert_eq!(
            (status.branch.as_deref(), status.upstream.as_deref()),
            (Some("main"), Some("origin/main"))
        );
        assert_eq!((status.ahead, status.behind, status.head), (2, 3, Some(hash)));
        let files: Vec<_> = status
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.index, file.worktree, file.original_path.as_deref()))
            .collect();
        assert_eq!(
            files,
            [
                ("a b\n", GitChange::Unmodified, GitChange::Modified, None),
                ("new", GitChange::Renamed, GitChange::Unmodified, Some("old name")),
                ("both", GitChange::Unmerged, GitChange::Unmerged, None),
                ("new file", GitChange::Untracked, GitChange::Untracked, None),
            ]
        );
    }

    #[test]
    fn references_that_differ() {
        let list = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned())).collect::<Vec<_>>()
        };
        let found = updates(
            &list(&[("a", "1"), ("b", "2"), ("c", "3")]),
            &list(&[("a", "1"), ("b", "4"), ("d", "5")]),
        );
        let found: Vec<_> =
            found.iter().map(|u| (u.name.as_str(), u.before.as_deref(), u.after.as_deref())).collect();
        assert_eq!(found, [("b", Some("2"), Some("4")), ("c", Some("3"), None), ("d", None, Some("5"))]);
    }

    /// The handler of a request compares them, so the time must not grow with the square of their number.
    #[test]
    fn many_references() {
        let list =
            |hash: &str| (0..200_000).map(|n| (format!("refs/tags/{n:06}"), hash.to_owned())).collect();
        let (mut before, after): (Vec<_>, Vec<_>) = (list("1"), list("2"));
        assert_eq!(updates(&before, &after).len(), 200_000);
        before.reverse();
        assert!(updates(&before, &before.clone()).is_empty());
    }
}
