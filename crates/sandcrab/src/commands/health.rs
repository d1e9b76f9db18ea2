//! `sandcrab health`.

use std::time::Duration;

use clap::Args;
use sandcrab_api::server::Health;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Show the status of the server, and which features work there.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {}

pub(crate) async fn run(global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let health = client.health().await?;
    if output.json {
        output.document(&health)?;
        return Ok(0);
    }
    let mut table = table::table(output, &[]);
    for (what, how) in rows(&health, &client.address().to_string()) {
        table.add_row([what, &table::plain(&how)]);
    }
    for problem in &health.problems {
        table.add_row(["problem", &table::plain(&format!("{}; {}", problem.message, problem.suggestion))]);
    }
    table::print(output, &mut table)?;
    Ok(0)
}

fn rows(health: &Health, address: &str) -> Vec<(&'static str, String)> {
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let reason = health.shell.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let counts = &health.counts;
    vec![
        ("address", address.to_owned()),
        ("status", health.status.clone()),
        ("version", health.version.clone()),
        ("uptime", table::duration(Duration::from_millis(health.uptime_ms))),
        ("workspace", health.workspace.clone()),
        ("running", counts.running.to_string()),
        ("records", counts.executions.to_string()),
        ("sessions", counts.sessions.to_string()),
        ("restored shells", counts.restored_sessions.to_string()),
        ("lost supervisors", counts.lost_supervisors.to_string()),
        ("logged failures", counts.logged_failures.to_string()),
        ("state directory", state_directory(health)),
        ("runs as", health.run_as.clone().unwrap_or_else(|| "the server's user".to_owned())),
        ("connections", counts.connections.to_string()),
        ("shell driver", format!("{}{reason}", health.shell.driver)),
        ("cgroups", health.cgroups.clone()),
        ("landlock", yes_or_no(health.landlock)),
        ("terminals", yes_or_no(health.pty)),
        ("git", health.git.clone().unwrap_or_else(|| yes_or_no(false))),
    ]
}

fn state_directory(health: &Health) -> String {
    let state = &health.state_directory;
    if state.present { format!("{} MiB free", state.free_bytes >> 20) } else { "missing".to_owned() }
}
