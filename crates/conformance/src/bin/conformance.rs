//! Runs the conformance suite against a server. Prints a line per case, and exits with code 1 if one fails.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use sandcrab_conformance::cases;
use sandcrab_conformance::http::Target;
use tokio::runtime::Runtime;

/// Runs the conformance suite against a server.
///
/// The cases run commands on the server, one after the other, and clean up. They end all processes and remove
/// all records of the server, so do not use a server in production.
#[derive(Debug, Parser)]
struct Arguments {
    /// Base URL of the server, for example http://127.0.0.1:7070.
    #[arg(long)]
    url: String,
    /// File with the server's token.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Also run the cases that take minutes.
    #[arg(long)]
    soak: bool,
    /// Only run cases whose name contains this text.
    filter: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}.");
            ExitCode::from(2)
        }
    }
}

/// Runs the cases. Returns whether all passed.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let token = arguments.token_file.as_ref().map(std::fs::read_to_string).transpose()?;
    let target = Target::new(&arguments.url, token.map(|token| token.trim().to_owned()))?;
    let wanted = |name: &str| {
        (arguments.soak || !name.contains("::soak_"))
            && arguments.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    };
    let (mut passed, mut failed) = (0, 0);
    for case in cases::ALL.iter().filter(|case| wanted(case.name)) {
        let since = Instant::now();
        // Each case has its own runtime, so that tasks of a failed case end with it.
        let runtime = Runtime::new()?;
        let outcome = runtime.block_on(async {
            tokio::task::JoinSet::from_iter([case.run(target.clone())]).join_next().await
        });
        let took = since.elapsed().as_secs_f64();
        if let Some(Ok(())) = outcome {
            passed += 1;
            println!("pass  {took:6.2} s  {}", case.name);
        } else {
            failed += 1;
            println!("FAIL  {took:6.2} s  {}", case.name);
        }
    }
    println!("{passed} passed, {failed} failed");
    if passed + failed == 0 {
        return Err("no case has this text in its name".into());
    }
    Ok(failed == 0)
}
