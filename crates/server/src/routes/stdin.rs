//! Writing to the standard input of what runs: `/api/process/{id}/stdin`.

use axum::extract::Request;
use http_body_util::BodyExt;
use sandcrab_api::Timestamp;
use sandcrab_api::process::StdinResponse;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::ApiError;
use crate::input::{OfProcess, Params};

/// What happens after the bytes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StdinOptions {
    /// Close it: the process reads the end.
    close: Option<bool>,
}

/// Writes the body to standard input, as it arrives. A process that does not read holds the request up, not the server.
#[utoipa::path(post, path = "/api/process/{id}/stdin", operation_id = "writeStdin", tag = "processes",
    params(("id" = String, Path, description = "Its id, or that of any execution."), StdinOptions),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "The bytes are in its pipe.", body = StdinResponse)))]
pub(crate) async fn write(
    OfProcess(execution): OfProcess,
    Params(options): Params<StdinOptions>,
    request: Request,
) -> Result<axum::Json<StdinResponse>, ApiError> {
    let mut body = request.into_body();
    let mut written = 0;
    let mut any = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ApiError::invalid("body", format!("it broke off: {e}")))?;
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
        // Writing nothing still finds out whether anybody could.
        execution.write_stdin(Vec::new()).await?;
    }
    Ok(axum::Json(StdinResponse { success: true, written, timestamp: Timestamp::now() }))
}
