//! Folders as archives: `/api/folder`.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sandcrab_api::file::{FolderFormat, FolderWritten};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::{ArchiveFormat, Compression, PackOptions, pack};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::access::Multiplexed;
use crate::app::App;
use crate::archive::{self, archive_channel, send_body};
use crate::error::ApiError;
use crate::files::{Files, GivenPath};
use crate::input::check_coding;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::query::Params;

/// The folder, as query parameters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FolderParams {
    /// The path of the folder.
    path: Option<String>,
    /// The path in base64, instead of `path`.
    path_base64: Option<String>,
    /// How the archive is stored. Default: `tar` for a response; detected in a request.
    #[param(inline)]
    format: Option<FolderFormat>,
    /// Resolve relative paths against the working directory of this session, if `X-Session-Id` names none.
    #[expect(dead_code, reason = "it is read by name")]
    session: Option<String>,
    /// Same as `session`.
    #[expect(dead_code, reason = "it is read by name")]
    session_id: Option<String>,
}

/// Returns a folder as one archive.
///
/// It has all files, also hidden ones, with modes, owners, times, links and extended attributes. Sockets, devices, and
/// other file systems mounted below the folder are left out. If a file cannot be read, the body breaks off. A file that becomes
/// shorter while it is read ends with zeros.
#[utoipa::path(get, path = "/api/folder", operation_id = "getFolder", tag = "files", params(FolderParams),
    responses((status = 200, description = "The archive.", body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn get(
    State(app): State<App>,
    request: RequestId,
    files: Files,
    over_socket: Option<Extension<Multiplexed>>,
    Params(query): Params<FolderParams>,
) -> Result<Response, ApiError> {
    if over_socket.is_some() {
        let message = "an archive may have any size, and a frame of a WebSocket has not; send GET /api/folder over HTTP";
        return Err(ApiError::new(ErrorCode::BodyTooLarge, message));
    }
    let given = GivenPath::new("path", query.path, query.path_base64)?;
    let place = files.place(None).await?;
    let permit = app.archives.stream_permit()?;
    let folder = archive::checked_folder(&place, place.resolve(&given)?).await?;
    let compression = match query.format.unwrap_or_default() {
        FolderFormat::Tar => None,
        FolderFormat::TarZst => Some(Compression::default()),
    };
    let options = PackOptions { compression, ..archive::pack_options(&place) };
    let body = archive::body(&app, place, permit, Origin::request(request), move |output| {
        pack(&folder, &options, output)
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, body).into_response())
}

/// Replaces a folder with the content of an archive.
///
/// The old content is replaced at once when the archive is complete and verified. Nothing of it stays. The folder, and missing parent
/// directories, are created. An incomplete or invalid archive changes nothing.
#[utoipa::path(put, path = "/api/folder", operation_id = "putFolder", tag = "files", params(FolderParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "The folder was replaced.", body = FolderWritten)))]
pub(crate) async fn put(
    State(app): State<App>,
    files: Files,
    Params(query): Params<FolderParams>,
    request: Request,
) -> Result<axum::Json<FolderWritten>, ApiError> {
    let given = GivenPath::new("path", query.path, query.path_base64)?;
    check_coding(request.headers())?;
    let place = files.place(None).await?;
    let path = place.resolve(&given)?;
    let permit = app.archives.stream_permit()?;
    let format = query.format.map(|format| match format {
        FolderFormat::Tar => ArchiveFormat::Tar,
        FolderFormat::TarZst => ArchiveFormat::TarZst,
    });
    let (sender, input) = archive_channel();
    let target_place = place.clone();
    let unpacking = place.run_permitted(permit, move || {
        let target = archive::choose_target(&target_place, &path)?;
        target.unpack(input, format, false, &target_place.sandbox.records)
    });
    // Both to the end: a thread that has failed takes no more.
    let (sent, unpacked) = tokio::join!(send_body(&app, request.into_body(), sender), unpacking);
    sent?;
    let unpacked = unpacked?;
    Ok(axum::Json(FolderWritten {
        success: true,
        path: given.shown(),
        entries: unpacked.entries,
        bytes_written: unpacked.content_bytes,
        atomic: unpacked.is_atomic,
        leftover: unpacked.leftover.map(|path| path.to_string_lossy().into_owned()),
        timestamp: Timestamp::now(),
    }))
}
