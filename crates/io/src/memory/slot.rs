//! Blocks of the arena: the token that owns one, and the pool of free ones.
//!
//! Invariants
//! - There is exactly one [`SlotToken`] for each block, made when the pool is made. Whoever holds
//!   it, and nobody else, reads and writes the block; a free block's token lies in the pool.
//! - While a write that names the block is with the kernel the block is *lent*: its token stays
//!   with its holder, but changing the bytes or giving the token back is a bug (asserted).
//! - A token that is dropped instead of released is a leak. It frees nothing, and
//!   [`SlotPool::assert_all_free`] finds it at teardown.

use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use super::Mapping;
use super::layout::Region;

/// Which region of the arena a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// An entry of the header slab: 256 bytes.
    Header,
    /// A slot for a batch body: `slot_bytes` bytes.
    Body,
}

/// Sole ownership of one block of the arena. Moves between threads, is never copied.
pub struct SlotToken {
    base: NonNull<u8>,
    bytes: u32,
    index: u32,
    /// Position among all lendable blocks of the mapping: headers first, then slots.
    block: u32,
    generation: u32,
    kind: SlotKind,
    mapping: Arc<Mapping>,
}

// SAFETY: the token is the only way to its block, so moving it moves the access; the mapping it
// points into is kept alive by its own `Arc` and does not belong to a thread.
unsafe impl Send for SlotToken {}
// SAFETY: a shared token only gives shared reads of the block, and writing takes `&mut`.
unsafe impl Sync for SlotToken {}

impl SlotToken {
    /// Index of the block within its pool, dense from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// How often this block has been released, modulo 2^32: tells a use from the one before.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The region the block belongs to.
    pub fn kind(&self) -> SlotKind {
        self.kind
    }

    /// Bytes of the block.
    #[allow(clippy::len_without_is_empty)] // A block is never empty.
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// True while a write that names the block is with the kernel.
    pub fn is_lent(&self) -> bool {
        self.mapping.lent(self.block) > 0
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Offset of the block within the arena.
    pub(crate) fn offset(&self) -> usize {
        self.base.as_ptr().addr() - self.mapping.address(0, 0).as_ptr().addr()
    }
}

impl AsRef<[u8]> for SlotToken {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `base..base + bytes` is this block, inside the mapping that `self.mapping` keeps
        // alive, and initialised (zero pages). This token is its only owner and is borrowed shared;
        // the kernel only ever reads a lent block.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes as usize) }
    }
}

impl AsMut<[u8]> for SlotToken {
    /// The block, to be changed. Changing a lent block is a bug: the frame on the wire would be
    /// torn.
    fn as_mut(&mut self) -> &mut [u8] {
        if cfg!(debug_assertions) || self.mapping.is_checked() {
            assert!(
                !self.is_lent(),
                "a block is changed while the kernel may read it"
            );
        }
        // SAFETY: as for `as_ref`, and the token is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes as usize) }
    }
}

impl std::fmt::Debug for SlotToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotToken")
            .field("kind", &self.kind)
            .field("index", &self.index)
            .field("generation", &self.generation)
            .field("lent", &self.is_lent())
            .finish()
    }
}

/// First index of the second and of the third tier.
const TIER_STARTS: [u32; 2] = [8, 32];

/// The free blocks of one region. Lock-free and bounded: any thread takes, any thread gives back.
///
/// The queue is cut in tiers and the low tiers are served first: a first-in first-out queue over
/// all blocks would walk through the whole arena and find each block cold in the cache; so would it
/// spread the load over blocks that could not be registered when the low ones are enough.
pub struct SlotPool {
    tiers: [ArrayQueue<SlotToken>; TIER_STARTS.len() + 1],
    kind: SlotKind,
    region: Region,
    mapping: Arc<Mapping>,
}

impl SlotPool {
    /// Makes the tokens of every block of `region`. Called once for a region: a second pool over
    /// the same blocks would break the sole ownership that every token relies on.
    pub(super) fn new(
        mapping: &Arc<Mapping>,
        kind: SlotKind,
        region: Region,
        block_first: u32,
    ) -> Self {
        let bounds = [
            0,
            TIER_STARTS[0],
            TIER_STARTS[1],
            region.blocks.max(TIER_STARTS[1]),
        ];
        let tiers = std::array::from_fn(|tier| {
            ArrayQueue::new((bounds[tier + 1] - bounds[tier]).max(1) as usize)
        });
        let pool = Self {
            tiers,
            kind,
            region,
            mapping: Arc::clone(mapping),
        };
        for index in 0..region.blocks {
            pool.put(SlotToken {
                base: mapping.address(region.block_offset(index), region.block_bytes),
                bytes: u32::try_from(region.block_bytes).expect("blocks are at most 64 MiB"),
                index,
                block: block_first + index,
                generation: 0,
                kind,
                mapping: Arc::clone(mapping),
            });
        }
        pool
    }

    /// Takes a free block, or `None` when all are in use. Its bytes are whatever the last user
    /// left.
    pub fn acquire(&self) -> Option<SlotToken> {
        self.tiers.iter().find_map(ArrayQueue::pop)
    }

    /// Gives a block back. Panics when it belongs to another pool or is still lent to the kernel.
    pub fn release(&self, mut token: SlotToken) {
        assert!(
            Arc::ptr_eq(&token.mapping, &self.mapping),
            "a token returns to the arena it came from"
        );
        assert!(
            token.kind == self.kind,
            "a token returns to the pool it came from"
        );
        assert!(
            !token.is_lent(),
            "a block is free only after the kernel is done with it"
        );
        token.generation = token.generation.wrapping_add(1);
        self.put(token);
    }

    /// Number of free blocks at some moment during the call; exact when no other thread takes or
    /// gives.
    pub fn free(&self) -> u32 {
        self.tiers.iter().map(|tier| tier.len() as u32).sum()
    }

    /// Number of blocks, free or not.
    pub fn blocks(&self) -> u32 {
        self.region.blocks
    }

    /// Bytes of one block.
    pub fn block_bytes(&self) -> u32 {
        self.region.block_bytes as u32
    }

    /// Panics when a block is missing. Called at teardown, after everybody has given theirs back.
    pub fn assert_all_free(&self) {
        let missing = self.blocks() - self.free();
        assert!(
            missing == 0,
            "{missing} of {} {:?} blocks were never released",
            self.blocks(),
            self.kind
        );
    }

    fn put(&self, token: SlotToken) {
        let tier = TIER_STARTS
            .iter()
            .filter(|start| token.index >= **start)
            .count();
        let refused = self.tiers[tier].push(token).is_err();
        assert!(!refused, "a tier has room for every block it owns");
    }
}

impl std::fmt::Debug for SlotPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotPool")
            .field("kind", &self.kind)
            .field("blocks", &self.blocks())
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arena, ArenaConfig};
    use super::*;

    fn small_arena(slots: u32) -> Arc<Arena> {
        let config = ArenaConfig {
            slot_bytes: 4096,
            slots,
            headers: 3,
            recv_buffer_bytes: 4096,
            recv_buffers: 1,
            huge_pages: false,
        };
        Arc::new(Arena::new(&config).unwrap())
    }

    #[test]
    fn every_block_is_handed_out_once_and_blocks_do_not_overlap() {
        let arena = small_arena(40);
        let mut tokens: Vec<_> = std::iter::from_fn(|| arena.slots().acquire()).collect();
        assert_eq!(tokens.len(), 40);
        assert_eq!(arena.slots().free(), 0);
        for token in &mut tokens {
            let fill = token.index() as u8;
            token.as_mut().fill(fill);
        }
        for token in &tokens {
            assert_eq!(token.len(), 4096);
            assert!(
                token
                    .as_ref()
                    .iter()
                    .all(|byte| *byte == token.index() as u8)
            );
        }
        tokens
            .into_iter()
            .for_each(|token| arena.slots().release(token));
        arena.slots().assert_all_free();
    }

    #[test]
    fn low_blocks_are_reused_first() {
        let arena = small_arena(40);
        for _ in 0..100 {
            let token = arena.slots().acquire().unwrap();
            assert!(token.index() < 8);
            arena.slots().release(token);
        }
    }

    #[test]
    fn the_generation_counts_releases() {
        let arena = small_arena(1);
        for generation in 0..5 {
            let token = arena.slots().acquire().unwrap();
            assert_eq!(token.generation(), generation);
            arena.slots().release(token);
        }
    }

    #[test]
    fn tokens_travel_between_threads_without_loss() {
        let arena = small_arena(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000u32 {
                        let Some(mut token) = arena.slots().acquire() else {
                            continue;
                        };
                        token.as_mut()[..4].copy_from_slice(&round.to_le_bytes());
                        assert_eq!(token.as_ref()[..4], round.to_le_bytes());
                        arena.slots().release(token);
                    }
                });
            }
        });
        arena.slots().assert_all_free();
    }

    #[test]
    #[should_panic(expected = "1 of 1 Body blocks were never released")]
    fn a_dropped_token_is_found_at_teardown() {
        let arena = small_arena(1);
        drop(arena.slots().acquire().unwrap());
        arena.slots().assert_all_free();
    }

    #[test]
    #[should_panic(expected = "only after the kernel is done")]
    fn a_lent_block_cannot_be_released() {
        let arena = small_arena(1);
        let token = arena.slots().acquire().unwrap();
        token.mapping().lend_begin(token.block());
        arena.slots().release(token);
    }

    #[test]
    #[should_panic(expected = "the pool it came from")]
    fn a_header_cannot_become_a_slot() {
        let arena = small_arena(1);
        arena.slots().release(arena.headers().acquire().unwrap());
    }

    #[test]
    #[should_panic(expected = "the arena it came from")]
    fn a_token_cannot_change_its_arena() {
        let token = small_arena(1).slots().acquire().unwrap();
        small_arena(1).slots().release(token);
    }

    #[test]
    fn a_token_outlives_its_arena() {
        let mut token = small_arena(1).slots().acquire().unwrap();
        token.as_mut().fill(7);
        assert_eq!(token.as_ref()[4095], 7);
    }
}
