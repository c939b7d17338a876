//! Sizes and places of everything a shard keeps in its mapping: one sum, one line per owner.
//!
//! Pure arithmetic: nothing is mapped here, so the whole of it is tested without a kernel.

use super::ArenaError;

/// Bytes of one entry of the header slab: the fixed request header of the protocol.
pub const HEADER_BYTES: u32 = 256;
/// Page size the layout aligns to. Larger base pages (16 or 64 KiB on some hosts) are a multiple of
/// it, and the mapping rounds its total up to them.
pub const BASE_PAGE_BYTES: usize = 4096;
/// Size of a huge page. A mapping of at least this size is rounded up to it and aligned to it.
pub const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Smallest slot: one page, so that slots never share one.
pub const SLOT_BYTES_MIN: u32 = BASE_PAGE_BYTES as u32;
/// Largest slot: the largest frame of the protocol.
pub const SLOT_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Most slots of one shard. The smallest slots would already be 256 MiB.
pub const SLOTS_MAX: u32 = 65_536;
/// Most entries of the header slab: one for each slot, and as many for everything else.
pub const HEADERS_MAX: u32 = 2 * SLOTS_MAX;
/// Most receive buffers: the kernel's limit for a provided-buffer ring (`1 << 15` entries).
pub const RECV_BUFFERS_MAX: u32 = 32_768;
/// Bytes the kernel uses for one entry of a provided-buffer ring (`struct io_uring_buf`).
const RECV_RING_ENTRY_BYTES: usize = 16;
/// Largest mapping of one shard. A hard stop against absurd products, far above any use.
const MAPPING_BYTES_MAX: usize = 1 << 40;

const _: () = {
    assert!(
        BASE_PAGE_BYTES.is_multiple_of(HEADER_BYTES as usize),
        "headers never straddle a page"
    );
    assert!(
        HUGE_PAGE_BYTES.is_multiple_of(BASE_PAGE_BYTES),
        "huge pages hold whole pages"
    );
    assert!(
        SLOT_BYTES_MAX.is_multiple_of(SLOT_BYTES_MIN),
        "the largest slot is whole pages"
    );
};

/// How much memory a shard gets and how it is cut. All of it is mapped at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaConfig {
    /// Bytes of one slot; a multiple of [`SLOT_BYTES_MIN`], at most [`SLOT_BYTES_MAX`].
    pub slot_bytes: u32,
    /// Number of slots, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// Number of 256-byte entries of the header slab, 1 to [`HEADERS_MAX`]. One for each request
    /// that can be unresolved at a time, and one for each control call.
    pub headers: u32,
    /// Bytes of one receive buffer; a multiple of [`BASE_PAGE_BYTES`], at most 1 MiB.
    pub recv_buffer_bytes: u32,
    /// Number of receive buffers: a power of two, 1 to [`RECV_BUFFERS_MAX`]. Without a buffer ring
    /// each connection uses one of its own, so there must be at least as many as connections.
    pub recv_buffers: u32,
    /// Ask for huge pages: reserved ones first, transparent ones otherwise. Costs nothing when
    /// there are none.
    pub huge_pages: bool,
}

impl Default for ArenaConfig {
    /// 128 slots of 256 KiB (32 MiB), 256 headers, 64 receive buffers of 16 KiB (1 MiB), huge pages
    /// wanted.
    fn default() -> Self {
        Self {
            slot_bytes: 256 * 1024,
            slots: 128,
            headers: 256,
            recv_buffer_bytes: 16 * 1024,
            recv_buffers: 64,
            huge_pages: true,
        }
    }
}

/// A run of equal blocks inside the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, from the start of the mapping.
    pub offset: usize,
    /// Bytes of one block.
    pub block_bytes: usize,
    /// Number of blocks.
    pub blocks: u32,
}

impl Region {
    /// Bytes of the whole region, without the padding behind it.
    pub const fn bytes(&self) -> usize {
        self.block_bytes * self.blocks as usize
    }

    /// First byte behind the region.
    pub const fn end(&self) -> usize {
        self.offset + self.bytes()
    }

    /// Offset of block `index`. Panics when there is no such block.
    pub const fn block_offset(&self, index: u32) -> usize {
        assert!(index < self.blocks, "block index within the region");
        self.offset + self.block_bytes * index as usize
    }
}

/// Where each owner's part of the mapping lies. Every region starts on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaLayout {
    /// Request headers, 256 bytes each.
    pub headers: Region,
    /// Batch bodies.
    pub slots: Region,
    /// What the peers send.
    pub recv_buffers: Region,
    /// The ring in which receive buffers are handed to the kernel.
    pub recv_ring: Region,
    /// Bytes of the mapping, rounded up to the page size in use.
    pub mapping_bytes: usize,
}

impl ArenaLayout {
    /// Checks `config` and places every region.
    ///
    /// # Errors
    /// [`ArenaError::Option`] names the option that is out of range.
    pub fn new(config: &ArenaConfig) -> Result<Self, ArenaError> {
        check(config)?;
        let headers = region(0, HEADER_BYTES as usize, config.headers);
        let slots = region(
            page_up(headers.end()),
            config.slot_bytes as usize,
            config.slots,
        );
        let recv_buffers = region(
            page_up(slots.end()),
            config.recv_buffer_bytes as usize,
            config.recv_buffers,
        );
        let recv_ring = region(
            page_up(recv_buffers.end()),
            RECV_RING_ENTRY_BYTES,
            config.recv_buffers,
        );

        // The sum: one line per owner, so that a missing owner is seen.
        let mapping_bytes = page_up(headers.bytes())
            + page_up(slots.bytes())
            + page_up(recv_buffers.bytes())
            + page_up(recv_ring.bytes());
        assert!(
            mapping_bytes == page_up(recv_ring.end()),
            "the sum of the owners is the end of the last region"
        );
        let mapping_bytes = if config.huge_pages && mapping_bytes >= HUGE_PAGE_BYTES {
            mapping_bytes.next_multiple_of(HUGE_PAGE_BYTES)
        } else {
            mapping_bytes
        };
        if mapping_bytes > MAPPING_BYTES_MAX {
            return Err(ArenaError::Option {
                option: "slots",
                found: u64::from(config.slots),
                rule: "slots times slot_bytes must stay below 1 TiB for a shard",
            });
        }
        Ok(Self {
            headers,
            slots,
            recv_buffers,
            recv_ring,
            mapping_bytes,
        })
    }

    /// Bytes from the start of the mapping that are worth registering: headers and slots.
    pub const fn registered_bytes_wanted(&self) -> usize {
        self.slots.end()
    }
}

const fn region(offset: usize, block_bytes: usize, blocks: u32) -> Region {
    Region {
        offset,
        block_bytes,
        blocks,
    }
}

const fn page_up(bytes: usize) -> usize {
    bytes.next_multiple_of(BASE_PAGE_BYTES)
}

fn check(config: &ArenaConfig) -> Result<(), ArenaError> {
    let fail = |option, found: u32, rule| {
        Err(ArenaError::Option {
            option,
            found: u64::from(found),
            rule,
        })
    };
    if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&config.slot_bytes) {
        return fail(
            "slot_bytes",
            config.slot_bytes,
            "a slot is 4096 bytes to 64 MiB",
        );
    }
    if !config.slot_bytes.is_multiple_of(SLOT_BYTES_MIN) {
        return fail(
            "slot_bytes",
            config.slot_bytes,
            "a slot is whole pages of 4096 bytes",
        );
    }
    if !(1..=SLOTS_MAX).contains(&config.slots) {
        return fail("slots", config.slots, "a shard has 1 to 65536 slots");
    }
    if !(1..=HEADERS_MAX).contains(&config.headers) {
        return fail("headers", config.headers, "a shard has 1 to 131072 headers");
    }
    let recv_page = BASE_PAGE_BYTES as u32;
    if !(recv_page..=1 << 20).contains(&config.recv_buffer_bytes)
        || !config.recv_buffer_bytes.is_multiple_of(recv_page)
    {
        return fail(
            "recv_buffer_bytes",
            config.recv_buffer_bytes,
            "a receive buffer is 1 to 256 pages of 4096 bytes",
        );
    }
    if !(1..=RECV_BUFFERS_MAX).contains(&config.recv_buffers)
        || !config.recv_buffers.is_power_of_two()
    {
        return fail(
            "recv_buffers",
            config.recv_buffers,
            "receive buffers are a power of two from 1 to 32768",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn valid_config() -> impl Strategy<Value = ArenaConfig> {
        (
            1u32..=64,
            1u32..=300,
            1u32..=300,
            1u32..=16,
            0u32..=10,
            any::<bool>(),
        )
            .prop_map(
                |(slot_pages, slots, headers, recv_pages, recv_shift, huge_pages)| ArenaConfig {
                    slot_bytes: slot_pages * 4096,
                    slots,
                    headers,
                    recv_buffer_bytes: recv_pages * 4096,
                    recv_buffers: 1 << recv_shift,
                    huge_pages,
                },
            )
    }

    proptest! {
        #[test]
        fn regions_are_page_aligned_in_order_and_disjoint(config in valid_config()) {
            let layout = ArenaLayout::new(&config).unwrap();
            let regions = [layout.headers, layout.slots, layout.recv_buffers, layout.recv_ring];
            for pair in regions.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].offset);
                prop_assert!(pair[1].offset - pair[0].end() < BASE_PAGE_BYTES);
            }
            for region in regions {
                prop_assert_eq!(region.offset % BASE_PAGE_BYTES, 0);
                prop_assert_eq!(region.block_offset(region.blocks - 1) + region.block_bytes, region.end());
            }
            prop_assert!(layout.recv_ring.end() <= layout.mapping_bytes);
            prop_assert_eq!(layout.mapping_bytes % BASE_PAGE_BYTES, 0);
            prop_assert_eq!(layout.registered_bytes_wanted(), layout.slots.end());
        }
    }

    #[test]
    fn the_default_is_valid_and_34_mib() {
        let layout = ArenaLayout::new(&ArenaConfig::default()).unwrap();
        assert_eq!(layout.mapping_bytes, 34 * 1024 * 1024);
    }

    #[test]
    fn options_out_of_range_are_named() {
        type Change = fn(&mut ArenaConfig);
        let cases: [(Change, &str); 13] = [
            (|config| config.slot_bytes = 0, "slot_bytes"),
            (|config| config.slot_bytes = 4097, "slot_bytes"),
            (|config| config.slot_bytes = u32::MAX, "slot_bytes"),
            (|config| config.slots = 0, "slots"),
            (|config| config.slots = 65_537, "slots"),
            (
                |config| (config.slots, config.slot_bytes) = (65_536, SLOT_BYTES_MAX),
                "slots",
            ),
            (|config| config.headers = 0, "headers"),
            (|config| config.headers = u32::MAX, "headers"),
            (|config| config.recv_buffer_bytes = 100, "recv_buffer_bytes"),
            (
                |config| config.recv_buffer_bytes = 2 << 20,
                "recv_buffer_bytes",
            ),
            (|config| config.recv_buffers = 0, "recv_buffers"),
            (|config| config.recv_buffers = 3, "recv_buffers"),
            (|config| config.recv_buffers = 65_536, "recv_buffers"),
        ];
        for (change, name) in cases {
            let mut config = ArenaConfig::default();
            change(&mut config);
            match ArenaLayout::new(&config) {
                Err(ArenaError::Option { option, .. }) => assert_eq!(option, name),
                other => panic!("{config:?} gave {other:?}"),
            }
        }
    }
}
