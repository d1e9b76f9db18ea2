//! `sandcrab man`.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli;
use crate::failure::Failure;
use crate::output::Output;

/// Write the man pages to a directory, and print their paths.
///
/// One page for each command, such as sandcrab-exec.1. The directory is created if it does not exist. To install them for
/// `man sandcrab`, as root: `sandcrab man /usr/local/share/man/man1`. As another user, with ~/.local/bin in PATH:
/// `sandcrab man ~/.local/share/man/man1`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs, output: Output) -> Result<u8, Failure> {
    let mut command = cli::command();
    command.build();
    let mut paths = Vec::new();
    write(&command, "sandcrab", &args.dir, &mut paths).map_err(|e| Failure::write_files(&args.dir, &e))?;
    let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    output.bytes(lines.as_bytes())?;
    Ok(0)
}

/// Writes the page of a command, and those of its subcommands.
fn write(command: &clap::Command, name: &str, dir: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).title(name).manual("Sandcrab manual");
    man.source(concat!("sandcrab ", env!("CARGO_PKG_VERSION"))).render(&mut page)?;
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page)?;
    paths.push(path);
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for subcommand in subcommands {
        write(subcommand, &format!("{name}-{}", subcommand.get_name()), dir, paths)?;
    }
    Ok(())
}
