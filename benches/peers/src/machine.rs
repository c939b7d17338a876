//! The machine: its cores, what a process used of it, and the facts to print beside figures.

use std::fs;

use core_affinity::CoreId;
use rustix::time::{ClockId, clock_gettime};

use crate::failure::Failure;

/// Where the two processes of a measurement run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    pub(crate) broker: usize,
    pub(crate) client: usize,
}

/// The first core for the broker, the last for the client.
///
/// # Errors
/// [`Failure::Cores`] when there is only one.
pub(crate) fn cores() -> Result<Cores, Failure> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    match cores.as_slice() {
        [first, .., last] => Ok(Cores {
            broker: first.id,
            client: last.id,
        }),
        few => Err(Failure::Cores { found: few.len() }),
    }
}

/// Keeps this process, and every thread it starts from now on, on one core.
pub(crate) fn pin(core: usize) -> Result<(), Failure> {
    if core_affinity::set_for_current(CoreId { id: core }) {
        Ok(())
    } else {
        Err(Failure::Pin { core })
    }
}

/// User and system time of this process so far, all threads, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Time so far in which the two cores did anything for anybody, the host's other guests included,
/// in seconds. The kernel counts in ticks of 10 ms.
pub(crate) fn busy_seconds(cores: Cores) -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_ticks(&stat, cores.broker) as f64 / 100.0 + busy_ticks(&stat, cores.client) as f64 / 100.0
}

/// User, nice, system, interrupts and what the host took away; not idle, not waiting for disks.
fn busy_ticks(stat: &str, core: usize) -> u64 {
    let name = format!("cpu{core} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name));
    let fields = line.unwrap_or_default().split_whitespace().take(8);
    fields
        .enumerate()
        .filter(|(index, _)| ![3, 4].contains(index))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum()
}

/// Resident memory now: pages and huge pages.
pub(crate) fn rss_bytes() -> u64 {
    let status = status();
    field_bytes(&status, "VmRSS:") + field_bytes(&status, "HugetlbPages:")
}

/// The most that was resident at a time. Huge pages are counted as they are now: the peers never
/// give any back.
pub(crate) fn rss_peak_bytes() -> u64 {
    let status = status();
    field_bytes(&status, "VmHWM:") + field_bytes(&status, "HugetlbPages:")
}

fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// A field of `/proc/self/status`, given in kB; 0 when it is not there.
fn field_bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// One line: processor, cores, kernel, memory.
pub(crate) fn facts() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_gib = field_bytes(&meminfo, "MemTotal:") as f64 / f64::from(1 << 30);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{model}, {cores} cores, Linux {}, {memory_gib:.0} GiB",
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "VmHWM:\t    1234 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(field_bytes(status, "VmHWM:"), 1234 * 1024);
        assert_eq!(field_bytes(status, "VmRSS:"), 12 * 1024);
        assert_eq!(field_bytes(status, "HugetlbPages:"), 0);
    }

    #[test]
    fn a_busy_core_is_told_from_its_neighbours() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 4 1000 1000 8 16 32 64 64\ncpu11 7 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(busy_ticks(stat, 1), 63);
        assert_eq!(busy_ticks(stat, 11), 7);
        assert_eq!(busy_ticks(stat, 2), 0);
    }

    #[test]
    fn work_takes_processor_time() {
        let before = cpu_seconds();
        let mut sum = 0_u64;
        while cpu_seconds() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_seconds() > before);
        assert!(rss_peak_bytes() > 0 && rss_bytes() > 0);
    }
}
