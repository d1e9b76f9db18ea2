//! Default paths.

use std::env;
use std::path::{Path, PathBuf};

/// The default workspace, if it exists.
const WORKSPACE: &str = "/workspace";

/// The state directory of this user.
pub(crate) fn state_dir() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/sandcrab".into());
    }
    Some(base("XDG_STATE_HOME", ".local/state")?.join("sandcrab"))
}

/// Paths of configuration files, in order of precedence.
pub(crate) fn config_files() -> impl Iterator<Item = PathBuf> {
    let own = base("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("sandcrab/config.toml"));
    own.into_iter().chain([PathBuf::from("/etc/sandcrab/config.toml")])
}

/// The default working directory of commands.
pub(crate) fn workspace() -> Option<PathBuf> {
    let usual = Path::new(WORKSPACE);
    if usual.is_dir() { Some(usual.to_owned()) } else { env::current_dir().ok() }
}

/// A base directory of the XDG specification, which ignores relative paths.
fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}
