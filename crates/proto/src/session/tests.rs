//! The whole matrix and its graph as snapshots, and what must hold for them.

use std::format;
use std::string::String;

use super::*;
use crate::snapshot::check_snapshot;

#[test]
fn matrix_of_states_and_events() {
    let mut matrix = format!("{:<16}", "");
    for state in SessionState::ALL {
        matrix += &format!("{state:<14}", state = format!("{state}"));
    }
    for event in SessionEvent::ALL {
        matrix =
            String::from(matrix.trim_end()) + &format!("\n{event:<16}", event = format!("{event}"));
        for state in SessionState::ALL {
            let target = state
                .on(event)
                .map_or(String::from("-"), |target| format!("{target}"));
            matrix += &format!("{target:<14}");
        }
    }
    check_snapshot("session.txt", &(String::from(matrix.trim_end()) + "\n"));
}

#[test]
fn graph_of_the_lifecycle() {
    let mut graph = String::from("digraph session {\n");
    for state in SessionState::ALL {
        let shape = if state.is_final() {
            "doublecircle"
        } else {
            "ellipse"
        };
        graph += &format!("    {state} [shape={shape}];\n");
    }
    for state in SessionState::ALL {
        for event in SessionEvent::ALL {
            if let Ok(target) = state.on(event) {
                graph += &format!("    {state} -> {target} [label=\"{event}\"];\n");
            }
        }
    }
    check_snapshot("session.dot", &(graph + "}\n"));
}

#[test]
fn every_state_is_reached_and_final_ones_are_left_by_nothing() {
    for target in SessionState::ALL {
        let is_reached = SessionState::ALL.into_iter().any(|from| {
            SessionEvent::ALL
                .into_iter()
                .any(|event| from != target && from.on(event) == Ok(target))
        });
        assert!(
            is_reached || target == SessionState::Disconnected,
            "{target}"
        );
        let is_left = SessionEvent::ALL
            .into_iter()
            .any(|event| target.on(event).is_ok());
        assert_eq!(is_left, !target.is_final(), "{target}");
    }
}

#[test]
fn illegal_events_name_state_and_event() {
    let error = SessionState::Active
        .on(SessionEvent::Connected)
        .expect_err("no second connection");
    assert_eq!(
        format!("{error}"),
        "event Connected is illegal in session state Active"
    );
}
