//! Tests of budgets, on trees of files as kernels show them.

use super::kernel::{ProcessLimits, read};
use super::*;
use std::path::PathBuf;

const GB: u64 = 1 << 30;
const MEMINFO: &str =
    "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   12582912 kB\n";
const V2_MOUNT: &str =
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1_MOUNT: &str = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                        32 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

/// A root folder that goes away with the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = format!("strata-budget-{name}-{}", std::process::id());
        let root = Self(std::env::temp_dir().join(folder));
        for (path, content) in files {
            let path = root.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    fn budget(&self) -> Budget {
        read(&self.0, &ProcessLimits::default())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn budget(limit_bytes: u64, available_bytes: u64, bound_by: Bound) -> Budget {
    Budget {
        limit_bytes,
        available_bytes,
        bound_by,
    }
}

#[test]
fn without_groups_the_machine_is_the_limit() {
    let root = Root::new("machine", &[("proc/meminfo", MEMINFO)]);
    assert_eq!(root.budget(), budget(16 * GB, 12 * GB, Bound::Machine));
    assert_eq!(
        root.budget().to_string(),
        "12.88 GB of 17.18 GB available, bound by the machine"
    );
}

#[test]
fn a_kernel_that_says_nothing_sets_no_limit() {
    let root = Root::new("nothing", &[]);
    assert_eq!(root.budget(), budget(u64::MAX, u64::MAX, Bound::Unknown));
    assert_eq!(root.budget().to_string(), "memory without a known limit");
}

#[test]
fn the_tightest_group_of_version_2_counts_wherever_it_is() {
    let files = |inner, high, outer| {
        [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/a.slice/b.service\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/a.slice/b.service/memory.max", inner),
            ("sys/fs/cgroup/a.slice/b.service/memory.high", high),
            (
                "sys/fs/cgroup/a.slice/b.service/memory.current",
                "1073741824\n",
            ),
            (
                "sys/fs/cgroup/a.slice/b.service/memory.stat",
                "anon 5\nfile 9\ninactive_file 268435456\nactive_file 268435456\n",
            ),
            ("sys/fs/cgroup/a.slice/memory.max", outer),
            ("sys/fs/cgroup/a.slice/memory.current", "3221225472\n"),
        ]
    };
    let group = Bound::ControlGroup;
    let half = GB / 2;
    for (name, files, expected) in [
        (
            "inner",
            files("4294967296\n", "max\n", "max\n"),
            budget(4 * GB, 4 * GB - half, group),
        ),
        (
            "high",
            files("max\n", "2147483648\n", "max\n"),
            budget(2 * GB, 2 * GB - half, group),
        ),
        (
            "outer",
            files("8589934592\n", "max\n", "4294967296\n"),
            budget(4 * GB, GB, group),
        ),
        ("over", files("1\n", "max\n", "max\n"), budget(1, 0, group)),
        (
            "max",
            files("max\n", "max\n", "max\n"),
            budget(16 * GB, 12 * GB, Bound::Machine),
        ),
        (
            "wide",
            files("99999999999999\n", "max", "max"),
            budget(16 * GB, 12 * GB, Bound::Machine),
        ),
    ] {
        assert_eq!(Root::new(name, &files).budget(), expected, "{name}");
    }
}

#[test]
fn groups_of_version_1_count_too() {
    let files = |limit, hierarchical| {
        [
            ("proc/meminfo", MEMINFO),
            (
                "proc/self/cgroup",
                "4:memory:/box\n3:cpu,cpuacct:/elsewhere\n0::/\n",
            ),
            ("proc/self/mountinfo", V1_MOUNT),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", limit),
            (
                "sys/fs/cgroup/memory/box/memory.usage_in_bytes",
                "2147483648\n",
            ),
            ("sys/fs/cgroup/memory/box/memory.stat", hierarchical),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.usage_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/cpu/elsewhere/memory.limit_in_bytes", "1\n"),
        ]
    };
    let stat =
        "hierarchical_memory_limit 3221225472\ninactive_file 7\ntotal_inactive_file 1073741824\n";
    let mut with = files("4294967296\n", "total_inactive_file 1073741824\n");
    // The root counts everything that runs, but limits nothing.
    with[7].1 = "0\n";
    assert_eq!(
        Root::new("v1", &with).budget(),
        budget(4 * GB, 3 * GB, Bound::ControlGroup)
    );
    let mut with = files("9223372036854771712\n", stat);
    with[7].1 = "0\n";
    assert_eq!(
        Root::new("v1-above", &with).budget(),
        budget(3 * GB, 2 * GB, Bound::ControlGroup)
    );
}

#[test]
fn a_container_sees_its_group_at_the_mounts_top() {
    for (name, group) in [
        ("host-path", "0::/docker/abc\n"),
        ("own-namespace", "0::/\n"),
        ("outside", "0::/../other\n"),
        ("unseen", "0::/elsewhere\n"),
    ] {
        let top = if name == "host-path" {
            "/docker/abc"
        } else {
            "/"
        };
        let mount = format!("30 24 0:26 {top} /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        let root = Root::new(
            name,
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", &mount),
                ("sys/fs/cgroup/memory.max", "1073741824\n"),
                ("sys/fs/cgroup/memory.current", "0\n"),
                ("sys/fs/other/memory.max", "1\n"),
            ],
        );
        assert_eq!(root.budget(), budget(GB, GB, Bound::ControlGroup), "{name}");
    }
}

#[test]
fn the_process_may_carry_limits_itself() {
    let status = "VmSize:\t 3145728 kB\nVmData:\t 1048576 kB\n";
    let root = Root::new(
        "own",
        &[("proc/meminfo", MEMINFO), ("proc/self/status", status)],
    );
    let with = |private, address_space| {
        let limits = ProcessLimits {
            private,
            address_space,
        };
        read(&root.0, &limits)
    };
    assert_eq!(
        with(Some(6 * GB), None),
        budget(6 * GB, 5 * GB, Bound::PrivateMemory)
    );
    assert_eq!(
        with(Some(6 * GB), Some(7 * GB)),
        budget(6 * GB, 4 * GB, Bound::AddressSpace)
    );
}

#[test]
fn garbage_is_passed_over() {
    let garbage: &[&str] = &[
        "",
        "\n\n",
        "max",
        "-1",
        "12x",
        "::::",
        " - ",
        "18446744073709551616",
        "\\",
        "MemTotal:",
        "MemTotal: kB",
    ];
    for (i, text) in garbage.iter().enumerate() {
        let root = Root::new(
            &format!("garbage-{i}"),
            &[
                ("proc/meminfo", text),
                ("proc/self/cgroup", text),
                ("proc/self/mountinfo", V2_MOUNT),
                ("sys/fs/cgroup/memory.max", text),
                ("sys/fs/cgroup/memory.current", text),
                ("sys/fs/cgroup/memory.stat", text),
            ],
        );
        assert_eq!(root.budget().bound_by, Bound::Unknown, "{text:?}");
        let root = Root::new(&format!("mounts-{i}"), &[("proc/self/mountinfo", text)]);
        assert_eq!(root.budget().bound_by, Bound::Unknown, "{text:?}");
    }
    let root = Root::new("bytes", &[("proc/meminfo", MEMINFO)]);
    std::fs::write(root.0.join("proc/meminfo"), [0xff, 0xfe, 0]).unwrap();
    assert_eq!(root.budget().bound_by, Bound::Unknown);
}

#[test]
#[cfg(any(target_os = "linux", windows))]
fn this_machine_has_a_budget() {
    let budget = Budget::now();
    assert_ne!(budget.bound_by, Bound::Unknown);
    assert!(
        0 < budget.available_bytes && budget.available_bytes <= budget.limit_bytes,
        "{budget}"
    );
}
