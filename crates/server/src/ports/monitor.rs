//! [`PortMonitor`]: notices ports that open or close, while `/api/events` has a reader.
//!
//! The kernel does not announce listening sockets, so its table is compared at intervals. The owners of sockets, which
//! are expensive to find, are only read when the table has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandcrab_api::Timestamp;
use sandcrab_api::event::{PortChangeEvent, ServerEvent};
use sandcrab_api::port::Port;
use sandcrab_engine::Engine;
use tokio::sync::{Mutex, broadcast};

use crate::app::{App, AppState};
use crate::ports;

/// Shortest time between two comparisons.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two comparisons, as a multiple of the duration of one: a table of many connections takes a while.
const REST_FACTOR: u32 = 20;
/// Maximum number of events that a reader has not read yet.
const MAX_UNREAD_EVENTS: usize = 256;

/// Announces ports that open or close, and ports that are exposed.
#[derive(Debug)]
pub(crate) struct PortMonitor {
    events: broadcast::Sender<ServerEvent>,
    /// Whether the task runs.
    is_running: Mutex<bool>,
}

impl Default for PortMonitor {
    fn default() -> Self {
        Self { events: broadcast::channel(MAX_UNREAD_EVENTS).0, is_running: Mutex::new(false) }
    }
}

impl PortMonitor {
    /// Announces an event to all readers.
    pub(crate) fn announce(&self, event: ServerEvent) {
        // Without readers there is nothing to do.
        drop(self.events.send(event));
    }

    /// Events from now on. The first reader starts the task.
    pub(crate) async fn subscribe(&self, app: &App) -> broadcast::Receiver<ServerEvent> {
        let mut is_running = self.is_running.lock().await;
        let events = self.events.subscribe();
        if !*is_running && !app.stopping.is_stopping() {
            let known = open_ports(app).await;
            app.tasks.spawn(watch(App::clone(app), known));
            *is_running = true;
        }
        events
    }
}

/// Compares until there are no readers or the server stops.
async fn watch(app: App, mut known: BTreeMap<u64, Port>) {
    let mut pause = INTERVAL;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = app.stopping.begun() => return,
        }
        {
            let mut is_running = app.port_monitor.is_running.lock().await;
            if app.port_monitor.events.receiver_count() == 0 {
                *is_running = false;
                return;
            }
        }
        let begun = Instant::now();
        if has_changed(&known).await {
            compare(&app, &mut known).await;
        }
        pause = INTERVAL.max(begun.elapsed() * REST_FACTOR);
    }
}

/// Whether the kernel's table differs from the known sockets.
async fn has_changed(known: &BTreeMap<u64, Port>) -> bool {
    let sockets = tokio::task::spawn_blocking(Engine::listening_sockets).await.unwrap_or_default();
    sockets.len() != known.len() || sockets.iter().any(|(_, socket)| !known.contains_key(socket))
}

/// Announces the differences.
async fn compare(app: &App, known: &mut BTreeMap<u64, Port>) {
    let found = open_ports(app).await;
    let timestamp = Timestamp::now();
    let closed = known.iter().filter(|(socket, _)| !found.contains_key(socket));
    for (_, port) in closed {
        // It may have been exposed or unexposed since it was opened.
        let exposed = app.previews.url_of(port.port);
        let event = PortChangeEvent { port: Port { exposed, ..port.clone() }, timestamp };
        app.port_monitor.announce(ServerEvent::PortClosed(event));
    }
    let opened = found.iter().filter(|(socket, _)| !known.contains_key(socket));
    for (_, port) in opened {
        let event = PortChangeEvent { port: port.clone(), timestamp };
        app.port_monitor.announce(ServerEvent::PortOpened(event));
    }
    *known = found;
}

/// The open ports by socket.
async fn open_ports(app: &Arc<AppState>) -> BTreeMap<u64, Port> {
    let found = app.sandbox.engine.listening_ports().await;
    found.iter().map(|port| (port.socket, ports::wire(app, port))).collect()
}
