//! From a keystroke to its echo.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::floors::{BarePty, bare_websocket};
use super::{Viewer, attach_when_ready, create};
use crate::bench::http::{Part, Server, take_turns, timed};
use crate::bench::{FigureError, FigureLimit, Measure, Row, Stats, Table};

const ROUNDS: usize = 5;
const SAMPLES: usize = 1_000;
const SIZE: (u16, u16) = (80, 24);

/// Measures keystrokes beside nothing, and beside another terminal that prints at full speed.
pub(super) fn push(
    server: &Server,
    table: &mut Table,
    progress: &mut dyn FnMut(&str),
) -> Result<(), FigureError> {
    progress("keystrokes, idle");
    let idle = Echoes::measure(server)?;
    idle.push("", table);

    progress("keystrokes, beside a terminal that prints at full speed");
    let flood = create(server, Some("yes"), SIZE)?;
    let ours = Echoes::ours(server);
    server.connect()?.ask_size(&crate::bench::http::request("DELETE", &format!("/api/terminal/{flood}")))?;
    let ours = ours?;
    // Its floors are measured beside the same program in a bare pseudo-terminal that is read as fast as it goes.
    let bare = BarePty::start(&mut Command::new("yes"))?;
    let mut output = bare.controller()?;
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while matches!(std::io::Read::read(&mut output, &mut buffer), Ok(1..)) {}
    });
    let floors = Echoes::floors();
    drop(bare);
    reader.join().map_err(|_| "a reader panicked")?;
    let [pty, websocket] = floors?;
    Echoes { pty, websocket, ours }.push(", beside a terminal that prints at full speed", table);
    Ok(())
}

/// The times of an echo through each.
struct Echoes {
    pty: Stats,
    websocket: Stats,
    ours: Stats,
}

impl Echoes {
    fn measure(server: &Server) -> Result<Self, FigureError> {
        let id = create(server, Some("stty raw -echo; printf ready; exec cat"), SIZE)?;
        let mut viewer = attach_when_ready(server, &id, SIZE)?;
        let (mut pty, websocket) = (BarePty::start(&mut Command::new("cat"))?, bare_websocket()?);
        let mut bare = Viewer::open(websocket.address(), "/")?;
        let [pty, websocket, ours] = take_turns(
            ROUNDS,
            [
                Part::new(SAMPLES, || timed(|| pty.echo())),
                Part::new(SAMPLES, || timed(|| echo(&mut bare))),
                Part::new(SAMPLES, || timed(|| echo(&mut viewer))),
            ],
        )?;
        Ok(Self { pty, websocket, ours })
    }

    fn ours(server: &Server) -> Result<Stats, FigureError> {
        let id = create(server, Some("stty raw -echo; printf ready; exec cat"), SIZE)?;
        let mut viewer = attach_when_ready(server, &id, SIZE)?;
        let [ours] = take_turns(ROUNDS, [Part::new(SAMPLES, || timed(|| echo(&mut viewer)))])?;
        Ok(ours)
    }

    fn floors() -> Result<[Stats; 2], FigureError> {
        let (mut pty, websocket) = (BarePty::start(&mut Command::new("cat"))?, bare_websocket()?);
        let mut bare = Viewer::open(websocket.address(), "/")?;
        take_turns(
            ROUNDS,
            [Part::new(SAMPLES, || timed(|| pty.echo())), Part::new(SAMPLES, || timed(|| echo(&mut bare)))],
        )
    }

    fn push(&self, condition: &str, table: &mut Table) {
        let floor: Duration = self.pty.p50 + self.websocket.p50;
        let time = Measure::Time;
        table.push(Row::new(
            format!("floor: echo of `cat` on a bare pseudo-terminal{condition}, p50"),
            time(self.pty.p50),
        ));
        table.push(Row::new(
            format!("floor: echo of a bare WebSocket server{condition}, p50"),
            time(self.websocket.p50),
        ));
        table.push(
            Row::new(format!("keystroke to echo{condition}, p50"), time(self.ours.p50))
                .floor(time(floor))
                .limit(FigureLimit::AtMostTimesFloor(2.0)),
        );
        table.push(
            Row::new(format!("keystroke to echo{condition}, p99, to its p50"), time(self.ours.p99))
                .floor(time(self.ours.p50))
                .limit(FigureLimit::AtMostTimesFloor(4.0)),
        );
    }
}

/// Sends one byte and waits until it has come back.
fn echo(viewer: &mut Viewer) -> Result<(), FigureError> {
    viewer.send(b"x")?;
    crate::bench::http::expect(&*viewer.read()? == b"x", "an echo differs from its keystroke")
}
