//! Plays a recording.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::cast::{Cast, CastError, Event, Header, Kind};
use super::display::Display;
use super::local::LocalTerminal;
use super::signals::{Received, Signals, stop_this_program};
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::write;

/// Events that are read ahead.
const QUEUED_EVENTS: usize = 64;
/// A player that is further behind, because it was stopped or the terminal was blocked, does not catch up.
const LONGEST_LAG: Duration = Duration::from_secs(1);

/// How a recording is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlayOptions {
    /// 2 plays at double speed.
    pub(crate) speed: f64,
    /// Longer pauses are cut to this time.
    pub(crate) idle_limit: Option<Duration>,
}

/// What is read of a recording.
#[derive(Debug)]
enum Item {
    Header(Header),
    Event(Event),
    Failed(CastError),
}

/// Plays a recording; `-` is standard input. Ctrl-C ends it at any time, also while the file cannot be opened or read.
pub(crate) async fn play(path: PathBuf, options: PlayOptions, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(|e| Failure::terminal(&e))?;
    let (sender, items) = mpsc::channel(QUEUED_EVENTS);
    let source = path.clone();
    // Opening a FIFO, and reading, may block forever. The process does not wait for the thread.
    std::thread::Builder::new().name("recording".to_owned()).spawn(move || read(&source, &sender))?;
    let mut player = Player { items, path, options, due: Instant::now(), current: None, output };
    let mut screen = Screen::open(output)?;
    let ended = loop {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Received::End(number) => break Ok(128 + number),
                Received::Stop => screen.suspend().await,
                Received::Continue => screen.resume()?,
                Received::Resize => (),
            },
            played = player.step(&mut screen) => match played {
                Ok(true) => (),
                Ok(false) => break Ok(0),
                Err(failure) => break Err(failure),
            },
        }
    };
    screen.close().await;
    ended
}

/// Reads a recording until its end, or until the player stops.
fn read(path: &Path, to: &mpsc::Sender<Item>) {
    let open = || -> Result<(Header, Cast<_>), CastError> {
        let source: Box<dyn Read> =
            if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        Cast::open(BufReader::new(source))
    };
    let mut cast = match open() {
        Ok((header, cast)) => {
            if to.blocking_send(Item::Header(header)).is_err() {
                return;
            }
            cast
        }
        Err(error) => return drop(to.blocking_send(Item::Failed(error))),
    };
    loop {
        let item = match cast.next() {
            Ok(Some(event)) => Item::Event(event),
            Ok(None) => return,
            Err(error) => return drop(to.blocking_send(Item::Failed(error))),
        };
        if to.blocking_send(item).is_err() {
            return;
        }
    }
}

/// The local terminal, or another standard output.
#[derive(Debug)]
struct Screen {
    terminal: Option<(LocalTerminal, Display)>,
}

impl Screen {
    fn open(output: Output) -> Result<Self, Failure> {
        if !output.is_terminal {
            return Ok(Self { terminal: None });
        }
        let Some(terminal) = LocalTerminal::open(false)? else { return Ok(Self { terminal: None }) };
        // Keys, and the terminal's answers to queries in the recording, do not appear as text.
        terminal.set_silent()?;
        let display = Display::start(terminal.screen()).map_err(|e| Failure::terminal(&e))?;
        Ok(Self { terminal: Some((terminal, display)) })
    }

    async fn suspend(&self) {
        if let Some((terminal, display)) = &self.terminal {
            display.flush().await;
            terminal.restore();
        }
        stop_this_program();
    }

    fn resume(&self) -> Result<(), Failure> {
        self.terminal.as_ref().map_or(Ok(()), |(terminal, _)| terminal.set_silent())
    }

    async fn close(self) {
        if let Some((terminal, display)) = self.terminal {
            display.flush().await;
            terminal.restore();
            terminal.drop_input();
        }
    }
}

/// The position in a recording.
#[derive(Debug)]
struct Player {
    items: mpsc::Receiver<Item>,
    path: PathBuf,
    options: PlayOptions,
    /// Time of the current event.
    due: Instant,
    current: Option<Kind>,
    output: Output,
}

impl Player {
    /// Plays the next event; false after the last. Cancel safe.
    async fn step(&mut self, screen: &mut Screen) -> Result<bool, Failure> {
        if self.current.is_none() {
            match self.items.recv().await {
                None => return Ok(false),
                Some(Item::Failed(error)) => return Err(Failure::recording(&self.path, &error)),
                Some(Item::Header(header)) => {
                    self.due = Instant::now();
                    self.compare_sizes(&header, screen);
                    return Ok(true);
                }
                Some(Item::Event(event)) => {
                    self.due += self.pause(event.after);
                    let now = Instant::now();
                    if self.due + LONGEST_LAG < now {
                        self.due = now;
                    }
                    self.current = Some(event.kind);
                }
            }
        }
        sleep_until(self.due).await;
        match &mut screen.terminal {
            Some((_, display)) => {
                let room = display.room().await?;
                if let Some(Kind::Output(text)) = self.current.take() {
                    room.write(text.into());
                }
            }
            None => {
                let output = self.output;
                if let Some(Kind::Output(text)) = self.current.take() {
                    write(move || output.bytes(text.as_bytes())).await?;
                }
            }
        }
        Ok(true)
    }

    fn pause(&self, recorded: Duration) -> Duration {
        let limited = self.options.idle_limit.map_or(recorded, |limit| recorded.min(limit));
        limited.div_f64(self.options.speed)
    }

    fn compare_sizes(&self, header: &Header, screen: &Screen) {
        if let Some((terminal, _)) = &screen.terminal
            && let Some((cols, rows)) = terminal.size()
            && (header.cols > cols || header.rows > rows)
        {
            self.output.note(&format!(
                "the recording has {} columns and {} rows, and this terminal {cols} and {rows}",
                header.cols, header.rows
            ));
        }
    }
}
