//! Backups of folders.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use axum::extract::State;
use sandcrab_api::backup::{
    Backup, BackupCompression, BackupCompressionFormat, BackupCreated, BackupDeleted, BackupList,
    BackupRestored, CreateBackupRequest, DEFAULT_TTL_SECONDS, MAX_BACKUP_NAME_CHARS, MAX_TTL_SECONDS,
    MAX_UPLOAD_PARTS, PartsUploaded, RestoreBackupRequest, UploadPartsRequest,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::{
    ArchiveError, COMPRESSION_LEVEL, Compression, Condition, FileError, PackOptions, Packed, Replacement,
    ReservingWriter, pack,
};

use crate::app::App;
use crate::archive::{self, archive_channel, choose_target};
use crate::backups::{download, upload};
use crate::error::ApiError;
use crate::file_threads::DropOnThread;
use crate::files::{Files, GivenPath, Place};
use crate::input::{Json, PathId};
use crate::routes::execute::SessionQuery;

/// Level of compression for clients that ask for a fast one.
const FAST_LEVEL: i32 = 1;

/// Permission bits of a new archive that is written to a path: it may contain secrets.
const ARCHIVE_MODE: u32 = 0o600;

fn invalid(field: &str, why: impl std::fmt::Display) -> ApiError {
    let why = why.to_string();
    ApiError::new(ErrorCode::InvalidBackupConfig, format!("{field}: {why}"))
        .with("field", field)
        .with("reason", why)
}

fn given(field: &'static str, path: String) -> Result<GivenPath, ApiError> {
    if path.is_empty() || path.contains('\0') {
        return Err(invalid(field, "expected a path without NUL bytes, not empty"));
    }
    GivenPath::new(field, Some(path), None)
}

fn compression(given: Option<BackupCompression>) -> Result<Compression, ApiError> {
    let BackupCompression { format, threads } = given.unwrap_or_default();
    if threads == Some(0) {
        return Err(invalid("compression.threads", "expected at least 1"));
    }
    let level = match format.unwrap_or_default() {
        BackupCompressionFormat::Lz4 => FAST_LEVEL,
        BackupCompressionFormat::Zstd | BackupCompressionFormat::Gzip => COMPRESSION_LEVEL,
    };
    let usual = Compression::default();
    Ok(Compression { level, threads: threads.map_or(usual.threads, |threads| threads.min(usual.threads)) })
}

fn check_name(name: Option<&str>) -> Result<(), ApiError> {
    let Some(name) = name else { return Ok(()) };
    if name.chars().count() > MAX_BACKUP_NAME_CHARS {
        return Err(invalid("name", format!("at most {MAX_BACKUP_NAME_CHARS} characters are allowed")));
    }
    if name.chars().any(char::is_control) {
        return Err(invalid("name", "control characters are not allowed"));
    }
    Ok(())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates a backup of a folder: one archive, compressed with zstd.
///
/// The server keeps it until it expires or is deleted. With `archivePath`, it is a file of the client instead.
/// Files that cannot be read are an error; exclude them. Sockets, devices, and other file systems mounted below the folder are left out.
#[utoipa::path(post, path = "/api/backup/create", operation_id = "createBackup", tag = "backups", params(SessionQuery),
    request_body = CreateBackupRequest, responses((status = 200, description = "The backup is complete.", body = BackupCreated)))]
pub(crate) async fn create(
    State(app): State<App>,
    files: Files,
    request: Json<CreateBackupRequest>,
) -> Result<axum::Json<BackupCreated>, ApiError> {
    app.check_open()?;
    let CreateBackupRequest {
        dir,
        name,
        ttl,
        gitignore,
        excludes,
        compression: wanted,
        archive_path,
        session_id,
    } = request.value;
    let folder = given("dir", dir)?;
    let archive = archive_path.map(|path| given("archivePath", path)).transpose()?;
    check_name(name.as_deref())?;
    let ttl = ttl.unwrap_or(DEFAULT_TTL_SECONDS);
    if !(1..=MAX_TTL_SECONDS).contains(&ttl) {
        return Err(invalid("ttl", format!("expected 1 to {MAX_TTL_SECONDS} seconds")));
    }
    let place = files.place(session_id).await?;
    let options = PackOptions {
        excludes: excludes.unwrap_or_default(),
        respects_gitignore: gitignore == Some(true),
        compression: Some(compression(wanted)?),
        ..archive::pack_options(&place)
    };
    // When the client leaves, the packing ends.
    let _cancelled = options.cancel.on_drop();
    let permit = app.archives.permit()?;
    let path = archive::checked_folder(&place, place.resolve(&folder)?).await?;
    let created_at = SystemTime::now();
    let shown = folder.shown();
    if let Some(archive) = archive {
        let to = place.resolve(&archive)?;
        let records = place.sandbox.records.clone();
        let packed =
            place.run_permitted(permit, move || pack_to_file(&path, &options, &to, &records)).await?;
        let id = sandcrab_workspace::uuid().map_err(ApiError::internal)?;
        return Ok(axum::Json(created(id, shown, archive.shown(), None, &packed)));
    }
    let (server, store) = (place.as_server(), app.backups.clone());
    // If the request is cancelled, the draft is removed and its file closed on a thread.
    let (draft, output) = server
        .run_search(move || {
            let draft = DropOnThread::new(store.begin()?);
            let file = draft.get().map(|draft| draft.file.try_clone()).transpose();
            let output = DropOnThread::new(file.map_err(ApiError::internal)?);
            Ok::<_, ApiError>((draft, output))
        })
        .await?;
    let id = draft.get().map(|draft| draft.id.clone()).unwrap_or_default();
    let packing = path.clone();
    let pack_draft = move || {
        let output =
            output.into_inner().flatten().ok_or(ArchiveError::Output(io::ErrorKind::NotFound.into()))?;
        pack(&packing, &options, ReservingWriter::new(output)).map(without_output)
    };
    let packed = match place.run_permitted(permit, pack_draft).await {
        Ok(packed) => packed,
        Err(error) => {
            // Before the answer, so that the space is free then.
            let removed = server.run_step(move || {
                drop(draft.into_inner());
                Ok(())
            });
            drop(removed.await);
            return Err(error);
        }
    };
    let backup = Backup {
        id: id.clone(),
        name,
        dir: path.to_string_lossy().into_owned(),
        size_bytes: packed.size_bytes,
        sha256: hexadecimal(&packed.sha256),
        entries: packed.entries,
        archive_path: app.backups.archive(&id).to_string_lossy().into_owned(),
        created_at: created_at.into(),
        expires_at: (created_at + Duration::from_secs(ttl)).into(),
    };
    let answer =
        created(backup.id.clone(), shown, backup.archive_path.clone(), Some(backup.expires_at), &packed);
    let store = app.backups.clone();
    let keep = move || match draft.into_inner() {
        Some(draft) => store.keep(&draft, &backup),
        None => Err(ApiError::internal("the archive is missing")),
    };
    server.run_search(keep).await?;
    app.backup_created.notify_one();
    Ok(axum::Json(answer))
}

fn created(
    id: String,
    dir: String,
    archive_path: String,
    expires_at: Option<Timestamp>,
    packed: &Packed<()>,
) -> BackupCreated {
    BackupCreated {
        success: true,
        id,
        dir,
        size_bytes: packed.size_bytes,
        archive_path,
        sha256: hexadecimal(&packed.sha256),
        entries: packed.entries,
        changed_files: packed.changed,
        skipped_files: packed.skipped,
        expires_at,
        timestamp: Timestamp::now(),
    }
}

/// A file that is replaced when it is complete, as the output of an archive.
struct FileOutput {
    replacement: Replacement,
    /// Why writing failed.
    error: std::sync::Arc<std::sync::Mutex<Option<FileError>>>,
}

impl Write for FileOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(e) = self.replacement.write(bytes) {
            *self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(e);
            return Err(io::ErrorKind::Other.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pack_to_file(
    folder: &Path,
    options: &PackOptions,
    to: &Path,
    records: &sandcrab_workspace::staging::Records,
) -> Result<Packed<()>, ArchiveError> {
    let replacement = Replacement::begin(to, Some(ARCHIVE_MODE), Condition::default(), records)?;
    let error = std::sync::Arc::default();
    let output = FileOutput { replacement, error: std::sync::Arc::clone(&error) };
    let packed = pack(folder, options, output).map_err(|e| {
        let reason = error.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        reason.map_or(e, ArchiveError::File)
    })?;
    let Packed { output, size_bytes, sha256, entries, content_bytes, changed, skipped } = packed;
    output.replacement.commit()?;
    Ok(Packed { output: (), size_bytes, sha256, entries, content_bytes, changed, skipped })
}

/// Closes the file of an archive, on a thread for operations on files.
fn without_output<W>(packed: Packed<W>) -> Packed<()> {
    let Packed { output, size_bytes, sha256, entries, content_bytes, changed, skipped } = packed;
    drop(output);
    Packed { output: (), size_bytes, sha256, entries, content_bytes, changed, skipped }
}

/// Where an archive comes from.
enum Source {
    Id(String),
    Path(PathBuf),
    Url(String),
}

/// Opens an archive of the server or of the client.
async fn open(app: &App, place: &Place, source: Source) -> Result<DropOnThread<File>, ApiError> {
    match source {
        Source::Id(id) => {
            let store = app.backups.clone();
            place.as_server().run_search(move || store.open(&id).map(DropOnThread::new)).await
        }
        Source::Path(path) => {
            let shown = path.to_string_lossy().into_owned();
            let opened = place
                .run(move || sandcrab_workspace::open(&path).map(|(file, _)| DropOnThread::new(file)))
                .await;
            opened.map_err(|error| match error.code() {
                ErrorCode::FileNotFound => {
                    ApiError::new(ErrorCode::BackupNotFound, format!("archive {shown:?} not found"))
                        .with("path", shown)
                }
                _ => error,
            })
        }
        Source::Url(_) => Err(ApiError::internal("a URL is not a file")),
    }
}

/// Restores a folder from a backup, an archive, or the archive at a URL.
///
/// The folder is replaced at once when the archive is complete and verified. Nothing of the old content stays. After an error, the folder is
/// as it was.
#[utoipa::path(post, path = "/api/backup/restore", operation_id = "restoreBackup", tag = "backups", params(SessionQuery),
    request_body = RestoreBackupRequest, responses((status = 200, description = "The folder was restored.", body = BackupRestored)))]
pub(crate) async fn restore(
    State(app): State<App>,
    files: Files,
    request: Json<RestoreBackupRequest>,
) -> Result<axum::Json<BackupRestored>, ApiError> {
    app.check_open()?;
    let RestoreBackupRequest { dir, id, archive_path, url, session_id } = request.value;
    let folder = given("dir", dir)?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&folder)?;
    let source = match (id.clone(), archive_path, url) {
        (Some(id), None, None) => Source::Id(id),
        (None, Some(path), None) => Source::Path(place.resolve(&given("archivePath", path)?)?),
        (None, None, Some(url)) => Source::Url(url),
        _ => return Err(invalid("id", "give exactly one of id, archivePath and url")),
    };
    let permit = match source {
        Source::Url(_) => app.archives.stream_permit()?,
        _ => app.archives.permit()?,
    };
    // An archive of the server has always a trailer.
    let must_have_trailer = matches!(source, Source::Id(_));
    let in_thread = place.clone();
    let records = place.sandbox.records.clone();
    let unpacked = match source {
        Source::Url(url) => {
            let (sender, input) = archive_channel();
            let unpacking = place.run_permitted(permit, move || {
                choose_target(&in_thread, &path)?.unpack(input, None, must_have_trailer, &records)
            });
            let (sent, unpacked) = tokio::join!(download(&url, sender), unpacking);
            sent?;
            unpacked?
        }
        source => {
            let input = open(&app, &place, source).await?;
            let unpack = move || {
                let input = input.into_inner().ok_or(ArchiveError::Input(io::ErrorKind::NotFound.into()))?;
                choose_target(&in_thread, &path)?.unpack(input, None, must_have_trailer, &records)
            };
            place.run_permitted(permit, unpack).await?
        }
    };
    Ok(axum::Json(BackupRestored {
        success: true,
        dir: folder.shown(),
        id,
        entries: unpacked.entries,
        bytes_written: unpacked.content_bytes,
        atomic: unpacked.is_atomic,
        leftover: unpacked.leftover.map(|path| path.to_string_lossy().into_owned()),
        timestamp: Timestamp::now(),
    }))
}

/// Sends parts of an archive to presigned URLs.
///
/// Each part is sent with `PUT`, up to three times. The answer has the entity tags with which a multipart upload is completed.
#[utoipa::path(post, path = "/api/backup/upload-parts", operation_id = "uploadBackupParts", tag = "backups", params(SessionQuery),
    request_body = UploadPartsRequest, responses((status = 200, description = "All parts were sent.", body = PartsUploaded)))]
pub(crate) async fn upload_parts(
    State(app): State<App>,
    files: Files,
    request: Json<UploadPartsRequest>,
) -> Result<axum::Json<PartsUploaded>, ApiError> {
    app.check_open()?;
    let UploadPartsRequest { archive_path, id, parts, session_id } = request.value;
    if parts.is_empty() || parts.len() > MAX_UPLOAD_PARTS {
        return Err(invalid("parts", format!("expected 1 to {MAX_UPLOAD_PARTS} parts")));
    }
    let place = files.place(session_id).await?;
    let source = match (id, archive_path) {
        (Some(id), None) => Source::Id(id),
        (None, Some(path)) => Source::Path(place.resolve(&given("archivePath", path)?)?),
        _ => return Err(invalid("id", "give either id or archivePath")),
    };
    let _permit = app.archives.stream_permit()?;
    let file = open(&app, &place, source).await?;
    let parts = upload(file, place.sandbox.file_threads.clone(), parts).await?;
    Ok(axum::Json(PartsUploaded { success: true, parts, timestamp: Timestamp::now() }))
}

/// Lists the backups that the server keeps, the newest first.
#[utoipa::path(get, path = "/api/backup/list", operation_id = "listBackups", tag = "backups",
    responses((status = 200, description = "The backups.", body = BackupList)))]
pub(crate) async fn list(State(app): State<App>) -> Result<axum::Json<BackupList>, ApiError> {
    let (place, store) = (Place::of_sandbox(app.sandbox.clone()).as_server(), app.backups.clone());
    let backups = place.run_search(move || store.list()).await?;
    Ok(axum::Json(BackupList { success: true, backups, timestamp: Timestamp::now() }))
}

/// Deletes a backup.
#[utoipa::path(delete, path = "/api/backup/{id}", operation_id = "deleteBackup", tag = "backups",
    params(("id" = String, Path, description = "Id of a backup.")),
    responses((status = 200, description = "The backup was deleted.", body = BackupDeleted)))]
pub(crate) async fn delete(
    State(app): State<App>,
    PathId(id): PathId,
) -> Result<axum::Json<BackupDeleted>, ApiError> {
    let (place, store) = (Place::of_sandbox(app.sandbox.clone()).as_server(), app.backups.clone());
    let deleted = id.clone();
    place.run_search(move || store.delete(&deleted)).await?;
    Ok(axum::Json(BackupDeleted { success: true, id, timestamp: Timestamp::now() }))
}
