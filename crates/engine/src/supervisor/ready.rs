//! A supervisor that waits for its first request, with a shell that is up already.

use rustix::process::Pid;

use super::core::{Core, ShellEnv};
use super::role::Next;
use crate::protocol::Answer;
use crate::shell::{Driver, Report, Shell};

/// A supervisor without work.
#[derive(Debug, Default)]
pub(super) struct Ready {
    shell: Option<Shell>,
    /// The shell takes commands.
    shell_is_up: bool,
    /// How many runs it was for.
    runs: u32,
    /// The engine that started its zygote is gone.
    engine_is_gone: bool,
}

impl Ready {
    /// Starts a shell before a command comes, if it can serve any.
    pub(super) fn new(core: &Core) -> Self {
        let shell =
            (core.context.driver == Some(Driver::Loaded)).then(|| core.start_shell(ShellEnv::Sandbox));
        Self { shell: shell.and_then(Result::ok), ..Self::default() }
    }

    /// Is ready for another run, with the shell that the last one's was forked from, or else with another: everything of
    /// the last run is gone.
    pub(super) fn again(core: &mut Core, template: Option<Shell>, runs: u32) -> Self {
        let shell_is_up = template.is_some();
        let shell = template.or_else(|| core.start_shell(ShellEnv::Sandbox).ok());
        let ready = Self { shell, shell_is_up, runs, ..Self::default() };
        if ready.shell_is_up || ready.shell.is_none() {
            ready.tell(core);
        }
        ready
    }

    pub(super) fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    /// Gives up its shell, and says how many runs it was for.
    pub(super) fn into_parts(self) -> (Option<Shell>, u32) {
        (self.shell, self.runs)
    }

    pub(super) fn is_up(&self) -> bool {
        self.shell_is_up
    }

    /// An engine has connected.
    pub(super) fn engine_connected(&self, core: &mut Core) {
        if self.shell_is_up || self.shell.is_none() {
            self.tell(core);
        }
    }

    /// Whether to wait for the end of the engine that started the zygote.
    pub(super) fn watches_lifeline(&self) -> bool {
        !self.engine_is_gone
    }

    pub(super) fn engine_ended(&mut self) {
        self.engine_is_gone = true;
    }

    /// Tells the engine that a command may come.
    fn tell(&self, core: &mut Core) {
        let ready = if self.runs == 0 { Answer::Ready } else { Answer::Renewed };
        core.link.send(0, &ready);
    }

    pub(super) fn receive(&mut self, core: &mut Core) {
        while let Some(Ok(Some(report))) = self.shell.as_mut().map(Shell::receive) {
            if matches!(report, Report::Ready) {
                self.shell_is_up = true;
                self.tell(core);
            }
        }
    }

    pub(super) fn child_ended(&mut self, core: &mut Core, pid: Pid) {
        if self.shell.as_ref().is_some_and(|shell| shell.pid() == pid) {
            // A command that comes now starts one of its own.
            self.shell = None;
            if !self.shell_is_up {
                self.tell(core);
            }
        }
    }

    pub(super) fn next(&self, core: &Core) -> Next {
        let had_engine = self.engine_is_gone || core.link.was_connected();
        if had_engine && core.link.engine().is_none() { Next::End } else { Next::Continue }
    }
}
