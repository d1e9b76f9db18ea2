//! A command in its own process: an argv, or `bash -c` if no ready shell can run it.

use std::ffi::{CString, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

use super::super::context::{apply, started_as};
use super::super::core::Core;
use super::super::job::raw;
use super::super::shell_input::path_of;
use super::super::terminal::{STATE_FD, ShellFromState};
use crate::memory_file::memory_file;
use crate::process_tree::Plan;
use crate::protocol::{Refusal, Response, WireProgram};
use crate::shell::Snapshot;
use crate::spawn::{self, ProcessSetup, Spawn, environment, find_program};
use crate::sys::{StartFailure, StartStep};

/// Maximum length of a text that is passed as an argument; a longer one is read from a descriptor.
const MAX_ARGUMENT: usize = 100 << 10;
/// The descriptors of the text and of a prelude: high, so that the text may use the low ones.
const TEXT_FD: i32 = 250;
const PRELUDE_FD: i32 = 251;

/// Starts the command of a job.
pub(in crate::supervisor) fn start(
    core: &mut Core,
    slot: u32,
    stdio: spawn::Stdio<'_>,
    plan: &Plan,
    now: Instant,
) -> Result<(), Refusal> {
    // The process inherits them.
    core.check_limits()?;
    let index = core.jobs.iter().position(|job| job.slot == slot).ok_or(Refusal::NoSuchExecution)?;
    let job = &core.jobs[index];
    let mut env = apply(core.context.env.clone(), &job.command.env);
    let cwd = job.command.cwd.clone().map_or_else(|| core.context.cwd.clone(), path_of);
    let mut inherited = Vec::new();
    let mut bash = None;
    let terminal = job.command.terminal.as_ref();
    let mut from_state = None;
    if let (Some(_), Some(state)) = (terminal, &job.command.prelude) {
        let ShellFromState { argv, text } = ShellFromState::new(&job.command, state)?;
        let file = memory_file("state", &[&text]);
        inherited.push((file.map_err(|e| Refusal::os(&e.into(), "store the state"))?, STATE_FD));
        from_state = Some(argv);
    }
    let argv: Vec<OsString> = match &job.command.program {
        _ if from_state.is_some() => {
            bash.clone_from(&core.context.bash);
            from_state.unwrap_or_default()
        }
        _ if terminal.is_some_and(|terminal| terminal.interactive_shell) => {
            bash.clone_from(&core.context.bash);
            vec![if bash.is_some() { "bash" } else { "/bin/sh" }.into(), "-i".into()]
        }
        WireProgram::Argv(argv) => argv.iter().cloned().map(OsString::from).collect(),
        WireProgram::Shell(text) => {
            let mut file = |parts: &[&[u8]], fd: i32| -> Result<(), Refusal> {
                let file =
                    memory_file("text", parts).map_err(|e| Refusal::os(&e.into(), "store the text"))?;
                inherited.push((file, fd));
                Ok(())
            };
            let mut script = Vec::new();
            if let Some(prelude) = &job.command.prelude {
                let snapshot = Snapshot::from_bytes(prelude.0.clone());
                let text = snapshot.map_err(|e| Refusal::NoShell(e.to_string()))?.restore_text();
                file(&[&text], PRELUDE_FD)?;
                script.extend(format!(". /proc/self/fd/{PRELUDE_FD}; exec {PRELUDE_FD}<&-\n").bytes());
            }
            if text.0.len() > MAX_ARGUMENT {
                // Bash reads the whole file before it runs its first line, which closes the descriptor.
                file(&[format!("exec {TEXT_FD}<&-; ").as_bytes(), &text.0], TEXT_FD)?;
                script.extend(format!(". /proc/self/fd/{TEXT_FD}").bytes());
            } else {
                script.extend(&text.0);
            }
            bash.clone_from(&core.context.bash);
            shell_argv(bash.is_some(), script)
        }
    };
    let program = match bash {
        Some(bash) => bash,
        None => {
            let name = argv.first().ok_or(Refusal::BadProgram(libc::ENOENT))?;
            let find = || find_program(name, &env, &cwd);
            // As the user of the command: other users may not see the same directories.
            let found = match core.credentials() {
                Some(user) => {
                    user.look_at_files(find).map_err(|e| Refusal::os(&e, "look for the program"))?
                }
                None => find(),
            };
            let found = found.map_err(Refusal::BadProgram)?;
            if job.command.env.iter().all(|change| change.name.0 != b"_") {
                started_as(&mut env, &found);
            }
            found
        }
    };
    let bad = |_| Refusal::BadProgram(libc::EINVAL);
    let spawn = Spawn {
        program: &program,
        argv: argv
            .into_iter()
            .map(|arg| CString::new(arg.into_vec()).map_err(bad))
            .collect::<Result<_, _>>()?,
        env: environment(&env).map_err(|_| Refusal::BadProgram(libc::EINVAL))?,
        cwd: &cwd,
        stdio,
        inherited: &inherited.iter().map(|(file, number)| (file.as_fd(), *number)).collect::<Vec<_>>(),
        setup: &ProcessSetup {
            limit_cgroup: job.cgroup.as_ref(),
            limits: Some(plan),
            ..core.process_setup(job.tag)
        },
    };
    core.check_limits()?;
    let pid = spawn.start().map_err(|failure| refusal_of(&failure))?;
    core.jobs[index].record_start(pid);
    core.jobs[index].started(pid, now);
    core.link.send(0, &Response::Started { slot, pid: raw(pid) });
    Ok(())
}

/// The reason why a program could not be started, for the engine.
fn refusal_of(failure: &StartFailure) -> Refusal {
    let errno = failure.source.raw_os_error().unwrap_or(libc::EIO);
    match failure.step {
        StartStep::WorkingDirectory => Refusal::BadCwd(errno),
        StartStep::Program if errno == libc::E2BIG => Refusal::ArgumentsTooLong,
        StartStep::Program => Refusal::BadProgram(errno),
        StartStep::Fork => Refusal::Os { errno, doing: "start the program".into() },
        _ => Refusal::Os { errno, doing: "prepare the process".into() },
    }
}

fn shell_argv(bash: bool, script: Vec<u8>) -> Vec<OsString> {
    let mut argv: Vec<OsString> = if bash {
        vec!["bash".into(), "--norc".into(), "--noprofile".into()]
    } else {
        vec!["/bin/sh".into()]
    };
    argv.extend(["-c".into(), OsString::from_vec(script)]);
    argv
}
