//! The clock: how dear it is, and whether it jumps.

use super::unreadable;
use crate::{Check, Facts};

/// A look that costs more than this is a system call or a device. Read in user space it is
/// 20 to 50 ns.
const LOOK_NS_MAX: f64 = 100.0;

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    vec![clock_source(facts), clock_cost(facts), time_steps(facts)]
}

fn clock_source(facts: &Facts) -> Check {
    const ID: &str = "clock_source";
    const COST: &str = "every look at the clock is a system call";
    let host = &facts.host;
    let Some(source) = host.clock_source.as_deref() else {
        return unreadable(ID, "the clock source");
    };
    let offered = host.clock_sources.as_deref().unwrap_or("");
    let faster = ["tsc", "kvm-clock", "arch_sys_counter"]
        .into_iter()
        .find(|wanted| offered.split(' ').any(|name| name == *wanted));
    match (source, faster) {
        ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page", _) => {
            Check::fine(ID, source)
        }
        ("hpet" | "acpi_pm" | "xen" | "jiffies" | "refined-jiffies", Some(faster)) => {
            Check::slower(
                ID,
                source,
                COST,
                format!(
                    "echo {faster} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
                ),
            )
        }
        ("hpet" | "acpi_pm" | "xen" | "jiffies" | "refined-jiffies", None) => Check::slower(
            ID,
            format!("{source}, and no faster one is offered"),
            COST,
            "boot with tsc=reliable, when the processor's counter is",
        ),
        _ => Check::unknown(ID, format!("{source}; what it costs is in clock_cost")),
    }
}

fn clock_cost(facts: &Facts) -> Check {
    const ID: &str = "clock_cost";
    match facts.clock_ns {
        None => Check::unknown(ID, "not measured"),
        Some(ns) if ns <= LOOK_NS_MAX => Check::fine(ID, format!("{ns:.0} ns a look")),
        Some(ns) => Check::slower(
            ID,
            format!("{ns:.0} ns a look"),
            "a record that is sent alone has its time looked up",
            "what the line clock_source says; else give records their time, or send batches",
        ),
    }
}

fn time_steps(facts: &Facts) -> Check {
    const ID: &str = "time_steps";
    match facts.host.time_keeper {
        Some(keeper) => Check::fine(ID, format!("{keeper} keeps the clock")),
        None => Check::unknown(
            ID,
            "nothing shows what keeps the clock; a step back makes the engine hash a batch again",
        ),
    }
}
