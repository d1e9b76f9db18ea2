//! The default environment of later commands: `/api/env`.

use sandcrab_api::Timestamp;
use sandcrab_api::process::SuccessResponse;
use sandcrab_api::session::EnvRequest;

use crate::error::ApiError;
use crate::input::Json;
use crate::launch::variables;
use crate::sandbox::Sandbox;

/// Changes the default environment.
///
/// The change applies to commands and sessions that start later. It is kept when the server restarts.
#[utoipa::path(post, path = "/api/env", operation_id = "setEnv", tag = "sessions", request_body = EnvRequest,
    responses((status = 200, description = "The environment was changed.", body = SuccessResponse)))]
pub(crate) async fn set(
    sandbox: Sandbox,
    request: Json<EnvRequest>,
) -> Result<axum::Json<SuccessResponse>, ApiError> {
    let changes = request.value.vars;
    let _alone = sandbox.environment.lock().await;
    sandbox.engine.set_env(&variables(Some(changes.clone()))).await?;
    crate::environment::remember(sandbox.engine.state_dir(), &sandbox.given_env, changes).map_err(
        |e| match e.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                let message =
                    "the change is active but was not saved, because the disk is full; free space, and send it again";
                ApiError::new(sandcrab_api::ErrorCode::NoSpace, message)
            }
            _ => ApiError::internal(e),
        },
    )?;
    Ok(axum::Json(SuccessResponse { success: true, timestamp: Timestamp::now() }))
}
