//! [`Metrics`]: the metrics of the server.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use sandcrab_engine::{Health, TreeMetrics};

use crate::app::AppState;

/// The labels of requests. Routes, not paths, so that their number is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: MethodLabel,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MethodLabel(Method);

impl EncodeLabelValue for MethodLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&self.0.as_str(), encoder)
    }
}

/// The metrics of the server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Histogram,
    running: Gauge,
    executions: Gauge,
    sessions: Gauge,
    connections: Gauge,
    outgoing: Gauge,
    panics: Gauge,
    health: HealthMetrics,
    processes: ProcessTotals,
    services: Family<ServiceLabels, Gauge>,
}

/// The content of `/api/health` as metrics.
#[derive(Default)]
struct HealthMetrics {
    lost_supervisors: Gauge,
    restored_sessions: Gauge,
    logged_failures: Gauge,
    state_directory_present: Gauge,
    state_directory_free_bytes: Gauge,
    problems: Family<ProblemLabels, Gauge>,
}

/// Totals of the live processes of all executions. Not per execution, so that their number is bounded.
#[derive(Default)]
struct ProcessTotals {
    processes: Gauge,
    threads: Gauge,
    open_files: Gauge,
    resident_bytes: Gauge,
    read_bytes: Gauge,
    written_bytes: Gauge,
    cpu_seconds: Gauge<f64, AtomicU64>,
}

impl ProcessTotals {
    fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        for (name, help, gauge) in [
            ("processes", "Live processes of all executions", &this.processes),
            ("processes_threads", "Their threads", &this.threads),
            ("processes_open_files", "Their open descriptors", &this.open_files),
            ("processes_resident_bytes", "Sum of their resident set sizes", &this.resident_bytes),
            ("processes_read_bytes", "Bytes that they have read from disks", &this.read_bytes),
            ("processes_written_bytes", "Bytes that they have written to disks", &this.written_bytes),
        ] {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "processes_cpu_seconds",
            "CPU time of live processes and of children they have waited for",
            this.cpu_seconds.clone(),
        );
        this
    }

    fn set(&self, found: &TreeMetrics) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.processes, found.processes);
        set(&self.threads, found.threads);
        set(&self.open_files, found.open_files);
        set(&self.resident_bytes, found.resident_bytes);
        set(&self.read_bytes, found.read_bytes);
        set(&self.written_bytes, found.written_bytes);
        self.cpu_seconds.set((found.user + found.system).as_secs_f64());
    }
}

/// The state of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabels {
    state: &'static str,
}

/// A current problem.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabels {
    code: String,
}

impl HealthMetrics {
    fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let gauges = [
            ("supervisors_lost", "Supervisors that ended without a request", &this.lost_supervisors),
            ("sessions_restored", "Sessions whose shell was brought back", &this.restored_sessions),
            ("supervisor_failures_logged", "Lines in supervisor-failures.log", &this.logged_failures),
            (
                "state_directory_present",
                "1 if the state directory is where it was",
                &this.state_directory_present,
            ),
            (
                "state_directory_free_bytes",
                "Bytes that can be written there",
                &this.state_directory_free_bytes,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register("problems", "1 for each problem of /api/health", this.problems.clone());
        this
    }

    fn set(&self, health: &Health) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.lost_supervisors, health.lost_supervisors);
        set(&self.restored_sessions, health.restored_sessions);
        set(&self.logged_failures, health.logged_failures);
        set(&self.state_directory_free_bytes, health.state_dir.free_bytes);
        set(&self.state_directory_present, u64::from(health.state_dir.is_there));
        self.problems.clear();
        for problem in &health.problems {
            self.problems.get_or_create(&ProblemLabels { code: problem.code.into() }).set(1);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("sandcrab");
        let requests = Family::default();
        let buckets = [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0, 60.0];
        let durations = Histogram::new(buckets);
        let [running, executions, sessions, connections, outgoing, panics] =
            std::array::from_fn(|_| Gauge::default());
        registry.register("requests", "Requests that were answered", requests.clone());
        registry.register(
            "request_duration_seconds",
            "From a request to the start of its answer",
            durations.clone(),
        );
        registry.register("executions_running", "Executions that have not ended", running.clone());
        registry.register("executions", "Executions there is a record of", executions.clone());
        registry.register("sessions", "Sessions", sessions.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register("panics", "Requests, streams and bodies that panicked", panics.clone());
        registry.register(
            "outgoing_bytes",
            "Bytes of answers that wait for clients to take them",
            outgoing.clone(),
        );
        let services = Family::default();
        registry.register("services", "Services by state", services.clone());
        let processes = ProcessTotals::register(&mut registry);
        let health = HealthMetrics::register(&mut registry);
        Self {
            registry,
            requests,
            durations,
            running,
            executions,
            sessions,
            connections,
            outgoing,
            panics,
            health,
            processes,
            services,
        }
    }
}

impl Metrics {
    /// A request was answered.
    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        // Methods chosen by clients would be unbounded labels.
        let known = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD];
        let method = known.into_iter().find(|known| known == method).unwrap_or(Method::TRACE);
        let labels =
            RequestLabels { method: MethodLabel(method), route: route.into(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.durations.observe(took.as_secs_f64());
    }

    /// All metrics in the Prometheus format.
    pub(crate) fn write(&self, app: &AppState, processes: &TreeMetrics) -> String {
        self.processes.set(processes);
        self.services.clear();
        for snapshot in app.services.all() {
            self.services.get_or_create(&ServiceLabels { state: snapshot.service.state.as_str() }).inc();
        }
        let set = |gauge: &Gauge, value: usize| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        let health = app.sandbox.engine.health();
        self.health.set(&health);
        set(&self.running, health.running);
        set(&self.sessions, health.sessions);
        set(&self.executions, app.sandbox.engine.executions().len());
        set(&self.connections, app.connections.load(Ordering::Relaxed));
        set(&self.panics, crate::error::PANICS.load(Ordering::Relaxed));
        set(&self.outgoing, app.outgoing.held_bytes());
        let mut text = String::new();
        // Never fails: writing to a String cannot.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
