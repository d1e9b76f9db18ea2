//! Writing to standard input: `/api/process/{id}/stdin`.

use axum::extract::Request;
use http_body_util::BodyExt;
use sandcrab_api::Timestamp;
use sandcrab_api::process::StdinResponse;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::ApiError;
use crate::input::PathExecution;
use crate::query::Params;

/// Options of `stdin`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StdinOptions {
    /// Close standard input after the body was written.
    close: Option<bool>,
}

/// Writes the body to standard input as it arrives.
///
/// If the process does not read, the request waits.
#[utoipa::path(post, path = "/api/process/{id}/stdin", operation_id = "writeStdin", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), StdinOptions),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "The bytes were written to the pipe.", body = StdinResponse)))]
pub(crate) async fn write(
    PathExecution(execution): PathExecution,
    Params(options): Params<StdinOptions>,
    request: Request,
) -> Result<axum::Json<StdinResponse>, ApiError> {
    let mut body = request.into_body();
    let mut written = 0;
    let mut any = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ApiError::invalid("body", format!("incomplete: {e}")))?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            written += data.len() as u64;
            any = true;
            execution.write_stdin(data).await?;
        }
    }
    if options.close == Some(true) {
        execution.close_stdin().await?;
    } else if !any {
        // An empty write still checks whether standard input is open.
        execution.write_stdin(Vec::new()).await?;
    }
    Ok(axum::Json(StdinResponse { success: true, written, timestamp: Timestamp::now() }))
}
