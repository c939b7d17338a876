//! What a server said, when one was asked.

use crate::{Check, Facts, Node, Server};

/// Server versions whose behaviour was recorded.
const VERSIONS: [&str; 2] = ["0.9.0", "0.9.0-edge.5"];

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    match &facts.server {
        None => Vec::new(),
        Some(server) => vec![
            login(server),
            round_trip(server),
            cluster(server),
            version(server),
        ],
    }
}

fn login(server: &Server) -> Check {
    const ID: &str = "login";
    match &server.login {
        Ok(us) => Check::fine(ID, format!("done after {us} us")),
        Err(cause) => Check::broken(
            ID,
            cause.clone(),
            "give --server the address and the user of a server that runs",
        ),
    }
}

fn round_trip(server: &Server) -> Check {
    const ID: &str = "round_trip";
    let trips = &server.round_trips_us;
    match (trips.first(), trips.get(trips.len() / 2), trips.last()) {
        (Some(least), Some(median), Some(most)) => Check::fine(
            ID,
            format!(
                "{median} us in the middle of {} pings, {least} to {most}",
                trips.len()
            ),
        ),
        _ => Check::unknown(ID, "no ping was answered"),
    }
}

fn cluster(server: &Server) -> Check {
    const ID: &str = "cluster";
    let nodes = match &server.nodes {
        Ok(Some(nodes)) => nodes,
        Ok(None) => return Check::fine(ID, "the server knows of no cluster"),
        Err(cause) => return Check::unknown(ID, cause.clone()),
    };
    let names: Vec<String> = nodes.iter().map(shown).collect();
    let found = format!("{} nodes: {}", nodes.len(), names.join(", "));
    if nodes.iter().any(|node| !node.is_healthy) {
        return Check::slower(
            ID,
            found,
            "what a node that is out of service led waits for another",
            "bring the node back into service",
        );
    }
    Check::fine(ID, found)
}

fn shown(node: &Node) -> String {
    let role = if node.is_leader { " leads" } else { "" };
    let state = if node.is_healthy {
        ""
    } else {
        " is not healthy"
    };
    format!("{}{role}{state}", node.name)
}

fn version(server: &Server) -> Check {
    const ID: &str = "server_version";
    match &server.version {
        Ok(version) if VERSIONS.contains(&version.as_str()) => Check::fine(ID, version.clone()),
        Ok(version) => Check::unknown(
            ID,
            format!("{version}; recorded are {}", VERSIONS.join(" and ")),
        ),
        Err(cause) => Check::unknown(ID, cause.clone()),
    }
}
