//! Runs a command, keeps a variable in a session, and waits for a line of a process. docs/quick-start.md shows it.
#![expect(clippy::print_stdout, reason = "it is an example")]

use sandcrab_client::api::session::SessionRequest;
use sandcrab_client::{ClientError, Sandbox};

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let sandbox = Sandbox::connect(&variable("SANDCRAB_URL"), Some(&variable("SANDCRAB_TOKEN")))?;
    let result = sandbox.exec("echo hello; exit 3").await?;
    println!("{} {}", result.stdout, result.exit_code);

    let request = SessionRequest { cwd: Some("/usr".into()), ..SessionRequest::default() };
    let session = sandbox.create_session(request).await?;
    session.exec("cd share; NAME=value").await?;
    println!("{}", session.exec("echo $NAME in $PWD").await?.stdout);
    session.delete().await?;

    let worker = sandbox.start_process("echo ready; sleep 1000").await?;
    println!("{}", worker.wait_for_log("ready", None).await?.line);
    worker.kill().await?;
    Ok(())
}
