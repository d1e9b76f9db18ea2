//! [`Host`]: an engine in a process of its own that can be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use sandcrab_engine::{
    CommandSpec, Engine, ExecutionId, MIN_JOURNAL_BYTES, SessionId, SessionSpec, Stdin, TerminalSpec,
};

use super::TEST_TIMEOUT;
use super::place::{self, Place};

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
        place.remember_supervisors();
        let own = std::env::current_exe().unwrap();
        let mut words = through.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
        words.push(own.into());
        words.extend(["--exact", "support::host::host_process", "--ignored", "--nocapture"].map(Into::into));
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
        match self.answers.recv_timeout(TEST_TIMEOUT) {
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
#[ignore = "not a test: other tests start it as a program"]
async fn host_process() {
    let state = std::env::var_os(HOST).unwrap();
    let mut config = place::config(PathBuf::from(state));
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
        // A terminal with the smallest journal.
        ["terminal", id, text] => {
            let command = CommandSpec::shell(*text).id(id.parse()?).journal_bytes(MIN_JOURNAL_BYTES);
            engine.create_terminal(TerminalSpec::command(command)).await?;
            "started".into()
        }
        ["run", text] => engine.run(CommandSpec::shell(*text)).await?.stdout().replace('\n', " "),
        ["ready"] => engine.health().ready.to_string(),
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
