//! A state directory whose processes end with the test, and an engine in a process of its own that can
//! be killed.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandcrab_engine::{CommandSpec, Engine, EngineConfig, ExecutionId, SessionId, SessionSpec, Stdin};

use crate::support;

/// How long anything may take on a busy machine before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a condition that becomes true by what other processes do.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The same, letting the tasks of the engine run meanwhile.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Sends SIGKILL to a process that the test has found itself.
pub(crate) fn kill(number: u32) {
    if let Some(pid) = pid(number) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether a process is there and not just waiting to be reaped.
pub(crate) fn lives(number: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The parent of a process.
pub(crate) fn parent_of(number: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The processes that have this text in one word of their command line.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    all_processes().filter(holds).collect()
}

/// A state directory. When it goes, everything that was started in it goes first.
#[derive(Debug)]
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A file beside the state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The lines of such a file.
    pub(crate) fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.file(name)).unwrap_or_default().lines().count()
    }

    /// The configuration of an engine here.
    pub(crate) fn config(&self) -> EngineConfig {
        support::config(&self.state())
    }

    /// Opens an engine here; the one before it may still be closing.
    pub(crate) async fn open(&self) -> Engine {
        self.open_with(|_| ()).await
    }

    /// Opens an engine here with changes to the defaults.
    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut EngineConfig)) -> Engine {
        let mut config = self.config();
        change(&mut config);
        let until = Instant::now() + PATIENCE;
        loop {
            match Engine::open(config.clone()).await {
                Ok(engine) => return engine,
                Err(sandcrab_engine::OpenError::InUse { .. }) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// The zygotes and supervisors of this state directory.
    pub(crate) fn own_processes(&self) -> Vec<u32> {
        let state = self.state();
        let is_own = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.next() == Some(b"sandcrab-zygote") && words.next() == Some(state.as_os_str().as_bytes())
        };
        all_processes().filter(is_own).collect()
    }

    /// The supervisors of this state directory, without the zygote.
    pub(crate) fn supervisors(&self) -> Vec<u32> {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.own_processes().into_iter().filter(|pid| name(pid) == "sandcrab-super\n").collect()
    }

    /// The zygote of the engine that is open.
    pub(crate) fn zygotes(&self) -> Vec<u32> {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.own_processes().into_iter().filter(|pid| name(pid) == "sandcrab-zygote\n").collect()
    }

    /// How many files a folder of the state directory holds.
    pub(crate) fn count(&self, folder: &str) -> usize {
        std::fs::read_dir(self.state().join(folder)).map_or(0, Iterator::count)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        let mut found: HashSet<u32> = HashSet::new();
        loop {
            found.extend(self.own_processes());
            let children: Vec<_> = all_processes()
                .filter(|pid| parent_of(*pid).is_some_and(|parent| found.contains(&parent)))
                .collect();
            found.extend(children);
            found.retain(|pid| lives(*pid));
            if found.is_empty() || Instant::now() > until {
                return;
            }
            found.iter().for_each(|pid| kill(*pid));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Says in the environment of a process that it is to host an engine, and where.
const HOST: &str = "SANDCRAB_TEST_HOST";
/// How many shells it keeps ready.
const HOST_READY: &str = "SANDCRAB_TEST_HOST_READY";

/// An engine in a process of its own.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
}

impl Host {
    /// Starts one on a state directory.
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_by(place, &[])
    }

    /// Starts one through other programs, such as `unshare`.
    pub(crate) fn start_by(place: &Place, through: &[&str]) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut words = through.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
        words.push(own.into());
        words.extend(["--exact", "stage::host_process", "--nocapture"].map(Into::into));
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env(HOST, place.state())
            .env(HOST_READY, "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (sender, answers) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // What the test harness prints itself has no mark, and may precede ours on a line.
                if let Some((_, answer)) = line.split_once("@@")
                    && sender.send(answer.into()).is_err()
                {
                    return;
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin, answers }
    }

    /// Starts one and waits until it is open.
    pub(crate) fn opened(place: &Place) -> Self {
        let host = Self::start(place);
        assert_eq!(host.answer().as_deref(), Some("open"));
        host
    }

    /// The next answer; `None` if it is gone.
    pub(crate) fn answer(&self) -> Option<String> {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the host does not answer"),
        }
    }

    /// Tells it something without waiting for the answer; it may be gone.
    pub(crate) fn tell(&mut self, words: &[&str]) {
        drop(writeln!(self.stdin, "{}", words.join("\t")));
    }

    /// Tells it something and waits for the answer.
    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.tell(words);
        self.answer().unwrap_or_else(|| "gone".into())
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Not a test: the process of a [`Host`]. It does what the lines on its standard input say, words
/// apart by tabs, and answers each in order.
#[tokio::test]
async fn host_process() {
    let Some(state) = std::env::var_os(HOST) else {
        return;
    };
    let mut config = support::config(Path::new(&state));
    config.ready_shells = std::env::var(HOST_READY).unwrap().parse().unwrap();
    let engine = match Engine::open(config).await {
        Ok(engine) => engine,
        Err(e) => return say(&format!("closed {e}")),
    };
    say("open");
    let (sender, mut lines) = tokio::sync::mpsc::channel(1000);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.split('\t').collect();
        let answer = obey(&engine, &words).await.unwrap_or_else(|e| format!("error {e}"));
        say(&answer);
    }
}

#[expect(clippy::print_stdout, reason = "the host answers on its standard output")]
fn say(answer: &str) {
    println!("@@{answer}");
}

async fn obey(engine: &Engine, words: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    let execution = |id: &str, text: &str| -> Result<CommandSpec, Box<dyn std::error::Error>> {
        Ok(CommandSpec::shell(text).id(id.parse::<ExecutionId>()?).digest(text))
    };
    let found = |id: &str| -> Result<_, Box<dyn std::error::Error>> {
        Ok(engine.session(&id.parse::<SessionId>()?).ok_or("no such session")?)
    };
    Ok(match words {
        ["start", id, text] => {
            engine.start(execution(id, text)?).await?;
            "started".into()
        }
        ["start-open", id, text] => {
            engine.start(execution(id, text)?.stdin(Stdin::Open)).await?;
            "started".into()
        }
        ["timed", id, millis, text] => {
            let timeout = Duration::from_millis(millis.parse()?);
            engine.start(execution(id, text)?.timeout(timeout)).await?;
            "started".into()
        }
        ["run", text] => engine.run(CommandSpec::shell(*text)).await?.stdout().replace('\n', " "),
        ["session", id] => {
            engine.create_session(SessionSpec::new().id(id.parse()?)).await?;
            "made".into()
        }
        ["in", session, id, text] => {
            found(session)?.start(execution(id, text)?).await?;
            "queued".into()
        }
        ["run-in", session, text] => {
            found(session)?.run(CommandSpec::shell(*text)).await?.stdout().replace('\n', " ")
        }
        ["hold"] => {
            // Every descriptor this process may have.
            let mut held = Vec::new();
            while let Ok(file) = std::fs::File::open("/dev/null") {
                held.push(file);
            }
            let taken = engine.run(CommandSpec::shell("echo ran")).await;
            drop(held);
            match taken {
                Ok(outcome) => outcome.stdout().trim().into(),
                Err(e) => format!("{e:?}"),
            }
        }
        _ => return Err(format!("no such request: {words:?}").into()),
    })
}
