//! The server itself: `/api/ping`, `/api/version`, `/api/health`, `/metrics`, `/openapi.json`.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use sandcrab_api::Timestamp;
use sandcrab_api::server::{Counts, Health, Pong, Problem, ShellHealth, StateDirectory, Version};
use sandcrab_engine::{CommandSpec, StartError};
use tokio::sync::OnceCell;

use crate::app::App;
use crate::sandbox::Sandbox;

/// The version of the reference API that this API is compatible with.
const REFERENCE_VERSION: &str = "0.12.7";

/// Timeout of `git --version`.
const GIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports that the server is up.
#[utoipa::path(get, path = "/api/ping", operation_id = "ping", tag = "server",
    responses((status = 200, description = "The server is up.", body = Pong)))]
pub(crate) async fn ping() -> axum::Json<Pong> {
    axum::Json(Pong {
        success: true,
        status: "healthy".into(),
        message: "pong".into(),
        timestamp: Timestamp::now(),
    })
}

/// Returns the version of the server.
#[utoipa::path(get, path = "/api/version", operation_id = "version", tag = "server",
    responses((status = 200, description = "The version.", body = Version)))]
pub(crate) async fn version() -> axum::Json<Version> {
    axum::Json(Version {
        success: true,
        version: env!("CARGO_PKG_VERSION").into(),
        compatible: REFERENCE_VERSION.into(),
        timestamp: Timestamp::now(),
    })
}

/// Returns the health and capabilities of the server.
#[utoipa::path(get, path = "/api/health", operation_id = "health", tag = "server",
    responses((status = 200, description = "Health and capabilities.", body = Health)))]
pub(crate) async fn health(State(app): State<App>, sandbox: Sandbox) -> axum::Json<Health> {
    let engine = sandbox.engine.health();
    let is_well = engine.problems.is_empty() && !app.stopping.is_stopping();
    let uptime_ms = u64::try_from(app.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let stopping = app.stopping.is_stopping();
    axum::Json(Health {
        success: true,
        status: match engine.problems.as_slice() {
            _ if stopping => "stopping",
            [] => "healthy",
            _ => "degraded",
        }
        .into(),
        problems: engine.problems.into_iter().map(problem).collect(),
        state_directory: StateDirectory {
            present: engine.state_dir.is_there,
            free_bytes: engine.state_dir.free_bytes,
        },
        run_as: engine.run_as,
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_ms,
        shell: ShellHealth { driver: engine.shell_driver, reason: engine.shell_driver_reason },
        cgroups: engine.cgroups,
        landlock: engine.landlock.is_some(),
        git: git(&sandbox, is_well).await,
        pty: std::path::Path::new("/dev/ptmx").exists(),
        workspace: sandbox.workspace.clone(),
        counts: Counts {
            running: engine.running,
            executions: sandbox.engine.executions().len(),
            sessions: engine.sessions,
            connections: app.connections.load(Ordering::Relaxed),
            lost_supervisors: engine.lost_supervisors,
            restored_sessions: engine.restored_sessions,
            logged_failures: engine.logged_failures,
        },
        timestamp: Timestamp::now(),
    })
}

fn problem(problem: sandcrab_engine::Problem) -> Problem {
    let sandcrab_engine::Problem { code, message, suggestion } = problem;
    Problem { code: code.into(), message, suggestion }
}

/// Returns the version of git. The result is cached once it is known. Git is not run while the server is
/// unhealthy, so that health is reported without delay.
async fn git(sandbox: &Sandbox, is_well: bool) -> Option<String> {
    static VERSION: OnceCell<Option<String>> = OnceCell::const_new();
    if !is_well {
        return VERSION.get().cloned().flatten();
    }
    let ask = || async {
        let mut spec = CommandSpec::argv(["git", "--version"]);
        spec.timeout = Some(GIT_TIMEOUT);
        let outcome = match sandbox.engine.run(spec).await {
            Err(StartError::ProgramNotFound(_)) => return Ok(None),
            outcome => outcome.map_err(drop)?,
        };
        drop(sandbox.engine.forget(outcome.execution.id()));
        if outcome.end.exit_code != Some(0) {
            return Err(());
        }
        Ok(Some(outcome.stdout().trim().trim_start_matches("git version ").to_owned()))
    };
    // The engine may also be waiting for a supervisor.
    let asked = tokio::time::timeout(2 * GIT_TIMEOUT, VERSION.get_or_try_init(ask)).await;
    asked.ok().and_then(Result::ok).cloned().flatten()
}

/// Returns metrics in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let kind = "text/plain; version=1.0.0; charset=utf-8";
    let processes = app.sandbox.engine.total_metrics().await;
    ([(header::CONTENT_TYPE, kind)], app.metrics.write(&app, &processes)).into_response()
}

/// Returns this document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "server",
    responses((status = 200, description = "The OpenAPI 3.1 document.", body = Object, content_type = "application/json")))]
pub(crate) async fn openapi() -> Response {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let document = DOCUMENT.get_or_init(crate::router::openapi_json);
    ([(header::CONTENT_TYPE, "application/json")], document.as_str()).into_response()
}
