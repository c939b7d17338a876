//! The way to the server: buffers, queues, interrupts, TCP.

use super::{list, shard_cores, unreadable};
use crate::{Check, Facts, Nic};

/// The bandwidth that buffers must carry where no card tells its own, in Mbit/s.
const SPEED_MBIT: u64 = 10_000;
/// The round trip that buffers must carry where no server was asked, in microseconds.
const ROUND_TRIP_US: u64 = 1_000;

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    let host = &facts.host;
    vec![
        socket_buffers(facts),
        busy_polling(facts),
        receive_scaling(facts),
        interrupts(facts),
        switch(
            "tcp_slow_start_after_idle",
            host.tcp_slow_start_after_idle,
            0,
            "after a pause of one retransmission timeout a connection begins slowly again",
        ),
        switch(
            "tcp_window_scaling",
            host.tcp_window_scaling,
            1,
            "at most 64 KiB are under way",
        ),
        switch(
            "tcp_sack",
            host.tcp_sack,
            1,
            "one lost packet has many sent again",
        ),
    ]
}

/// A `net.ipv4` setting that is best at `best`.
fn switch(id: &'static str, found: Option<u64>, best: u64, cost: &str) -> Check {
    match found {
        None => unreadable(id, &format!("net.ipv4.{id}")),
        // window_scaling and sack are on for any other number.
        Some(value) if value == best || (best == 1 && value > 0) => {
            Check::fine(id, value.to_string())
        }
        Some(value) => Check::slower(
            id,
            value.to_string(),
            cost,
            format!("sysctl -w net.ipv4.{id}={best}"),
        ),
    }
}

fn socket_buffers(facts: &Facts) -> Check {
    const ID: &str = "socket_buffers";
    let Some([least, default, most]) = facts.host.tcp_wmem else {
        return unreadable(ID, "net.ipv4.tcp_wmem");
    };
    let speeds = facts.host.nics.iter().filter_map(|nic| nic.speed_mbit);
    let (speed, is_told) = match speeds.max() {
        Some(speed) => (speed, ""),
        None => (SPEED_MBIT, " (supposed)"),
    };
    let trips = facts
        .server
        .iter()
        .flat_map(|server| &server.round_trips_us);
    let (trip_us, is_measured) = match trips.min() {
        Some(trip) => (*trip, ""),
        None => (ROUND_TRIP_US, " (supposed; --server measures it)"),
    };
    // Mbit/s times microseconds are bits. The kernel's own part of a buffer is as much again.
    let wanted = speed.saturating_mul(trip_us) / 8 * 2;
    let found = format!(
        "tcp_wmem ends at {most} bytes; {speed} Mbit/s{is_told} over {trip_us} us{is_measured} \
         want {wanted}"
    );
    if !(is_told.is_empty() && is_measured.is_empty()) {
        Check::unknown(ID, found)
    } else if most >= wanted {
        Check::fine(ID, found)
    } else {
        Check::slower(
            ID,
            found,
            format!(
                "a connection carries at most about {} of it",
                percent(most, wanted)
            ),
            format!("sysctl -w net.ipv4.tcp_wmem='{least} {default} {wanted}'"),
        )
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{} percent", part.saturating_mul(100) / whole.max(1))
}

fn busy_polling(facts: &Facts) -> Check {
    const ID: &str = "busy_polling";
    match (facts.host.busy_read, facts.host.busy_poll) {
        (Some(read), Some(poll)) => Check::fine(
            ID,
            format!(
                "net.core.busy_read {read}, busy_poll {poll}; the engine's own \
                 busy_poll_us trades a core for latency"
            ),
        ),
        _ => unreadable(ID, "net.core.busy_read"),
    }
}

fn receive_scaling(facts: &Facts) -> Check {
    const ID: &str = "receive_scaling";
    let (Some(nic), Some(cpus)) = (facts.host.nics.first(), &facts.host.cpus_allowed) else {
        return unreadable(ID, "a network card");
    };
    let queues = nic.receive_queues;
    let found = format!("{} has {queues} receive queues", nic.name);
    match nic.is_steered {
        Some(true) => Check::fine(ID, format!("{found}, and packets are handed on")),
        _ if queues > 1 => Check::fine(ID, found),
        Some(false) if queues == 1 && cpus.len() > 2 => Check::slower(
            ID,
            found,
            "one core handles every packet that comes in",
            format!(
                "ethtool -L {0} combined {1}, or rps_cpus of its queue",
                nic.name,
                cpus.len()
            ),
        ),
        Some(false) if queues == 1 => {
            Check::fine(ID, format!("{found}, enough for {} cores", cpus.len()))
        }
        _ => unreadable(ID, "the receive queues of the network card"),
    }
}

fn interrupts(facts: &Facts) -> Check {
    const ID: &str = "interrupts";
    let Some(cores) = shard_cores(facts) else {
        return unreadable(ID, "the processors of this process");
    };
    let Some(nic) = facts.host.nics.first() else {
        return unreadable(ID, "a network card");
    };
    let Some(counts) = &nic.interrupts else {
        return unreadable(ID, "the interrupts of the network card");
    };
    if cores.is_empty() {
        return Check::unknown(ID, "no shard is pinned");
    }
    let all: u64 = counts
        .iter()
        .map(|(_, count)| count)
        .fold(0, |a, b| a.saturating_add(*b));
    let on_shards = counts
        .iter()
        .filter(|(cpu, _)| cores.contains(cpu))
        .fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let found = format!(
        "{on_shards} of {all} interrupts of {} came to the cores of shards ({})",
        nic.name,
        list(cores)
    );
    if on_shards.saturating_mul(2) <= all {
        return Check::fine(ID, found);
    }
    Check::slower(
        ID,
        found,
        "packets interrupt the shard",
        move_interrupts(nic, facts),
    )
}

/// The command that moves the interrupts of `nic` to the first core.
fn move_interrupts(nic: &Nic, facts: &Facts) -> String {
    let first = facts.host.cpus_allowed.iter().flatten().next();
    let first = first.copied().unwrap_or(0);
    format!(
        "for irq in {}; do echo {first} > /proc/irq/$irq/smp_affinity_list; done",
        list(&nic.irqs).replace(',', " ")
    )
}
