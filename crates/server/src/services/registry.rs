//! [`Services`]: all services of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::event::ServerEvent;
use sandcrab_api::service::ServiceRequest;
use sandcrab_engine::{ExecutionId, KillReceipt};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::check::Checks;
use super::definition::{Definition, MAX_SERVICE_ID_BYTES};
use super::ending::AfterEnd;
use super::record::{Record, Store};
use super::snapshot::{ObservedHealth, Snapshot, snapshot};
use super::task::{Command, Task};
use crate::app::App;
use crate::error::ApiError;
use crate::launch::bad_id;

/// Maximum number of services, stopped ones included.
pub(crate) const MAX_SERVICES: usize = 256;
/// Path segments below `/api/service`, which therefore cannot be ids.
const RESERVED_IDS: [&str; 2] = ["list", "start"];
/// Number of commands that wait for a service.
const MAX_COMMANDS: usize = 16;
/// Number of changes that a slow reader may miss before it is told so.
const MAX_UNREAD_CHANGES: usize = 1024;

/// A change of a service, as an event of `/api/events`.
pub(crate) type ServiceChange = Arc<ServerEvent>;

/// All services of a server.
#[derive(Debug)]
pub(crate) struct Services {
    table: Mutex<HashMap<String, Arc<Handle>>>,
    pub(super) changes: broadcast::Sender<ServiceChange>,
    pub(super) checks: Checks,
}

impl Default for Services {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(MAX_UNREAD_CHANGES);
        Self { table: Mutex::default(), changes, checks: Checks::default() }
    }
}

/// A service, for others than its task.
#[derive(Debug)]
pub(crate) struct Handle {
    digest: Option<String>,
    commands: mpsc::Sender<Command>,
    pub(super) snapshot: watch::Sender<Snapshot>,
}

impl Handle {
    /// What is known of the service.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Waits until the snapshot is as wanted.
    pub(crate) async fn until(&self, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
        let mut receiver = self.snapshot.subscribe();
        match receiver.wait_for(wanted).await {
            Ok(found) => found.clone(),
            // Never happens: this handle has the sender.
            Err(_) => self.snapshot(),
        }
    }

    /// Ends the current execution, and returns what was ended when `then` has happened.
    pub(crate) async fn end(
        &self,
        then: AfterEnd,
        signal: i32,
        grace: Duration,
    ) -> Result<KillReceipt, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::End { then, signal, grace, reply }, answer).await
    }

    /// Ends the current execution, and leaves the record to another task, unless that puts it back.
    pub(super) async fn replace(&self, put_back: oneshot::Receiver<oneshot::Sender<()>>) {
        let (reply, answer) = oneshot::channel();
        // A task that has ended has nothing left.
        drop(self.command(Command::Replace { reply, put_back }, answer).await);
    }

    async fn command(
        &self,
        command: Command,
        answer: oneshot::Receiver<Result<KillReceipt, ApiError>>,
    ) -> Result<KillReceipt, ApiError> {
        let gone = || match self.snapshot().is_removed {
            true => ApiError::no_service(&self.snapshot().service.id),
            false => ApiError::shutting_down(),
        };
        self.commands.send(command).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// A service that a request starts.
pub(crate) struct NewService {
    pub(crate) request: ServiceRequest,
    /// Digests of the idempotency key and of the body.
    pub(crate) digest: Option<[String; 2]>,
}

impl Services {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Handle>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All services, the oldest first.
    pub(crate) fn all(&self) -> Vec<Snapshot> {
        let mut all: Vec<_> = self.table().values().map(|handle| handle.snapshot()).collect();
        all.sort_by(|one, other| {
            let key = |snapshot: &Snapshot| (snapshot.service.created_at, snapshot.service.id.clone());
            key(one).cmp(&key(other))
        });
        all
    }

    /// The service with this id.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Handle>, ApiError> {
        self.table().get(id).cloned().ok_or_else(|| ApiError::no_service(id))
    }

    /// Changes of services from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<ServiceChange> {
        self.changes.subscribe()
    }

    /// Removes a service, unless another one has its id by now.
    pub(super) fn forget(&self, id: &str, handle: &Arc<Handle>) {
        let mut table = self.table();
        if table.get(id).is_some_and(|found| Arc::ptr_eq(found, handle)) {
            table.remove(id);
        }
    }

    /// Gives an id back to the service that had it before.
    pub(super) fn put_back(&self, id: &str, new: &Arc<Handle>, former: Arc<Handle>) {
        let mut table = self.table();
        if table.get(id).is_some_and(|found| Arc::ptr_eq(found, new)) {
            table.insert(id.to_owned(), former);
        }
    }

    /// Starts a service, or finds the one that an identical request has started. Returns when its program runs.
    pub(crate) async fn start(&self, app: &App, new: NewService) -> Result<Arc<Handle>, ApiError> {
        let NewService { mut request, digest } = new;
        let definition = Definition::new(&request)?;
        let id = id(request.service_id.take(), digest.as_ref())?;
        (request.wait_for_ready, request.ready_timeout_ms) = (None, None);
        let joined = digest.as_ref().map(|digest| digest.concat());
        loop {
            let record = Record::new(id.clone(), request.clone(), joined.clone());
            record.check_size()?;
            match self.claim(record, digest.as_ref())? {
                Claim::Same(same) => {
                    if !same.until(|snapshot| snapshot.is_begun).await.is_removed {
                        return Ok(same);
                    }
                    // It could not be started; this request tries again.
                }
                Claim::New { handle, replaces, record, commands } => {
                    let (reply, answer) = oneshot::channel();
                    let mut task = Task::new(app, *record, definition, Arc::clone(&handle), commands);
                    task.begins(reply, replaces);
                    app.tasks.spawn(task.run());
                    answer.await.map_err(|_| ApiError::shutting_down())??;
                    return Ok(handle);
                }
            }
        }
    }

    /// Takes an id, in one step.
    fn claim(&self, record: Record, digest: Option<&[String; 2]>) -> Result<Claim, ApiError> {
        let mut table = self.table();
        let mut replaces = None;
        match table.get(&record.id) {
            Some(found) => match (digest, &found.digest) {
                (Some(digest), Some(old)) if digest.concat() == *old => {
                    return Ok(Claim::Same(Arc::clone(found)));
                }
                (Some([key, _]), Some(old)) if old.starts_with(key) => {
                    let message = "the Idempotency-Key was used for a different request; use another key";
                    return Err(ApiError::new(ErrorCode::ExecutionConflict, message)
                        .with("serviceId", record.id.as_str()));
                }
                _ if found.snapshot.borrow().is_over() => replaces = Some(Arc::clone(found)),
                _ => {
                    let message = format!("service {:?} exists, and was not stopped", record.id);
                    return Err(ApiError::new(ErrorCode::ServiceAlreadyExists, message)
                        .with("serviceId", record.id.as_str())
                        .suggest("stop it first: POST /api/service/{id}/stop; or choose another serviceId"));
                }
            },
            None if table.len() >= MAX_SERVICES => {
                return Err(ApiError::too_many(&format!(
                    "services: at most {MAX_SERVICES} are allowed; delete some"
                )));
            }
            None => {}
        }
        let (handle, commands) = handle(&record, false);
        table.insert(record.id.clone(), Arc::clone(&handle));
        Ok(Claim::New { handle, replaces, record: Box::new(record), commands })
    }
}

/// The result of a claim of an id.
enum Claim {
    /// An identical request has started it.
    Same(Arc<Handle>),
    /// The id is taken.
    New {
        handle: Arc<Handle>,
        /// The service that had the id.
        replaces: Option<Arc<Handle>>,
        record: Box<Record>,
        commands: mpsc::Receiver<Command>,
    },
}

fn handle(record: &Record, is_begun: bool) -> (Arc<Handle>, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
    let (snapshot, _) = watch::channel(snapshot(record, &ObservedHealth::default(), is_begun, false));
    (Arc::new(Handle { digest: record.digest.clone(), commands, snapshot }), receiver)
}

/// The id of a new service.
fn id(given: Option<String>, digest: Option<&[String; 2]>) -> Result<String, ApiError> {
    let Some(id) = given else {
        let random = ExecutionId::random();
        return Ok(match digest {
            Some([key, _]) => format!("key-{}", &key[..40]),
            None => format!("service-{}", random.as_str().trim_start_matches("x-")),
        });
    };
    if RESERVED_IDS.contains(&id.as_str()) {
        return Err(ApiError::invalid("serviceId", format!("{id:?} is part of a route; choose another id")));
    }
    id.parse::<ExecutionId>().map_err(|e| bad_id("serviceId", &e))?;
    if id.len() > MAX_SERVICE_ID_BYTES {
        let why =
            format!("serviceId: the id has {} bytes, at most {MAX_SERVICE_ID_BYTES} are allowed", id.len());
        return Err(ApiError::new(ErrorCode::NameTooLong, why).with("field", "serviceId"));
    }
    Ok(id)
}

/// Resumes the services of an earlier server.
pub(crate) fn adopt(app: &App) {
    let store = Store::new(app.sandbox.state_dir.clone());
    let records = match store.read() {
        Ok(records) => records,
        Err(error) => {
            tracing::error!(%error, "the records of services cannot be read");
            return;
        }
    };
    for record in records {
        let definition = match Definition::new(&record.request) {
            Ok(definition) => definition,
            Err(error) => {
                tracing::error!(
                    service = record.id,
                    error = error.message(),
                    "the record of a service is invalid; the service is not started"
                );
                continue;
            }
        };
        let (handle, commands) = handle(&record, true);
        app.services.table().insert(record.id.clone(), Arc::clone(&handle));
        app.tasks.spawn(Task::new(app, record, definition, handle, commands).run());
    }
}
