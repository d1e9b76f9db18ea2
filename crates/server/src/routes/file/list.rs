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
use crate::routes::execute::SessionQuery;

/// Lists a directory.
///
/// If there are more entries than `limit`, the response has `next`, which is the `after` of the next request.
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
        after: wanted.after.map(|after| parse_after(&after)).transpose()?,
    };
    let place = files.place(session_id.or(wanted.session_id)).await?;
    let path = place.resolve(&given)?;
    // Paths in the response begin as the client has written them.
    let base = if given.is_absolute() { given.to_path() } else { path.clone() };
    let shown = given.shown();
    // Serializing many entries takes a while too.
    let json = place.run(move || {
        let listed = list(&path, &options)?;
        let last = listed.entries.last().filter(|_| listed.is_cut);
        Ok(serde_json::to_vec(&FileList {
            success: true,
            path: shown,
            count: listed.entries.len(),
            next: last.map(|last| STANDARD.encode(last.path.as_os_str().as_bytes())),
            files: listed.entries.iter().map(|found| entry(found, &base)).collect(),
            unreadable: (listed.unreadable > 0).then_some(listed.unreadable),
            timestamp: Timestamp::now(),
        }))
    });
    app.outgoing.json_bytes(json.await?.map_err(ApiError::internal)?)
}

fn parse_after(after: &str) -> Result<PathBuf, ApiError> {
    match STANDARD.decode(after) {
        Ok(bytes) => Ok(OsString::from_vec(bytes).into()),
        Err(_) => Err(ApiError::invalid("options.after", "expected the `next` of a previous response")),
    }
}

fn entry(found: &Entry, base: &Path) -> FileEntry {
    let name = found.path.file_name().unwrap_or_default();
    let absolute = base.join(&found.path);
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
