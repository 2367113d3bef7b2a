//! The memory limits of control groups, versions 1 and 2 (Documentation/admin-guide/cgroup-v1/memory.rst and
//! cgroup-v2.rst).
//!
//! A limit binds all groups below it, so every group from the process's own up to the root counts.

use crate::kernel_files::{field, number, text};
use std::path::{Component, Path, PathBuf};

/// What one group allows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimit {
    pub(crate) limit_bytes: u64,
    pub(crate) available_bytes: u64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The limits of all groups that this process is in. `root` is where the file system starts, `/` but in tests.
pub(crate) fn limits(root: &Path) -> Vec<GroupLimit> {
    let groups = text(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = text(&root.join("proc/self/mountinfo")).unwrap_or_default();
    mounts
        .lines()
        .filter_map(Mount::parse)
        .flat_map(|mount| {
            let inner = mount.group_of(&groups);
            let top = under(root, &mount.point);
            let own = inner.map_or_else(|| top.clone(), |inner| top.join(inner));
            let mut limits = Vec::new();
            for folder in own
                .ancestors()
                .take_while(|folder| folder.starts_with(&top))
            {
                limits.extend(mount.version.limit(folder));
            }
            limits
        })
        .collect()
}

/// The smallest memory limit of the control groups that this process is in, of either version, in bytes.
pub fn control_group_limit() -> Option<u64> {
    if cfg!(windows) {
        return None;
    }
    let limits = limits(Path::new("/")).into_iter();
    // Version 1 says "no limit" with a number near the largest.
    let stated = limits.map(|group| group.limit_bytes);
    stated.filter(|&bytes| bytes < 1 << 60).min()
}

/// Where a tree of groups can be seen.
struct Mount {
    version: Version,
    /// The group that is at the mount's top: not always the root, in a container.
    top_group: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line of mountinfo: `36 35 98:0 /group /sys/fs/cgroup rw,noatime master:1 - cgroup2 source rw,options`.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (top_group, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup2" => Version::V2,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => Version::V1,
            _ => return None,
        };
        Some(Self {
            version,
            top_group: unescape(top_group).into(),
            point: unescape(point).into(),
        })
    }

    /// The process's group, as a path below the mount; `None` where it cannot be seen from there.
    fn group_of(&self, groups: &str) -> Option<PathBuf> {
        let group = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let ours = match self.version {
                Version::V1 => controllers.split(',').any(|name| name == "memory"),
                Version::V2 => controllers.is_empty(),
            };
            ours.then_some(path)
        })?;
        let inner = Path::new(group).strip_prefix(&self.top_group).ok()?;
        // A group outside of the namespace's is shown as `/../other`.
        inner
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
            .then(|| inner.to_path_buf())
    }
}

impl Version {
    fn limit(self, folder: &Path) -> Option<GroupLimit> {
        let read = |name: &str| number(&folder.join(name));
        let stat = text(&folder.join("memory.stat")).unwrap_or_default();
        let stat = |key| field(&stat, key);
        let (limits, used, cached) = match self {
            Self::V1 => (
                [
                    read("memory.limit_in_bytes"),
                    stat("hierarchical_memory_limit"),
                ],
                read("memory.usage_in_bytes"),
                [stat("total_inactive_file"), stat("total_active_file")],
            ),
            // Above `high` a group is slowed down until it is of no use.
            Self::V2 => (
                [read("memory.max"), read("memory.high")],
                read("memory.current"),
                [stat("inactive_file"), stat("active_file")],
            ),
        };
        let limit_bytes = limits.into_iter().flatten().min()?;
        // The cached bytes of files count as used, but give way before anything fails.
        let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
        let used = used.unwrap_or(0).saturating_sub(cached);
        Some(GroupLimit {
            limit_bytes,
            available_bytes: limit_bytes.saturating_sub(used),
        })
    }
}

/// An absolute path, below another root.
fn under(root: &Path, path: &Path) -> PathBuf {
    let parts = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(root.to_path_buf(), |path, part| path.join(part))
}

/// Spaces and the like are octal there: `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_may_have_spaces() {
        assert_eq!(unescape(r"/a\040b\134"), r"/a b\");
        assert_eq!(unescape(r"/a\9\04é\377"), r"/a\9\04é\377");
        let mount = Mount::parse(r"1 2 0:3 / /m\040n rw shared:1 - cgroup2 none rw").unwrap();
        assert_eq!((mount.version, mount.point), (Version::V2, "/m n".into()));
    }

    #[test]
    fn other_mounts_are_passed_over() {
        for line in [
            "",
            "1 2 0:3 / /",
            " - ",
            "1 2 0:3 / /m rw - ext4 /dev/vda rw",
            "1 2 0:3 / /m rw - cgroup cgroup rw,cpu",
            "1 2 0:3 / /m rw - cgroup",
        ] {
            assert!(Mount::parse(line).is_none(), "{line:?}");
        }
    }
}
