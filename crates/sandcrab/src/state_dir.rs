//! Where the state of the default server is.

use std::path::PathBuf;

/// What names the state directory instead of the default.
pub(crate) const STATE_DIR_VARIABLE: &str = "SANDCRAB_STATE_DIR";
const ROOTS_STATE_DIR: &str = "/var/lib/sandcrab";

/// The state directory of a server that was not told otherwise; `None` if this user has no home.
pub(crate) fn default_state_dir() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable(STATE_DIR_VARIABLE) {
        return Some(dir);
    }
    if let Some(dir) = variable("XDG_STATE_HOME").filter(|dir| dir.is_absolute()) {
        return Some(dir.join("sandcrab"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(ROOTS_STATE_DIR.into());
    }
    variable("HOME").map(|home| home.join(".local/state/sandcrab"))
}
