//! Cores: how many, whose siblings, on which node, and how they sleep.

use super::{list, shard_cores, unreadable};
use crate::parse::Quota;
use crate::{Check, Cpu, Facts};

/// Waking up from a state deeper than this is felt in a round trip.
const WAKE_US_MAX: u64 = 10;

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    vec![
        cores(facts),
        cpu_quota(facts),
        hyper_threads(facts),
        numa(facts),
        governor(facts),
        idle_states(facts),
    ]
}

fn cores(facts: &Facts) -> Check {
    const ID: &str = "cores";
    let Some(cpus) = &facts.host.cpus_allowed else {
        return unreadable(ID, "the processors of this process");
    };
    let shards = usize::from(facts.asked.shards);
    let found = format!("{} for {shards} shards and the application", cpus.len());
    if cpus.len() > shards {
        Check::fine(ID, found)
    } else {
        Check::slower(
            ID,
            found,
            "no shard is pinned, and all take turns with the application",
            if cpus.len() > 1 {
                format!("--shards {}", cpus.len() - 1)
            } else {
                "taskset -c 0,1 ringmain ... (a container: --cpuset-cpus 0,1)".to_owned()
            },
        )
    }
}

fn cpu_quota(facts: &Facts) -> Check {
    const ID: &str = "cpu_quota";
    let wanted = 1000 * (u64::from(facts.asked.shards) + 1);
    match facts.host.quota {
        None => unreadable(ID, "the processor quota of the cgroup"),
        Some(Quota::Unlimited) => Check::fine(ID, "no quota"),
        Some(Quota::MilliCores(milli)) => {
            let cores = |milli: u64| format!("{}.{:03}", milli / 1000, milli % 1000);
            let found = format!(
                "{} cores, and {} are wanted for shards and application",
                cores(milli),
                wanted / 1000
            );
            if milli >= wanted {
                Check::fine(ID, found)
            } else {
                Check::slower(
                    ID,
                    found,
                    "a shard stands still for the rest of each period when the quota is used up",
                    format!(
                        "docker update --cpus {} CONTAINER (a service: CPUQuota={}%)",
                        wanted / 1000,
                        wanted / 10
                    ),
                )
            }
        }
    }
}

/// The facts of the shards' cores; `None` when there is nothing to look at.
fn shard_cpus(facts: &Facts) -> Option<Vec<&Cpu>> {
    let cores = shard_cores(facts)?;
    let cpus = facts.host.cpus.iter();
    Some(cpus.filter(|cpu| cores.contains(&cpu.number)).collect())
}

fn hyper_threads(facts: &Facts) -> Check {
    const ID: &str = "hyper_threads";
    let (Some(cpus), Some(allowed)) = (shard_cpus(facts), &facts.host.cpus_allowed) else {
        return unreadable(ID, "the processors of this process");
    };
    if cpus.is_empty() {
        return Check::unknown(ID, "no shard is pinned");
    }
    let mut shared = Vec::new();
    for cpu in &cpus {
        let Some(siblings) = &cpu.siblings else {
            return unreadable(ID, "thread_siblings_list");
        };
        let mut others = siblings.iter().filter(|other| **other != cpu.number);
        if others.any(|other| allowed.contains(other)) {
            shared.push(cpu.number);
        }
    }
    if shared.is_empty() {
        return Check::fine(ID, "no shard shares its core with a thread of this process");
    }
    // One thread of each physical core.
    let mut kept: Vec<u32> = Vec::new();
    for cpu in &facts.host.cpus {
        let siblings = cpu.siblings.iter().flatten();
        if !siblings.into_iter().any(|other| kept.contains(other)) {
            kept.push(cpu.number);
        }
    }
    Check::slower(
        ID,
        format!(
            "the cores of shards on {} have a sibling that is used",
            list(&shared)
        ),
        "two threads of one core share its units",
        format!("taskset -c {} ringmain ...", list(&kept)),
    )
}

fn numa(facts: &Facts) -> Check {
    const ID: &str = "numa";
    let host = &facts.host;
    match host.numa_nodes.as_deref() {
        None => return unreadable(ID, "the NUMA nodes"),
        Some([_]) => return Check::fine(ID, "one node"),
        Some(_) => {}
    }
    let Some(cpus) = shard_cpus(facts).filter(|cpus| !cpus.is_empty()) else {
        return Check::unknown(ID, "no shard is pinned");
    };
    let Some(nic) = host.nics.first() else {
        return unreadable(ID, "a network card");
    };
    let Some(node) = nic.numa_node.and_then(|node| u32::try_from(node).ok()) else {
        return Check::unknown(ID, format!("the node of {} is not told", nic.name));
    };
    let far: Vec<u32> = cpus
        .iter()
        .filter(|cpu| cpu.numa_node.is_some_and(|other| other != node))
        .map(|cpu| cpu.number)
        .collect();
    if cpus.iter().any(|cpu| cpu.numa_node.is_none()) {
        return unreadable(ID, "the nodes of the shards' cores");
    }
    if far.is_empty() {
        return Check::fine(ID, format!("shards are on node {node}, as {} is", nic.name));
    }
    Check::slower(
        ID,
        format!(
            "{} is on node {node}, shards on {} are not",
            nic.name,
            list(&far)
        ),
        "packets cross the link between the sockets",
        format!("numactl --cpunodebind={node} --membind={node} ringmain ..."),
    )
}

fn governor(facts: &Facts) -> Check {
    const ID: &str = "governor";
    let cpus = &facts.host.cpus;
    let governors: Option<Vec<&str>> = cpus.iter().map(|cpu| cpu.governor.as_deref()).collect();
    match governors {
        Some(governors) if !governors.is_empty() => {
            match governors.iter().find(|name| **name != "performance") {
                None => Check::fine(ID, "performance"),
                Some(name) => Check::slower(
                    ID,
                    *name,
                    "a core that wakes up begins at a low frequency",
                    "cpupower frequency-set -g performance",
                ),
            }
        }
        _ => unreadable(ID, "scaling_governor (in a guest the host decides)"),
    }
}

fn idle_states(facts: &Facts) -> Check {
    const ID: &str = "idle_states";
    let cpus = &facts.host.cpus;
    if cpus.is_empty() || cpus.iter().any(|cpu| cpu.idle_states.is_empty()) {
        return unreadable(ID, "cpuidle (in a guest the host decides)");
    }
    let states = || cpus.iter().flat_map(|cpu| &cpu.idle_states);
    let deep = states().filter(|state| state.latency_us > WAKE_US_MAX);
    let deepest = deep
        .filter(|state| state.is_disabled != Some(true))
        .max_by_key(|state| state.latency_us);
    match deepest {
        None => Check::fine(ID, "none that takes long to wake up from"),
        Some(state) => Check::slower(
            ID,
            format!("{} is used", state.name),
            format!(
                "up to {} us when an idle core wakes up, says the kernel",
                state.latency_us
            ),
            format!("cpupower idle-set -D {WAKE_US_MAX}"),
        ),
    }
}
