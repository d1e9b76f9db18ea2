//! [`Previews`]: which ports are exposed, and under which host names.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::header;
use hyper::Request;
use sandcrab_api::event::{PortExposureEvent, ServerEvent};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{Execution, ExecutionId};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::label::{self, Label};
use super::own_listener::OwnListener;
use super::settings::PreviewSettings;
use super::store::{self, Record};
use super::upstream::{LOOPBACK, Upstream};
use crate::app::App;
use crate::config::{Listen, ServerConfig};
use crate::error::ApiError;

/// Maximum number of exposed ports.
pub(crate) const MAX_EXPOSED_PORTS: usize = 64;
/// Maximum number of requests and tunnels of all previews at the same time.
const MAX_REQUESTS: usize = 1_024;
/// The same for one port, so that one does not starve the others.
const MAX_REQUESTS_PER_PORT: usize = 512;
/// The share of the process's descriptors that connections of previews to programs may use.
const DESCRIPTOR_SHARE: usize = 8;
/// The share of the connections of clients that requests and tunnels of previews may use, so that clients of the API
/// always get one.
const CONNECTION_SHARE: usize = 2;

/// The exposed ports of a server.
#[derive(Debug)]
pub(crate) struct Previews {
    settings: PreviewSettings,
    /// Domain and port of preview addresses.
    host: String,
    state_dir: PathBuf,
    own: OwnListener,
    /// The entry of this server process in `Via`.
    via: String,
    all: RwLock<BTreeMap<u16, Arc<Exposed>>>,
    /// Held during a change.
    change: tokio::sync::Mutex<()>,
    pub(super) upstream: Upstream,
    pub(super) requests: Arc<Semaphore>,
}

/// An exposed port.
#[derive(Debug)]
pub(crate) struct Exposed {
    record: Record,
    pub(crate) url: String,
    /// Cancelled when the port is no longer exposed.
    pub(super) revoked: CancellationToken,
    pub(super) requests: Arc<Semaphore>,
}

impl Exposed {
    pub(crate) fn port(&self) -> u16 {
        self.record.port
    }

    pub(crate) fn name(&self) -> Option<&String> {
        self.record.name.as_ref()
    }

    pub(crate) fn token(&self) -> &str {
        &self.record.token
    }

    pub(crate) fn process_id(&self) -> Option<&String> {
        self.record.process_id.as_ref()
    }

    pub(crate) fn exposed_at(&self) -> Timestamp {
        self.record.exposed_at
    }

    fn event(&self) -> PortExposureEvent {
        let Record { port, name, .. } = &self.record;
        PortExposureEvent { port: *port, name: name.clone(), timestamp: Timestamp::now() }
    }
}

/// The host of a request to a preview.
#[derive(Debug)]
pub(crate) struct PreviewHost {
    /// As the client sent it.
    pub(super) given: String,
    /// Its port, if the name is that of a preview of this server and the token is right.
    pub(super) exposed: Option<Arc<Exposed>>,
}

impl Previews {
    /// Reads the exposed ports of earlier servers. `config.listen` is the address of the open socket.
    pub(crate) fn open(config: &ServerConfig) -> io::Result<Self> {
        let own_port = match config.listen {
            Listen::Tcp(address) => Some(address.port()),
            Listen::Unix(_) => None,
        };
        let own = OwnListener::new(&config.listen);
        let requests = MAX_REQUESTS
            .min(sandcrab_engine::descriptor_limit() / DESCRIPTOR_SHARE)
            .min(config.limits.connections.div_ceil(CONNECTION_SHARE));
        let id = sandcrab_engine::random_bytes::<8>();
        let mut previews = Self {
            host: config.previews.host(own_port),
            settings: config.previews.clone(),
            state_dir: config.engine.state_dir.clone(),
            own,
            via: format!("sandcrab-{:016x}", u64::from_be_bytes(id)),
            all: RwLock::default(),
            change: tokio::sync::Mutex::default(),
            upstream: Upstream::new(own, requests),
            requests: Arc::new(Semaphore::new(requests)),
        };
        let records = store::read(&previews.state_dir)?;
        let all = records.into_iter().map(|record| (record.port, Arc::new(previews.exposed(record))));
        previews.all = RwLock::new(all.take(MAX_EXPOSED_PORTS).collect());
        Ok(previews)
    }

    pub(super) fn settings(&self) -> &PreviewSettings {
        &self.settings
    }

    /// The entry of this server process in `Via`.
    pub(super) fn via(&self) -> &str {
        &self.via
    }

    fn exposed(&self, record: Record) -> Exposed {
        let label = label::label(record.port, self.settings.name(), &record.token);
        Exposed {
            url: format!("{}://{label}.{}/", self.settings.scheme().as_str(), self.host),
            record,
            revoked: CancellationToken::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS_PER_PORT)),
        }
    }

    /// All exposed ports, by number.
    pub(crate) fn list(&self) -> Vec<Arc<Exposed>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn find(&self, port: u16) -> Option<Arc<Exposed>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(&port).cloned()
    }

    /// The address of the preview of a port.
    pub(crate) fn url_of(&self, port: u16) -> Option<String> {
        self.find(port).map(|exposed| exposed.url.clone())
    }

    /// The host of a request, if it is a name for previews. The API must not answer such a request.
    pub(crate) fn host_of<B>(&self, request: &Request<B>) -> Option<PreviewHost> {
        let given = match request.uri().authority() {
            Some(authority) => authority.as_str(),
            None => request.headers().get(header::HOST)?.to_str().ok()?,
        };
        // User information before the host must not hide it.
        let host = given.rsplit_once('@').map_or(given, |(_, host)| host);
        // Nearly all requests to the API end here.
        if !host.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let (first, domain) = name.split_once('.')?;
        let own_domain = self.host.split_once(':').map_or(&*self.host, |(domain, _)| domain);
        let is_below =
            |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
        if !label::is_preview(first) || !(is_below(own_domain) || is_below("localhost")) {
            return None;
        }
        // The host is in headers for the program, so nothing else may be in it.
        let is_plain = host.len() == given.len() && port.bytes().all(|byte| byte.is_ascii_digit());
        let is_own =
            |label: &Label<'_>| domain == own_domain && label.name == self.settings.name() && is_plain;
        let label = Label::parse(first).filter(is_own);
        let exposed = label.and_then(|label| self.authorized(label));
        Some(PreviewHost { given: given.into(), exposed })
    }

    /// The exposed port, if the token is right.
    fn authorized(&self, label: Label<'_>) -> Option<Arc<Exposed>> {
        let exposed = self.find(label.port)?;
        bool::from(exposed.record.token.as_bytes().ct_eq(label.token.as_bytes())).then_some(exposed)
    }

    /// Refuses the port of this server.
    fn check_port(&self, port: u16) -> Result<(), ApiError> {
        if LOOPBACK.iter().any(|address| self.own.accepts((*address, port).into())) {
            let why = format!("port {port} is the port of this server, which previews cannot show");
            return Err(ApiError::new(ErrorCode::InvalidPort, why).with("field", "port").with("port", port));
        }
        Ok(())
    }

    /// Exposes a port until it is unexposed, or its owner ends. The same request with the same token has the same result.
    pub(crate) async fn expose(
        app: &App,
        port: u16,
        name: Option<String>,
        token: Option<String>,
        owner: Option<Execution>,
    ) -> Result<Arc<Exposed>, ApiError> {
        app.previews.check_port(port)?;
        let of_task = App::clone(app);
        complete(app, async move { Self::insert(&of_task, port, name, token, owner).await }).await
    }

    async fn insert(
        app: &App,
        port: u16,
        name: Option<String>,
        token: Option<String>,
        owner: Option<Execution>,
    ) -> Result<Arc<Exposed>, ApiError> {
        let previews = &app.previews;
        let _alone = previews.change.lock().await;
        let process_id = owner.as_ref().map(|owner| owner.id().to_string());
        let mut records: Vec<_> = previews.list().iter().map(|exposed| exposed.record.clone()).collect();
        if let Some(exposed) = previews.find(port) {
            let Record { token: current, name: current_name, process_id: current_owner, .. } =
                &exposed.record;
            if token.as_ref() == Some(current) && name == *current_name && process_id == *current_owner {
                return Ok(exposed);
            }
            return Err(already_exposed(&exposed));
        }
        if records.len() >= MAX_EXPOSED_PORTS {
            let what = format!("exposed ports: the maximum is {MAX_EXPOSED_PORTS}; unexpose some first");
            return Err(ApiError::too_many(&what));
        }
        let token = token.unwrap_or_else(label::random_token);
        let record = Record { port, token, name, process_id, exposed_at: Timestamp::now() };
        records.push(record.clone());
        previews.save(records).await?;
        let exposed = Arc::new(previews.exposed(record));
        let all = || previews.all.write().unwrap_or_else(PoisonError::into_inner);
        all().insert(port, Arc::clone(&exposed));
        app.port_monitor.announce(ServerEvent::PortExposed(exposed.event()));
        if let Some(owner) = owner {
            remove_with_owner(app, &exposed, owner);
        }
        Ok(exposed)
    }

    /// Ends the exposure of a port, with its open streams.
    pub(crate) async fn unexpose(app: &App, port: u16) -> Result<(), ApiError> {
        let of_task = App::clone(app);
        complete(app, async move {
            let app = &of_task;
            let _alone = app.previews.change.lock().await;
            let exposed = app.previews.find(port).ok_or_else(|| {
                ApiError::new(ErrorCode::PortNotExposed, format!("port {port} is not exposed"))
                    .with("port", port)
                    .suggest("GET /api/port/exposed lists the exposed ports")
            })?;
            app.previews.remove(app, &exposed).await
        })
        .await
    }

    /// Removes an exposed port. The caller holds the lock of changes.
    async fn remove(&self, app: &App, exposed: &Exposed) -> Result<(), ApiError> {
        self.save_without(exposed).await?;
        self.forget(app, exposed);
        Ok(())
    }

    async fn save_without(&self, exposed: &Exposed) -> Result<(), ApiError> {
        let others = self.list().into_iter().filter(|other| other.port() != exposed.port());
        self.save(others.map(|other| other.record.clone()).collect()).await
    }

    /// Removes an exposed port from the memory, and closes its streams.
    fn forget(&self, app: &App, exposed: &Exposed) {
        self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&exposed.port());
        exposed.revoked.cancel();
        app.port_monitor.announce(ServerEvent::PortUnexposed(exposed.event()));
    }

    async fn save(&self, records: Vec<Record>) -> Result<(), ApiError> {
        let state_dir = self.state_dir.clone();
        let saved = tokio::task::spawn_blocking(move || store::write(&state_dir, &records)).await;
        saved.map_err(ApiError::internal)?.map_err(|e| match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ApiError::new(ErrorCode::NoSpace, "the disk of the state directory is full; free space")
            }
            io::ErrorKind::NotFound => ApiError::new(
                ErrorCode::StateDirMissing,
                "the state directory was removed; restart the server",
            ),
            _ => ApiError::internal(e),
        })
    }
}

/// Completes a change of a request whose client may disconnect, so that the file and the memory stay the same.
async fn complete<T: Send + 'static>(
    app: &App,
    change: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    app.tasks.spawn(change).await.map_err(ApiError::internal)?
}

fn already_exposed(exposed: &Exposed) -> ApiError {
    let port = exposed.port();
    ApiError::new(ErrorCode::PortAlreadyExposed, format!("port {port} is exposed"))
        .with("port", port)
        .with("url", exposed.url.as_str())
        .suggest("use its address, or unexpose it first: POST /api/port/unexpose")
}

/// Continues to wait for the owners of ports that an earlier server exposed.
pub(crate) fn adopt(app: &App) {
    for exposed in app.previews.list() {
        let Some(id) = exposed.process_id() else { continue };
        let owner = id.parse::<ExecutionId>().ok().and_then(|id| app.sandbox.engine.execution(&id));
        match owner {
            Some(owner) => remove_with_owner(app, &exposed, owner),
            // Its record was removed, so it has ended.
            None => {
                let (app, exposed) = (App::clone(app), Arc::clone(&exposed));
                app.tasks.clone().spawn(async move { remove_owned(&app, &exposed).await });
            }
        }
    }
}

/// Ends the exposure when its owner has ended.
fn remove_with_owner(app: &App, exposed: &Arc<Exposed>, owner: Execution) {
    let (app, exposed) = (App::clone(app), Arc::clone(exposed));
    app.tasks.clone().spawn(async move {
        tokio::select! {
            _ = owner.wait() => {}
            () = exposed.revoked.cancelled() => return,
            // The next server removes it.
            () = app.stopping.begun() => return,
        }
        remove_owned(&app, &exposed).await;
    });
}

async fn remove_owned(app: &App, exposed: &Arc<Exposed>) {
    let _alone = app.previews.change.lock().await;
    // It may have been unexposed, and exposed again.
    let is_same = app.previews.find(exposed.port()).is_some_and(|now| Arc::ptr_eq(&now, exposed));
    if !is_same {
        return;
    }
    if let Err(error) = app.previews.save_without(exposed).await {
        // Another program may use the port, so it is unexposed in any case. The next change, or the next server, removes
        // it from the file.
        let (port, why) = (exposed.port(), error.internal_message().unwrap_or(error.message()));
        tracing::error!(port, why, "failed to remove an exposed port from its file");
    }
    app.previews.forget(app, exposed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn previews(host: Option<&str>) -> (tempfile::TempDir, Previews) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = ServerConfig::new(dir.path(), "token");
        config.listen = Listen::Tcp(([127, 0, 0, 1], 7070).into());
        config.previews = PreviewSettings::new("my-box", host, crate::PreviewScheme::Http).unwrap();
        let record = Record {
            port: 8080,
            token: "secret".into(),
            name: None,
            process_id: None,
            exposed_at: Timestamp::now(),
        };
        store::write(dir.path(), &[record]).unwrap();
        let previews = Previews::open(&config).unwrap();
        (dir, previews)
    }

    fn ask(previews: &Previews, host: &str) -> Option<Option<u16>> {
        let request = Request::builder().header(header::HOST, host).body(()).unwrap();
        previews.host_of(&request).map(|host| host.exposed.map(|exposed| exposed.port()))
    }

    #[tokio::test]
    async fn only_the_right_name_is_a_preview_and_similar_names_are_never_the_api() {
        let (_dir, local) = previews(None);
        assert_eq!(local.url_of(8080).unwrap(), "http://8080-my-box-secret.localhost:7070/");
        for right in [
            "8080-my-box-secret.localhost:7070",
            "8080-my-box-secret.localhost",
            "8080-MY-box-SECRET.LocalHost:1",
            "8080-my-box-secret.localhost.",
            "8080-my-box-secret.localhost.:7070",
            "8080-my-box-secret.localhost:",
        ] {
            assert_eq!(ask(&local, right), Some(Some(8080)), "{right}");
        }
        for wrong in [
            "8080-my-box-secreT1.localhost:7070",
            "8080-my-box-.localhost",
            "8080-my-box.localhost",
            "8080-secret.localhost",
            "8080--secret.localhost",
            "08080-my-box-secret.localhost",
            "8081-my-box-secret.localhost",
            "8080-box-secret.localhost",
            "8080-my-box-secret.a.localhost",
            "1-.localhost",
            // The port would be an entry of `Forwarded` in the name of the server.
            "8080-my-box-secret.localhost:1\";for=6.6.6.6, for=\"evil",
            "8080-my-box-secret.localhost:7070:1",
            "8080-my-box-secret.localhost:+1",
        ] {
            assert_eq!(ask(&local, wrong), Some(None), "{wrong}");
        }
        for api in
            ["127.0.0.1:7070", "localhost:7070", "a.localhost", "[::1]:7070", "8080.localhost", "8080-a.b"]
        {
            assert_eq!(ask(&local, api), None, "{api}");
        }
        let (_dir, custom) = previews(Some("p.example.com"));
        assert_eq!(custom.url_of(8080).unwrap(), "http://8080-my-box-secret.p.example.com/");
        assert_eq!(ask(&custom, "8080-my-box-secret.p.example.com:99"), Some(Some(8080)));
        assert_eq!(ask(&custom, "8080-my-box-secret.localhost"), Some(None));
        assert_eq!(ask(&custom, "8080-my-box-secret.x.p.example.com"), Some(None));
        assert_eq!(ask(&custom, "8080-my-box-secret.example.com"), None);
    }

    #[tokio::test]
    async fn the_target_of_a_request_takes_precedence_over_its_host_header() {
        let (_dir, previews) = previews(None);
        let uri = "http://x@8080-my-box-secret.localhost/";
        let request = Request::builder().uri(uri).header(header::HOST, "localhost").body(()).unwrap();
        // User information must not hide the name from this check.
        assert!(previews.host_of(&request).unwrap().exposed.is_none());
        let uri = "http://8080-my-box-secret.localhost/";
        let request = Request::builder().uri(uri).header(header::HOST, "localhost").body(()).unwrap();
        assert!(previews.host_of(&request).unwrap().exposed.is_some());
    }

    #[tokio::test]
    async fn the_port_of_the_server_is_refused() {
        let (_dir, previews) = previews(None);
        assert_eq!(previews.check_port(7070).unwrap_err().code(), ErrorCode::InvalidPort);
        assert!(previews.check_port(7071).is_ok());
    }
}
