//! A large output to one viewer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::floors::BarePty;
use super::{attach_when_ready, create, write_lines};
use crate::bench::http::Server;
use crate::bench::{FigureError, FigureLimit, Row, Table, rate};

const BYTES: usize = 100_000_000;
/// How often each is measured; the best counts.
const ROUNDS: usize = 3;

/// Measures how fast a viewer gets the output of `cat FILE`, beside a reader of a bare pseudo-terminal.
pub(super) fn push(
    server: &Server,
    directory: &Path,
    table: &mut Table,
    progress: &mut dyn FnMut(&str),
) -> Result<(), FigureError> {
    progress("100 MB through a terminal, and through a bare pseudo-terminal");
    let file = directory.join("lines");
    write_lines(&file, BYTES)?;
    let mut best = [Duration::MAX; 2];
    let mut received = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let bytes = BarePty::start(Command::new("cat").arg(&file))?.read_to_end()?;
        crate::bench::http::expect(bytes == BYTES, "a bare pseudo-terminal lost output")?;
        best[0] = best[0].min(start.elapsed());

        let command = format!(
            "stty raw -echo; printf ready; head -c1; cat '{}'; printf 'the end'; exec cat",
            file.display()
        );
        let id = create(server, Some(&command), (80, 24))?;
        let mut viewer = attach_when_ready(server, &id, (80, 24))?;
        let start = Instant::now();
        viewer.send(b"x")?;
        let bytes = viewer.read_until(b"the end")?;
        if start.elapsed() < best[1] {
            (best[1], received) = (start.elapsed(), bytes);
        }
        server.connect()?.ask_size(&crate::bench::http::request("DELETE", &format!("/api/terminal/{id}")))?;
    }
    let bare = rate(BYTES as u64, best[0]);
    table.push(Row::new("floor: 100 MB of `cat` through a bare pseudo-terminal", bare));
    table.push(
        Row::new("100 MB of `cat` to one viewer", rate(received as u64, best[1]))
            .floor(bare)
            .limit(FigureLimit::AtLeastTimesFloor(0.5)),
    );
    table.push(
        Row::new("100 MB of `cat` to one viewer, until its end is shown", rate(BYTES as u64, best[1]))
            .floor(bare),
    );
    Ok(())
}
