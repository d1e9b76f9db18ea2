//! The content of files in JSON: `/api/read` and `/api/read/stream`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use sandcrab_api::file::{
    FileChunk, FileComplete, FileContent, FileEncoding, FileEvent, FileFailure, FileMetadata, MAX_READ_BYTES,
    PathRequest, ReadRequest,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::{Content, DETECTION_BYTES, FileKind};

use crate::app::App;
use crate::error::ApiError;
use crate::events::{Event, EventStream, Item};
use crate::file_threads::{DropOnThread, STEP_TIMEOUT};
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::routes::execute::SessionQuery;
use crate::text::{Decoder, encode_base64};

/// Size of a chunk. A multiple of 3, so that base64 needs no padding before the last one.
const CHUNK_BYTES: usize = 48 << 10;

/// Memory of a response in relation to the file: the file, its encoding, and the JSON.
const MEMORY_FACTOR: usize = 3;

/// Returns the content of a file.
///
/// The response has at most 32 MiB. For larger files use `GET /api/file`.
#[utoipa::path(post, path = "/api/read", operation_id = "readFile", tag = "files", params(SessionQuery),
    request_body = ReadRequest, responses((status = 200, description = "The content.", body = FileContent)))]
pub(crate) async fn read(
    State(app): State<App>,
    files: Files,
    request: Json<ReadRequest>,
) -> Result<Response, ApiError> {
    let ReadRequest { path, path_base64, session_id, encoding, max_bytes } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    if max_bytes.is_some_and(|most| most > MAX_READ_BYTES) {
        let why = format!("at most {MAX_READ_BYTES} are allowed; use GET /api/file for larger files");
        return Err(ApiError::invalid("maxBytes", why));
    }
    let most = max_bytes.unwrap_or(MAX_READ_BYTES);
    let rules = files.rules();
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let mut held = app.hold();
    let shown = given.shown();
    let read = place.run(move || {
        let reserve = &mut |bytes| held.grow(bytes * MEMORY_FACTOR);
        let read = sandcrab_workspace::read(&path, most, max_bytes.is_some(), reserve)?;
        Ok(read.map(|mut content| {
            if rules.type_by_name {
                content.kind = content.kind.or_media_by_name(&path);
            }
            held.shrink_to(content.bytes.len() * MEMORY_FACTOR);
            (held, content)
        }))
    });
    let read = read.await.map_err(|error| match error.code() {
        ErrorCode::BodyTooLarge => error
            .with("limit", MAX_READ_BYTES)
            .suggest("read it with GET /api/file or POST /api/read/stream, or a part of it with maxBytes"),
        _ => error,
    })?;
    let (_held, content) = read?;
    // Encoding up to 32 MiB takes a while.
    let json =
        place.run_step(move || Ok(serde_json::to_vec(&file_content(content, shown, encoding)))).await?;
    app.outgoing.json_bytes(json.map_err(ApiError::internal)?)
}

fn file_content(content: Content, path: String, encoding: Option<FileEncoding>) -> FileContent {
    let Content { bytes, size, kind, is_cut } = content;
    let encoding = encoding.unwrap_or_else(|| encoding_of(&kind));
    let mut invalid_utf8 = false;
    let text = match encoding {
        FileEncoding::Base64 => encode_base64(&bytes),
        FileEncoding::Utf8 if is_cut => {
            // A character that the limit cuts off is left out.
            let mut text = String::with_capacity(bytes.len());
            let mut decoder = Decoder::default();
            decoder.decode(&bytes, |part| text.push_str(part));
            invalid_utf8 = decoder.replaced;
            text
        }
        FileEncoding::Utf8 => String::from_utf8(bytes).unwrap_or_else(|e| {
            invalid_utf8 = true;
            String::from_utf8_lossy(e.as_bytes()).into_owned()
        }),
    };
    FileContent {
        success: true,
        path,
        content: text,
        encoding,
        is_binary: kind.is_binary,
        mime_type: kind.mime_type,
        size,
        truncated: is_cut,
        invalid_utf8,
        timestamp: Timestamp::now(),
    }
}

fn encoding_of(kind: &FileKind) -> FileEncoding {
    if kind.is_binary { FileEncoding::Base64 } else { FileEncoding::Utf8 }
}

/// Streams the content of a file, of any size.
///
/// A file that does not exist is an error, not a stream.
#[utoipa::path(post, path = "/api/read/stream", operation_id = "streamFile", tag = "files", params(SessionQuery),
    request_body = PathRequest,
    responses((status = 200, description = "Events: `metadata`, `chunk`…, then `complete` or `error`.",
        body = FileEvent, content_type = "text/event-stream")))]
pub(crate) async fn read_stream(
    request_id: RequestId,
    files: Files,
    request: Json<PathRequest>,
) -> Result<EventStream, ApiError> {
    let PathRequest { path, path_base64, session_id } = request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let rules = files.rules();
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    let open = move || {
        let (file, metadata) = sandcrab_workspace::open(&path)?;
        let mut start = vec![0; DETECTION_BYTES];
        let failed = |e| sandcrab_workspace::FileError::of(&path, e);
        let size = read_at(&file, &mut start, 0).map_err(failed)?;
        let kind = FileKind::detect(&path, &start[..size], size < DETECTION_BYTES);
        let kind = if rules.type_by_name { kind.or_media_by_name(&path) } else { kind };
        Ok((file, metadata.len(), kind))
    };
    let (file, size, kind) = place.run(open).await?;
    let encoding = encoding_of(&kind);
    let FileKind { mime_type, is_binary } = kind;
    let first = FileMetadata { mime_type, size, is_binary, encoding, timestamp: Timestamp::now() };
    let reading = FileStream {
        file,
        encoding,
        position: 0,
        decoder: Decoder::default(),
        first: Some(first),
        is_over: false,
    };
    let threads = place.sandbox.file_threads.clone();
    let items =
        stream::unfold((Some(DropOnThread::new(reading)), threads), |(reading, threads)| async move {
            let reading = reading?;
            let next = threads.run(STEP_TIMEOUT, move || {
                let mut reading = reading.into_inner()?;
                reading.next().map(|event| (event, DropOnThread::new(reading)))
            });
            let (event, reading) = match next.await {
                Ok(Some((event, reading))) => (event, Some(reading)),
                Ok(None) => return None,
                Err(error) => (failed(&error), None),
            };
            Some((Item::Event(Box::new(Event { id: None, payload: event.into() })), (reading, threads)))
        });
    Ok(EventStream::new(items, Origin::request(request_id)))
}

fn failed(error: &ApiError) -> FileEvent {
    let (error, code) = (error.message().to_owned(), error.code());
    FileEvent::Error(FileFailure { error, code, timestamp: Timestamp::now() })
}

/// Fills the buffer as far as the file has content.
fn read_at(file: &File, buffer: &mut [u8], position: u64) -> std::io::Result<usize> {
    let mut size = 0;
    while size < buffer.len() {
        match file.read_at(&mut buffer[size..], position + size as u64) {
            Ok(0) => break,
            Ok(count) => size += count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(size)
}

/// A file that is sent in chunks.
struct FileStream {
    file: File,
    encoding: FileEncoding,
    position: u64,
    decoder: Decoder,
    first: Option<FileMetadata>,
    is_over: bool,
}

impl FileStream {
    fn next(&mut self) -> Option<FileEvent> {
        if let Some(first) = self.first.take() {
            return Some(FileEvent::Metadata(first));
        }
        loop {
            if self.is_over {
                return None;
            }
            let mut bytes = vec![0; CHUNK_BYTES];
            match read_at(&self.file, &mut bytes, self.position) {
                Ok(size) => bytes.truncate(size),
                Err(e) => {
                    self.is_over = true;
                    let error = sandcrab_workspace::FileError::of("the file".as_ref(), e);
                    return Some(failed(&error.into()));
                }
            }
            self.position += bytes.len() as u64;
            let mut data = String::new();
            match self.encoding {
                FileEncoding::Base64 => data = encode_base64(&bytes),
                FileEncoding::Utf8 if bytes.is_empty() => self.decoder.finish(|part| data.push_str(part)),
                FileEncoding::Utf8 => self.decoder.decode(&bytes, |part| data.push_str(part)),
            }
            if !data.is_empty() {
                return Some(FileEvent::Chunk(FileChunk { data, timestamp: Timestamp::now() }));
            }
            if bytes.is_empty() {
                self.is_over = true;
                return Some(FileEvent::Complete(FileComplete {
                    bytes_read: self.position,
                    invalid_utf8: self.decoder.replaced,
                    timestamp: Timestamp::now(),
                }));
            }
        }
    }
}
