//! Folders of the user.

use std::path::PathBuf;

/// The user's home: `HOME`, or the profile on Windows. `None` where the environment does not say.
pub fn home_folder() -> Option<PathBuf> {
    named(if cfg!(windows) { "USERPROFILE" } else { "HOME" })
}

/// Where programs keep what they remember: `XDG_DATA_HOME`, or `.local/share` at home; `LOCALAPPDATA` on Windows. Relative
/// paths do not count.
pub fn data_folder() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    if cfg!(windows) {
        return named("LOCALAPPDATA").filter(absolute);
    }
    let at_home = || Some(home_folder().filter(absolute)?.join(".local/share"));
    named("XDG_DATA_HOME").filter(absolute).or_else(at_home)
}

fn named(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    (!value.is_empty()).then(|| value.into())
}
