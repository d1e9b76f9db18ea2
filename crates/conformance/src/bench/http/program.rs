//! [`Program`]: a server in its own process, and its memory usage.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};

use super::{Connection, post, request};
use crate::bench::FigureError;

/// The text that a server prints before its address.
const ADDRESS_PREFIX: &str = "listening on http://";
/// Maximum number of lines before it.
const MAX_LINES: usize = 16;

/// A server in its own process. It is ended on drop.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    /// Starts it and waits until it listens.
    pub(crate) fn start(mut command: Command) -> Result<Self, FigureError> {
        let shown = command.get_program().to_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("could not start {}: {error}; build it first", shown.display()))?;
        let stdout = child.stdout.take().map(BufReader::new);
        let mut program = Self { child, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let lines = stdout.into_iter().flat_map(BufRead::lines).take(MAX_LINES);
        for line in lines {
            if let Some(address) = line?.strip_prefix(ADDRESS_PREFIX) {
                program.address = address.parse()?;
                return Ok(program);
            }
        }
        Err(format!("{} did not say where it listens", shown.display()).into())
    }

    pub(crate) fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the processor time of the server and its live descendants.
    pub(crate) fn processor_time(&self) -> Duration {
        let threads =
            self.processes().into_iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
        let time = threads.flatten().flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(time.sum())
    }

    /// Returns the server's parent and all its descendants.
    fn processes(&self) -> Vec<u32> {
        let mut pids = vec![self.child.id()];
        let mut next = 0;
        while let Some(pid) = pids.get(next) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            pids.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            next += 1;
        }
        pids
    }

    /// Returns the highest memory that the server itself has used.
    pub(crate) fn peak_memory(&self) -> Result<u64, FigureError> {
        let peaks = self.processes().into_iter().filter_map(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
        });
        // Its parent and the zygote are far smaller.
        Ok(peaks.max().ok_or("the server has no process")?)
    }

    /// Returns the memory of the server itself, and of its parent and zygote.
    pub(crate) fn memory(&self) -> Result<Memory, FigureError> {
        let mut memory = Memory::default();
        for pid in self.processes() {
            // A process that has just ended has no memory.
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
            let field = |name: &str| -> u64 {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
            };
            // Only the server has more than one thread.
            if field("Threads:") > 1 {
                memory.server += field("VmRSS:") << 10;
            } else {
                memory.others += crate::bench::figures::pss(pid).unwrap_or(0);
                memory.other_processes += 1;
            }
        }
        if memory.server == 0 { Err("no process of the server has threads".into()) } else { Ok(memory) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SIGTERM, so that the parent ends its server.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        drop(self.child.wait());
    }
}

/// Memory of a server and its other processes, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Resident set size of the server.
    pub(crate) server: u64,
    /// Proportional set size of all other processes together, which share most pages.
    pub(crate) others: u64,
    /// Number of other processes.
    pub(crate) other_processes: usize,
}

/// The server that was built with this program. Dropping it ends its executions, and then the server.
#[derive(Debug)]
pub(crate) struct Server {
    program: Program,
}

impl Server {
    /// Starts it on a new state directory. Its shells get an empty `HOME`: what the user's own start-up files do is
    /// not part of a figure.
    pub(crate) fn start(state_dir: &Path) -> Result<Self, FigureError> {
        let home = state_dir.with_file_name("home");
        fs::create_dir_all(&home)?;
        let mut command = Command::new(env::current_exe()?.with_file_name("sandcrab"));
        command.args(["serve", "--no-auth", "--listen", "127.0.0.1:0", "--log", "warn", "--state-dir"]);
        command.arg(state_dir).env("HOME", home);
        Ok(Self { program: Program::start(command)? })
    }

    /// Creates a session and returns its id.
    pub(crate) fn new_session(&self) -> Result<String, FigureError> {
        let answer = self.connect()?.ask_whole(&post("/api/session/create", "{}"))?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        Ok(answer["data"]["id"].as_str().ok_or("a session without an id")?.to_owned())
    }

    fn end_everything(&self) -> Result<(), FigureError> {
        let mut connection = self.connect()?;
        let list = connection.ask_whole(&request("GET", "/api/session/list"))?;
        let list: serde_json::Value = serde_json::from_slice(&list)?;
        for id in list["data"].as_array().into_iter().flatten() {
            let body = serde_json::json!({"sessionId": id}).to_string();
            connection.ask_size(&post("/api/session/delete", &body))?;
        }
        connection.ask_size(&request("DELETE", "/api/process/kill-all"))?;
        let terminals = connection.ask_whole(&request("GET", "/api/terminal/list"))?;
        let terminals: serde_json::Value = serde_json::from_slice(&terminals)?;
        for terminal in terminals["terminals"].as_array().into_iter().flatten() {
            let id = terminal["id"].as_str().unwrap_or_default();
            connection.ask_size(&request("DELETE", &format!("/api/terminal/{id}")))?;
        }
        Ok(())
    }
}

impl Deref for Server {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end_everything());
    }
}
