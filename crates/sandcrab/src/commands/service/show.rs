//! `sandcrab service list` and `sandcrab service status`.

use std::time::SystemTime;

use clap::Args;
use sandcrab_api::Timestamp;
use sandcrab_api::service::{Service, ServiceExecution};
use sandcrab_client::Client;

use crate::batch::BatchResults;
use crate::end;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

const COLUMNS: [&str; 7] = ["ID", "STATE", "PID", "RESTARTS", "CREATED", "NAME", "COMMAND"];

/// List services, the oldest first.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only print ids.
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Show details of services: state, health, current and earlier executions.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Ids of the services.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(super) async fn list(args: &ListArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let list = client.services().await?;
    if output.json {
        output.document(&list)?;
        return Ok(0);
    }
    if args.quiet {
        for service in &list.services {
            output.line(&service.id)?;
        }
        return Ok(0);
    }
    let mut table = table::table(output, &COLUMNS);
    for service in &list.services {
        table.add_row(row(service));
    }
    table::print(output, &mut table)?;
    Ok(0)
}

fn row(service: &Service) -> [String; 7] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let age = SystemTime::now().duration_since(service.created_at.to_system_time()).unwrap_or_default();
    [
        service.id.clone(),
        service.state.as_str().to_owned(),
        or_dash(service.pid.map(|pid| pid.to_string())),
        service.restarts.to_string(),
        format!("{} ago", table::duration(age)),
        or_dash(service.name.as_deref().map(table::plain)),
        table::plain(&service.command),
    ]
}

pub(super) async fn status(args: &StatusArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let mut results = BatchResults::new(output, &args.ids);
    for id in &args.ids {
        let Some(service) = results.check(id, client.service(id).await)? else { continue };
        if output.json {
            results.document(&service)?;
            continue;
        }
        let mut table = table::table(output, &[]);
        for (name, value) in rows(&service) {
            table.add_row([name, &table::plain(&value)]);
        }
        table::print(output, &mut table)?;
    }
    Ok(results.exit_code())
}

fn rows(service: &Service) -> Vec<(&'static str, String)> {
    let mut rows = vec![("id", service.id.clone()), ("command", service.command.clone())];
    let mut add = |name: &'static str, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add("name", service.name.clone());
    add("state", Some(service.state.as_str().to_owned()));
    add("error", service.health.error.clone());
    add("execution", service.execution_id.clone());
    add("PID", service.pid.map(|pid| pid.to_string()));
    add("session", service.session_id.clone());
    add("started", service.started_at.map(|time: Timestamp| time.to_string()));
    add("last check", service.health.last_check.map(|time| time.to_string()));
    add("restarts", Some(service.restarts.to_string()));
    add("next restart", service.next_restart.map(|time| time.to_string()));
    for execution in &service.executions {
        add("ended", Some(ended(execution)));
    }
    rows
}

fn ended(execution: &ServiceExecution) -> String {
    let how = match (&execution.end, &execution.error) {
        (Some(end), _) => end::reason(end),
        (None, Some(error)) => error.clone(),
        (None, None) => "unknown".to_owned(),
    };
    let code = execution.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    format!("{} {} {how}{code}", execution.end_time, execution.execution_id)
}
