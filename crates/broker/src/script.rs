//! Scripted faults: which frame triggers what. Empty by default.

/// The faults a broker commits on purpose. `Script::default()` commits none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {}
