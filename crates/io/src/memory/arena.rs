//! The arena: the mapping of a shard together with the pools that own its outgoing blocks.
//!
//! Made before the shard thread starts and shared by `Arc`: application threads take and fill
//! slots, the shard sends them. It knows addresses and owners, not rings; the transport registers
//! it.

use std::ptr::NonNull;
use std::sync::Arc;

use super::{ArenaConfig, ArenaError, ArenaLayout, Mapping, PageKind, SlotKind, SlotPool};

/// The memory of one shard as its driver gets it: the arena, and with it the sole right to have the
/// kernel write into the receive buffers. There is one for each arena, and a driver consumes it, so
/// two drivers never receive into the same bytes.
#[derive(Debug)]
pub struct DriverMemory {
    arena: Arc<Arena>,
}

impl DriverMemory {
    /// Maps the memory `config` asks for, populated to the last page.
    ///
    /// # Errors
    /// [`ArenaError::Option`] for a value out of range, [`ArenaError::Map`] when the kernel
    /// refuses.
    pub fn new(config: &ArenaConfig) -> Result<Self, ArenaError> {
        Ok(Self {
            arena: Arc::new(Arena::new(config)?),
        })
    }

    /// The arena, to be shared with the threads that fill its slots.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// What a driver without a kernel keeps. From now on its blocks can be
    /// [lent](super::SlotToken::lend) to safe code, and changing a lent one is an assertion failure
    /// in every build.
    #[cfg(feature = "simulation")]
    pub fn into_checked_arena(self) -> Arc<Arena> {
        self.arena.mapping.set_checked();
        self.arena
    }

    /// What a driver keeps.
    pub(crate) fn into_arena(self) -> Arc<Arena> {
        self.arena
    }
}

/// All memory of one shard that the kernel reads from or writes to.
#[derive(Debug)]
pub struct Arena {
    layout: ArenaLayout,
    mapping: Arc<Mapping>,
    headers: SlotPool,
    slots: SlotPool,
}

impl Arena {
    /// Maps the memory `config` asks for, populated to the last page.
    ///
    /// # Errors
    /// [`ArenaError::Option`] for a value out of range, [`ArenaError::Map`] when the kernel
    /// refuses.
    pub(crate) fn new(config: &ArenaConfig) -> Result<Self, ArenaError> {
        let layout = ArenaLayout::new(config)?;
        let blocks = layout.headers.blocks + layout.slots.blocks;
        let mapping = Arc::new(Mapping::new(
            layout.mapping_bytes,
            blocks as usize,
            config.huge_pages,
        )?);
        let headers = SlotPool::new(&mapping, SlotKind::Header, layout.headers, 0);
        let slots = SlotPool::new(
            &mapping,
            SlotKind::Body,
            layout.slots,
            layout.headers.blocks,
        );
        Ok(Self {
            layout,
            mapping,
            headers,
            slots,
        })
    }

    /// The free entries of the header slab.
    pub fn headers(&self) -> &SlotPool {
        &self.headers
    }

    /// The free slots.
    pub fn slots(&self) -> &SlotPool {
        &self.slots
    }

    /// Where everything lies.
    pub fn layout(&self) -> &ArenaLayout {
        &self.layout
    }

    /// Bytes mapped and populated.
    pub fn mapping_bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// What backs the mapping.
    pub fn page_kind(&self) -> PageKind {
        self.mapping.page_kind()
    }

    /// Panics when a header or slot is not back in its pool.
    pub fn assert_all_free(&self) {
        self.headers.assert_all_free();
        self.slots.assert_all_free();
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// First byte of receive buffer `index`.
    pub(crate) fn recv_buffer(&self, index: u32) -> NonNull<u8> {
        let region = &self.layout.recv_buffers;
        self.mapping
            .address(region.block_offset(index), region.block_bytes)
    }

    /// First byte of the provided-buffer ring.
    pub(crate) fn recv_ring(&self) -> NonNull<u8> {
        let region = &self.layout.recv_ring;
        self.mapping.address(region.offset, region.bytes())
    }
}
