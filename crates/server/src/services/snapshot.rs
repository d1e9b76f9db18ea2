//! [`Snapshot`]: what others see of a service.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sandcrab_api::Timestamp;
use sandcrab_api::service::{HealthCheck, Service, ServiceHealth, ServiceState};
use sandcrab_engine::ExecutionId;

use super::definition::shown;
use super::record::{Phase, Record, execution_id};

/// What others see of a service.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) service: Arc<Service>,
    /// Number of the current execution.
    pub(crate) attempt: u64,
    incarnation: Arc<str>,
    /// Whether the first start has been tried.
    pub(super) is_begun: bool,
    /// Whether the service was deleted, or could not be started.
    pub(crate) is_removed: bool,
}

impl Snapshot {
    /// The id of an execution.
    pub(crate) fn execution_id(&self, attempt: u64) -> Option<ExecutionId> {
        execution_id(&self.service.id, &self.incarnation, attempt)
    }

    /// Whether it stays as it is until a client changes it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_removed || self.service.state.is_final()
    }
}

/// The health of the current execution.
#[derive(Debug, Clone, Default)]
pub(super) struct ObservedHealth {
    /// State by the health check; `None` without one.
    pub(super) state: Option<ServiceState>,
    pub(super) last_check: Option<Timestamp>,
    /// Why the last check failed.
    pub(super) error: Option<String>,
    pub(super) pid: Option<u32>,
}

/// The snapshot of a record.
pub(super) fn snapshot(
    record: &Record,
    observed: &ObservedHealth,
    is_begun: bool,
    is_removed: bool,
) -> Snapshot {
    let state = match record.phase {
        Phase::Starting => ServiceState::Starting,
        Phase::Running { .. } => observed.state.unwrap_or(ServiceState::Running),
        Phase::Ending { .. } => ServiceState::Stopping,
        Phase::Waiting { .. } => ServiceState::Restarting,
        Phase::Stopped => ServiceState::Stopped,
        Phase::Failed => ServiceState::Failed,
    };
    let (started_at, next_restart) = match record.phase {
        Phase::Running { started_at } => (Some(started_at), None),
        Phase::Waiting { until } => (None, Some(until)),
        _ => (None, None),
    };
    let is_running = matches!(record.phase, Phase::Running { .. });
    let service = Service {
        id: record.id.clone(),
        name: record.request.name.clone(),
        command: shown(&record.request),
        state,
        execution_id: record.execution_id(record.attempt).map(|id| id.to_string()),
        pid: observed.pid.filter(|_| is_running),
        session_id: record.request.session_id.clone(),
        created_at: record.created_at,
        started_at,
        restarts: record.restarts,
        next_restart,
        health: ServiceHealth {
            status: state,
            last_check: observed.last_check.filter(|_| is_running),
            error: if is_running { observed.error.clone() } else { record.error.clone() },
        },
        health_check: record.request.health_check.as_ref().map(without_command),
        restart: record.request.restart.clone().unwrap_or_default(),
        executions: record.history.iter().cloned().collect(),
    };
    Snapshot {
        service: Arc::new(service),
        attempt: record.attempt,
        incarnation: record.incarnation.as_str().into(),
        is_begun,
        is_removed,
    }
}

/// A check as shown in responses. A command may be long.
fn without_command(check: &HealthCheck) -> HealthCheck {
    const MAX_COMMAND_BYTES: usize = 1 << 10;
    let mut check = check.clone();
    if let Some(command) = &mut check.command
        && command.len() > MAX_COMMAND_BYTES
    {
        command.truncate(command.floor_char_boundary(MAX_COMMAND_BYTES - '…'.len_utf8()));
        command.push('…');
    }
    check
}

/// The time until a point in time, at most `longest`: the clock may have been changed.
pub(super) fn remaining(until: Timestamp, longest: Duration) -> Duration {
    until.to_system_time().duration_since(SystemTime::now()).unwrap_or_default().min(longest)
}

/// The time since a point in time.
pub(super) fn elapsed(since: Timestamp) -> Duration {
    SystemTime::now().duration_since(since.to_system_time()).unwrap_or_default()
}
