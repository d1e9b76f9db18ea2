//! [`Definition`]: what a valid request says.

use std::ops::RangeInclusive;
use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::execute::{CommandRequest, Leftovers};
use sandcrab_api::port::{PortWatchMode, PortWatchRequest};
use sandcrab_api::service::{HealthCheck, HealthCheckType, RestartCondition, RestartPolicy, ServiceRequest};

use super::check::{Check, Probe};
use super::policy::Policy;
use crate::error::ApiError;
use crate::routes::port::{expected, valid_port};

/// Maximum length of the id of a service, in bytes: the ids of its executions contain it.
pub(super) const MAX_SERVICE_ID_BYTES: usize = 96;
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum length of the command of a health check, in bytes.
const MAX_CHECK_COMMAND_BYTES: usize = 64 << 10;
/// Maximum length of a command in responses, in bytes.
const MAX_SHOWN_BYTES: usize = 4096;

const DEFAULT_INTERVAL_MS: u64 = 5_000;
const DEFAULT_CHECK_TIMEOUT_MS: u64 = 3_000;
const DEFAULT_RETRIES: u32 = 3;
const DEFAULT_START_PERIOD_MS: u64 = 10_000;
const DEFAULT_MAX_RESTARTS: u32 = 10;
const DEFAULT_BACKOFF_MS: u64 = 1_000;
const DEFAULT_MAX_BACKOFF_MS: u64 = 60_000;
const DEFAULT_RESET_AFTER_MS: u64 = 60_000;
const DEFAULT_READY_TIMEOUT_MS: u64 = 60_000;

/// The longest interval, start period and backoff.
const HOUR_MS: u64 = 3_600_000;
/// The longest time after which restarts are counted from 0 again.
const DAY_MS: u64 = 24 * HOUR_MS;

/// What a valid request says.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) check: Option<Check>,
    pub(super) policy: Policy,
}

impl Definition {
    /// Checks a request.
    pub(super) fn new(request: &ServiceRequest) -> Result<Self, ApiError> {
        if request.name.as_ref().is_some_and(|name| name.len() > MAX_NAME_BYTES) {
            return Err(ApiError::invalid("name", format!("at most {MAX_NAME_BYTES} bytes are allowed")));
        }
        if request.ready_timeout_ms.is_some() && request.wait_for_ready != Some(true) {
            return Err(ApiError::invalid("readyTimeoutMs", "it requires waitForReady"));
        }
        if request.on_session_end.is_some() && request.session_id.is_none() {
            return Err(ApiError::invalid("onSessionEnd", "it requires a sessionId"));
        }
        within("readyTimeoutMs", request.ready_timeout_ms, 0..=600_000, DEFAULT_READY_TIMEOUT_MS)?;
        let check = request.health_check.as_ref().map(check).transpose()?;
        let policy = policy(request.restart.as_ref(), check.is_some())?;
        Ok(Self { check, policy })
    }
}

/// The timeout of a wait until a service is ready.
pub(crate) fn ready_timeout(request: &ServiceRequest) -> Duration {
    Duration::from_millis(request.ready_timeout_ms.unwrap_or(DEFAULT_READY_TIMEOUT_MS))
}

/// A number within bounds.
fn within(
    field: &str,
    given: Option<u64>,
    bounds: RangeInclusive<u64>,
    default: u64,
) -> Result<u64, ApiError> {
    let value = given.unwrap_or(default);
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(ApiError::invalid(
        field,
        format!("expected a number from {} to {}, got {value}", bounds.start(), bounds.end()),
    ))
}

fn check(given: &HealthCheck) -> Result<Check, ApiError> {
    let millis = |field: &str, value, bounds, default| {
        within(&format!("healthCheck.{field}"), value, bounds, default).map(Duration::from_millis)
    };
    let retries =
        within("healthCheck.retries", given.retries.map(u64::from), 1..=100, DEFAULT_RETRIES.into())?;
    Ok(Check {
        probe: probe(given)?,
        interval: millis("intervalMs", given.interval_ms, 100..=HOUR_MS, DEFAULT_INTERVAL_MS)?,
        timeout: millis("timeoutMs", given.timeout_ms, 10..=60_000, DEFAULT_CHECK_TIMEOUT_MS)?,
        retries: u32::try_from(retries).unwrap_or(u32::MAX),
        start_period: millis("startPeriodMs", given.start_period_ms, 0..=HOUR_MS, DEFAULT_START_PERIOD_MS)?,
    })
}

fn probe(given: &HealthCheck) -> Result<Probe, ApiError> {
    let kind = given.check_type.unwrap_or(match given.command {
        Some(_) => HealthCheckType::Command,
        None => HealthCheckType::Http,
    });
    let refuse = |field: &str, is_given: bool, kinds: &str| match is_given {
        true => {
            Err(ApiError::invalid(&format!("healthCheck.{field}"), format!("only with the type {kinds}")))
        }
        false => Ok(()),
    };
    let is_http = kind == HealthCheckType::Http;
    refuse("path", given.path.is_some() && !is_http, "http")?;
    refuse("statusMin", given.status_min.is_some() && !is_http, "http")?;
    refuse("statusMax", given.status_max.is_some() && !is_http, "http")?;
    if kind == HealthCheckType::Command {
        refuse("port", given.port.is_some(), "http or tcp")?;
        let command = given.command.clone().unwrap_or_default();
        if command.trim().is_empty() || command.len() > MAX_CHECK_COMMAND_BYTES || command.contains('\0') {
            let why = format!("expected 1 to {MAX_CHECK_COMMAND_BYTES} bytes of shell text without NUL");
            return Err(ApiError::invalid("healthCheck.command", why));
        }
        return Ok(Probe::Command(command));
    }
    refuse("command", given.command.is_some(), "command")?;
    let Some(port) = given.port else {
        return Err(ApiError::invalid("healthCheck.port", "required for the types http and tcp"));
    };
    let watch = PortWatchRequest {
        port,
        mode: Some(if is_http { PortWatchMode::Http } else { PortWatchMode::Tcp }),
        path: given.path.clone(),
        status_min: given.status_min,
        status_max: given.status_max,
        ..PortWatchRequest::default()
    };
    Ok(Probe::Port { port: valid_port(port).map_err(nested)?, expected: expected(&watch).map_err(nested)? })
}

/// The error of a field of the health check.
fn nested(error: ApiError) -> ApiError {
    let Some(field) = error.field().map(|field| format!("healthCheck.{field}")) else { return error };
    match error.code() {
        ErrorCode::ValidationFailed => {
            let message = error.message();
            ApiError::invalid(&field, message.split_once(": ").map_or(message, |(_, why)| why))
        }
        _ => error.with("field", field),
    }
}

fn policy(given: Option<&RestartPolicy>, has_check: bool) -> Result<Policy, ApiError> {
    let given = given.cloned().unwrap_or_default();
    let condition = given.policy.unwrap_or_default();
    let millis = |field: &str, value, bounds, default| {
        within(&format!("restart.{field}"), value, bounds, default).map(Duration::from_millis)
    };
    let backoff = millis("backoffMs", given.backoff_ms, 100..=HOUR_MS, DEFAULT_BACKOFF_MS)?;
    let longest = given.backoff_ms.unwrap_or(0).max(DEFAULT_MAX_BACKOFF_MS);
    let max_backoff = millis("maxBackoffMs", given.max_backoff_ms, 100..=HOUR_MS, longest)?;
    if max_backoff < backoff {
        return Err(ApiError::invalid("restart.maxBackoffMs", "it must not be less than backoffMs"));
    }
    let on_unhealthy = given.on_unhealthy.unwrap_or_default();
    if on_unhealthy && (!has_check || condition == RestartCondition::Never) {
        let why = "it requires a healthCheck and a policy other than never";
        return Err(ApiError::invalid("restart.onUnhealthy", why));
    }
    Ok(Policy {
        condition,
        max_restarts: given.max_restarts.unwrap_or(DEFAULT_MAX_RESTARTS),
        backoff,
        max_backoff,
        reset_after: millis("resetAfterMs", given.reset_after_ms, 100..=DAY_MS, DEFAULT_RESET_AFTER_MS)?,
        on_unhealthy,
    })
}

/// The command of a service, as a process is started.
pub(super) fn command(request: &ServiceRequest, execution_id: String) -> CommandRequest {
    CommandRequest {
        command: request.command.clone(),
        args: request.args.clone(),
        on_session_end: request.on_session_end,
        process_id: Some(execution_id),
        env: request.env.clone(),
        cwd: request.cwd.clone(),
        user: request.user.clone(),
        // The default timeout is for commands.
        timeout_ms: Some(request.timeout_ms.unwrap_or(0)),
        idle_timeout_ms: request.idle_timeout_ms,
        grace_ms: request.grace_ms,
        limits: request.limits.clone(),
        encoding: request.encoding,
        // They would use the ports of the next execution.
        leftovers: Some(Leftovers::Kill),
        ..CommandRequest::default()
    }
}

/// The command as shown in responses: a long one is cut off.
pub(super) fn shown(request: &ServiceRequest) -> String {
    let mut text = request.command.clone();
    for arg in request.args.iter().flatten() {
        if text.len() > MAX_SHOWN_BYTES {
            break;
        }
        text.push(' ');
        text.push_str(arg);
    }
    if text.len() > MAX_SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(MAX_SHOWN_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServiceRequest {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn invalid_fields_are_named() {
        for (field, rest) in [
            ("healthCheck.port", r#""healthCheck":{}"#),
            ("healthCheck.port", r#""healthCheck":{"port":0}"#),
            ("healthCheck.port", r#""healthCheck":{"command":"true","port":80}"#),
            ("healthCheck.path", r#""healthCheck":{"port":80,"path":"a b\n"}"#),
            ("healthCheck.path", r#""healthCheck":{"type":"tcp","port":80,"path":"/"}"#),
            ("healthCheck.statusMin", r#""healthCheck":{"port":80,"statusMin":500}"#),
            ("healthCheck.command", r#""healthCheck":{"type":"command"}"#),
            ("healthCheck.command", r#""healthCheck":{"type":"tcp","port":80,"command":"x"}"#),
            ("healthCheck.intervalMs", r#""healthCheck":{"port":80,"interval":99}"#),
            ("healthCheck.timeoutMs", r#""healthCheck":{"port":80,"timeoutMs":60001}"#),
            ("healthCheck.retries", r#""healthCheck":{"port":80,"retries":0}"#),
            ("healthCheck.startPeriodMs", r#""healthCheck":{"port":80,"startPeriodMs":3600001}"#),
            ("restart.backoffMs", r#""restart":{"backoffMs":99}"#),
            ("restart.maxBackoffMs", r#""restart":{"backoffMs":500,"maxBackoffMs":499}"#),
            ("restart.resetAfterMs", r#""restart":{"resetAfterMs":0}"#),
            ("restart.resetAfterMs", r#""restart":{"resetAfterMs":86400001}"#),
            ("restart.onUnhealthy", r#""restart":{"policy":"always","onUnhealthy":true}"#),
            ("readyTimeoutMs", r#""readyTimeoutMs":1"#),
            ("readyTimeoutMs", r#""waitForReady":true,"readyTimeoutMs":600001"#),
            ("onSessionEnd", r#""onSessionEnd":"keep""#),
        ] {
            let error = Definition::new(&read(&format!(r#"{{"command":"true",{rest}}}"#))).unwrap_err();
            assert_eq!(error.field(), Some(field), "{rest}: {}", error.message());
        }
    }

    #[test]
    fn a_long_backoff_needs_no_other_maximum() {
        let request = read(r#"{"command":"true","restart":{"policy":"always","backoffMs":100000}}"#);
        let policy = Definition::new(&request).unwrap().policy;
        assert_eq!(
            (policy.backoff, policy.max_backoff),
            (Duration::from_secs(100), Duration::from_secs(100))
        );
    }

    #[test]
    fn long_commands_are_cut_off() {
        let mut request = read(r#"{"command":"echo","args":["a","b"]}"#);
        assert_eq!(shown(&request), "echo a b");
        request.args = Some(vec!["é".repeat(MAX_SHOWN_BYTES)]);
        assert!(shown(&request).len() <= MAX_SHOWN_BYTES && shown(&request).ends_with("é…"));
    }
}
