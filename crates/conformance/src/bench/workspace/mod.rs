//! The benchmark of files: transfers, lists, searches, watches and backups, beside the programs that do the same.

mod backups;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::http::{Server, expect, post};
use super::{FigureError, FigureLimit, Measure, Row, Stats, Table};

/// Size of the file that is transferred.
const FILE_BYTES: u64 = 1 << 30;
/// Number of directories, and of files in each.
const DIRECTORIES: usize = 1000;
const FILES_EACH: usize = 100;
/// How often each figure is measured, in turns with its floor. The median counts.
const ROUNDS: usize = 5;
/// Number of changes whose latency is measured.
const CHANGES: usize = 300;
const PIECE_BYTES: usize = 256 << 10;

/// Starts a server, measures everything, and adds a row for each figure. Nothing is left running.
pub fn push_workspace(table: &mut Table, mut progress: impl FnMut(&str)) -> Result<(), FigureError> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(&directory.path().join("state"))?;
    let at = |name: &str| directory.path().join(name);
    progress("transfers of 1 GiB");
    write_file(&at("large"))?;
    transfers(&server, &at("large"), &at("copy"), table)?;
    fs::remove_file(at("large"))?;
    fs::remove_file(at("copy"))?;
    progress("100,000 files");
    write_tree(&at("tree"))?;
    lists(&server, &at("tree"), table)?;
    searches(&server, &at("tree"), table)?;
    watches(&server, &at("tree"), table)?;
    table.push(peak_memory(&server, "peak memory of the server in all of these", 40e6)?);
    progress("backups");
    backups::push_backups(&server, &at("tree"), table)?;
    table.push(peak_memory(&server, "peak memory of the server with backups", 150e6)?);
    Ok(())
}

fn peak_memory(server: &Server, name: &str, limit: f64) -> Result<Row, FigureError> {
    #[expect(clippy::cast_precision_loss, reason = "a size of megabytes")]
    let peak = Measure::Bytes(server.peak_memory()? as f64);
    Ok(Row::new(name, peak).limit(FigureLimit::AtMost(Measure::Bytes(limit))))
}

fn write_file(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    let piece: Vec<u8> =
        (0..1 << 20).map(|number: u32| number.to_le_bytes()[usize::from(number.is_multiple_of(3))]).collect();
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&piece)?;
    }
    file.sync_all()
}

fn write_tree(path: &Path) -> io::Result<()> {
    for directory in 0..DIRECTORIES {
        let directory = path.join(format!("directory-{directory}"));
        fs::create_dir_all(&directory)?;
        for file in 0..FILES_EACH {
            let text = format!("line one of {file}\nline two with words\nneedle-{}\n", file % 50);
            fs::write(directory.join(format!("file-{file}.txt")), text)?;
        }
    }
    Ok(())
}

/// The medians of a figure and its floor, measured in turns.
fn in_turns(
    mut figure: impl FnMut() -> Result<Duration, FigureError>,
    mut floor: impl FnMut() -> Result<Duration, FigureError>,
) -> Result<(Measure, Measure), FigureError> {
    let (mut figures, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floors.push(floor()?);
        figures.push(figure()?);
    }
    Ok((Measure::Time(Stats::of(figures).p50), Measure::Time(Stats::of(floors).p50)))
}

fn timed<T>(work: impl FnOnce() -> Result<T, FigureError>) -> Result<Duration, FigureError> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn transfers(server: &Server, file: &Path, copy: &Path, table: &mut Table) -> Result<(), FigureError> {
    let get = || {
        let mut connection = TcpStream::connect(server.address())?;
        let head = format!(
            "GET /api/file?path={} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            file.display()
        );
        connection.write_all(head.as_bytes())?;
        let received = drain(&mut connection)?;
        expect(received > FILE_BYTES, "a response does not contain the file")
    };
    let (figure, floor) = in_turns(|| timed(get), || timed(|| cat_over_socket(file)))?;
    table.push(
        Row::new("GET of 1 GiB; floor: cat over a socket", figure)
            .floor(floor)
            .limit(FigureLimit::AtMostTimesFloor(1.5)),
    );

    let put = || {
        let mut connection = TcpStream::connect(server.address())?;
        let head = format!(
            "PUT /api/file?path={} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {FILE_BYTES}\r\nconnection: close\r\n\r\n",
            copy.display()
        );
        connection.write_all(head.as_bytes())?;
        io::copy(&mut File::open(file)?, &mut connection)?;
        let mut response = String::new();
        connection.read_to_string(&mut response)?;
        expect(response.starts_with("HTTP/1.1 200"), "a file was not written")
    };
    let cat_and_cp = || {
        cat_over_socket(file)?;
        let target = copy.with_extension("cp");
        fs::copy(file, &target)?;
        File::open(&target)?.sync_all()?;
        Ok(fs::remove_file(target)?)
    };
    let (figure, floor) = in_turns(|| timed(put), || timed(cat_and_cp))?;
    let name = "PUT of 1 GiB; floor: cat over a socket, cp and fsync";
    table.push(Row::new(name, figure).floor(floor).limit(FigureLimit::AtMostTimesFloor(1.5)));
    Ok(())
}

/// Reads to the end. Returns the number of bytes.
fn drain(from: &mut impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut received = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(received),
            count => received += count as u64,
        }
    }
}

/// Runs a program, and reads its output.
fn run(mut command: Command) -> Result<(), FigureError> {
    let shown = command.get_program().to_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child =
        child.map_err(|error| format!("could not start {}: {error}; install it", shown.display()))?;
    if let Some(mut stdout) = child.stdout.take() {
        drain(&mut stdout)?;
    }
    expect(child.wait()?.success(), "a program for comparison failed")
}

/// Sends a file with `cat` over a socket of the loopback device.
fn cat_over_socket(file: &Path) -> Result<(), FigureError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let reader = std::thread::spawn(move || drain(&mut listener.accept()?.0));
    let connection = TcpStream::connect(address)?;
    let socket = std::os::fd::OwnedFd::from(connection.try_clone()?);
    let status = Command::new("cat").arg(file).stdout(Stdio::from(socket)).status()?;
    connection.shutdown(Shutdown::Both)?;
    let received = reader.join().map_err(|_| "the reader failed")??;
    expect(status.success() && received == FILE_BYTES, "cat did not send the file")
}

fn lists(server: &Server, tree: &Path, table: &mut Table) -> Result<(), FigureError> {
    let list = || {
        let (mut count, mut after) = (0, None::<String>);
        loop {
            let options = serde_json::json!({"recursive": true, "limit": 100_000, "after": after});
            let body = serde_json::json!({"path": tree, "options": options}).to_string();
            let page = server.connect()?.ask_whole(&post("/api/list-files", &body))?;
            // The fields are at the end: parsing the entries is the work of a client.
            let page = String::from_utf8_lossy(&page);
            let field = |name: &str| page.rfind(name).map(|at| &page[at + name.len()..]);
            let number = |text: &str| {
                text.split(|c: char| !c.is_ascii_digit()).next().and_then(|text| text.parse().ok())
            };
            count += field("\"count\":").and_then(number).unwrap_or(0);
            after = field("\"next\":\"").and_then(|text| text.split('"').next()).map(ToOwned::to_owned);
            if after.is_none() {
                return expect(count == DIRECTORIES * (FILES_EACH + 1), "a list is not complete");
            }
        }
    };
    let find = || {
        let mut find = Command::new("find");
        find.arg(tree).args(["-mindepth", "1", "-printf", "%P %y %s %T@ %m\\n"]);
        run(find)
    };
    let (figure, floor) = in_turns(|| timed(list), || timed(find))?;
    let name = "recursive list of 100,000 files; floor: find -printf";
    table.push(Row::new(name, figure).floor(floor).limit(FigureLimit::AtMostTimesFloor(2.0)));
    Ok(())
}

fn searches(server: &Server, tree: &Path, table: &mut Table) -> Result<(), FigureError> {
    let body =
        serde_json::json!({"path": tree, "pattern": "needle-4[0-9]", "regex": true, "maxMatches": 100_000});
    let search = || {
        let size = server.connect()?.ask_size(&post("/api/search", &body.to_string()))?;
        expect(size > DIRECTORIES * 20, "a search found nothing")
    };
    let rg = || {
        let mut rg = Command::new("rg");
        rg.args(["--no-heading", "-n", "needle-4[0-9]"]).arg(tree);
        run(rg)
    };
    let (figure, floor) = in_turns(|| timed(search), || timed(rg))?;
    let name = "search of 100,000 files with 20,000 matches; floor: rg";
    table.push(Row::new(name, figure).floor(floor).limit(FigureLimit::AtMostTimesFloor(1.3)));
    Ok(())
}

fn watches(server: &Server, tree: &Path, table: &mut Table) -> Result<(), FigureError> {
    let body = serde_json::json!({"path": tree, "events": ["modify"]}).to_string();
    let mut connection = TcpStream::connect(server.address())?;
    connection.set_read_timeout(Some(Duration::from_secs(60)))?;
    connection.write_all(&post("/api/watch", &body))?;
    let mut lines = BufReader::new(connection);
    wait_for(&mut lines, "watching")?;
    let mut times = Vec::with_capacity(CHANGES);
    for change in 0..CHANGES {
        let name = format!("directory-{}/file-{}.txt", change % DIRECTORIES, change % FILES_EACH);
        let start = Instant::now();
        fs::write(tree.join(&name), format!("{change}"))?;
        wait_for(&mut lines, &name)?;
        times.push(start.elapsed());
        // Beyond the time in which changes are one event, so that each is measured alone.
        std::thread::sleep(Duration::from_millis(15));
    }
    let stats = Stats::of(times);
    let limit = FigureLimit::AtMost(Measure::Time(Duration::from_millis(20)));
    table.push(Row::new(
        "watch of 100,000 files, from the change to its event, p50",
        Measure::Time(stats.p50),
    ));
    table.push(
        Row::new("watch of 100,000 files, from the change to its event, p99", Measure::Time(stats.p99))
            .limit(limit),
    );
    Ok(())
}

/// Reads lines until one contains a text.
fn wait_for(lines: &mut impl BufRead, text: &str) -> Result<(), FigureError> {
    let mut line = String::new();
    loop {
        line.clear();
        expect(lines.read_line(&mut line)? > 0, "a watch has ended")?;
        if line.contains(text) {
            return Ok(());
        }
    }
}
