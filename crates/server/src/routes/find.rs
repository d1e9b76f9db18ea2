//! Names of files: `/api/find`.

use axum::extract::State;
use axum::response::Response;
use sandcrab_api::Timestamp;
use sandcrab_api::search::{ExactPath, FindRequest, FindResponse};
use sandcrab_workspace::{Cancel, FileType, FindOptions, FindResult, WalkOptions};

use super::search::{MAX_RESULT_BYTES, in_range};
use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::routes::execute::SessionQuery;

/// Default of `limit`.
const DEFAULT_PATHS: u32 = 10_000;

/// Finds files and directories by globs and type.
///
/// Symbolic links are found, but not followed, except `path` itself.
#[utoipa::path(post, path = "/api/find", operation_id = "find", tag = "search", params(SessionQuery),
    request_body = FindRequest, responses((status = 200, description = "The paths.", body = FindResponse)))]
pub(crate) async fn find(
    State(app): State<App>,
    files: Files,
    request: Json<FindRequest>,
) -> Result<Response, ApiError> {
    let FindRequest { path, path_base64, session_id, glob, file_type, hidden, ignore_files, limit } =
        request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let options = FindOptions {
        walk: WalkOptions {
            globs: glob.unwrap_or_default(),
            visits_hidden: hidden == Some(true),
            respects_ignore_files: ignore_files != Some(false),
        },
        file_type: file_type.map(wanted_type).transpose()?,
        limit: in_range("limit", limit.unwrap_or(DEFAULT_PATHS), 1..=100_000)? as usize,
        max_bytes: MAX_RESULT_BYTES,
    };
    let cancel = Cancel::default();
    let _cancel = cancel.on_drop();
    let permit = app.searches.permit(&place.sandbox.file_threads).await?;
    // Serializing many paths takes a while too.
    let work = move || sandcrab_workspace::find(&path, &options, &cancel).map(json);
    let json = place.run_permitted(permit, work).await?;
    app.outgoing.json_bytes(json.map_err(ApiError::internal)?)
}

/// The response.
fn json(found: FindResult) -> serde_json::Result<Vec<u8>> {
    let mut exact = Vec::new();
    let shown = |(index, path): (usize, std::path::PathBuf)| {
        let (path, path_base64) = convert::path(&path);
        exact.extend(path_base64.map(|path_base64| ExactPath { index, path_base64 }));
        path
    };
    let paths = found.paths.into_iter().enumerate().map(shown).collect();
    serde_json::to_vec(&FindResponse {
        success: true,
        paths,
        exact_paths: (!exact.is_empty()).then_some(exact),
        unreadable: found.unreadable,
        truncated: found.is_truncated,
        timestamp: Timestamp::now(),
    })
}

fn wanted_type(wanted: sandcrab_api::file::FileType) -> Result<FileType, ApiError> {
    Ok(match wanted {
        sandcrab_api::file::FileType::File => FileType::File,
        sandcrab_api::file::FileType::Directory => FileType::Directory,
        sandcrab_api::file::FileType::Symlink => FileType::Symlink,
        sandcrab_api::file::FileType::Other => FileType::Other,
        sandcrab_api::file::FileType::Unknown => {
            return Err(ApiError::invalid("type", "expected file, directory, symlink or other"));
        }
    })
}
