//! Round trips between two processes that are pinned to one core, or to two.
//!
//! The kernel places two communicating processes on one core or on two, depending on recent activity. A round
//! trip then takes 15 µs or 50 µs, which is more than the difference between most servers. So floors are
//! measured both ways, and together with the figure that has the same path.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::latency::{exec_once, own_cost};
use super::program::{Program, Server};
use super::turns::{Part, take_turns, timed};
use super::{bare, post, request};
use crate::bench::floors::BareBash;
use crate::bench::{FigureError, Stats};

/// Rounds, and samples per round.
const ROUNDS: usize = 5;
const SAMPLES: usize = 1_000;

/// The core of the responding process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponderCore {
    /// The core of the client.
    SameCore,
    /// Another core; the same if there is only one.
    OtherCore,
}

/// Round trips with each process pinned to its core.
#[derive(Debug, Clone, Copy)]
pub(super) struct PinnedRoundTrips {
    pub(super) bare: Stats,
    pub(super) ping: Stats,
    pub(super) bash: Stats,
    /// `true` in a session of the server.
    pub(super) session: Stats,
    /// Processor time of the client per request.
    pub(super) own: Duration,
}

impl PinnedRoundTrips {
    /// Starts a server on a new state directory, a bare handler and a bash, and measures them in turns.
    pub(super) fn measure(responder: ResponderCore, state_dir: &Path) -> Result<Self, FigureError> {
        // On a separate thread, so that no other thread is pinned to a core.
        let measured = thread::scope(|scope| scope.spawn(|| Self::measure_here(responder, state_dir)).join());
        measured.unwrap_or_else(|_| Err("measuring has failed".into()))
    }

    fn measure_here(responder: ResponderCore, state_dir: &Path) -> Result<Self, FigureError> {
        let allowed = sched_getaffinity(None)?;
        let cores = || (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let own_core = cores().next();
        let other_core = if responder == ResponderCore::SameCore { own_core } else { cores().next_back() };
        // Processes that are started from here on inherit this core.
        stay_on(other_core)?;
        let server = Server::start(state_dir)?;
        let ping = request("GET", "/api/ping");
        let pong = String::from_utf8(server.connect()?.ask_whole(&ping)?)?;
        let floor = Program::start(bare::command(&pong))?;
        let mut bash = BareBash::start()?;
        stay_on(own_core)?;

        let session = server.new_session()?;
        let exec = post("/api/execute", &format!(r#"{{"command":"true","sessionId":"{session}"}}"#));
        let [mut to_floor, mut to_ping, mut to_exec] =
            [floor.connect()?, server.connect()?, server.connect()?];
        let bare_request = request("GET", "/");
        let [bare, pinged, trip, run] = take_turns(
            ROUNDS,
            [
                Part::new(SAMPLES, || timed(|| to_floor.ask_size(&bare_request))),
                Part::new(SAMPLES, || timed(|| to_ping.ask_size(&ping))),
                Part::new(SAMPLES, || Ok(bash.round_trip()?)),
                Part::new(SAMPLES, || exec_once(&mut to_exec, &exec)),
            ],
        )?;
        let own = own_cost(&mut to_floor, &bare_request)?;
        Ok(Self { bare, ping: pinged, bash: trip, session: run, own })
    }
}

fn stay_on(core: Option<usize>) -> Result<(), FigureError> {
    let mut set = CpuSet::new();
    core.iter().for_each(|core| set.set(*core));
    Ok(sched_setaffinity(None, &set)?)
}
