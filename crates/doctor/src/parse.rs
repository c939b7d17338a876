//! From the bytes of `/proc` and `/sys` to numbers. Pure, bounded, and `None` for what makes no
//! sense: no byte of a file can panic here.

/// More processors than any kernel is built for.
const CPUS_MAX: u32 = 8192;

/// How much processor time a cgroup may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quota {
    /// Thousandths of a core.
    MilliCores(u64),
    /// No bound.
    Unlimited,
}

pub(crate) fn text(bytes: &[u8]) -> String {
    // Control bytes would reach the terminal.
    let text = String::from_utf8_lossy(bytes);
    let clean: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    clean.chars().take(200).collect()
}

pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

pub(crate) fn signed(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

/// Three numbers of one line, as in `tcp_wmem`.
pub(crate) fn three(bytes: &[u8]) -> Option<[u64; 3]> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let found = [
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    ];
    numbers.next().is_none().then_some(found)
}

/// A list of processors: `0-3,8`.
pub(crate) fn cpu_list(bytes: &[u8]) -> Option<Vec<u32>> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Whether a mask of processors (`00000000,00000003`) has any.
pub(crate) fn is_mask_set(bytes: &[u8]) -> Option<bool> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let is_mask = !text.is_empty() && text.chars().all(|c| c == ',' || c.is_ascii_hexdigit());
    is_mask.then(|| text.chars().any(|c| c != ',' && c != '0'))
}

/// The first two numbers of a kernel release.
pub(crate) fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The value of `name:` in `/proc/self/status`.
pub(crate) fn status<'a>(bytes: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// The soft limit `name` of `/proc/self/limits`; `u64::MAX` for none.
pub(crate) fn limit(bytes: &[u8], name: &str) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let values = text.lines().find_map(|line| line.strip_prefix(name))?;
    match values.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        soft => soft.parse().ok(),
    }
}

/// The choice in brackets: `always [madvise] never`.
pub(crate) fn chosen(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, rest) = text.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(self::text(choice.as_bytes()))
}

/// The path of a cgroup: of version 2 for `None`, else of the version 1 controller.
pub(crate) fn cgroup(bytes: &[u8], controller: Option<&str>) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match controller {
            None => id == "0" && names.is_empty(),
            Some(wanted) => names.split(',').any(|name| name == wanted),
        };
        let is_inside = path.starts_with('/') && path.split('/').all(|part| part != "..");
        (is_it && is_inside).then(|| path.trim_start_matches('/').to_owned())
    })
}

/// `cpu.max` of version 2: `max 100000` or `150000 100000`.
pub(crate) fn quota_v2(bytes: &[u8]) -> Option<Quota> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut parts = text.split_whitespace();
    let (quota, period) = (parts.next()?, parts.next()?.parse::<u64>().ok()?);
    match quota {
        "max" => Some(Quota::Unlimited),
        quota => share(quota.parse().ok()?, period),
    }
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1.
pub(crate) fn quota_v1(quota: &[u8], period: &[u8]) -> Option<Quota> {
    match signed(quota)? {
        -1 => Some(Quota::Unlimited),
        quota => share(u64::try_from(quota).ok()?, number(period)?),
    }
}

fn share(quota_us: u64, period_us: u64) -> Option<Quota> {
    let milli = quota_us.checked_mul(1000)?.checked_div(period_us)?;
    Some(Quota::MilliCores(milli))
}

/// Times each processor was interrupted, all of `wanted` together, from `/proc/interrupts`: pairs
/// of processor and count.
pub(crate) fn interrupts(bytes: &[u8], wanted: &[u32]) -> Option<Vec<(u32, u64)>> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let cpus: Option<Vec<u32>> = lines
        .next()?
        .split_whitespace()
        .map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut counts: Vec<(u32, u64)> = cpus?.into_iter().map(|cpu| (cpu, 0)).collect();
    let mut is_found = false;
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        if !name.trim().parse().is_ok_and(|irq| wanted.contains(&irq)) {
            continue;
        }
        for (place, word) in counts.iter_mut().zip(rest.split_whitespace()) {
            place.1 = place.1.saturating_add(word.parse().ok()?);
        }
        is_found = true;
    }
    is_found.then_some(counts)
}

/// Feeds `bytes` to every parser, for the test that none of them panics.
#[doc(hidden)]
pub fn every(bytes: &[u8]) {
    let _ = (text(bytes), number(bytes), signed(bytes), three(bytes));
    let _ = (cpu_list(bytes), is_mask_set(bytes), chosen(bytes));
    let _ = release(&text(bytes));
    let _ = (status(bytes, "Seccomp"), limit(bytes, "Max open files"));
    let _ = (cgroup(bytes, None), cgroup(bytes, Some("cpu")));
    let _ = (quota_v2(bytes), quota_v1(bytes, bytes));
    let _ = quota_v1(b"100000", bytes);
    let _ = interrupts(bytes, &[0, 1, 38]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        for (text, found) in [
            ("0-3,8\n", Some(vec![0, 1, 2, 3, 8])),
            ("5", Some(vec![5])),
            ("", Some(vec![])),
            ("3-1", None),
            ("0-4294967295", None),
            ("a", None),
        ] {
            assert_eq!(cpu_list(text.as_bytes()), found, "{text:?}");
        }
    }

    #[test]
    fn quotas_of_both_versions() {
        assert_eq!(quota_v2(b"max 100000\n"), Some(Quota::Unlimited));
        assert_eq!(quota_v2(b"150000 100000\n"), Some(Quota::MilliCores(1500)));
        assert_eq!(quota_v2(b"1 0"), None, "no period, no share");
        assert_eq!(quota_v2(b"18446744073709551615 1"), None);
        assert_eq!(quota_v1(b"-1\n", b""), Some(Quota::Unlimited));
        assert_eq!(
            quota_v1(b"50000\n", b"100000\n"),
            Some(Quota::MilliCores(500))
        );
        assert_eq!(quota_v1(b"-2", b"100000"), None);
    }

    #[test]
    fn a_cgroup_never_leads_out_of_its_mount() {
        let text = b"3:cpuset:/a\n2:cpu,cpuacct:/docker/1\n0::/user.slice\n";
        assert_eq!(cgroup(text, Some("cpu")).as_deref(), Some("docker/1"));
        assert_eq!(cgroup(text, None).as_deref(), Some("user.slice"));
        assert_eq!(cgroup(b"0::/../../etc\n", None), None);
    }

    #[test]
    fn interrupts_are_summed_for_those_asked_for() {
        let text = b"     CPU0 CPU2\n 38: 1 2 PCI a\n 39: 10 20 PCI b\nNMI: 5 5 x\n";
        assert_eq!(interrupts(text, &[38, 39]), Some(vec![(0, 11), (2, 22)]));
        assert_eq!(interrupts(text, &[7]), None);
    }
}
