//! Changes of files: `/api/write`, `/api/delete`, `/api/rename`, `/api/move`, `/api/copy`, `/api/mkdir`, `/api/chmod`.

use base64::Engine as _;
use sandcrab_api::Timestamp;
use sandcrab_api::file::{
    ChmodRequest, CopyRequest, DeleteRequest, FileDone, FileEncoding, MkdirRequest, Moved, RenameRequest,
    TransferRequest, WriteRequest, Written,
};
use sandcrab_workspace::{Condition, Replacement, append, chmod, copy, mkdir, remove, rename};

use crate::error::ApiError;
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::routes::execute::SessionQuery;

/// Parses permission bits in octal.
pub(crate) fn parse_mode(mode: Option<&str>) -> Result<Option<u32>, ApiError> {
    let Some(text) = mode else { return Ok(None) };
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let is_octal =
        (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if is_octal && mode <= 0o7777 => Ok(Some(mode)),
        _ => Err(ApiError::invalid("mode", "expected permission bits in octal, such as \"0644\"")),
    }
}

fn done(path: &GivenPath, recursive: Option<bool>) -> axum::Json<FileDone> {
    axum::Json(FileDone { success: true, path: path.shown(), recursive, timestamp: Timestamp::now() })
}

fn moved(from: &GivenPath, to: &GivenPath) -> axum::Json<Moved> {
    let (path, new_path) = (from.shown(), to.shown());
    axum::Json(Moved { success: true, path, new_path, timestamp: Timestamp::now() })
}

/// Writes a file.
///
/// The content replaces the old content at once, and is on the disk when the response is sent. Mode, owner and extended
/// attributes of an existing file stay.
#[utoipa::path(post, path = "/api/write", operation_id = "writeFile", tag = "files", params(SessionQuery),
    request_body = WriteRequest, responses((status = 200, description = "The file was written.", body = Written)))]
pub(crate) async fn write(
    files: Files,
    request: Json<WriteRequest>,
) -> Result<axum::Json<Written>, ApiError> {
    let Json { value: request, held, .. } = request;
    let WriteRequest { path, path_base64, session_id, content, encoding, mode, append: at_end } = request;
    let given = GivenPath::new("path", path, path_base64)?;
    let mode = parse_mode(mode.as_deref())?;
    let content = content.unwrap_or_default();
    let bytes = match encoding.unwrap_or_default() {
        FileEncoding::Utf8 => content.into_bytes(),
        FileEncoding::Base64 => base64::engine::general_purpose::STANDARD
            .decode(content)
            .map_err(|e| ApiError::invalid("content", format!("not valid base64: {e}")))?,
    };
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let bytes_written = bytes.len() as u64;
    let records = place.sandbox.records.clone();
    let saved = place
        .run(move || {
            let _held = held;
            if at_end == Some(true) {
                return append(&path, &bytes, mode);
            }
            let mut new = Replacement::begin(&path, mode, Condition::default(), &records)?;
            new.write(&bytes)?;
            new.commit()
        })
        .await?;
    Ok(axum::Json(Written {
        success: true,
        path: given.shown(),
        bytes_written,
        atomic: saved.is_atomic,
        etag: saved.etag,
        timestamp: Timestamp::now(),
    }))
}

/// Deletes a file, a symbolic link, or a directory with its content.
///
/// The root directory, the workspace, the state directory and the directories that contain them cannot be deleted.
#[utoipa::path(post, path = "/api/delete", operation_id = "deleteFile", tag = "files", params(SessionQuery),
    request_body = DeleteRequest, responses((status = 200, description = "The file or directory was deleted.", body = FileDone)))]
pub(crate) async fn delete(
    files: Files,
    request: Json<DeleteRequest>,
) -> Result<axum::Json<FileDone>, ApiError> {
    let DeleteRequest { path, path_base64, session_id, recursive } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let place = files.place(session_id).await?;
    let (path, kept) = (place.resolve(&given)?, place.kept());
    place.run(move || remove(&path, recursive == Some(true), &kept)).await?;
    Ok(done(&given, None))
}

/// Renames a file or directory. Equal to `move`.
#[utoipa::path(post, path = "/api/rename", operation_id = "renameFile", tag = "files", params(SessionQuery),
    request_body = RenameRequest, responses((status = 200, description = "The file or directory was renamed.", body = Moved)))]
pub(crate) async fn rename_file(
    files: Files,
    request: Json<RenameRequest>,
) -> Result<axum::Json<Moved>, ApiError> {
    let request = request.value;
    let from = GivenPath::new("oldPath", request.old_path, request.old_path_base64)?;
    let to = GivenPath::new("newPath", request.new_path, request.new_path_base64)?;
    transfer(files, request.session_id, from, to, request.overwrite).await
}

/// Moves a file or directory, also to another file system.
///
/// A symbolic link is moved itself. The destination is replaced at once.
#[utoipa::path(post, path = "/api/move", operation_id = "moveFile", tag = "files", params(SessionQuery),
    request_body = TransferRequest, responses((status = 200, description = "The file or directory was moved.", body = Moved)))]
pub(crate) async fn move_file(
    files: Files,
    request: Json<TransferRequest>,
) -> Result<axum::Json<Moved>, ApiError> {
    let request = request.value;
    let from = GivenPath::new("sourcePath", request.source_path, request.source_path_base64)?;
    let to = GivenPath::new("destinationPath", request.destination_path, request.destination_path_base64)?;
    transfer(files, request.session_id, from, to, request.overwrite).await
}

async fn transfer(
    files: Files,
    session: Option<String>,
    from: GivenPath,
    to: GivenPath,
    overwrite: Option<bool>,
) -> Result<axum::Json<Moved>, ApiError> {
    let place = files.place(session).await?;
    let (old, new, kept) = (place.resolve(&from)?, place.resolve(&to)?, place.kept());
    let records = place.sandbox.records.clone();
    place.run(move || rename(&old, &new, overwrite != Some(false), &kept, &records)).await?;
    Ok(moved(&from, &to))
}

/// Copies a file, or a directory with its content.
///
/// Modes, times and extended attributes are kept. The copy appears when it is complete.
#[utoipa::path(post, path = "/api/copy", operation_id = "copyFile", tag = "files", params(SessionQuery),
    request_body = CopyRequest, responses((status = 200, description = "The file or directory was copied.", body = Moved)))]
pub(crate) async fn copy_file(
    files: Files,
    request: Json<CopyRequest>,
) -> Result<axum::Json<Moved>, ApiError> {
    let request = request.value;
    let from = GivenPath::new("sourcePath", request.source_path, request.source_path_base64)?;
    let to = GivenPath::new("destinationPath", request.destination_path, request.destination_path_base64)?;
    let place = files.place(request.session_id).await?;
    let (old, new, kept) = (place.resolve(&from)?, place.resolve(&to)?, place.kept());
    let records = place.sandbox.records.clone();
    place.run(move || copy(&old, &new, request.overwrite != Some(false), &kept, &records)).await?;
    Ok(moved(&from, &to))
}

/// Creates a directory.
#[utoipa::path(post, path = "/api/mkdir", operation_id = "createDirectory", tag = "files", params(SessionQuery),
    request_body = MkdirRequest, responses((status = 200, description = "The directory was created.", body = FileDone)))]
pub(crate) async fn make_directory(
    files: Files,
    request: Json<MkdirRequest>,
) -> Result<axum::Json<FileDone>, ApiError> {
    let MkdirRequest { path, path_base64, session_id, recursive } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let recursive = recursive == Some(true);
    place.run(move || mkdir(&path, recursive)).await?;
    Ok(done(&given, Some(recursive)))
}

/// Changes the permission bits of a file or directory.
#[utoipa::path(post, path = "/api/chmod", operation_id = "changeMode", tag = "files", params(SessionQuery),
    request_body = ChmodRequest, responses((status = 200, description = "The permission bits were changed.", body = FileDone)))]
pub(crate) async fn change_mode(
    files: Files,
    request: Json<ChmodRequest>,
) -> Result<axum::Json<FileDone>, ApiError> {
    let ChmodRequest { path, path_base64, session_id, mode } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let mode = parse_mode(mode.as_deref())?.ok_or_else(|| ApiError::invalid("mode", "missing"))?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    place.run(move || chmod(&path, mode)).await?;
    Ok(done(&given, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let mode = |text| parse_mode(Some(text)).map_err(|e| e.code());
        assert_eq!(mode("644"), Ok(Some(0o644)));
        assert_eq!(mode("0755"), Ok(Some(0o755)));
        assert_eq!(mode("0o4755"), Ok(Some(0o4755)));
        for invalid in ["", "0o", "8", "+7", "rw", "17777", "0000000", "-1", " 7"] {
            assert!(mode(invalid).is_err(), "{invalid:?}");
        }
    }
}
