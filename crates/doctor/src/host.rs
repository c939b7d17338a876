//! The facts of a host, read from a root folder, so that recorded machines can be given.
//!
//! What is missing or makes no sense is `None`. Files are read up to a limit and never trusted.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::parse::{self, Quota};

/// Bytes read of one file: `/proc/interrupts` of the largest machines is below it.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Names taken of one folder.
const NAMES_MAX: usize = 4096;

/// What was read. Names are those of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// `uname -r`.
    pub release: Option<String>,
    /// `kernel.io_uring_disabled`; Linux 6.6.
    pub io_uring_disabled: Option<u64>,
    /// 0 none, 2 filter.
    pub seccomp_mode: Option<u64>,
    /// Effective capabilities, one bit each.
    pub capabilities: Option<u64>,
    /// Processors that this process may run on, rising.
    pub cpus_allowed: Option<Vec<u32>>,
    /// Locked memory, in bytes; `u64::MAX` for no limit.
    pub memlock_bytes: Option<u64>,
    /// Open files; `u64::MAX` for no limit.
    pub open_files: Option<u64>,
    /// The least quota of this process's cgroup and those above it.
    pub quota: Option<Quota>,
    /// `transparent_hugepage/enabled`: always, madvise or never.
    pub huge_transparent: Option<String>,
    /// Reserved huge pages that are free.
    pub huge_reserved_free: Option<u64>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Clock sources that can be chosen, separated by spaces.
    pub clock_sources: Option<String>,
    /// The processors of `cpus_allowed`.
    pub cpus: Vec<Cpu>,
    /// Numbers of NUMA nodes.
    pub numa_nodes: Option<Vec<u32>>,
    /// Network cards that are up.
    pub nics: Vec<Nic>,
    /// `net.ipv4.tcp_wmem`: least, default, most bytes.
    pub tcp_wmem: Option<[u64; 3]>,
    /// `net.ipv4.tcp_rmem`.
    pub tcp_rmem: Option<[u64; 3]>,
    /// `net.core.busy_read`, in microseconds.
    pub busy_read: Option<u64>,
    /// `net.core.busy_poll`, in microseconds.
    pub busy_poll: Option<u64>,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub tcp_slow_start_after_idle: Option<u64>,
    /// `net.ipv4.tcp_window_scaling`.
    pub tcp_window_scaling: Option<u64>,
    /// `net.ipv4.tcp_sack`.
    pub tcp_sack: Option<u64>,
    /// What keeps the time, when it left a trace.
    pub time_keeper: Option<&'static str>,
}

/// One processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// Processors of the same physical core, itself included.
    pub siblings: Option<Vec<u32>>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// `cpufreq/scaling_governor`.
    pub governor: Option<String>,
    /// Idle states; empty when the kernel shows none.
    pub idle_states: Vec<IdleState>,
}

/// One idle state of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Microseconds to wake up from it.
    pub latency_us: u64,
    /// Whether it is switched off; `None` when that cannot be read.
    pub is_disabled: Option<bool>,
}

/// One network card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its NUMA node; -1 when the firmware does not say.
    pub numa_node: Option<i64>,
    /// Mbit/s.
    pub speed_mbit: Option<u64>,
    /// Receive queues.
    pub receive_queues: usize,
    /// Whether any queue hands packets to other processors (`rps_cpus`).
    pub is_steered: Option<bool>,
    /// Its interrupts.
    pub irqs: Vec<u32>,
    /// Processors and how often its interrupts came to each.
    pub interrupts: Option<Vec<(u32, u64)>>,
}

/// A root folder.
struct Root<'a>(&'a Path);

impl Root<'_> {
    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let file = File::open(self.0.join(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn number(&self, path: &str) -> Option<u64> {
        parse::number(&self.bytes(path)?)
    }

    fn text(&self, path: &str) -> Option<String> {
        let text = parse::text(&self.bytes(path)?);
        (!text.is_empty()).then_some(text)
    }

    fn exists(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    /// Names in a folder, sorted. Those that are no UTF-8 are none of the kernel's.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(path));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .take(NAMES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The least of what `read` finds in `path` below `mount` and in the folders above it. `None`
    /// when one folder that must have a quota shows none.
    fn least(
        &self,
        mount: &str,
        path: &str,
        read: impl Fn(&str) -> Option<Quota>,
    ) -> Option<Quota> {
        let mut least = Quota::Unlimited;
        let mut path = path.trim_matches('/');
        while !path.is_empty() {
            let folder = format!("{mount}/{path}");
            // A cgroup that lies outside of what this container sees has no folder here.
            if self.exists(&folder) {
                least = least.min(read(&folder)?);
            }
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        Some(least.min(read(mount)?))
    }

    /// The quota of one folder of version 1. Only the root of a host has `release_agent`, and it
    /// has no quota where there is no file for one.
    fn quota_v1(&self, folder: &str) -> Option<Quota> {
        match self.bytes(&format!("{folder}/cpu.cfs_quota_us")) {
            Some(quota) => {
                let period = self.bytes(&format!("{folder}/cpu.cfs_period_us"))?;
                parse::quota_v1(&quota, &period)
            }
            None if self.exists(&format!("{folder}/release_agent")) => Some(Quota::Unlimited),
            None => None,
        }
    }

    /// The quota of one folder of version 2. Where there is no file for one, either its controller
    /// is off, or the folder is the root of a host, which alone has no `cgroup.type`.
    fn quota_v2(&self, folder: &str) -> Option<Quota> {
        if let Some(bytes) = self.bytes(&format!("{folder}/cpu.max")) {
            return parse::quota_v2(&bytes);
        }
        let controllers = self.bytes(&format!("{folder}/cgroup.controllers"))?;
        let is_on = parse::text(&controllers)
            .split(' ')
            .any(|name| name == "cpu");
        let is_root = !self.exists(&format!("{folder}/cgroup.type"));
        (!is_on || is_root).then_some(Quota::Unlimited)
    }

    fn quota(&self) -> Option<Quota> {
        let groups = self.bytes("proc/self/cgroup")?;
        if let Some(path) = parse::cgroup(&groups, Some("cpu")) {
            let mounts = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];
            let mount = mounts.iter().find(|mount| self.exists(mount))?;
            return self.least(mount, &path, |folder| self.quota_v1(folder));
        }
        let path = parse::cgroup(&groups, None)?;
        self.least("sys/fs/cgroup", &path, |folder| self.quota_v2(folder))
    }

    fn cpu(&self, number: u32) -> Cpu {
        let folder = format!("sys/devices/system/cpu/cpu{number}");
        let node = self.names(&folder).into_iter().find_map(|name| {
            let node = name.strip_prefix("node")?.parse().ok()?;
            Some(node)
        });
        let siblings = self.bytes(&format!("{folder}/topology/thread_siblings_list"));
        let idle = format!("{folder}/cpuidle");
        let states = self.names(&idle).into_iter().filter_map(|state| {
            Some(IdleState {
                name: self.text(&format!("{idle}/{state}/name"))?,
                latency_us: self.number(&format!("{idle}/{state}/latency"))?,
                is_disabled: self
                    .number(&format!("{idle}/{state}/disable"))
                    .map(|disabled| disabled != 0),
            })
        });
        Cpu {
            number,
            siblings: siblings.and_then(|bytes| parse::cpu_list(&bytes)),
            numa_node: node,
            governor: self.text(&format!("{folder}/cpufreq/scaling_governor")),
            idle_states: states.collect(),
        }
    }

    /// The card `name`, when it is one and up.
    fn nic(&self, name: String, interrupts: Option<&[u8]>) -> Option<Nic> {
        let folder = format!("sys/class/net/{name}");
        let is_up = self.text(&format!("{folder}/operstate"))? == "up";
        if !is_up || !self.exists(&format!("{folder}/device")) {
            return None;
        }
        // A virtio card lies one folder below the PCI device.
        let places = [format!("{folder}/device"), format!("{folder}/device/..")];
        let irqs: Vec<u32> = places
            .iter()
            .map(|place| self.names(&format!("{place}/msi_irqs")))
            .find(|names| !names.is_empty())
            .unwrap_or_default()
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        let queues: Vec<String> = self
            .names(&format!("{folder}/queues"))
            .into_iter()
            .filter(|name| name.starts_with("rx-"))
            .collect();
        let masks: Option<Vec<bool>> = queues
            .iter()
            .map(|queue| {
                let mask = self.bytes(&format!("{folder}/queues/{queue}/rps_cpus"))?;
                parse::is_mask_set(&mask)
            })
            .collect();
        Some(Nic {
            numa_node: places
                .iter()
                .find_map(|place| parse::signed(&self.bytes(&format!("{place}/numa_node"))?)),
            speed_mbit: self.number(&format!("{folder}/speed")),
            receive_queues: queues.len(),
            is_steered: masks.map(|masks| masks.contains(&true)),
            interrupts: interrupts.and_then(|bytes| parse::interrupts(bytes, &irqs)),
            irqs,
            name,
        })
    }

    fn time_keeper(&self) -> Option<&'static str> {
        let traces = [
            ("run/systemd/timesync/synchronized", "systemd-timesyncd"),
            ("run/chrony/chronyd.pid", "chronyd"),
            ("run/chronyd.pid", "chronyd"),
            ("run/ntpd.pid", "ntpd"),
        ];
        let found = traces.iter().find(|(path, _)| self.exists(path));
        found.map(|(_, name)| *name)
    }
}

impl Host {
    /// Reads the host whose `/` is `root`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let root = Root(root);
        let status = root.bytes("proc/self/status");
        let status = |name| parse::status(status.as_deref()?, name);
        let limits = root.bytes("proc/self/limits");
        let limit = |name| parse::limit(limits.as_deref()?, name);
        let cpus_allowed = status("Cpus_allowed_list")
            .and_then(|list| parse::cpu_list(list.as_bytes()))
            .filter(|cpus| !cpus.is_empty());
        let cpus = cpus_allowed.iter().flatten().map(|cpu| root.cpu(*cpu));
        let interrupts = root.bytes("proc/interrupts");
        let nics = root.names("sys/class/net").into_iter();
        let tcp = |name: &str| root.bytes(&format!("proc/sys/net/ipv4/{name}"));
        let tcp_number = |name: &str| parse::number(&tcp(name)?);
        let clock = "sys/devices/system/clocksource/clocksource0";
        let huge = "sys/kernel/mm";
        Self {
            release: root.text("proc/sys/kernel/osrelease"),
            io_uring_disabled: root.number("proc/sys/kernel/io_uring_disabled"),
            seccomp_mode: status("Seccomp").and_then(|mode| mode.parse().ok()),
            capabilities: status("CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()),
            memlock_bytes: limit("Max locked memory"),
            open_files: limit("Max open files"),
            quota: root.quota(),
            huge_transparent: root
                .bytes(&format!("{huge}/transparent_hugepage/enabled"))
                .and_then(|bytes| parse::chosen(&bytes)),
            huge_reserved_free: root
                .number(&format!("{huge}/hugepages/hugepages-2048kB/free_hugepages")),
            clock_source: root.text(&format!("{clock}/current_clocksource")),
            clock_sources: root.text(&format!("{clock}/available_clocksource")),
            cpus: cpus.collect(),
            cpus_allowed: cpus_allowed.clone(),
            numa_nodes: root
                .bytes("sys/devices/system/node/online")
                .and_then(|bytes| parse::cpu_list(&bytes)),
            nics: nics
                .filter_map(|name| root.nic(name, interrupts.as_deref()))
                .collect(),
            tcp_wmem: tcp("tcp_wmem").and_then(|bytes| parse::three(&bytes)),
            tcp_rmem: tcp("tcp_rmem").and_then(|bytes| parse::three(&bytes)),
            busy_read: root.number("proc/sys/net/core/busy_read"),
            busy_poll: root.number("proc/sys/net/core/busy_poll"),
            tcp_slow_start_after_idle: tcp_number("tcp_slow_start_after_idle"),
            tcp_window_scaling: tcp_number("tcp_window_scaling"),
            tcp_sack: tcp_number("tcp_sack"),
            time_keeper: root.time_keeper(),
        }
    }
}
