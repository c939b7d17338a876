//! GetStats: operation 2, code 10, empty body.
//!
//! ```text
//! reply: see `ringmain_wire::payload::system::Stats`
//! ```
//!
//! Simplified: what is counted here is true; what describes the host (processor, memory, disk,
//! names) is zero or says that this is no server.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::Counted;
use ringmain_wire::payload::system::Stats;
use ringmain_wire::text::Text;

use crate::state::{Call, State, Topic};

pub(super) fn handle(state: &mut State, call: &Call) {
    let catalog = &state.catalog;
    let text = |text| Text::new(text).expect("a short text");
    let partitions = catalog.partitions() as u32;
    let stats = Stats {
        process_id: std::process::id(),
        cpu_usage: 0.0,
        total_cpu_usage: 0.0,
        memory_usage: state.charged_bytes(),
        total_memory: 0,
        available_memory: 0,
        run_time: call.now.monotonic_us,
        start_time: call.now.wall_us.saturating_sub(call.now.monotonic_us),
        read_bytes: 0,
        written_bytes: 0,
        messages_size_bytes: catalog.topics().map(Topic::record_bytes).sum(),
        streams_count: catalog.streams.len() as u32,
        topics_count: catalog.topics().count() as u32,
        partitions_count: partitions,
        segments_count: partitions,
        messages_count: catalog.topics().map(Topic::records).sum(),
        clients_count: state.stats.connections_open as u32,
        consumer_groups_count: 0,
        hostname: text("ringmain-broker"),
        os_name: Text::EMPTY,
        os_version: Text::EMPTY,
        kernel_version: Text::EMPTY,
        iggy_server_version: text(state.config.profile.server_version()),
        iggy_server_semver: 0,
        cache_metrics: Counted(Vec::new()),
        threads_count: 1,
        free_disk_space: 0,
        total_disk_space: 0,
    };
    let reply = stats.to_vec();
    state.reply_read(call, &reply);
}
