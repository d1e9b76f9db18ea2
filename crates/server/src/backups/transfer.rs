//! Archives to and from other servers, through presigned URLs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::{Body, Client, Response, Url, redirect};
use sandcrab_api::ErrorCode;
use sandcrab_api::backup::{UploadPart, UploadedPart};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::archive::ArchiveSender;
use crate::error::ApiError;
use crate::file_threads::{DropOnThread, FileThreads, STEP_TIMEOUT};

/// Number of parts that are uploaded at a time.
const UPLOADS: usize = 4;
/// Size of the pieces of a part in memory.
const PIECE_BYTES: u64 = 256 << 10;
/// Number of attempts for a part. A part is sent again after a broken connection, or a failure of the other server.
const ATTEMPTS: usize = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time without any data of the other server in a download.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time in which the other server takes nothing of an upload. A slow one takes some MiB at a time: the buffers of the
/// kernel.
const UPLOAD_PAUSE: Duration = Duration::from_secs(300);

fn failed(what: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::BackupTransferFailed, format!("{what} failed: {why}"))
}

/// The reason without the URL, whose query is a credential.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A client without a limit for a whole transfer: archives and connections have any size and speed. The read timeout
/// would be one for the upload of a whole part, whose response follows its last byte.
fn client(read_timeout: Option<Duration>) -> Result<Client, ApiError> {
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(UPLOAD_PAUSE)
        // A signature is valid for one host.
        .redirect(redirect::Policy::none());
    let builder = match read_timeout {
        Some(timeout) => builder.read_timeout(timeout),
        None => builder,
    };
    builder.build().map_err(|e| ApiError::internal(without_url(e)))
}

/// Waits for the result of an upload. `None` if nothing was taken of it for this long, or no response has come for this long
/// since it was complete. Each piece is a change of `taken`, which ends with the upload.
async fn unless_stalled<T>(
    upload: impl Future<Output = T>,
    mut taken: watch::Receiver<()>,
    pause: Duration,
) -> Option<T> {
    let stalled = async {
        while let Ok(taken) = timeout(pause, taken.changed()).await {
            if taken.is_err() {
                return sleep(pause).await;
            }
        }
    };
    tokio::select! {
        biased;
        done = upload => Some(done),
        () = stalled => None,
    }
}

fn parse(field: &str, url: &str) -> Result<Url, ApiError> {
    let invalid = |why: &str| {
        ApiError::new(ErrorCode::InvalidBackupConfig, format!("{field}: {why}"))
            .with("field", field)
            .with("reason", why)
    };
    let url = Url::parse(url).map_err(|_| invalid("expected a URL, such as one that S3 has signed"))?;
    match url.scheme() {
        "http" => Ok(url),
        "https" if cfg!(feature = "https") => Ok(url),
        "https" => Err(invalid("this server was built without https; build it with the feature `https`")),
        _ => Err(invalid("expected a URL with http or https")),
    }
}

/// Checks the status of an answer. The body may say why, but is not repeated: it may contain the request.
fn check(what: &str, response: Response) -> Result<Response, ApiError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    Err(failed(what, format!("the other server answered {status}")).with("status", status.as_u16()))
}

/// Sends the archive at a URL to the thread that unpacks it.
pub(crate) async fn download(url: &str, archive: ArchiveSender) -> Result<(), ApiError> {
    let what = "the download of the archive";
    let url = parse("url", url)?;
    let response =
        client(Some(READ_TIMEOUT))?.get(url).send().await.map_err(|e| failed(what, without_url(e)))?;
    let mut pieces = check(what, response)?.bytes_stream();
    while let Some(piece) = pieces.next().await {
        if !archive.send(piece.map_err(|e| failed(what, without_url(e)))?).await {
            return Ok(());
        }
    }
    archive.end().await;
    Ok(())
}

/// An archive that is read on threads for operations on files, and closed on one.
#[derive(Debug, Clone)]
struct OpenArchive {
    file: Arc<DropOnThread<File>>,
    threads: FileThreads,
}

impl OpenArchive {
    /// Runs an operation on the file.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let file = Arc::clone(&self.file);
        let work = move || operation(file.get().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?);
        self.threads.run(STEP_TIMEOUT, work).await?.map_err(|e| ApiError::internal(e.to_string()))
    }

    async fn read(&self, offset: u64, count: u64) -> Result<Bytes, ApiError> {
        let read = move |file: &File| {
            let mut piece = vec![0; usize::try_from(count).map_err(io::Error::other)?];
            file.read_exact_at(&mut piece, offset)?;
            Ok(Bytes::from(piece))
        };
        self.run(read).await
    }
}

/// Sends parts of an archive to their URLs.
pub(crate) async fn upload(
    file: DropOnThread<File>,
    threads: FileThreads,
    parts: Vec<UploadPart>,
) -> Result<Vec<UploadedPart>, ApiError> {
    let archive = OpenArchive { file: Arc::new(file), threads };
    let size = archive.run(|file| Ok(file.metadata()?.len())).await?;
    let mut checked = Vec::with_capacity(parts.len());
    for part in parts {
        if part.offset.checked_add(part.size).is_none_or(|end| end > size) {
            let why = format!("part {} ends after the archive, which has {size} bytes", part.part_number);
            return Err(ApiError::new(ErrorCode::InvalidBackupConfig, why.clone()).with("reason", why));
        }
        checked.push((parse("parts", &part.url)?, part));
    }
    let client = client(None)?;
    let uploads =
        checked.into_iter().map(|(url, part)| upload_part(client.clone(), archive.clone(), url, part));
    // The futures are boxed, because their types are too long for the compiler.
    stream::iter(uploads.map(Box::pin)).buffered(UPLOADS).try_collect().await
}

async fn upload_part(
    client: Client,
    archive: OpenArchive,
    url: Url,
    part: UploadPart,
) -> Result<UploadedPart, ApiError> {
    let what = format!("the upload of part {}", part.part_number);
    let mut attempt = 1;
    loop {
        let (progress, taken) = watch::channel(());
        let pieces = pieces(archive.clone(), part.offset, part.size).inspect(move |_| {
            // Without a receiver, the result is known.
            let _ = progress.send(());
        });
        let request = client
            .put(url.clone())
            .header(reqwest::header::CONTENT_LENGTH, part.size)
            .header(reqwest::header::CONTENT_TYPE, "application/octet-stream")
            .body(Body::wrap_stream(pieces));
        let sent = unless_stalled(request.send(), taken, UPLOAD_PAUSE).await;
        let is_temporary = match &sent {
            Some(Ok(response)) => response.status().is_server_error(),
            Some(Err(_)) | None => true,
        };
        if is_temporary && attempt < ATTEMPTS {
            attempt += 1;
            continue;
        }
        let sent = sent.ok_or_else(|| {
            failed(&what, format!("the other server has taken nothing for {} s", UPLOAD_PAUSE.as_secs()))
        })?;
        let response = check(&what, sent.map_err(|e| failed(&what, without_url(e)))?)?;
        let etag = response.headers().get(reqwest::header::ETAG).and_then(|tag| tag.to_str().ok());
        // The upload cannot be completed without it, and the part may not have been stored.
        let Some(etag) = etag.filter(|etag| !etag.is_empty()) else {
            return Err(failed(&what, "the response has no ETag"));
        };
        return Ok(UploadedPart { part_number: part.part_number, etag: etag.to_owned() });
    }
}

/// The bytes of a part, read as they are sent.
fn pieces(
    archive: OpenArchive,
    offset: u64,
    size: u64,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold((archive, offset, offset + size), |(archive, at, end)| async move {
        let wanted = (end - at).min(PIECE_BYTES);
        if wanted == 0 {
            return Ok(None);
        }
        let read = archive.read(at, wanted).await;
        let piece = read.map_err(|error| {
            io::Error::other(error.internal_message().unwrap_or(error.message()).to_owned())
        })?;
        Ok(Some((piece, (archive, at + wanted, end))))
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Some proxies answer 200 without having stored anything.
    #[tokio::test]
    async fn part_without_an_entity_tag_is_not_uploaded() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/part", listener.local_addr().unwrap());
        let answer = |headers: &'static str| {
            let (listener, url) = (&listener, url.clone());
            async move {
                let file = tempfile::tempfile().unwrap();
                file.write_all_at(b"content", 0).unwrap();
                let part = UploadPart { part_number: 1, url, offset: 0, size: 7 };
                let upload = upload(DropOnThread::new(file), FileThreads::default(), vec![part]);
                let serve = async {
                    let (mut client, _) = listener.accept().await.unwrap();
                    let mut request = Vec::new();
                    while !request.ends_with(b"content") {
                        assert!(client.read_buf(&mut request).await.unwrap() > 0);
                    }
                    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{headers}\r\n");
                    client.write_all(response.as_bytes()).await.unwrap();
                };
                tokio::join!(upload, serve).0
            }
        };
        for headers in ["", "etag: \r\n", "etag: \u{e9}\r\n"] {
            assert_eq!(
                answer(headers).await.unwrap_err().code(),
                ErrorCode::BackupTransferFailed,
                "{headers}"
            );
        }
        assert_eq!(answer("etag: \"x\"\r\n").await.unwrap()[0].etag, "\"x\"");
    }

    /// Whatever it takes in total.
    #[tokio::test(start_paused = true)]
    async fn slow_upload_is_not_given_up() {
        let nearly = UPLOAD_PAUSE - Duration::from_secs(1);
        let begun = tokio::time::Instant::now();
        let upload = |last: Duration| {
            let (progress, taken) = watch::channel(());
            let slow = async move {
                for _ in 0..100 {
                    sleep(nearly).await;
                    progress.send(()).unwrap();
                }
                drop(progress);
                sleep(last).await;
                "done"
            };
            unless_stalled(slow, taken, UPLOAD_PAUSE)
        };
        assert_eq!(upload(nearly).await, Some("done"));
        assert_eq!(begun.elapsed(), nearly * 101);
        assert_eq!(upload(UPLOAD_PAUSE * 2).await, None);
        let (_progress, taken) = watch::channel(());
        let begun = tokio::time::Instant::now();
        assert_eq!(unless_stalled(std::future::pending::<()>(), taken, UPLOAD_PAUSE).await, None);
        assert_eq!(begun.elapsed(), UPLOAD_PAUSE);
    }

    use crate::file_threads::MAX_FILE_OPERATIONS;

    /// The runtime has one thread, so a read on it could not wait for the permit of a thread for files.
    #[tokio::test(start_paused = true)]
    async fn archives_are_read_on_threads_for_files() {
        let file = tempfile::tempfile().unwrap();
        let content: Vec<u8> =
            (0..PIECE_BYTES + 7).map(|number| b"0123456789a"[(number % 11) as usize]).collect();
        file.write_all_at(&content, 0).unwrap();
        let threads = FileThreads::default();
        let archive = OpenArchive { file: Arc::new(DropOnThread::new(file)), threads: threads.clone() };
        let part = pieces(archive.clone(), 3, PIECE_BYTES);
        let read: Vec<Bytes> = part.try_collect().await.unwrap();
        assert!(read.concat() == content[3..][..usize::try_from(PIECE_BYTES).unwrap()]);
        let mut permits = Vec::new();
        for _ in 0..MAX_FILE_OPERATIONS {
            permits.push(threads.permit(STEP_TIMEOUT).await.unwrap());
        }
        assert_eq!(archive.read(0, 1).await.unwrap_err().code(), ErrorCode::LimitExceeded);
        drop(permits);
        assert_eq!(archive.read(0, 1).await.unwrap(), "0");
    }
}
