//! A supervisor that waits for its first request, with a ready shell.

use rustix::process::Pid;

use super::core::{Core, ShellEnv};
use super::role::Next;
use super::template::Template;
use crate::protocol::Response;
use crate::shell::{Driver, Report, Shell};

/// A supervisor without work.
#[derive(Debug, Default)]
pub(super) struct Ready {
    template: Template,
    /// Whether the template accepts commands.
    shell_is_up: bool,
    /// Number of runs so far.
    runs: u32,
    /// Whether the engine that started its zygote has exited.
    engine_is_gone: bool,
    /// Whether it has refused work and exits.
    is_given_up: bool,
}

impl Ready {
    /// Starts a shell in advance, if one can be used.
    pub(super) fn new(core: &Core) -> Self {
        let shell =
            (core.context.driver == Some(Driver::Loaded)).then(|| core.start_shell(ShellEnv::Sandbox));
        Self { template: Template::new(shell.and_then(Result::ok)), ..Self::default() }
    }

    /// Becomes ready for another run, with the template of the last run if possible: everything else of that run is
    /// gone.
    pub(super) fn again(core: &mut Core, mut template: Template, runs: u32) -> Self {
        let shell_is_up = template.is_some();
        if !shell_is_up {
            template = Template::new(core.start_shell(ShellEnv::Sandbox).ok());
        }
        let ready = Self { template, shell_is_up, runs, ..Self::default() };
        if ready.shell_is_up || !ready.template.is_some() {
            ready.tell(core);
        }
        ready
    }

    pub(super) fn shell(&self) -> Option<&Shell> {
        self.template.shell()
    }

    /// Returns its template and the number of runs.
    pub(super) fn into_parts(self) -> (Template, u32) {
        (self.template, self.runs)
    }

    /// Prepares for the next command when it is idle.
    pub(super) fn prepare(&mut self) {
        if self.shell_is_up {
            self.template.fork_ahead();
        }
    }

    pub(super) fn template(&self) -> &Template {
        &self.template
    }

    /// Ends its shells.
    pub(super) fn end_template(&mut self) {
        self.template.end();
    }

    /// Accepts no work, and exits.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    pub(super) fn is_up(&self) -> bool {
        self.shell_is_up
    }

    /// An engine has connected.
    pub(super) fn engine_connected(&self, core: &mut Core) {
        if self.shell_is_up || !self.template.is_some() {
            self.tell(core);
        }
    }

    /// Whether to wait for the exit of the engine that started the zygote.
    pub(super) fn watches_lifeline(&self) -> bool {
        !self.engine_is_gone
    }

    pub(super) fn engine_ended(&mut self) {
        self.engine_is_gone = true;
    }

    /// Tells the engine that it accepts a command.
    fn tell(&self, core: &mut Core) {
        let ready = if self.runs == 0 { Response::Ready } else { Response::Renewed };
        core.link.send(0, &ready);
    }

    pub(super) fn receive(&mut self, core: &mut Core) {
        while let Some(Ok(Some(report))) = self.template.shell_mut().map(Shell::receive) {
            if matches!(report, Report::Ready) {
                self.shell_is_up = true;
                self.tell(core);
            }
        }
    }

    pub(super) fn child_ended(&mut self, core: &mut Core, pid: Pid) {
        // The next command starts a shell of its own.
        if self.template.has_ended(pid) && !self.shell_is_up {
            self.tell(core);
        }
    }

    pub(super) fn next(&self, core: &Core) -> Next {
        let had_engine = self.engine_is_gone || core.link.was_connected();
        let is_over = self.is_given_up || had_engine && core.link.engine().is_none();
        if is_over { Next::End } else { Next::Continue }
    }
}
