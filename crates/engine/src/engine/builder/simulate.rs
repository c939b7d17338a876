//! An engine whose shards have no threads, over drivers and a clock that the caller made.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ringmain_io::driver::Driver;
use ringmain_io::memory::DriverMemory;
use ringmain_proto::Config;

use super::{EngineBuilder, login_body, this_process};
use crate::clock::Clock;
use crate::engine::registry::Registry;
use crate::engine::{Engine, EngineInner, ShardHandle};
use crate::error::{BuildError, CallError};
use crate::gate::{Gate, Units};
use crate::shard::{ShardStart, start_turned};
use crate::simulation::{TurnedShard, VirtualClock};

/// What a simulation decides of an engine, beside its builder.
pub struct Simulation<'a, D> {
    /// The time, of shards and records.
    pub clock: VirtualClock,
    /// What client ids, message ids and jitter are drawn from. Not both zero.
    pub random: [u64; 2],
    /// Last changes to the settings of every protocol client. Must leave them legal.
    pub tune: &'a mut dyn FnMut(&mut Config),
    /// Makes the driver of a shard.
    pub driver: &'a mut dyn FnMut(DriverMemory) -> D,
}

impl EngineBuilder {
    /// Builds the engine without a thread. Every shard is a value that the caller turns. Does not
    /// wait for logins.
    ///
    /// # Errors
    /// Those of [`EngineBuilder::build`] that come from the options.
    pub fn simulate<D: Driver>(
        mut self,
        with: Simulation<'_, D>,
    ) -> Result<(Engine, Vec<TurnedShard<D>>), BuildError> {
        let server = self.server.take().ok_or(BuildError::ServerMissing)??;
        let plan = self.plan()?;
        let targets = self.targets(&server)?;
        let login_body = login_body(&server).map_err(|error| {
            BuildError::Call(CallError::Encode {
                operation: "LoginRegister",
                why: error.to_string(),
            })
        })?;
        let mut registry = Registry::new(&plan.conns_of_shards, self.partitions_max, with.random);
        let start = ShardStart {
            clock: Clock::Virtual(with.clock),
            credit: Arc::new(Gate::new(Units::new(plan.by_reference_bytes))),
        };
        let (mut shards, mut handles) = (Vec::new(), Vec::new());
        for (index, conns) in plan.conns_of_shards.iter().enumerate() {
            let mut client = |conn| {
                let is_control = index == 0 && conn == 0;
                let mut config = self.client(&server, &mut registry, is_control, &plan);
                (with.tune)(&mut config);
                config
            };
            let clients = (0..*conns).map(&mut client).collect();
            let login = (Arc::clone(&targets), login_body.clone());
            let config = self.shard_config(index, &plan, clients, login);
            let tables_bytes = config.tables_bytes();
            let (shard, arena) = start_turned(config, &start, with.driver)?;
            let shared = Arc::clone(shard.shared());
            handles.push(ShardHandle {
                shared,
                arena,
                core: None,
                tables_bytes,
            });
            shards.push(shard);
        }
        let news = handles.iter().map(|shard| Arc::clone(&shard.shared.news));
        let inner = Arc::new(EngineInner {
            news: news.collect(),
            shards: handles,
            callbacks: self.callbacks(&start.credit),
            credit: start.credit,
            clock: start.clock,
            process: this_process()?,
            slot_bytes: self.slot_bytes,
            partitions_max: self.partitions_max,
            registry: Mutex::new(registry),
            threads: Mutex::new(Vec::new()),
            is_closed: AtomicBool::new(false),
            report: Mutex::new(None),
        });
        Ok((Engine { inner }, shards))
    }
}
