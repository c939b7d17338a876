//! Where a simulation reaches into the engine: other threads let in between two steps of this one,
//! and faults committed on purpose.
//!
//! Without the features `simulation` and `mutations` every function here is empty, and gone from
//! the compiled code.

/// Where another thread may run between two steps of this one.
#[cfg_attr(
    not(feature = "simulation"),
    allow(unreachable_pub, reason = "exported with the feature only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Point {
    /// A batch or a lane is queued, and its lane, which is held, not asked yet whether to wake the
    /// shard.
    Queued,
    /// The shard has said that lanes have room again, and has not looked at its queues yet.
    Reopened,
    /// The shard found no room for a lane, and has not told the lane's appenders yet.
    FoundFull,
    /// The shard has taken what was queued, and has not looked at the lanes yet.
    TookQueues,
    /// The shard has given memory back, and has not served those who wait for it yet.
    FreedMemory,
}

/// A fault of the shard or of the appenders.
#[cfg_attr(
    not(feature = "mutations"),
    allow(unreachable_pub, reason = "exported with the feature only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// An appender queues a batch and does not wake the shard.
    WakeForgotten,
    /// The last of those who wait for an answer is not told.
    WaiterForgotten,
    /// Those who wait for memory are not served when some comes back.
    GateForgotten,
    /// A purge gives the memory of its batches back at once, whoever may read it.
    SlotEarly,
    /// The bytes of records by reference are not given back.
    CreditKept,
    /// A lane that has room again is not looked at.
    LaneLeftOut,
    /// The shard looks at its queues before it takes a lane's flag back.
    FlagClearedLate,
    /// A lane without room when a sender began to wait for memory lingers on when it has room.
    HurryForgotten,
    /// A resumption of strict order accepts what is lost after it, too.
    ResumedTooEarly,
    /// A batch that lingers is not waited for.
    LingerForgotten,
    /// A batch that another one of its lane made room for lingers as long as that would have.
    NewLingerForgotten,
    /// A batch lingers twice as long as it may.
    LingerDoubled,
    /// Lanes without room are not looked through for deadlines.
    SweepForgotten,
    /// The shard does not try a lane again that an appender held.
    BusyForgotten,
}

/// Lets another thread in.
#[inline]
pub(crate) fn pass(point: Point) {
    #[cfg(feature = "simulation")]
    crate::simulation::pass(point);
    #[cfg(not(feature = "simulation"))]
    let _ = point;
}

/// Whether this fault is to be committed.
#[inline]
pub(crate) fn commits(fault: Mutation) -> bool {
    #[cfg(feature = "mutations")]
    let committed = crate::simulation::committed() == Some(fault);
    #[cfg(not(feature = "mutations"))]
    let committed = {
        let _ = fault;
        false
    };
    committed
}
