//! Where state is kept, by the environment.

use crate::StateError;
use std::ffi::OsString;
use std::path::PathBuf;

/// Root's folder where root has no home, as hier(7) has it for state of programs.
const OF_SYSTEM: &str = "/var/lib";

/// `$XDG_STATE_HOME/plimsoll`, or `~/.local/state/plimsoll`; of root without a home, `/var/lib/plimsoll`. Neither made
/// nor looked at: that is for [`crate::existing`] and [`crate::made`].
///
/// A variable that is not an absolute path is ignored, as the XDG Base Directory Specification demands.
///
/// # Errors
/// [`StateError::NoHome`]: there is no place that would be this user's alone.
pub fn folder() -> Result<PathBuf, StateError> {
    let is_root = rustix::process::geteuid().is_root();
    folder_of(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"), is_root)
}

fn folder_of(state_home: Option<OsString>, home: Option<OsString>, is_root: bool) -> Result<PathBuf, StateError> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(state_home)
        .or_else(|| absolute(home).map(|home| home.join(".local/state")))
        .or_else(|| is_root.then(|| PathBuf::from(OF_SYSTEM)))
        .map(|folder| folder.join("plimsoll"))
        .ok_or(StateError::NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_and_without_a_home_only_root_has_a_place() {
        let of = |state: &str, home: &str, is_root| {
            let set = |text: &str| (text != "-").then(|| OsString::from(text));
            folder_of(set(state), set(home), is_root).map(|path| path.display().to_string())
        };
        assert_eq!(of("/s", "/h", false).as_deref(), Ok("/s/plimsoll"));
        assert_eq!(of("s", "/h", true).as_deref(), Ok("/h/.local/state/plimsoll"));
        assert_eq!(of("-", "/h", false).as_deref(), Ok("/h/.local/state/plimsoll"));
        for nothing in ["-", "", "h"] {
            assert_eq!(of("-", nothing, true).as_deref(), Ok("/var/lib/plimsoll"));
            assert_eq!(of("", nothing, false), Err(StateError::NoHome));
        }
    }
}
