//! The output of `git diff --patch`.

use sandcrab_api::git::{GitFileDiff, GitHunk};

/// The options of `git diff` whose output [`parse`] reads, whatever the configuration of the user.
pub(crate) const DIFF_OPTIONS: [&str; 8] = [
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--submodule=short",
    "--find-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--patch",
];

/// Parses a patch. A file whose type has changed, which git shows as a deletion and a creation, is one file.
pub(crate) fn parse(patch: &[u8]) -> Vec<GitFileDiff> {
    let mut files: Vec<GitFileDiff> = Vec::new();
    let mut section = Section::default();
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        // A line of content begins with a space, a sign or a backslash.
        let header = line.strip_suffix(b"\n").unwrap_or(line);
        if header.starts_with(b"diff --") || header.starts_with(b"* Unmerged path ") {
            std::mem::take(&mut section).add_to(&mut files);
            section.begin(header);
        } else if header.starts_with(b"@@") {
            // Combined hunks have one `@` more for each parent.
            section.parents = header.iter().take_while(|byte| **byte == b'@').count().saturating_sub(1);
            section.file.hunks.push(GitHunk { header: text(header), lines: String::new() });
        } else if section.file.hunks.is_empty() {
            section.header(header);
        } else {
            section.content(line);
        }
    }
    section.add_to(&mut files);
    files
}

/// The part of a patch about one file.
struct Section {
    file: GitFileDiff,
    /// Number of columns before the content of a line.
    parents: usize,
}

impl Default for Section {
    fn default() -> Self {
        let (path, original_path, hunks) = (String::new(), None, Vec::new());
        let file = GitFileDiff { path, original_path, added: 0, removed: 0, binary: false, hunks };
        Self { file, parents: 1 }
    }
}

impl Section {
    /// The first line: `diff --git a/PATH b/PATH`, `diff --cc PATH`, or `* Unmerged path PATH`.
    fn begin(&mut self, line: &[u8]) {
        let combined = [&b"diff --cc "[..], b"diff --combined ", b"* Unmerged path "];
        let path = match combined.iter().find_map(|start| line.strip_prefix(*start)) {
            Some(path) => unquoted(path),
            // A rename has lines of its own. Otherwise both paths are the same.
            None => {
                let both = line.strip_prefix(b"diff --git ").unwrap_or_default();
                let second = both.get(both.len() / 2 + 1..).unwrap_or_default();
                without_prefix(second, b"b/")
            }
        };
        self.file.path = text(&path);
    }

    /// A line before the first hunk.
    fn header(&mut self, line: &[u8]) {
        let path = |start: &[u8]| line.strip_prefix(start).map(|path| text(&unquoted(path)));
        if let Some(path) = path(b"rename to ").or_else(|| path(b"copy to ")) {
            self.file.path = path;
        } else if let Some(path) = path(b"rename from ").or_else(|| path(b"copy from ")) {
            self.file.original_path = Some(path);
        } else if line.starts_with(b"Binary files ") || line.starts_with(b"GIT binary patch") {
            self.file.binary = true;
        }
    }

    /// A line of a hunk.
    fn content(&mut self, line: &[u8]) {
        let signs = line.get(..self.parents.max(1)).unwrap_or_default();
        if line.first() != Some(&b'\\') {
            self.file.removed += u64::from(signs.contains(&b'-'));
            self.file.added += u64::from(signs.contains(&b'+'));
        }
        if let Some(hunk) = self.file.hunks.last_mut() {
            hunk.lines.push_str(&String::from_utf8_lossy(line));
        }
    }

    fn add_to(self, files: &mut Vec<GitFileDiff>) {
        let file = self.file;
        if file.path.is_empty() {
            return;
        }
        match files.last_mut().filter(|last| last.path == file.path) {
            Some(last) => {
                last.added += file.added;
                last.removed += file.removed;
                last.binary |= file.binary;
                last.hunks.extend(file.hunks);
            }
            None => files.push(file),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn without_prefix(path: &[u8], prefix: &[u8]) -> Vec<u8> {
    let path = unquoted(path);
    path.strip_prefix(prefix).map_or_else(|| path.clone(), <[u8]>::to_vec)
}

/// A path as git writes it: in quotes, with escapes as in C, if it contains special characters.
fn unquoted(path: &[u8]) -> Vec<u8> {
    let Some(inner) = path.strip_prefix(b"\"").and_then(|path| path.strip_suffix(b"\"")) else {
        return path.to_vec();
    };
    let mut plain = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let Some(escaped) = bytes.next() else { break };
        plain.push(match escaped {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            b'0'..=b'7' => {
                let mut value = u32::from(escaped - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                u8::try_from(value & 0xFF).unwrap_or_default()
            }
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_paths() {
        let patch = b"diff --cc both\nindex 1,2..0\n--- a/both\n+++ b/both\n@@@ -1,1 -1,1 +1,3 @@@\n++<<<<<<< HEAD\n +m\n+ o\n- x\n\
            diff --git a/bin b/bin\nindex 1..2 100644\nBinary files a/bin and b/bin differ\n\
            diff --git a/type b/type\ndeleted file mode 120000\n--- a/type\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n\
            diff --git a/type b/type\nnew file mode 100644\n--- /dev/null\n+++ b/type\n@@ -0,0 +1 @@\n+f\n\
            diff --git a/old name b/new name\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from old name\nrename to new name\n\
            diff --git \"a/tab\\there \\303\\251\" \"b/tab\\there \\303\\251\"\nold mode 100644\nnew mode 100755\n\
            diff --git a/a b/c b/a b/c\n--- a/a b/c\t\n+++ b/a b/c\t\n@@ -1,2 +1 @@ fn f()\n-@@ a\n-b\n+diff --git\n\\ No newline\n\
            * Unmerged path theirs\n";
        let files = parse(patch);
        let found: Vec<_> = files
            .iter()
            .map(|file| (file.path.as_str(), file.added, file.removed, file.binary, file.hunks.len()))
            .collect();
        assert_eq!(
            found,
            [
                ("both", 3, 1, false, 1),
                ("bin", 0, 0, true, 0),
                ("type", 1, 1, false, 2),
                ("new name", 0, 0, false, 0),
                ("tab\there \u{e9}", 0, 0, false, 0),
                ("a b/c", 1, 2, false, 1),
                ("theirs", 0, 0, false, 0),
            ]
        );
        assert_eq!(files[3].original_path.as_deref(), Some("old name"));
        let hunk = GitHunk {
            header: "@@ -1,2 +1 @@ fn f()".into(),
            lines: "-@@ a\n-b\n+diff --git\n\\ No newline\n".into(),
        };
        assert_eq!(files[5].hunks, [hunk]);
        assert!(parse(b"").is_empty());
    }
}
