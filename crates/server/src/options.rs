//! Refuses options that have no effect on a route.

use sandcrab_api::execute::{CommandRequest, OnDisconnect, OnSessionEnd, Overflow};

use crate::error::ApiError;

/// The routes that take a [`CommandRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Execute,
    Stream,
    Start,
}

/// Refuses options that have no effect on this route.
pub(crate) fn check(request: &CommandRequest, route: Route) -> Result<(), ApiError> {
    let is_background = request.background == Some(true);
    match (route, request.background) {
        (Route::Stream, Some(true)) => {
            return Err(ApiError::invalid(
                "background",
                "a stream follows the command; use POST /api/process/start",
            ));
        }
        (Route::Start, Some(false)) => {
            return Err(ApiError::invalid(
                "background",
                "a process always runs in the background; use POST /api/execute to wait for its end",
            ));
        }
        _ => {}
    }
    let is_process = route == Route::Start || is_background;
    let has_output_in_response = route == Route::Execute && !is_background;
    let only = |field, is_refused, why| if is_refused { Err(ApiError::invalid(field, why)) } else { Ok(()) };
    only(
        "maxOutputBytes",
        request.max_output_bytes.is_some() && !has_output_in_response,
        "the response contains no output; use it with POST /api/execute",
    )?;
    only(
        "overflow",
        request.overflow == Some(Overflow::Wait) && has_output_in_response,
        "\"wait\" needs a client that reads while the command runs; use POST /api/execute/stream",
    )?;
    only(
        "onDisconnect",
        request.on_disconnect == Some(OnDisconnect::Kill) && is_process,
        "not supported for background processes; omit it",
    )?;
    only(
        "onSessionEnd",
        request.on_session_end == Some(OnSessionEnd::Keep) && !is_process,
        "only supported for background processes; omit it",
    )?;
    only("stdinEncoding", request.stdin_encoding.is_some() && request.stdin.is_none(), "it requires stdin")?;
    only(
        "executionId",
        matches!((&request.execution_id, &request.process_id), (Some(one), Some(other)) if one != other),
        "it differs from processId; use one of them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_effect_are_refused() {
        use Route::{Execute, Start, Stream};
        for (field, value, taken, refused) in [
            ("maxOutputBytes", "1", &[Execute][..], &[Stream, Start][..]),
            ("overflow", r#""wait""#, &[Stream, Start], &[Execute]),
            ("overflow", r#""drop""#, &[Execute, Stream, Start], &[]),
            ("onDisconnect", r#""kill""#, &[Execute, Stream], &[Start]),
            ("onDisconnect", r#""keep""#, &[Execute, Stream, Start], &[]),
            ("onSessionEnd", r#""keep""#, &[Start], &[Execute, Stream]),
            ("background", "true", &[Execute, Start], &[Stream]),
            ("background", "false", &[Execute, Stream], &[Start]),
            ("stdinEncoding", r#""base64""#, &[], &[Execute, Stream, Start]),
            ("executionId", r#""a""#, &[Execute], &[]),
        ] {
            let request: CommandRequest =
                serde_json::from_str(&format!(r#"{{"command":"true","{field}":{value}}}"#)).unwrap();
            for route in taken {
                assert!(check(&request, *route).is_ok(), "{field} {value} {route:?}");
            }
            for route in refused {
                let message = check(&request, *route).unwrap_err().message().to_owned();
                assert!(message.starts_with(field), "{message}");
            }
        }
        let both = r#"{"command":"true","executionId":"a","processId":"b"}"#;
        assert!(check(&serde_json::from_str(both).unwrap(), Start).is_err());
        let background = r#"{"command":"true","background":true,"maxOutputBytes":1}"#;
        assert!(check(&serde_json::from_str(background).unwrap(), Execute).is_err());
    }
}
