//! [`FileKind`]: text or not, and the MIME type.

use std::path::Path;

/// Number of bytes from the beginning of a file that decide about its type.
pub const DETECTION_BYTES: usize = 64 << 10;

const PLAIN_TEXT: &str = "text/plain";
const UNKNOWN: &str = "application/octet-stream";

/// What a file contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileKind {
    /// The MIME type.
    pub mime_type: String,
    /// Whether the content is not text.
    pub is_binary: bool,
}

impl FileKind {
    /// Detects the type from the beginning of a file and its name. `is_whole` says that `start` is the whole file.
    pub fn detect(path: &Path, start: &[u8], is_whole: bool) -> Self {
        let is_binary = !is_text(start, is_whole);
        // The content is stronger than the name.
        let by_content = infer::get(start).map(|found| found.mime_type());
        let by_name = || mime_guess::from_path(path).first_raw();
        let mime_type = match by_content {
            Some(found) if is_binary || is_textual(found) => found,
            _ if is_binary => by_name().filter(|guess| !is_textual(guess)).unwrap_or(UNKNOWN),
            _ => by_name().filter(|guess| is_textual(guess)).unwrap_or(PLAIN_TEXT),
        };
        Self { mime_type: mime_type.to_owned(), is_binary }
    }

    /// Returns the type by the name of a file if that is one of images, sound, video or fonts.
    #[must_use]
    pub fn or_media_by_name(self, path: &Path) -> Self {
        // TypeScript has the extension of a video.
        let is_script = path.extension().is_some_and(|extension| extension == "ts" || extension == "mts");
        let by_name = mime_guess::from_path(path).first_raw().filter(|guess| is_media(guess) && !is_script);
        by_name.map_or(self, |guess| Self { mime_type: guess.to_owned(), is_binary: true })
    }
}

/// Whether bytes are UTF-8 without NUL. At the end of a part, a character may be incomplete.
fn is_text(bytes: &[u8], is_whole: bool) -> bool {
    if bytes.contains(&0) {
        return false;
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(e) => !is_whole && e.error_len().is_none(),
    }
}

fn is_media(mime_type: &str) -> bool {
    !is_textual(mime_type)
        && ["image/", "audio/", "video/", "font/"].iter().any(|class| mime_type.starts_with(class))
}

/// Whether a MIME type can be the type of text.
fn is_textual(mime_type: &str) -> bool {
    let (class, kind) = mime_type.split_once('/').unwrap_or((mime_type, ""));
    match class {
        "text" => true,
        "application" => {
            kind != "octet-stream" && !kind.starts_with("vnd.")
                || kind.ends_with("+xml")
                || kind.ends_with("+json")
        }
        _ => kind.ends_with("+xml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        for (name, content, expected, is_binary) in [
            ("a.txt", &b"hello"[..], "text/plain", false),
            ("a", b"hello", "text/plain", false),
            ("a", b"", "text/plain", false),
            ("a.json", b"{}", "application/json", false),
            ("a.html", b"<p>", "text/html", false),
            ("a.svg", b"<svg/>", "image/svg+xml", false),
            // The extension is also that of a video.
            ("a.ts", b"let x = 1;", "text/plain", false),
            ("a.rs", "\u{fc}".as_bytes(), "text/x-rust", false),
            ("a.png", png, "image/png", true),
            ("a.txt", png, "image/png", true),
            ("a.txt", b"\xff\xfe", UNKNOWN, true),
            ("a", b"a\0b", UNKNOWN, true),
            ("a.png", b"\0", "image/png", true),
        ] {
            let found = FileKind::detect(Path::new(name), content, true);
            assert_eq!(
                (found.mime_type.as_str(), found.is_binary),
                (expected, is_binary),
                "{name} {content:?}"
            );
        }
    }

    #[test]
    fn types_by_name() {
        for (name, expected, is_binary) in [
            ("a.png", "image/png", true),
            ("a.mp3", "audio/mpeg", true),
            ("a.svg", "image/svg+xml", false),
            ("a.ts", "text/plain", false),
            ("a.json", "application/json", false),
            ("a", "text/plain", false),
        ] {
            let path = Path::new(name);
            let found = FileKind::detect(path, b"text", true).or_media_by_name(path);
            assert_eq!((found.mime_type.as_str(), found.is_binary), (expected, is_binary), "{name}");
        }
    }

    #[test]
    fn a_part_may_end_within_a_character() {
        let cut = &"a\u{20ac}".as_bytes()[..3];
        assert!(!FileKind::detect(Path::new("a"), cut, false).is_binary);
        assert!(FileKind::detect(Path::new("a"), cut, true).is_binary);
    }
}
