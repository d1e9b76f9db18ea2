//! Replacements in files: `/api/replace`.

use axum::extract::State;
use axum::response::Response;
use sandcrab_api::Timestamp;
use sandcrab_api::search::{ReplaceRequest, ReplaceResponse, ReplacedFile, SkippedFile};
use sandcrab_workspace::{Cancel, MAX_REPLACEMENT_BYTES, Pattern, ReplaceOptions, Replaced, WalkOptions};

use super::search::MAX_RESULT_BYTES;
use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::routes::execute::SessionQuery;

/// Replaces a text or what matches a regular expression, in a file or in all files of a directory.
///
/// Each file is replaced atomically, with its mode and owner. A file that fails is listed as skipped, and the others are
/// changed. Binary files, which contain a NUL byte, are left out. Symbolic links are not followed, except `path` itself.
/// If the client disconnects, the remaining files stay as they are.
#[utoipa::path(post, path = "/api/replace", operation_id = "replace", tag = "search", params(SessionQuery),
    request_body = ReplaceRequest,
    responses((status = 200, description = "The changed files with their diffs.", body = ReplaceResponse)))]
pub(crate) async fn replace(
    State(app): State<App>,
    files: Files,
    request: Json<ReplaceRequest>,
) -> Result<Response, ApiError> {
    let request = request.value;
    let given = GivenPath::new("path", request.path, request.path_base64)?;
    let place = files.place(request.session_id).await?;
    let path = place.resolve(&given)?;
    let length = request.replacement.len();
    if length > MAX_REPLACEMENT_BYTES {
        let why = format!("{length} bytes given; at most {MAX_REPLACEMENT_BYTES} are allowed");
        return Err(ApiError::invalid("replacement", why));
    }
    let is_dry_run = request.dry_run == Some(true);
    let options = ReplaceOptions {
        pattern: Pattern {
            text: request.pattern,
            is_regex: request.regex == Some(true),
            is_case_sensitive: request.case_sensitive != Some(false),
            is_word: request.word == Some(true),
        },
        replacement: request.replacement,
        walk: WalkOptions {
            globs: request.glob.unwrap_or_default(),
            visits_hidden: request.hidden == Some(true),
            respects_ignore_files: request.ignore_files != Some(false),
        },
        is_dry_run,
        max_diff_bytes: MAX_RESULT_BYTES,
        records: place.sandbox.records.clone(),
    };
    let cancel = Cancel::default();
    let _cancel = cancel.on_drop();
    let permit = app.searches.permit(&place.sandbox.file_threads).await?;
    // Serializing large diffs takes a while too.
    let work = move || {
        sandcrab_workspace::replace(&path, &options, &cancel).map(|replaced| json(replaced, is_dry_run))
    };
    let json = place.run_permitted(permit, work).await?;
    app.outgoing.json_bytes(json.map_err(ApiError::internal)?)
}

/// The response.
fn json(replaced: Replaced, is_dry_run: bool) -> serde_json::Result<Vec<u8>> {
    let changed = |file: sandcrab_workspace::ReplacedFile| {
        let (path, path_base64) = convert::path(&file.path);
        let (replacements, diff, diff_truncated) = (file.replacements, file.diff, file.is_diff_truncated);
        ReplacedFile { path, path_base64, replacements, diff, diff_truncated }
    };
    let skipped = |file: sandcrab_workspace::SkippedFile| {
        let (path, path_base64) = convert::path(&file.path);
        let error = ApiError::from(file.error);
        SkippedFile { path, path_base64, code: error.code(), message: error.message().to_owned() }
    };
    serde_json::to_vec(&ReplaceResponse {
        success: replaced.skipped.is_empty(),
        files: replaced.files.into_iter().map(changed).collect(),
        replacements: replaced.replacements,
        skipped: replaced.skipped.into_iter().map(skipped).collect(),
        truncated: replaced.is_truncated,
        dry_run: is_dry_run,
        timestamp: Timestamp::now(),
    })
}
