//! `sandcrab ls`.

use clap::Args;
use sandcrab_api::file::{FileEntry, FileList, ListOptions, ListRequest};

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// List files of the sandbox.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// The directory. Default: the workspace, or the working directory of the session.
    path: Option<String>,
    /// Also list names that begin with a dot.
    #[arg(short, long)]
    all: bool,
    /// Also list the content of subdirectories.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List mode, size and time too.
    #[arg(short, long)]
    long: bool,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: LsArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut after = None;
    let mut whole: Option<FileList> = None;
    loop {
        let options = ListOptions {
            recursive: Some(args.recursive),
            include_hidden: Some(args.all),
            after: after.take(),
            ..ListOptions::default()
        };
        let request = ListRequest {
            path: args.path.clone(),
            session_id: args.session.clone(),
            options: Some(options),
            ..ListRequest::default()
        };
        let mut page = client.list_files(&request).await?;
        after = page.next.take();
        match &mut whole {
            None => whole = Some(page),
            Some(whole) => {
                whole.count += page.count;
                whole.files.append(&mut page.files);
            }
        }
        if after.is_none() {
            break;
        }
    }
    let Some(list) = whole else { return Ok(0) };
    if output.json {
        return output.document(&list).map(|()| 0);
    }
    if let Some(count) = list.unreadable {
        output.note(&format!("{count} directories could not be read"));
    }
    if !args.long {
        let names: String = list.files.iter().map(|file| format!("{}\n", name(file))).collect();
        return output.bytes(names.as_bytes()).map(|()| 0);
    }
    let mut table = table::table(output, &["MODE", "SIZE", "MODIFIED", "NAME"]);
    for file in &list.files {
        let kind = match file.file_type.as_str() {
            "directory" => 'd',
            "symlink" => 'l',
            "file" => '-',
            _ => '?',
        };
        let mode = format!("{kind}{}", file.mode);
        table.add_row([mode, file.size.to_string(), file.modified_at.to_string(), name(file)]);
    }
    table::print(output, &mut table).map(|()| 0)
}

fn name(file: &FileEntry) -> String {
    table::plain(&file.relative_path)
}
