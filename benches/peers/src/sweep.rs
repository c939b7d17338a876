//! The sweep over the SDK's options from which its tuned configuration in the cases was taken.
//!
//! One option at a time, starting from the defaults, and the options that helped together.

use crate::args::Args;
use crate::cases::{Contender, Measure, SDK_BACKGROUND, SDK_CLIENT, SDK_DIRECT};
use crate::failure::Failure;
use crate::machine::{self, Cores};
use crate::rounds::measure;
use crate::spec::{Load, Peer, SdkBackgroundSetup, SdkClientSetup, SdkDirectSetup, Shape};
use crate::statistics::median;

const MIB: usize = 1 << 20;

/// Thresholds at which a worker flushes: sends and bytes.
const BATCHES: [(&str, usize, usize); 4] = [
    ("batch_length 250", 250, MIB),
    ("batch_length 0, batch_size 256 KiB", 0, MIB / 4),
    ("batch_length 0, batch_size 1 MiB", 0, MIB),
    ("batch_length 0, batch_size 4 MiB", 0, 4 * MIB),
];

pub(crate) fn run(args: &Args, cores: Cores) -> Result<(), Failure> {
    println!("{}\n", machine::facts());
    println!("| load | configuration | records/s | CPU s/GB | p50 |\n|---|---|---:|---:|---:|");
    let load = |record_bytes, shape| Load {
        record_bytes,
        shape,
        partitions: 1,
    };
    for record_bytes in [1000, 100] {
        let load = load(record_bytes, Shape::OneByOne);
        for (label, setup) in backgrounds() {
            let name = format!("background, {record_bytes} B");
            show(args, cores, &name, label, Peer::SdkBackground(setup), load)?;
        }
    }
    for (name, shape, batch_length) in [
        ("direct, requests of 100", Shape::Batches(100), 100),
        ("direct, one record", Shape::RoundTrip, 1),
    ] {
        for (label, client) in clients() {
            let setup = SdkDirectSetup {
                client,
                batch_length,
            };
            show(
                args,
                cores,
                name,
                label,
                Peer::SdkDirect(setup),
                load(1000, shape),
            )?;
        }
        show(
            args,
            cores,
            name,
            "batch_length 1000 (default)".to_owned(),
            Peer::SdkDirect(SDK_DIRECT),
            load(1000, shape),
        )?;
    }
    Ok(())
}

fn show(
    args: &Args,
    cores: Cores,
    name: &str,
    label: String,
    peer: Peer,
    load: Load,
) -> Result<(), Failure> {
    let contender = Contender { label, peer, load };
    let mut outcomes = Vec::new();
    for _ in 0..args.rounds {
        outcomes.push(measure(&contender, false, args, cores)?);
    }
    let of = |measure| median(outcomes.iter().map(|outcome| outcome.value(measure)));
    let p50 = match load.shape {
        Shape::RoundTrip => format!("{:.1} us", of(Measure::P50) / 1e3),
        _ => "–".to_owned(),
    };
    println!(
        "| {name} | {} | {:.0} | {:.3} | {p50} |",
        contender.label,
        of(Measure::RecordsPerSecond),
        of(Measure::CpuPerGb),
    );
    Ok(())
}

fn clients() -> Vec<(String, SdkClientSetup)> {
    let tuned = SdkClientSetup {
        nodelay: true,
        current_thread: true,
        ..SDK_CLIENT
    };
    let named = |label: &str, setup| (label.to_owned(), setup);
    vec![
        named("defaults", SDK_CLIENT),
        named(
            "nodelay",
            SdkClientSetup {
                nodelay: true,
                ..SDK_CLIENT
            },
        ),
        named(
            "current-thread runtime",
            SdkClientSetup {
                current_thread: true,
                ..SDK_CLIENT
            },
        ),
        named("both", tuned),
        named(
            "both, 2 clients",
            SdkClientSetup {
                clients: 2,
                ..tuned
            },
        ),
        named(
            "both, 4 clients",
            SdkClientSetup {
                clients: 4,
                ..tuned
            },
        ),
    ]
}

fn backgrounds() -> Vec<(String, SdkBackgroundSetup)> {
    let mut setups: Vec<_> = clients()
        .into_iter()
        .map(|(label, client)| {
            (
                label,
                SdkBackgroundSetup {
                    client,
                    ..SDK_BACKGROUND
                },
            )
        })
        .collect();
    let base = setups[3].1;
    let mut add = |label: &str, setup| setups.push((format!("both, {label}"), setup));
    for (label, batch_length, batch_size) in BATCHES {
        add(
            label,
            SdkBackgroundSetup {
                batch_length,
                batch_size,
                ..base
            },
        );
    }
    add(
        "linger 0",
        SdkBackgroundSetup {
            linger_us: 0,
            ..base
        },
    );
    add(
        "linger 5 ms",
        SdkBackgroundSetup {
            linger_us: 5000,
            ..base
        },
    );
    add(
        "max_buffer_size 256 MiB",
        SdkBackgroundSetup {
            max_buffer_size: 256 << 20,
            ..base
        },
    );
    add(
        "batch_length 0, batch_size 1 MiB, max_buffer_size 256 MiB",
        SdkBackgroundSetup {
            batch_length: 0,
            max_buffer_size: 256 << 20,
            ..base
        },
    );
    for shards in [2, 4] {
        add(
            &format!("{shards} balanced shards, max_in_flight {shards}"),
            SdkBackgroundSetup {
                num_shards: shards,
                max_in_flight: shards,
                ..base
            },
        );
    }
    setups
}
