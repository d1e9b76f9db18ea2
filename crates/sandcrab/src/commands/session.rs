//! `sandcrab session`.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use sandcrab_api::session::{InterruptRequest, OnShellExit, SessionEnded, SessionMade, SessionRequest};
use sandcrab_client::Client;

use crate::cli::GlobalOptions;
use crate::command_line::{CommandArgs, EnvironmentArgs};
use crate::commands::kill;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::Span;
use crate::relay::relay;
use crate::table;

/// Shells that keep their state: folder, variables, functions, options.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Create(CreateArgs),
    /// List the sessions.
    List,
    Exec(ExecArgs),
    Interrupt(InterruptArgs),
    Fork(ForkArgs),
    Reset(ResetArgs),
    Delete(DeleteArgs),
}

/// Make a session, and print its id.
#[derive(Debug, Args)]
struct CreateArgs {
    /// The id; one is made if there is none.
    id: Option<String>,
    /// A name for people.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    env: EnvironmentArgs,
    /// The folder to start in.
    #[arg(short = 'C', long, value_name = "FOLDER")]
    cwd: Option<String>,
    /// The user to run its shell as: a name, a user id or UID:GID. The server has to run as root.
    #[arg(short, long)]
    user: Option<String>,
    /// The timeout of commands that do not bring their own, such as 5s, 2m; 0s for none.
    #[arg(short, long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// A command that ends the shell (`exit 3`) is like any other, and the next one has the state from before it; without
    /// this it is an error.
    #[arg(long)]
    restore: bool,
}

/// Run a command in a session; the same as `sandcrab exec --session ID`.
#[derive(Debug, Args)]
struct ExecArgs {
    /// The session.
    id: String,
    #[command(flatten)]
    command: CommandArgs,
}

/// End the command that runs in a session; the shell and its state stay.
#[derive(Debug, Args)]
struct InterruptArgs {
    /// The session.
    id: String,
    /// The signal to begin with, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "SIGINT")]
    signal: String,
    /// How long what runs has before SIGKILL, such as 500ms, 5s.
    #[arg(short, long, value_name = "DURATION")]
    grace: Option<Span>,
}

/// Make a session with the same state, and print its id.
#[derive(Debug, Args)]
struct ForkArgs {
    /// The session.
    id: String,
    /// The id of the copy; one is made if there is none.
    new_id: Option<String>,
}

/// Give a session a fresh shell; what runs in it ends.
#[derive(Debug, Args)]
struct ResetArgs {
    /// The session.
    id: String,
    /// Keep the state: folder, variables, functions, options.
    #[arg(long)]
    restore: bool,
}

/// Delete a session with everything that runs in it, and print what was ended.
#[derive(Debug, Args)]
struct DeleteArgs {
    /// The session.
    id: String,
}

pub(crate) async fn run(args: SessionArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        SessionCommand::Create(args) => made(output, &client.create_session(&args.request()).await?),
        SessionCommand::List => list(&client, output).await,
        SessionCommand::Exec(args) => {
            let mut request = args.command.request();
            request.session_id = Some(args.id);
            relay(&client, request, output).await
        }
        SessionCommand::Interrupt(args) => {
            let grace_ms = args.grace.map(Span::milliseconds);
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
    fn request(self) -> SessionRequest {
        SessionRequest {
            id: self.id,
            name: self.name,
            env: self.env.variables(),
            cwd: self.cwd,
            user: self.user,
            command_timeout_ms: self.timeout.map(Span::milliseconds),
            max_output_size_bytes: None,
            on_shell_exit: self.restore.then_some(OnShellExit::Restore),
        }
    }
}

fn made(output: Output, session: &SessionMade) -> Result<u8, Failure> {
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
        kill::receipt(output, &ended.killed, &ended.survivors)?;
    }
    Ok(kill::exit_code(&ended.survivors))
}

async fn list(client: &Client, output: Output) -> Result<u8, Failure> {
    let list = client.sessions().await?;
    if output.json {
        output.document(&list)?;
        return Ok(0);
    }
    let mut table = table::table(output, &["ID", "NAME", "STATE", "QUEUED", "RESTARTS", "CREATED", "FOLDER"]);
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
