//! Ids of the server that complete a command line.
//!
//! The completion scripts call `sandcrab __complete WORD...`, with the words up to the cursor; the last one is completed. The
//! result is one id per line, or nothing where the command line expects something else.
//!
//! A server chooses the ids. Each one that contains another character than letters, digits and `-_.:@` is left out, so that no
//! shell can expand it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Arg, Command};
use sandcrab_client::{Client, ClientError, ProcessFilter};
use tokio::runtime::Builder;

use crate::cli;
use crate::connection::Connection;
use crate::output::Output;

/// The name of the command that the scripts call.
const NAME: &str = "__complete";

/// How long a completion may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The resources that have ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Process,
    Session,
    Terminal,
    Service,
    Backup,
}

/// The words to complete, if this program was started by a completion script.
pub(crate) fn requested() -> Option<Vec<String>> {
    let mut words = std::env::args_os().skip(1);
    let is_requested = words.next()? == NAME;
    is_requested.then(|| words.map(|word: OsString| word.to_string_lossy().into_owned()).collect())
}

/// Prints the ids. Failures are silent: there is no place for a message in a command line.
pub(crate) fn complete(words: &[String]) {
    let Some(place) = Place::of(words) else { return };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let connection =
        Connection { url: place.url.as_deref(), token_file: place.token_file.as_deref().map(Path::new) };
    let Ok(client) = connection.client() else { return };
    let listed = runtime.block_on(async { tokio::time::timeout(TIMEOUT, place.resource.ids(&client)).await });
    let Ok(Ok(ids)) = listed else { return };
    let ids =
        ids.iter().filter(|id| is_inert(id) && id.starts_with(place.prefix) && !place.given.contains(id));
    let lines: String = ids.flat_map(|id| [id, "\n"]).collect();
    // There is no reader left to report a failure to.
    drop(Output::new(false).bytes(lines.as_bytes()));
}

/// Whether no shell expands an id, and no command takes it for an option.
fn is_inert(id: &str) -> bool {
    !id.starts_with('-') && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:@".contains(c))
}

impl Resource {
    /// What the positional ids of a command refer to.
    fn of_command(path: &[&str]) -> Option<Self> {
        Some(match path {
            ["inspect" | "logs" | "wait" | "kill" | "signal" | "stdin"] => Self::Process,
            // The id of a new session.
            ["session", "create"] => return None,
            ["session", _] => Self::Session,
            ["attach"] | ["terminal", _] => Self::Terminal,
            ["service", _] => Self::Service,
            ["backup", _] => Self::Backup,
            _ => return None,
        })
    }

    /// What an argument refers to, in the command with this path.
    fn of_argument(arg: &Arg, path: &[&str]) -> Option<Self> {
        match (arg.get_id().as_str(), arg.is_positional()) {
            ("session", _) => Some(Self::Session),
            ("process", false) => Some(Self::Process),
            ("id" | "ids", true) => Self::of_command(path),
            _ => None,
        }
    }

    async fn ids(self, client: &Client) -> Result<Vec<String>, ClientError> {
        Ok(match self {
            Self::Process => {
                let filter = ProcessFilter { all: true, ..ProcessFilter::default() };
                client.processes(&filter).await?.processes.into_iter().map(|process| process.id).collect()
            }
            Self::Session => {
                client.sessions().await?.sessions.into_iter().map(|session| session.id).collect()
            }
            Self::Terminal => {
                client.terminals().await?.terminals.into_iter().map(|terminal| terminal.id).collect()
            }
            Self::Service => {
                client.services().await?.services.into_iter().map(|service| service.id).collect()
            }
            Self::Backup => {
                client.list_backups().await?.backups.into_iter().map(|backup| backup.id).collect()
            }
        })
    }
}

/// The end of a command line that expects an id.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    resource: Resource,
    prefix: &'a str,
    /// Ids that the command line already has.
    given: Vec<&'a String>,
    url: Option<String>,
    token_file: Option<String>,
}

impl<'a> Place<'a> {
    /// `None` if the last word is something else than an id.
    fn of(words: &'a [String]) -> Option<Self> {
        let (prefix, words) = words.split_last()?;
        let root = cli::command();
        let (mut command, mut path) = (&root, Vec::new());
        let (mut given, mut url, mut token_file) =
            (Vec::new(), variable("SANDCRAB_URL"), variable("SANDCRAB_TOKEN_FILE"));
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            if word == "--" {
                return None;
            }
            if word.starts_with('-') && word.len() > 1 {
                let (name, value) =
                    word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
                let Some(option) =
                    option(command, &root, name).filter(|option| option.get_action().takes_values())
                else {
                    continue;
                };
                let is_optional = option.is_require_equals_set();
                let value = match value {
                    Some(value) => value,
                    None if is_optional => continue,
                    None => match words.next() {
                        Some(value) => value,
                        None => {
                            let resource = Resource::of_argument(option, &path)?;
                            return Some(Self { resource, prefix, given: Vec::new(), url, token_file });
                        }
                    },
                };
                match option.get_id().as_str() {
                    "url" => url = Some(value.to_owned()),
                    "token_file" => token_file = Some(value.to_owned()),
                    _ => {}
                }
            } else if let Some(subcommand) = command.find_subcommand(word).filter(|_| given.is_empty()) {
                command = subcommand;
                path.push(subcommand.get_name());
            } else {
                given.push(word);
            }
        }
        if prefix.starts_with('-') {
            return None;
        }
        let positionals: Vec<_> = command.get_positionals().collect();
        let last =
            positionals.last().filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1));
        let resource = Resource::of_argument(positionals.get(given.len()).or(last)?, &path)?;
        Some(Self { resource, prefix, given, url, token_file })
    }
}

/// The option with a name such as `-s` or `--session`.
fn option<'a>(command: &'a Command, root: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_named = |arg: &&Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => {
            // The last of several, as in `-it`.
            let last = name.chars().last();
            arg.get_short_and_visible_aliases()
                .is_some_and(|names| names.iter().any(|short| Some(*short) == last))
        }
    };
    command.get_arguments().find(is_named).or_else(|| root.get_arguments().find(is_named))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str) -> Option<(Resource, String, usize)> {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        Place::of(&words).map(|place| (place.resource, place.prefix.to_owned(), place.given.len()))
    }

    #[test]
    fn ids_are_completed_where_they_are_expected() {
        for (line, expected) in [
            ("sandcrab kill ", Some((Resource::Process, "", 0))),
            ("sandcrab kill a:b c", Some((Resource::Process, "c", 1))),
            ("sandcrab --url http://x:1 logs -f w", Some((Resource::Process, "w", 0))),
            ("sandcrab signal TERM w", Some((Resource::Process, "w", 1))),
            ("sandcrab signal T", None),
            ("sandcrab exec -s w", Some((Resource::Session, "w", 0))),
            ("sandcrab exec -C /tmp --session ", Some((Resource::Session, "", 0))),
            ("sandcrab exec --env A=b w", None),
            ("sandcrab session exec w", Some((Resource::Session, "w", 0))),
            ("sandcrab session exec w l", None),
            ("sandcrab session create w", None),
            ("sandcrab session delete ", Some((Resource::Session, "", 0))),
            ("sandcrab attach ", Some((Resource::Terminal, "", 0))),
            ("sandcrab terminal send r", Some((Resource::Terminal, "r", 0))),
            ("sandcrab terminal send r te", None),
            ("sandcrab service stop a b", Some((Resource::Service, "b", 1))),
            ("sandcrab service start ", None),
            ("sandcrab backup restore ", Some((Resource::Backup, "", 0))),
            ("sandcrab ports wait 80 --process ", Some((Resource::Process, "", 0))),
            ("sandcrab start --id ", None),
            ("sandcrab kill -", None),
            ("sandcrab exec -- ", None),
            ("sandcrab ki", None),
            ("sandcrab ", None),
            ("sandcrab", None),
        ] {
            let expected = expected.map(|(resource, prefix, given)| (resource, prefix.to_owned(), given));
            assert_eq!(place(line), expected, "{line}");
        }
    }

    #[test]
    fn ids_that_a_shell_expands_are_left_out() {
        for id in ["a", "a:b", "user@host", "x-1_2.3"] {
            assert!(is_inert(id), "{id}");
        }
        for id in [
            "$(touch x)",
            "`id`",
            "a b",
            "a\nb",
            "'",
            "\"",
            "\\",
            "a;b",
            "*",
            "~",
            "-rf",
            "{a,b}",
            "a\u{e9}",
            "!!",
            "a=b",
        ] {
            assert!(!is_inert(id), "{id:?}");
        }
    }
}
