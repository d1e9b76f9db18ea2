//! `sandcrab session`: the commands of sessions.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use sandcrab_api::session::{CreatedSession, InterruptRequest, OnShellExit, SessionEnded, SessionRequest};
use sandcrab_client::Client;

use super::exec::ExecOptions;
use super::kill::{self, Receipt};
use crate::cli::GlobalOptions;
use crate::command_line::{CwdArg, EnvironmentArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::{ByteSize, DurationArg};
use crate::table;

/// Manage sessions: shells that keep their working directory, variables, functions and options.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Create(CreateArgs),
    /// List sessions.
    List,
    Exec(ExecArgs),
    Interrupt(InterruptArgs),
    Fork(ForkArgs),
    Reset(ResetArgs),
    Delete(DeleteArgs),
}

/// Create a session and print its id.
#[derive(Debug, Args)]
struct CreateArgs {
    /// Id of the session. The server generates one by default.
    id: Option<String>,
    /// Display name.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    env: EnvironmentArgs,
    #[command(flatten)]
    cwd: CwdArg,
    /// User to run the shell as: a name, a user id or UID:GID. The server must run as root.
    #[arg(short, long)]
    user: Option<String>,
    /// Default timeout of the session's commands, such as 5s or 2m; 0 for none.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArg>,
    /// Maximum output of a command that a response of the API carries, for each stream. Does not apply to `exec` and
    /// `logs`, which print everything.
    #[arg(long, value_name = "SIZE")]
    max_output: Option<ByteSize>,
    /// API: return the result of a command that ends the shell (`exit 3`), instead of the error SESSION_TERMINATED. In both
    /// cases the shell is restored for the next command. Makes no difference to `exec`.
    #[arg(long)]
    restore: bool,
}

/// Run a command in a session; the same as `sandcrab exec --session ID`.
#[derive(Debug, Args)]
struct ExecArgs {
    /// Id of the session.
    #[arg(value_name = "ID")]
    session: String,
    #[command(flatten)]
    options: ExecOptions,
}

/// End the running command of a session. The shell and its state stay.
#[derive(Debug, Args)]
struct InterruptArgs {
    /// Id of the session.
    id: String,
    /// Signal to send first, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "SIGINT")]
    signal: String,
    /// Grace period before SIGKILL, such as 500ms or 5s [default: 500ms].
    #[arg(short, long, value_name = "DURATION")]
    grace: Option<DurationArg>,
}

/// Create a session with the same state, and print its id.
#[derive(Debug, Args)]
struct ForkArgs {
    /// Id of the session to copy.
    id: String,
    /// Id of the new session. The server generates one by default.
    new_id: Option<String>,
}

/// Replace the shell of a session. Its running command is ended.
#[derive(Debug, Args)]
struct ResetArgs {
    /// Id of the session.
    id: String,
    /// Keep the state: working directory, variables, functions, options.
    #[arg(long)]
    restore: bool,
}

/// Delete a session with everything that runs in it, and print the processes that were ended.
#[derive(Debug, Args)]
struct DeleteArgs {
    /// Id of the session.
    id: String,
}

pub(crate) async fn run(args: SessionArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        SessionCommand::Create(args) => made(output, &client.create_session(&args.request(&client)?).await?),
        SessionCommand::List => list(&client, output).await,
        SessionCommand::Exec(args) => args.options.run(Some(args.session), global, output).await,
        SessionCommand::Interrupt(args) => {
            let grace_ms = args.grace.map(DurationArg::milliseconds);
            let request = InterruptRequest { signal: Some(args.signal.into()), grace_ms };
            ended(output, &client.interrupt(&args.id, &request).await?)
        }
        SessionCommand::Fork(args) => {
            made(output, &client.fork_session(&args.id, args.new_id.as_deref()).await?)
        }
        SessionCommand::Reset(args) => {
            let done = client.reset_session(&args.id, args.restore).await?;
            if output.json {
                output.document(&done)?;
            }
            Ok(0)
        }
        SessionCommand::Delete(args) => ended(output, &client.delete_session(&args.id).await?),
    }
}

impl CreateArgs {
    fn request(self, client: &Client) -> Result<SessionRequest, Failure> {
        Ok(SessionRequest {
            id: self.id,
            name: self.name,
            env: self.env.variables(),
            cwd: self.cwd.resolve(client.address())?,
            user: self.user,
            command_timeout_ms: self.timeout.map(DurationArg::milliseconds),
            max_output_size_bytes: self.max_output.map(|size| size.0),
            on_shell_exit: self.restore.then_some(OnShellExit::Restore),
        })
    }
}

fn made(output: Output, session: &CreatedSession) -> Result<u8, Failure> {
    if output.json {
        output.document(session)?;
    } else {
        output.line(&session.id)?;
    }
    Ok(0)
}

fn ended(output: Output, ended: &SessionEnded) -> Result<u8, Failure> {
    if output.json {
        output.document(ended)?;
    } else {
        let mut receipt = Receipt::default();
        receipt.add(&ended.session_id, &ended.killed, &ended.survivors);
        receipt.print(output)?;
    }
    Ok(kill::exit_code(&ended.survivors))
}

async fn list(client: &Client, output: Output) -> Result<u8, Failure> {
    let list = client.sessions().await?;
    if output.json {
        output.document(&list)?;
        return Ok(0);
    }
    let mut table =
        table::table(output, &["ID", "NAME", "STATE", "QUEUED", "RESTARTS", "CREATED", "WORKDIR"]);
    for session in &list.sessions {
        let age = SystemTime::now().duration_since(session.created_at.to_system_time()).unwrap_or_default();
        table.add_row([
            session.id.clone(),
            session.name.as_deref().map_or_else(|| "-".to_owned(), table::plain),
            if session.busy { "busy" } else { "idle" }.to_owned(),
            session.queued.to_string(),
            session.restarts.to_string(),
            format!("{} ago", table::duration(age)),
            session.cwd.as_deref().map_or_else(|| "-".to_owned(), table::plain),
        ]);
    }
    table::print(output, &mut table)?;
    Ok(0)
}
