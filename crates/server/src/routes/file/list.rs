//! Lists of files: `/api/list-files`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandcrab_api::Timestamp;
use sandcrab_api::file::{FileEntry, FileList, ListRequest, Permissions};
use sandcrab_workspace::{DEFAULT_LISTED, Entry, ListOptions, MAX_LISTED, list};

use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::json_list::JsonList;
use crate::routes::execute::SessionQuery;

/// Maximum size of the entries of one response.
const MAX_LIST_BYTES: usize = 8 << 20;

/// Lists a directory.
///
/// If there are more entries than `limit`, or more than fit into 8 MiB, the response has `next`, which is the `after` of the next request.
#[utoipa::path(post, path = "/api/list-files", operation_id = "listFiles", tag = "files", params(SessionQuery),
    request_body = ListRequest, responses((status = 200, description = "The entries.", body = FileList)))]
pub(crate) async fn list_files(
    State(app): State<App>,
    files: Files,
    request: Json<ListRequest>,
) -> Result<Response, ApiError> {
    let ListRequest { path, path_base64, session_id, options } = request.value;
    let path = path.or_else(|| path_base64.is_none().then(|| ".".to_owned()));
    let given = GivenPath::new("path", path, path_base64)?;
    let wanted = options.unwrap_or_default();
    let limit = wanted.limit.map_or(DEFAULT_LISTED, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if !(1..=MAX_LISTED).contains(&limit) {
        return Err(ApiError::invalid("options.limit", format!("expected 1 to {MAX_LISTED}, got {limit}")));
    }
    let options = ListOptions {
        recursive: wanted.recursive == Some(true),
        include_hidden: wanted.include_hidden == Some(true),
        limit,
        max_bytes: MAX_LIST_BYTES,
        after: wanted.after.map(|after| parse_after(&after)).transpose()?,
    };
    let place = files.place(session_id.or(wanted.session_id)).await?;
    let path = place.resolve(&given)?;
    // Paths in the response begin as the client has written them.
    let base = if given.is_absolute() { given.to_path() } else { path.clone() };
    let shown = given.shown();
    // Serializing many entries takes a while too.
    let json = place.run(move || Ok(listed_json(&path, &base, shown, &options)));
    app.outgoing.json_bytes(json.await??)
}

fn listed_json(path: &Path, base: &Path, shown: String, options: &ListOptions) -> Result<Vec<u8>, ApiError> {
    let mut files = JsonList::new("files");
    let listed = list(path, options, &mut |found| files.push(&entry(found, base)))?;
    let response = FileList {
        success: true,
        path: shown,
        count: listed.count,
        next: listed.next.map(|last| STANDARD.encode(last.as_os_str().as_bytes())),
        files: Vec::new(),
        unreadable: (listed.unreadable > 0).then_some(listed.unreadable),
        timestamp: Timestamp::now(),
    };
    files.finish(&response).map_err(ApiError::internal)
}

fn parse_after(after: &str) -> Result<PathBuf, ApiError> {
    match STANDARD.decode(after) {
        Ok(bytes) => Ok(OsString::from_vec(bytes).into()),
        Err(_) => Err(ApiError::invalid("options.after", "expected the `next` of a previous response")),
    }
}

fn entry(found: &Entry<'_>, base: &Path) -> FileEntry {
    let name = found.path.file_name().unwrap_or_default();
    let absolute = base.join(found.path);
    let encoded = |bytes: &[u8]| std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes));
    FileEntry {
        name: name.to_string_lossy().into_owned(),
        relative_path: found.path.to_string_lossy().into_owned(),
        file_type: convert::file_type(found.file_type),
        size: found.size,
        modified_at: found.modified_at.into(),
        mode: convert::permissions(found.mode),
        permissions: Permissions {
            readable: found.mode & 0o400 != 0,
            writable: found.mode & 0o200 != 0,
            executable: found.mode & 0o100 != 0,
        },
        name_base64: encoded(name.as_bytes()),
        path_base64: encoded(absolute.as_os_str().as_bytes()),
        absolute_path: absolute.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_has_the_entries() {
        let folder = tempfile::tempdir().unwrap();
        let options = ListOptions { limit: 2, max_bytes: 1 << 20, ..ListOptions::default() };
        let of = || {
            let shown = "\"files\":[]".to_owned();
            let json = listed_json(folder.path(), Path::new("/base"), shown, &options).unwrap();
            serde_json::from_slice::<FileList>(&json).unwrap()
        };
        assert_eq!((of().files.len(), of().next), (0, None));
        for name in ["a", "b", "\"files\":[]"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let FileList { files, count, next, path, .. } = of();
        let paths: Vec<_> = files.iter().map(|file| file.absolute_path.as_str()).collect();
        assert_eq!((paths, count), (vec!["/base/\"files\":[]", "/base/a"], 2));
        assert_eq!((next.as_deref(), path.as_str()), (Some("YQ=="), "\"files\":[]"));
    }
}
