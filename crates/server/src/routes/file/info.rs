//! Metadata of files: `/api/exists` and `/api/stat`.

use sandcrab_api::Timestamp;
use sandcrab_api::file::{Exists, FileStat, PathRequest};

use crate::convert;
use crate::error::ApiError;
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::routes::execute::SessionQuery;

/// Returns whether a file or directory exists.
#[utoipa::path(post, path = "/api/exists", operation_id = "fileExists", tag = "files", params(SessionQuery),
    request_body = PathRequest, responses((status = 200, description = "Whether it exists.", body = Exists)))]
pub(crate) async fn exists(files: Files, request: Json<PathRequest>) -> Result<axum::Json<Exists>, ApiError> {
    let PathRequest { path, path_base64, session_id } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let exists = place.run(move || sandcrab_workspace::exists(&path)).await?;
    Ok(axum::Json(Exists { success: true, path: given.shown(), exists, timestamp: Timestamp::now() }))
}

/// Returns the metadata of a file, directory or symbolic link.
#[utoipa::path(post, path = "/api/stat", operation_id = "statFile", tag = "files", params(SessionQuery),
    request_body = PathRequest, responses((status = 200, description = "The metadata.", body = FileStat)))]
pub(crate) async fn stat(files: Files, request: Json<PathRequest>) -> Result<axum::Json<FileStat>, ApiError> {
    let PathRequest { path, path_base64, session_id } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let stat = place.run(move || sandcrab_workspace::stat(&path)).await?;
    Ok(axum::Json(FileStat {
        success: true,
        path: given.shown(),
        file_type: convert::file_type(stat.file_type),
        size: stat.size,
        mode: format!("{:04o}", stat.mode),
        permissions: convert::permissions(stat.mode),
        uid: stat.uid,
        gid: stat.gid,
        links: stat.links,
        modified_at: convert::modified(&stat),
        target: stat.target.map(|target| target.to_string_lossy().into_owned()),
        etag: stat.etag,
        timestamp: Timestamp::now(),
    }))
}
