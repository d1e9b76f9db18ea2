//! Where things are by default.

use std::env;
use std::path::{Path, PathBuf};

/// The folder where commands run, if it is there.
const WORKSPACE: &str = "/workspace";

/// The state directory of this user.
pub(crate) fn state_dir() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/sandcrab".into());
    }
    Some(base("XDG_STATE_HOME", ".local/state")?.join("sandcrab"))
}

/// Where a configuration file may be, in the order in which they count.
pub(crate) fn config_files() -> impl Iterator<Item = PathBuf> {
    let own = base("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("sandcrab/config.toml"));
    own.into_iter().chain([PathBuf::from("/etc/sandcrab/config.toml")])
}

/// Where commands run that do not say.
pub(crate) fn workspace() -> Option<PathBuf> {
    let usual = Path::new(WORKSPACE);
    if usual.is_dir() { Some(usual.to_owned()) } else { env::current_dir().ok() }
}

/// A base directory after the XDG specification, by which a relative path counts as none.
fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}
