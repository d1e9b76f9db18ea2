//! [`View`]: shows a terminal of the server in the local one.

use sandcrab_api::terminal::{MAX_TERMINAL_SIZE, TerminalExitFrame};
use sandcrab_client::{AttachOptions, Attachment, Client, TerminalEvent};

use super::detach::{DetachFilter, DetachKeys};
use super::display::Display;
use super::keyboard::Keyboard;
use super::local::LocalTerminal;
use super::signals::{Received, Signals, stop_this_program};
use crate::failure::Failure;

const HANGUP: u8 = 1;
const INTERRUPT: u8 = 2;
const CTRL_C: u8 = 0x03;
const BELL: &[u8] = b"\x07";
/// Keys that interrupt, quit or stop a program: Ctrl-C, Ctrl-\ and Ctrl-Z.
const INTERRUPTS: [u8; 3] = [CTRL_C, 0x1c, 0x1a];
/// The most bytes of a key that is pressed. More at a time are pasted.
const MAX_KEY_BYTES: usize = 16;

/// The local terminal, for the time of one view.
#[derive(Debug)]
pub(crate) struct LocalScreen {
    terminal: LocalTerminal,
    signals: Signals,
    keyboard: Keyboard,
}

/// How a terminal is shown.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) client: &'a Client,
    /// The id of the terminal.
    pub(crate) id: &'a str,
    pub(crate) detach_keys: DetachKeys,
    /// Resume after this cursor; `None` begins with a repaint.
    pub(crate) since: Option<u64>,
    /// Keys are not passed on. Ctrl-C ends the view.
    pub(crate) read_only: bool,
}

/// Why a view has ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The program has ended.
    Exited(TerminalExitFrame),
    /// The detach keys were pressed.
    Detached,
    /// This program received a signal that ends it, or Ctrl-C without input.
    Signal(u8),
}

impl LocalScreen {
    /// The terminal of this program; an error with advice if there is none. With JSON, standard output is left to the
    /// document if it is not the terminal.
    pub(crate) fn open(what: &str, json: bool) -> Result<Self, Failure> {
        let terminal = LocalTerminal::open(json)?.ok_or_else(|| {
            let otherwise = if what.starts_with('-') { ", or omit the option" } else { "" };
            Failure::usage(
                format!("{what} needs a terminal, and standard input is not one"),
                format!(
                    "run it in a terminal{otherwise}; to use a program with a screen from a script, see `sandcrab \
                     terminal --help`"
                ),
            )
        })?;
        let keyboard = terminal.input().and_then(Keyboard::start).map_err(|e| Failure::terminal(&e))?;
        Ok(Self { terminal, signals: Signals::listen().map_err(|e| Failure::terminal(&e))?, keyboard })
    }

    /// Columns and rows, as far as the server supports them.
    pub(crate) fn size(&self) -> Option<(u16, u16)> {
        let (cols, rows) = self.terminal.size()?;
        Some((cols.min(MAX_TERMINAL_SIZE), rows.min(MAX_TERMINAL_SIZE)))
    }

    /// Shows a terminal until it ends. The local terminal is restored when this returns.
    pub(crate) async fn show(&mut self, view: View<'_>) -> Result<Outcome, Failure> {
        let options = AttachOptions { size: self.size(), since: view.since, read_only: view.read_only };
        let attached = tokio::select! {
            attached = view.client.attach(view.id, &options) => attached?,
            number = self.end_signal() => return Ok(Outcome::Signal(number)),
        };
        let mut display = Display::start(self.terminal.screen()).map_err(|e| Failure::terminal(&e))?;
        let mut attached = attached;
        self.terminal.set_raw()?;
        let outcome = self.follow(&view, &mut attached, &mut display).await;
        display.flush().await;
        self.terminal.restore();
        if matches!(outcome, Ok(Outcome::Detached | Outcome::Signal(_))) {
            attached.detach().await;
        }
        outcome
    }

    /// Waits for a signal that ends this program.
    pub(crate) async fn end_signal(&mut self) -> u8 {
        loop {
            if let Received::End(number) = self.signals.next().await {
                return number;
            }
        }
    }

    async fn follow(
        &mut self,
        view: &View<'_>,
        attached: &mut Attachment,
        display: &mut Display,
    ) -> Result<Outcome, Failure> {
        let mut filter = DetachFilter::new(view.detach_keys.clone());
        loop {
            // Keys and signals first: a program that prints without end must not delay Ctrl-C.
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    Received::End(number) => return Ok(Outcome::Signal(number)),
                    Received::Resize => {
                        if let Some((cols, rows)) = self.size() {
                            attached.resize(cols, rows);
                        }
                    }
                    Received::Stop => {
                        display.flush().await;
                        self.terminal.restore();
                        stop_this_program();
                    }
                    Received::Continue => {
                        // Another program has used the terminal meanwhile, or has changed its size.
                        self.terminal.set_raw()?;
                        if let Some((cols, rows)) = self.size() {
                            attached.resize(cols, rows);
                        }
                        attached.repaint();
                    }
                },
                keys = self.keyboard.read() => {
                    let keys = keys.map_err(|e| Failure::stdin(&e))?;
                    if keys.is_empty() {
                        return Ok(Outcome::Signal(HANGUP));
                    }
                    let filtered = filter.filter(&keys);
                    if view.read_only {
                        if filtered.input.contains(&CTRL_C) {
                            return Ok(Outcome::Signal(INTERRUPT));
                        }
                    } else if attached.has_queued_input() && is_interrupt(&filtered.input) {
                        attached.interrupt(filtered.input);
                    } else if !attached.send(filtered.input) {
                        beep(display).await?;
                    }
                    if filtered.detached {
                        return Ok(Outcome::Detached);
                    }
                }
                event = receive(attached, display) => match event? {
                    Some(TerminalEvent::Exit(exit)) => return Ok(Outcome::Exited(exit)),
                    Some(TerminalEvent::Failed(_) | TerminalEvent::InputLost) => beep(display).await?,
                    _ => (),
                },
            }
        }
    }
}

/// Receives an event, and shows it if it is output. Reads only while the local terminal takes output.
async fn receive(attached: &mut Attachment, display: &mut Display) -> Result<Option<TerminalEvent>, Failure> {
    let room = display.room().await?;
    let event = tokio::select! {
        event = attached.next() => Some(event?.ok_or_else(Failure::incomplete_stream)?),
        // Not only when the next output comes, which may be never.
        () = room.lost() => None,
    };
    let Some(event) = event else {
        drop(room);
        // The error of the terminal.
        drop(display.room().await?);
        return Ok(None);
    };
    match event {
        TerminalEvent::Output(bytes) | TerminalEvent::Repaint(bytes) => {
            room.write(bytes);
            Ok(None)
        }
        other => Ok(Some(other)),
    }
}

/// Whether a key was pressed that must not wait behind a paste.
fn is_interrupt(keys: &[u8]) -> bool {
    keys.len() <= MAX_KEY_BYTES && keys.iter().any(|key| INTERRUPTS.contains(key))
}

/// What a terminal does with a key that it does not take.
async fn beep(display: &mut Display) -> Result<(), Failure> {
    display.room().await?.write(BELL.into());
    Ok(())
}
