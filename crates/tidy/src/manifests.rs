//! The rules for manifests: a reason beside each dependency, and arrows that point one way.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::report::{Finding, Report};

/// The packages and what each may depend on inside the workspace. Dev-dependencies are free: they
/// do not ship.
pub(crate) const ARROWS: [(&str, &[&str]); 12] = [
    ("ringmain-wire", &[]),
    ("ringmain-proto", &["ringmain-wire"]),
    ("ringmain-io", &[]),
    (
        "ringmain",
        &["ringmain-io", "ringmain-proto", "ringmain-wire"],
    ),
    ("ringmain-broker", &["ringmain-wire"]),
    (
        "ringmain-sim",
        &["ringmain", "ringmain-io", "ringmain-proto", "ringmain-wire"],
    ),
    (
        "ringmain-doctor",
        &["ringmain", "ringmain-io", "ringmain-wire"],
    ),
    (
        "ringmain-cli",
        &[
            "ringmain",
            "ringmain-broker",
            "ringmain-doctor",
            "ringmain-wire",
        ],
    ),
    ("ringmain-tidy", &[]),
    ("ringmain-bench-micro", &["ringmain-wire"]),
    (
        "ringmain-bench-peers",
        &[
            "ringmain",
            "ringmain-broker",
            "ringmain-io",
            "ringmain-wire",
        ],
    ),
    ("ringmain-interop", &[]),
];

/// Reasons beside the dependencies, and the direction of the arrows.
pub(crate) fn manifests(root: &Path, findings: &mut Vec<Finding>) {
    let text = fs::read_to_string(root.join("Cargo.toml")).expect("the root manifest");
    let mut report = Report::new("Cargo.toml");
    dependency_reasons(&text, &mut report);
    findings.append(&mut report.findings);
    let manifest: toml::Table = text.parse().expect("a manifest cargo reads");
    let members = manifest["workspace"]["members"]
        .as_array()
        .expect("members");
    assert!(members.len() >= 6, "members are missing");
    for member in members {
        let path = format!("{}/Cargo.toml", member.as_str().expect("a path"));
        let text = fs::read_to_string(root.join(&path)).expect("a member's manifest");
        let mut report = Report::new(&path);
        arrows(&text, &mut report);
        findings.append(&mut report.findings);
    }
}

/// Every line of `[workspace.dependencies]` that brings a package of others ends with `# why`.
pub(crate) fn dependency_reasons(text: &str, report: &mut Report<'_>) {
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if inside && line.contains('=') && !line.starts_with('#') && !line.contains("path =")
        {
            let reason = line
                .rsplit_once('#')
                .map_or("", |(_, reason)| reason.trim());
            if reason.is_empty() {
                report.add(index + 1, "dependency reason", line);
            }
        }
    }
}

pub(crate) fn arrows(text: &str, report: &mut Report<'_>) {
    let manifest: toml::Table = text.parse().expect("a manifest cargo reads");
    let package = manifest["package"]["name"].as_str().expect("a name");
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let Some(allowed) = allowed.get(package) else {
        report.add(
            1,
            "arrows",
            format!("{package} is not in the table of arrows"),
        );
        return;
    };
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    for name in dependencies.into_iter().flat_map(toml::Table::keys) {
        if name.starts_with("ringmain") && !allowed.contains(&name.as_str()) {
            let line = text
                .lines()
                .position(|line| line.starts_with(name.as_str()));
            report.add(
                line.map_or(1, |index| index + 1),
                "arrows",
                format!("{package} may not depend on {name}"),
            );
        }
    }
}
