//! Handlers of the engine's requests.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::core::{Core, EndRequest, EndingTask, Purpose};
use super::event_loop::Supervisor;
use super::job::raw;
use super::leftovers::named;
use super::link::Incoming;
use super::role::Role;
use super::session::Session;
use crate::end::{EndReason, KillReceipt, Usage};
use crate::process_tree::{Ending, Waiting, usage_of, waits_for_file, waits_for_input};
use crate::protocol::{Envelope, Inspection, Refusal, Request, Response, Stage};

/// Maximum number of concurrent kills: each scans every process below.
const MAX_ENDINGS: usize = 64;
/// Maximum size of the input of a terminal that is a key. Its echo follows at once, and the engine is woken once for
/// both.
const KEY_BYTES: usize = 64;

impl Supervisor {
    pub(super) fn handle(&mut self, incoming: Incoming) {
        let Incoming { envelope: Envelope { request, body }, journal } = incoming;
        let now = Instant::now();
        let answer = match body {
            // A `Hello` that only authenticates expects no reply.
            Request::Hello(..) => (request != 0).then(|| self.welcome()),
            Request::Start(command) => self.role.start(&mut self.core, request, *command, journal, now),
            Request::OpenSession(open) => {
                let opened = self.role.open_session(&mut self.core, request, *open, now);
                opened.err().map(Response::Refused)
            }
            Request::Kill { slot, signal, grace } => self.kill(request, slot, signal, grace, now),
            Request::Interrupt { signal, grace } => match self.role.current_slot() {
                Some(slot) => self.kill(request, slot, signal, grace, now),
                None => Some(Response::Receipt(KillReceipt::default())),
            },
            Request::Signal { slot, signal } => Some(self.signal(slot, signal)),
            Request::WriteTerminal { slot, bytes, direct } => {
                let answer = self.write_terminal(slot, &bytes.0, direct, now);
                if bytes.0.len() <= KEY_BYTES {
                    self.core.link.send_with_next(request, &answer);
                    return;
                }
                Some(answer)
            }
            Request::ShareTerminal(slot) => {
                self.share_terminal(slot);
                None
            }
            Request::Resize { slot, size } => Some(self.resize(slot, size, now)),
            Request::WriteStdin { slot, bytes, close, direct } if self.is_terminal(slot) => {
                Some(self.write_whole(slot, bytes.0, close, direct, now))
            }
            Request::WriteStdin { slot, bytes, close, .. } => {
                let taken = self.core.job(slot).map(|job| job.io.queue_stdin(request, &bytes.0, close));
                match taken {
                    Ok(true) => {
                        self.write_stdin(slot);
                        None
                    }
                    Ok(false) => Some(Response::Refused(Refusal::StdinNotOpen)),
                    Err(why) => Some(Response::Refused(why)),
                }
            }
            Request::Follow { slot, position, times } => {
                if let Ok(job) = self.core.job(slot) {
                    job.follow(position, times.unwrap_or(1));
                }
                None
            }
            Request::Reader { slot, read } => {
                if let Ok(job) = self.core.job(slot) {
                    job.set_reader(read, now);
                }
                None
            }
            Request::TellEnd(slot) => {
                self.core.tell_end_again(slot);
                None
            }
            Request::EndRecorded(slot) => {
                if let Ok(job) = self.core.job(slot) {
                    job.end_was_recorded();
                }
                None
            }
            Request::Inspect(slot) => Some(self.inspect(slot)),
            Request::Snapshot => self.in_session(|session, core| session.queue_snapshot(core, request)),
            Request::Quit => {
                self.role.end_template();
                self.core.quit(request);
                None
            }
            Request::Reset(restore) => {
                self.in_session(|session, core| session.reset(core, request, restore, now))
            }
            Request::Adopt { slot, pid } => Some(match self.core.adopt_process(slot, pid, now) {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused(why),
            }),
            Request::SetEnv(changes) => {
                self.in_session(|session, core| session.queue_env(core, request, &changes))
            }
        };
        if let Some(answer) = answer {
            self.core.link.send(request, &answer);
        }
    }

    /// Passes a request to the session, which replies itself unless it refuses.
    fn in_session(
        &mut self,
        deal: impl FnOnce(&mut Session, &mut Core) -> Result<(), Refusal>,
    ) -> Option<Response> {
        let dealt = self.role.session().and_then(|session| deal(session, &mut self.core));
        dealt.err().map(Response::Refused)
    }

    fn kill(
        &mut self,
        request: u64,
        slot: u32,
        signal: i32,
        grace: Duration,
        now: Instant,
    ) -> Option<Response> {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Some(Response::Refused(Refusal::Unsupported));
        };
        if let Some(left) = self.core.left_by(slot) {
            if self.core.endings.len() >= MAX_ENDINGS {
                return Some(Response::Refused(Refusal::QueueFull));
            }
            let ending = Ending::new(left.scope(&self.role), signal, grace, None);
            let purpose = Purpose::Kill { request };
            self.core.endings.push(EndingTask { ending, purpose, command: None, wake_at: now });
            return None;
        }
        let Some(job) = self.core.find(slot) else {
            return Some(Response::Receipt(KillReceipt::default()));
        };
        match (job.stage, &mut self.role) {
            (Stage::Running, _) if self.core.endings.len() >= MAX_ENDINGS => {
                Some(Response::Refused(Refusal::QueueFull))
            }
            (Stage::Ended | Stage::Left, _) => Some(Response::Receipt(KillReceipt::default())),
            (Stage::Queued, role) => {
                match role {
                    Role::Session(session) => session.end_unstarted(&mut self.core, slot, signal, now),
                    Role::Run(run) => run.end_unstarted(&mut self.core, slot, signal, now),
                    // A terminal starts at once.
                    Role::Ready(_) | Role::Terminal(_) => {}
                }
                Some(Response::Receipt(KillReceipt::default()))
            }
            (Stage::Running, role) => {
                let purpose = Purpose::Kill { request };
                let request = EndRequest { slot, reason: EndReason::Killed, signal, grace, purpose };
                role.end_processes(&mut self.core, request, now);
                None
            }
        }
    }

    fn signal(&self, slot: u32, signal: i32) -> Response {
        let job = self.core.find(slot).filter(|job| job.stage == Stage::Running);
        let scope = match (job, self.core.left_by(slot)) {
            (Some(_), _) => self.role.scope_of(job),
            (None, Some(left)) => left.scope(&self.role),
            (None, None) => return Response::Refused(Refusal::NoSuchExecution),
        };
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Response::Refused(Refusal::Unsupported);
        };
        match scope.signal(signal) {
            // An ended execution may have no processes.
            Ok(0) if job.is_none() => Response::Refused(Refusal::NoSuchExecution),
            Ok(0) => {
                self.role.signal_shell(slot, signal);
                Response::Done
            }
            Ok(_) => Response::Done,
            Err(e) => Response::Refused(Refusal::os(&e, "send the signal")),
        }
    }

    fn inspect(&self, slot: u32) -> Response {
        let mut inspection = Inspection::default();
        if let Role::Session(session) = &self.role {
            session.describe(&mut inspection);
        }
        if let Some(job) = self.core.find(slot).filter(|job| job.stage == Stage::Running) {
            let mut members = self.role.scope_of(Some(job)).members();
            inspection.pids = members.iter().map(|pid| raw(*pid)).collect();
            inspection.usage = Some(Usage { wall: job.running_for(), ..usage_of(&members) });
            members.extend(self.role.readers());
            let waiting = match (job.io.terminal(), job.io.stdin_end()) {
                (Some(terminal), _) => waits_for_file(&members, terminal.file()),
                (None, Some(stdin)) => waits_for_input(&members, stdin),
                (None, None) => Waiting::No,
            };
            inspection.waiting_for_input = match waiting {
                Waiting::Yes => Some(true),
                Waiting::No => Some(false),
                Waiting::Unknown => None,
            };
        }
        if let Some(left) = self.core.left_by(slot) {
            let members = left.scope(&self.role).members();
            inspection.pids = members.iter().map(|pid| raw(*pid)).collect();
            inspection.usage = Some(usage_of(&members));
            inspection.leftovers = Some(named(&members));
        }
        Response::Inspected(inspection)
    }

    pub(super) fn write_stdin(&mut self, slot: u32) {
        let Ok(job) = self.core.job(slot) else { return };
        let (done, failed) = job.io.write_stdin();
        for request in done {
            self.core.link.send(request, &Response::Done);
        }
        for request in failed {
            self.core.link.send(request, &Response::Refused(Refusal::StdinNotOpen));
        }
    }
}
