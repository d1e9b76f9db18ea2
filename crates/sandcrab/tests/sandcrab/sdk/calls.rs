//! The calls of the table of behaviour, by name.

use std::time::Duration;

use sandcrab_client::api::execute::CommandRequest;
use sandcrab_client::api::port::PortWatchRequest;
use sandcrab_client::api::service::ServiceRequest;
use sandcrab_client::api::session::SessionRequest;
use sandcrab_client::api::terminal::{TerminalInputRequest, TerminalRequest};
use sandcrab_client::{
    ClientError, Command, Events, FollowOptions, KillOptions, LogOptions, Process, Sandbox, Scope, Service,
    Session, StreamEvent, Terminal,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// What a call is made on.
pub(super) enum Object {
    Sandbox(Sandbox),
    Session(Session),
    Process(Box<Process>),
    Service(Service),
    Terminal(Terminal),
}

type Options = Map<String, Value>;
type Result<T> = std::result::Result<T, ClientError>;
/// A result as JSON, and the object that it is.
type Called = Result<(Option<Object>, Value)>;

fn plain(value: impl Serialize) -> Called {
    Ok((None, serde_json::to_value(value).unwrap()))
}

fn text(args: &[Value], at: usize) -> &str {
    args[at].as_str().unwrap()
}

/// The request of the API with these options. It refuses options that it does not know.
fn request<T: DeserializeOwned>(mut options: Options, fields: &[(&str, &Value)]) -> T {
    for (name, value) in fields {
        options.insert((*name).to_owned(), (*value).clone());
    }
    if let Some(timeout) = options.remove("timeout") {
        options.insert("timeoutMs".to_owned(), timeout);
    }
    serde_json::from_value(options.into()).unwrap()
}

/// `(command)` or `(command, args)` with options.
fn command(args: &[Value], mut options: Options) -> Command {
    if options.get("stdin") == Some(&json!(true)) {
        options.remove("stdin");
        options.insert("keepStdinOpen".to_owned(), json!(true));
    }
    let mut fields = vec![("command", &args[0])];
    fields.extend(args.get(1).map(|args| ("args", args)));
    request::<CommandRequest>(options, &fields).into()
}

fn limit(options: &Options) -> Option<Duration> {
    options.get("timeout").map(|timeout| Duration::from_millis(timeout.as_u64().unwrap()))
}

fn follow(options: &Options) -> FollowOptions {
    FollowOptions { stop_when_caught_up: options.get("follow") == Some(&json!(false)), ..Default::default() }
}

async fn all<T: StreamEvent + Serialize>(events: Result<Events<T>>) -> Called {
    let (mut events, mut list) = (events?, Vec::new());
    while let Some(event) = events.next().await? {
        list.push(event);
    }
    plain(list)
}

fn process(process: Process) -> Called {
    let value = serde_json::to_value(process.initial_info()).unwrap();
    Ok((Some(Object::Process(Box::new(process))), value))
}

fn session(session: Session) -> Called {
    let value = json!({"id": session.id(), "cwd": session.initial_cwd()});
    Ok((Some(Object::Session(session)), value))
}

fn terminal(terminal: Terminal) -> Called {
    let value = json!({"id": terminal.id(), "created": terminal.is_new()});
    Ok((Some(Object::Terminal(terminal)), value))
}

fn service(service: Service) -> Called {
    let value = json!({"id": service.id()});
    Ok((Some(Object::Service(service)), value))
}

/// The result of a call that may find nothing.
fn found<T>(found: Option<T>, convert: fn(T) -> Called) -> Called {
    found.map_or_else(|| plain(Value::Null), convert)
}

pub(super) async fn call(on: &Object, name: &str, args: &[Value], mut options: Options) -> Called {
    match on {
        Object::Sandbox(sandbox) => match name {
            "createSession" => {
                session(sandbox.create_session(request::<SessionRequest>(options, &[])).await?)
            }
            "getSession" => found(sandbox.session(text(args, 0)).await?, session),
            "deleteSession" => plain(sandbox.delete_session(text(args, 0)).await?),
            "ping" => plain(sandbox.ping().await?),
            "version" => plain(sandbox.version().await?),
            "health" => plain(sandbox.health().await?),
            _ => match options.remove("sessionId") {
                Some(id) => on_scope(&sandbox.bound_to(id.as_str().unwrap()), name, args, options).await,
                None => on_scope(sandbox, name, args, options).await,
            },
        },
        Object::Session(one) => match name {
            "setEnvVars" => plain(one.set_env_vars(serde_json::from_value(args[0].clone()).unwrap()).await?),
            "fork" => session(one.fork(None).await?),
            "delete" => plain(one.delete().await?),
            _ => on_scope(one, name, args, options).await,
        },
        Object::Process(process) => on_process(process, name, args, &options).await,
        Object::Service(service) => match name {
            "getHealth" => plain(service.health().await?),
            "streamOutput" => all(service.stream_output(&follow(&options)).await).await,
            "stop" => plain(service.stop().await?),
            "delete" => plain(service.delete().await?),
            other => panic!("no call {other} on a service"),
        },
        Object::Terminal(terminal) => match name {
            "send" if args[0].is_string() => plain(terminal.send(text(args, 0)).await?),
            "send" => {
                let input: TerminalInputRequest = serde_json::from_value(args[0].clone()).unwrap();
                plain(terminal.send(input).await?)
            }
            "waitForText" => plain(terminal.wait_for_text(text(args, 0), limit(&options)).await?),
            "resize" => {
                let size = |at: usize| u16::try_from(args[at].as_u64().unwrap()).unwrap();
                plain(terminal.resize(size(0), size(1)).await?)
            }
            "screen" => plain(terminal.screen().await?),
            "destroy" => plain(terminal.destroy().await?),
            other => panic!("no call {other} on a terminal"),
        },
    }
}

async fn on_process(process: &Process, name: &str, args: &[Value], options: &Options) -> Called {
    match name {
        "write" => plain(process.write(text(args, 0).to_owned()).await?),
        "closeStdin" => plain(process.close_stdin().await?),
        "kill" if args.is_empty() => plain(process.kill().await?),
        "kill" => {
            let signal = Some(text(args, 0).to_owned());
            plain(process.kill_with(&KillOptions { signal, ..KillOptions::default() }).await?)
        }
        "signal" => plain(process.signal(text(args, 0)).await?),
        "getStatus" => plain(process.status().await?),
        "getLogs" => plain(process.logs().await?),
        "streamLogs" => all(process.stream_logs_with(&follow(options)).await).await,
        "waitForLog" => {
            let found = process.wait_for_log(text(args, 0), limit(options)).await?;
            plain(json!({"line": found.line, "stream": found.stream}))
        }
        "waitForPort" => {
            let port = u16::try_from(args[0].as_u64().unwrap()).unwrap();
            plain(process.wait_for_port(port, limit(options)).await?)
        }
        "waitForExit" => plain(process.wait_for_exit(limit(options)).await?),
        other => panic!("no call {other} on a process"),
    }
}

async fn on_scope(scope: &Scope, name: &str, args: &[Value], mut options: Options) -> Called {
    match name {
        "exec" => {
            let result = scope.exec(command(args, options)).await?;
            let mut value = serde_json::to_value(&result).unwrap();
            value["timedOut"] = result.timed_out().into();
            plain(value)
        }
        "execStream" => {
            let (mut events, mut list) = (scope.exec_stream(command(args, options)).await?, Vec::new());
            while let Some(event) = events.next().await? {
                list.push(event);
            }
            plain(list)
        }
        "startProcess" => process(scope.start_process(command(args, options)).await?),
        "getProcess" => found(scope.process(text(args, 0)).await?, process),
        "listProcesses" => {
            let list = scope.list_processes().await?;
            plain(list.iter().map(Process::initial_info).collect::<Vec<_>>())
        }
        "killProcess" => plain(scope.kill_process(text(args, 0)).await?),
        "killAllProcesses" => plain(scope.kill_all_processes().await?),
        "getProcessLogs" => {
            let tail = options.get("tail").and_then(Value::as_u64);
            plain(scope.process_logs(text(args, 0), &LogOptions { tail, ..LogOptions::default() }).await?)
        }
        "streamProcessLogs" => all(scope.stream_process_logs(text(args, 0), &follow(&options)).await).await,
        "startService" => {
            if let Some(policy @ Value::String(_)) = options.get("restart").cloned() {
                options.insert("restart".to_owned(), json!({"policy": policy}));
            }
            let started = scope.start_service(request::<ServiceRequest>(options, &[("command", &args[0])]));
            service(started.await?)
        }
        "getService" => found(scope.service(text(args, 0)).await?, service),
        "terminal" => terminal(scope.terminal(request::<TerminalRequest>(options, &[])).await?),
        "getTerminal" => found(scope.find_terminal(text(args, 0)).await?, terminal),
        "waitForPort" => {
            let limit = limit(&options);
            options.remove("timeout");
            let watched: PortWatchRequest = request(options, &[("port", &args[0])]);
            plain(scope.wait_for_port(watched, limit).await?)
        }
        "unexposePort" => {
            plain(scope.unexpose_port(u16::try_from(args[0].as_u64().unwrap()).unwrap()).await?)
        }
        _ => on_workspace(scope, name, args, options).await,
    }
}

/// Calls on files, searches, Git and backups.
async fn on_workspace(scope: &Scope, name: &str, args: &[Value], options: Options) -> Called {
    use sandcrab_client::api::{backup, file, git, search, watch};
    match name {
        "mkdir" => plain(scope.mkdir(request::<file::MkdirRequest>(options, &[("path", &args[0])])).await?),
        "writeFile" if options.is_empty() => plain(scope.write_file(text(args, 0), text(args, 1)).await?),
        "writeFile" => {
            let request = request(options, &[("path", &args[0]), ("content", &args[1])]);
            plain(scope.write_file_with(request).await?)
        }
        "readFile" => {
            plain(scope.read_file(request::<file::ReadRequest>(options, &[("path", &args[0])])).await?)
        }
        "exists" => plain(json!({"exists": scope.exists(text(args, 0)).await?})),
        "stat" => plain(scope.stat(text(args, 0)).await?),
        "chmod" => plain(scope.chmod(text(args, 0), text(args, 1)).await?),
        "renameFile" => plain(scope.rename_file(text(args, 0), text(args, 1)).await?),
        "moveFile" => plain(scope.move_file(text(args, 0), text(args, 1)).await?),
        "copyFile" => plain(scope.copy_file(text(args, 0), text(args, 1)).await?),
        "listFiles" => plain(scope.list_files(text(args, 0)).await?),
        "deleteFile" => {
            let request = request::<file::DeleteRequest>(options, &[("path", &args[0])]);
            plain(scope.delete_file(request).await?)
        }
        "search" => {
            let request = request::<search::SearchRequest>(options, &[("pattern", &args[0])]);
            plain(scope.search(request).await?)
        }
        "searchStream" => {
            let request = request::<search::SearchRequest>(options, &[("pattern", &args[0])]);
            all(scope.search_stream(request).await).await
        }
        "replace" => {
            let request = request(options, &[("pattern", &args[0]), ("replacement", &args[1])]);
            plain(scope.replace(request).await?)
        }
        "find" => plain(scope.find(request::<search::FindRequest>(options, &[])).await?),
        "checkChanges" => {
            let request = request::<watch::WatchCheckRequest>(options, &[("path", &args[0])]);
            plain(scope.check_changes(request).await?)
        }
        "watch" => {
            let request = request::<watch::WatchRequest>(options, &[("path", &args[0])]);
            all(scope.watch(request).await).await
        }
        "gitCheckout" => {
            let request = request::<git::GitCheckoutRequest>(options, &[("repoUrl", &args[0])]);
            plain(scope.git_checkout(request).await?)
        }
        "gitStatus" => plain(scope.git_status(request::<git::GitRequest>(options, &[])).await?),
        "gitAdd" => plain(scope.git_add(request::<git::GitAddRequest>(options, &[])).await?),
        "gitDiff" => plain(scope.git_diff(request::<git::GitDiffRequest>(options, &[])).await?),
        "gitLog" => plain(scope.git_log(request::<git::GitLogRequest>(options, &[])).await?),
        "gitBranches" => plain(scope.git_branches(request::<git::GitRequest>(options, &[])).await?),
        "gitCommit" => {
            let request = request::<git::GitCommitRequest>(options, &[("message", &args[0])]);
            plain(scope.git_commit(request).await?)
        }
        "createBackup" => {
            plain(scope.create_backup(request::<backup::CreateBackupRequest>(options, &[])).await?)
        }
        "restoreBackup" => plain(scope.restore_backup(request(options, &[])).await?),
        "deleteBackup" => plain(scope.delete_backup(text(args, 0)).await?),
        other => panic!("no call {other}"),
    }
}
