//! The memory of one shard: one mapping, cut once at start, never grown.
//!
//! ```text
//! 0                                        registered_bytes_wanted             mapping_bytes
//! | header slab | slot 0 | slot 1 | ... | slot N | receive buffers | receive ring |  pad |
//! '------------- fixed buffer of the ring -------'
//! ```
//!
//! The first part (headers, slots) only ever travels outwards and is registered with the ring as
//! one fixed buffer, or as much of its beginning as the locked-memory limit allows. The second part
//! only ever travels inwards. A block of the first part is reached through a [`SlotToken`] and
//! through nothing else.
//!
//! What it does not do: decide what a slot holds, or talk to the kernel about anything but pages.

mod arena;
mod error;
mod fork;
mod layout;
#[cfg(feature = "simulation")]
mod lent;
mod mapping;
mod slot;

pub use arena::{Arena, DriverMemory};
pub use error::ArenaError;
pub use fork::Process;
pub use layout::{
    ArenaConfig, ArenaLayout, BASE_PAGE_BYTES, HEADER_BYTES, HEADERS_MAX, HUGE_PAGE_BYTES,
    RECV_BUFFERS_MAX, Region, SLOT_BYTES_MAX, SLOT_BYTES_MIN, SLOTS_MAX,
};
#[cfg(feature = "simulation")]
pub use lent::Lent;
pub use mapping::PageKind;
pub use slot::{SlotKind, SlotPool, SlotToken};

pub(crate) use mapping::Mapping;
