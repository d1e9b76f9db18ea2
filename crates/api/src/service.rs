//! Services: programs that the server keeps running, with health checks and restarts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::event::{ErrorEvent, ExitEvent, GapEvent, OutputEvent};
use crate::execute::{Encoding, End, Limits, OnSessionEnd, ProcessName, Variables};
use crate::process::KilledProcess;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// State of a service.
    pub enum ServiceState {
        /// The program is being started, or its health check has not succeeded yet.
        Starting = "starting",
        /// The program runs, and has no health check.
        Running = "running",
        /// The program runs, and its last health check succeeded.
        Healthy = "healthy",
        /// The program runs, and its last health checks failed.
        Unhealthy = "unhealthy",
        /// The program has ended, and is started again at `nextRestart`.
        Restarting = "restarting",
        /// The program is being ended.
        Stopping = "stopping",
        /// The service was stopped, or its program ended with exit code 0.
        Stopped = "stopped",
        /// The program failed, and is not started again.
        Failed = "failed",
        else Unknown
    }
}

impl ServiceState {
    /// Whether the service stays in this state until a client changes it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }

    /// Whether the service can be used.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Running | Self::Healthy)
    }
}

wire_enum! {
    /// Kind of a health check.
    pub enum HealthCheckType = Http {
        /// `GET` of a path on a local port answers with an expected status.
        Http = "http",
        /// A local port accepts connections.
        Tcp = "tcp",
        /// A command exits with code 0.
        Command = "command",
    }
}

/// How the server finds out whether a service works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    /// Kind of the check. Default: `command` if there is a command, else `http`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub check_type: Option<HealthCheckType>,
    /// The local port. Required for `http` and `tcp`. A port on which another process listens does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65535)]
    pub port: Option<u32>,
    /// Path and query of the request. Only with `http`. Default: `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Lowest expected status. Only with `http`. Default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 599)]
    pub status_min: Option<u16>,
    /// Highest expected status. Only with `http`. Default: 399. Redirects are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 599)]
    pub status_max: Option<u16>,
    /// Shell text, run with the user, environment and working directory of the service. Only with `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Time between two checks in milliseconds. Default: 5,000. Until the first success, checks follow each other faster.
    #[serde(default, alias = "interval", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 3600000)]
    pub interval_ms: Option<u64>,
    /// Timeout of one check in milliseconds. Default: 3,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 60000)]
    pub timeout_ms: Option<u64>,
    /// Number of failures in a row that make the service unhealthy. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub retries: Option<u32>,
    /// Time after a start in which failures do not count, in milliseconds. Default: 10,000. It ends with the first success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3600000)]
    pub start_period_ms: Option<u64>,
}

wire_enum! {
    /// When the program of a service is started again.
    pub enum RestartCondition = Never {
        /// Never.
        Never = "never",
        /// After an end with another exit code than 0, by a signal, by a timeout or limit, or with its machine.
        OnFailure = "on-failure",
        /// After every end.
        Always = "always",
    }
}

/// When and how often a service is restarted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestartPolicy {
    /// When the program is started again. Default: `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RestartCondition>,
    /// Number of restarts in a row after which the service fails. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
    /// Delay of the first restart in milliseconds. Each further restart in a row doubles it. Default: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 3600000)]
    pub backoff_ms: Option<u64>,
    /// Longest delay in milliseconds. Default: 60,000, or `backoffMs` if that is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 3600000)]
    pub max_backoff_ms: Option<u64>,
    /// Run time in milliseconds after which restarts are counted from 0 again. Default: 60,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 86400000)]
    pub reset_after_ms: Option<u64>,
    /// Whether a service that becomes unhealthy is ended, which counts as a failure. Requires a health check and another
    /// policy than `never`. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unhealthy: Option<bool>,
}

/// A service to start: a command, its health check and its restart policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceRequest {
    /// Shell text or, with `args`, the program. It must stay in the foreground: what it leaves running is ended.
    pub command: String,
    /// Arguments. Without a session, the program runs without a shell.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::execute::bounded_args"
    )]
    #[schema(max_items = 65536)]
    pub args: Option<Vec<String>>,
    /// Session from whose state each execution starts. Without one, the service is independent of sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What happens to the service when the session is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_session_end: Option<OnSessionEnd>,
    /// Id of the service, at most 96 bytes. Default: a generated id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_id: Option<String>,
    /// Display name, at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Changes to the environment: a string sets a variable, `null` unsets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, Option<String>>>)]
    pub env: Option<Variables>,
    /// Working directory. Default: that of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// User to run the program as: a name, a user id or `UID:GID`. Requires that the server runs as root. Not allowed with a
    /// session, which has its own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Maximum run time of an execution in milliseconds. Its end counts as a failure. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum time without output of an execution in milliseconds. Its end counts as a failure. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Grace period in milliseconds between SIGTERM and SIGKILL after a timeout. Default: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600000)]
    pub grace_ms: Option<u64>,
    /// Resource limits of each execution.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub limits: Option<Limits>,
    /// Default encoding of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// How the server finds out whether the service works. Without a check, it works while its program runs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub health_check: Option<HealthCheck>,
    /// When and how often the program is started again.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub restart: Option<RestartPolicy>,
    /// Respond when the service is healthy instead of when its program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_ready: Option<bool>,
    /// Timeout of this wait in milliseconds. The service continues after it. Default: 60,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600000)]
    pub ready_timeout_ms: Option<u64>,
}

/// Health of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceHealth {
    /// State of the service.
    pub status: ServiceState,
    /// Time of the last check of the current execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<Timestamp>,
    /// Why the last check failed, or why the service does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An earlier execution of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExecution {
    /// Id of the execution, for the routes of processes. Retention may have removed its record.
    pub execution_id: String,
    /// Time at which it was started.
    pub start_time: Timestamp,
    /// Time at which it ended.
    pub end_time: Timestamp,
    /// Exit code, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Reason and signal of the end. Absent if the program could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Why the program could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Id of the service.
    pub id: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// State of the service.
    pub state: ServiceState,
    /// Id of the current or last execution, for the routes of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Process id of the current execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Session from whose state the executions start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Time at which the service was created.
    pub created_at: Timestamp,
    /// Time at which the current execution was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Number of restarts by the policy since the service was created.
    pub restarts: u64,
    /// Time of the next restart, in the state `restarting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_restart: Option<Timestamp>,
    /// Health of the service.
    pub health: ServiceHealth,
    /// The health check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// The restart policy.
    pub restart: RestartPolicy,
    /// Earlier executions, the newest first, at most 10. In the states `stopped`, `failed` and `restarting` the last execution
    /// is the first of them.
    pub executions: Vec<ServiceExecution>,
}

/// A started service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStarted {
    /// Always true.
    pub success: bool,
    /// Id of the service.
    pub service_id: String,
    /// Id of the current execution.
    pub process_id: String,
    /// The same, under the name used in all responses about executions.
    pub execution_id: String,
    /// Process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command. A long command is cut off and ends with `…`.
    pub command: String,
    /// Health of the service.
    pub health: ServiceHealth,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A list of services.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// Always true.
    pub success: bool,
    /// The services, the oldest first.
    pub services: Vec<Service>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A single service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ServiceResponse {
    /// Always true.
    pub success: bool,
    /// The service.
    pub service: Service,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Health of a service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceHealthResponse {
    /// True if the service can be used: its state is `healthy`, or `running` without a health check.
    pub success: bool,
    /// Id of the service.
    pub service_id: String,
    /// State of the service.
    pub status: ServiceState,
    /// Time of the last check of the current execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<Timestamp>,
    /// Why the last check failed, or why the service does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// How a service is ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceStopRequest {
    /// First signal to send, by name or number. Default: `SIGTERM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Grace period in milliseconds before SIGKILL. Default: 5,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600000)]
    pub grace_ms: Option<u64>,
}

/// A service that was stopped or deleted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStopped {
    /// True if no process is left.
    pub success: bool,
    /// Id of the service.
    pub service_id: String,
    /// All operating system processes that were ended.
    pub killed: Vec<KilledProcess>,
    /// Operating system processes that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// An execution of the service, whose output follows.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExecutionEvent {
    /// Id of the service.
    pub service_id: String,
    /// Id of the execution.
    pub execution_id: String,
    /// Number of restarts by the policy before this event.
    pub restarts: u64,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The service has reached this state, and writes no more output.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEndEvent {
    /// Id of the service.
    pub service_id: String,
    /// State of the service.
    pub state: ServiceState,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a service stream: for each execution `execution`, output and `exit`; at last `end`, `caught_up` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServiceEvent {
    /// An execution of the service, whose output follows.
    Execution(ServiceExecutionEvent),
    /// The program wrote to standard output.
    Stdout(OutputEvent),
    /// The program wrote to standard error.
    Stderr(OutputEvent),
    /// Output was dropped because the journal reached its size limit.
    Gap(GapEvent),
    /// The execution has ended. If the service is restarted, another `execution` follows.
    Exit(ExitEvent),
    /// The service was stopped, has failed, or was deleted. Last event of the stream.
    End(ServiceEndEvent),
    /// All output recorded so far has been sent. Last event of a stream with `follow=false`.
    CaughtUp(ServiceEndEvent),
    /// The stream failed. Last event of the stream.
    Error(ErrorEvent),
}

/// A service has changed its state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ServiceChangeEvent {
    /// The service after the change.
    pub service: Service,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// A service was deleted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRemovedEvent {
    /// Id of the service.
    pub service_id: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}
