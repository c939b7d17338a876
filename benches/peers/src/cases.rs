//! The cases: what is sent, who sends it, and what is aimed at.

use crate::failure::Failure;
use crate::spec::{
    Driver, Load, Peer, RawPath, RawSetup, RingmainSetup, SdkBackgroundSetup, SdkClientSetup,
    SdkDirectSetup, Shape,
};

const MIB: u64 = 1 << 20;
/// The memory cap of the memory case.
const CAP_BYTES: u64 = 64 * MIB;
/// Partitions and connections tried for how even they are.
const COUNTS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Requests of ringmain in flight by default; the raw loops have the same.
const WINDOW: usize = 8;

/// One case.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The broker answers without storing.
    pub(crate) sink: bool,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) aims: Aims,
}

/// One who takes part in it.
pub(crate) struct Contender {
    pub(crate) label: String,
    pub(crate) peer: Peer,
    pub(crate) load: Load,
}

/// What is compared with what.
pub(crate) enum Aims {
    /// The first contender with each of the others; what counts is the strongest of them.
    Versus(Vec<Aim>),
    /// Every contender with the best one.
    Even(Aim),
    /// Every contender's peak of resident memory with the cap.
    Memory { cap_bytes: u64, over_bytes_max: u64 },
}

/// One aim: a quantity, and what the ratio to the peer should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) measure: Measure,
    pub(crate) bound: Bound,
}

/// Quantities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    RecordsPerSecond,
    BytesPerSecond,
    CpuPerGb,
    P50,
    P99,
}

/// Bounds of a ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    pub(crate) fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

const RINGMAIN: RingmainSetup = RingmainSetup {
    connections: 1,
    window: None,
    batch_records_max: None,
    copy_bytes_max: None,
    record_bytes: None,
    memory_bytes_max: None,
    linger_us: 0,
    busy_poll_us: 0,
    write_path: None,
    driver: None,
};

/// The linger of the SDK's background producer, so that requests are full.
const RINGMAIN_LINGERING: RingmainSetup = RingmainSetup {
    linger_us: 1000,
    ..RINGMAIN
};

/// The SDK's client as `#[tokio::main]` and a connection string make it.
pub(crate) const SDK_CLIENT: SdkClientSetup = SdkClientSetup {
    nodelay: false,
    current_thread: false,
    clients: 1,
};

/// The defaults of a background producer.
pub(crate) const SDK_BACKGROUND: SdkBackgroundSetup = SdkBackgroundSetup {
    client: SDK_CLIENT,
    batch_length: 1000,
    batch_size: MIB as usize,
    linger_us: 1000,
    num_shards: 1,
    max_in_flight: 1,
    max_buffer_size: 32 * MIB,
};

/// The defaults of a direct producer.
pub(crate) const SDK_DIRECT: SdkDirectSetup = SdkDirectSetup {
    client: SDK_CLIENT,
    batch_length: 1000,
};

/// What won the sweep, in order of records.
const SDK_CLIENT_TUNED: SdkClientSetup = SdkClientSetup {
    nodelay: true,
    current_thread: true,
    ..SDK_CLIENT
};
const SDK_BACKGROUND_TUNED: SdkBackgroundSetup = SdkBackgroundSetup {
    client: SDK_CLIENT_TUNED,
    batch_length: 0,
    max_buffer_size: 256 * MIB,
    ..SDK_BACKGROUND
};
/// What won it where the order of records may be given up: workers that overtake each other.
const SDK_BACKGROUND_UNORDERED: SdkBackgroundSetup = SdkBackgroundSetup {
    num_shards: 4,
    max_in_flight: 4,
    ..SDK_BACKGROUND_TUNED
};

/// The cases asked for, in their order; all of them when none is.
///
/// # Errors
/// [`Failure::UnknownCase`].
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Case>, Failure> {
    let mut all = all();
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|case| case.name == name.as_str()))
    {
        let known: Vec<_> = all.iter().map(|case| case.name).collect();
        return Err(Failure::UnknownCase {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    if !names.is_empty() {
        all.retain(|case| names.iter().any(|name| name == case.name));
    }
    Ok(all)
}

/// Changes an option of ringmain in every case, given as `OPTION=VALUE`.
///
/// # Errors
/// [`Failure::Setting`] when there is no such option, or not such a value of it.
pub(crate) fn set(cases: &mut [Case], setting: &str) -> Result<(), Failure> {
    for contender in cases.iter_mut().flat_map(|case| &mut case.contenders) {
        if let Peer::Ringmain(setup) = &mut contender.peer {
            *setup = changed(setup, setting).ok_or_else(|| Failure::Setting {
                given: setting.to_owned(),
            })?;
        }
    }
    Ok(())
}

fn changed(setup: &RingmainSetup, setting: &str) -> Option<RingmainSetup> {
    let (option, value) = setting.split_once('=')?;
    let mut fields = serde_json::to_value(setup).ok()?;
    fields[option] = serde_json::from_str(value).ok()?;
    serde_json::from_value(fields).ok()
}

fn all() -> Vec<Case> {
    let mut cases = on_any_driver();
    cases.extend(on_epoll());
    cases
}

/// With the driver that the engine takes by itself.
fn on_any_driver() -> Vec<Case> {
    let aim = |measure, bound| Aim { measure, bound };
    let records = |bound| aim(Measure::RecordsPerSecond, Bound::AtLeast(bound));
    vec![
        one_by_one(
            "send-1000",
            1000,
            RINGMAIN,
            vec![records(2.0), aim(Measure::CpuPerGb, Bound::AtMost(0.5))],
        ),
        one_by_one("send-100", 100, RINGMAIN, vec![records(4.0)]),
        one_by_one(
            "send-100-linger",
            100,
            RINGMAIN_LINGERING,
            vec![records(4.0)],
        ),
        direct(
            "batch-100",
            Shape::Batches(100),
            RingmainSetup {
                batch_records_max: Some(100),
                ..RINGMAIN
            },
            100,
            vec![records(3.0)],
        ),
        direct(
            "single",
            Shape::OneByOne,
            RingmainSetup {
                batch_records_max: Some(1),
                window: Some(32),
                ..RINGMAIN
            },
            1,
            vec![records(10.0)],
        ),
        direct(
            "round-trip",
            Shape::RoundTrip,
            RINGMAIN,
            1,
            vec![
                aim(Measure::P50, Bound::AtMost(0.8)),
                aim(Measure::P99, Bound::AtMost(0.8)),
            ],
        ),
        direct(
            "round-trip-busy-poll",
            Shape::RoundTrip,
            RingmainSetup {
                busy_poll_us: 1000,
                ..RINGMAIN
            },
            1,
            vec![
                aim(Measure::P50, Bound::AtMost(0.8)),
                aim(Measure::P99, Bound::AtMost(0.8)),
            ],
        ),
        raw("sink-1000", 1000, 256 * 1024, 0.6),
        raw("sink-64k", 64 * 1024, 1024 * 1024 + 4096, 0.85),
        even("partitions", RINGMAIN, |count| (count, 1)),
        even("partitions-linger", RINGMAIN_LINGERING, |count| (count, 1)),
        even("connections", RINGMAIN, |count| (64, count)),
        memory(),
    ]
}

/// What hosts that forbid io_uring get.
fn on_epoll() -> [Case; 4] {
    let aim = |measure, bound| Aim { measure, bound };
    let records = |bound| aim(Measure::RecordsPerSecond, Bound::AtLeast(bound));
    let epoll = RingmainSetup {
        driver: Some(Driver::Epoll),
        ..RINGMAIN
    };
    let batches = RingmainSetup {
        batch_records_max: Some(100),
        ..epoll
    };
    let shape = Shape::Batches(100);
    let round_trip = vec![
        aim(Measure::P50, Bound::AtMost(0.8)),
        aim(Measure::P99, Bound::AtMost(0.8)),
    ];
    [
        one_by_one("send-1000-epoll", 1000, epoll, vec![records(1.5)]),
        one_by_one("send-100-epoll", 100, epoll, vec![records(1.5)]),
        direct("batch-100-epoll", shape, batches, 100, vec![records(1.5)]),
        direct("round-trip-epoll", Shape::RoundTrip, epoll, 1, round_trip),
    ]
}

/// One call a record, against the background producer.
fn one_by_one(
    name: &'static str,
    record_bytes: usize,
    ringmain: RingmainSetup,
    aims: Vec<Aim>,
) -> Case {
    let load = Load {
        record_bytes,
        shape: Shape::OneByOne,
        partitions: 1,
    };
    Case {
        name,
        sink: false,
        contenders: contenders(
            load,
            [
                ("ringmain", Peer::Ringmain(ringmain)),
                ("SDK background", Peer::SdkBackground(SDK_BACKGROUND)),
                (
                    "SDK background, tuned",
                    Peer::SdkBackground(SDK_BACKGROUND_TUNED),
                ),
                (
                    "SDK background, tuned, unordered",
                    Peer::SdkBackground(SDK_BACKGROUND_UNORDERED),
                ),
            ],
        ),
        aims: Aims::Versus(aims),
    }
}

/// 1000-byte records, against the direct producer.
fn direct(
    name: &'static str,
    shape: Shape,
    ringmain: RingmainSetup,
    batch_length: u32,
    aims: Vec<Aim>,
) -> Case {
    let load = Load {
        record_bytes: 1000,
        shape,
        partitions: 1,
    };
    Case {
        name,
        sink: false,
        contenders: contenders(
            load,
            [
                ("ringmain", Peer::Ringmain(ringmain)),
                ("SDK direct", Peer::SdkDirect(SDK_DIRECT)),
                (
                    "SDK direct, tuned",
                    Peer::SdkDirect(SdkDirectSetup {
                        client: SDK_CLIENT_TUNED,
                        batch_length,
                    }),
                ),
            ],
        ),
        aims: Aims::Versus(aims),
    }
}

/// Into the sink, against every raw loop with frames of the size that ringmain makes.
fn raw(name: &'static str, record_bytes: usize, frame_bytes: usize, bound: f64) -> Case {
    let load = Load {
        record_bytes,
        shape: Shape::OneByOne,
        partitions: 1,
    };
    let raw = |path| {
        Peer::Raw(RawSetup {
            path,
            window: WINDOW,
            frame_bytes,
        })
    };
    Case {
        name,
        sink: true,
        contenders: contenders(
            load,
            [
                ("ringmain", Peer::Ringmain(RINGMAIN)),
                ("raw write", raw(RawPath::Write)),
                ("raw sendmsg", raw(RawPath::SendMsg)),
                ("raw writev_fixed", raw(RawPath::WritevFixed)),
                ("raw send_zc", raw(RawPath::SendZc)),
            ],
        ),
        aims: Aims::Versus(vec![Aim {
            measure: Measure::BytesPerSecond,
            bound: Bound::AtLeast(bound),
        }]),
    }
}

/// 1000-byte records into the sink, over partitions and connections in numbers.
fn even(name: &'static str, ringmain: RingmainSetup, spread: impl Fn(u16) -> (u16, u16)) -> Case {
    let contenders = COUNTS.iter().map(|count| {
        let (partitions, connections) = spread(*count);
        Contender {
            label: format!("{count} {name}"),
            peer: Peer::Ringmain(RingmainSetup {
                connections,
                ..ringmain
            }),
            load: Load {
                record_bytes: 1000,
                shape: Shape::OneByOne,
                partitions: u32::from(partitions),
            },
        }
    });
    Case {
        name,
        sink: true,
        contenders: contenders.collect(),
        aims: Aims::Even(Aim {
            measure: Measure::BytesPerSecond,
            bound: Bound::AtLeast(0.85),
        }),
    }
}

/// Peak of resident memory under full load into the verifying broker.
fn memory() -> Case {
    let contender = |label: &str, shape| Contender {
        label: label.to_owned(),
        peer: Peer::Ringmain(RingmainSetup {
            memory_bytes_max: Some(CAP_BYTES),
            ..RINGMAIN
        }),
        load: Load {
            record_bytes: 1000,
            shape,
            partitions: 1,
        },
    };
    Case {
        name: "memory",
        sink: false,
        contenders: vec![
            contender("copied records only", Shape::OneByOne),
            contender("with records by reference", Shape::Mixed { small: 16 }),
        ],
        aims: Aims::Memory {
            cap_bytes: CAP_BYTES,
            over_bytes_max: 16 * MIB,
        },
    }
}

fn contenders<const N: usize>(load: Load, peers: [(&str, Peer); N]) -> Vec<Contender> {
    peers
        .into_iter()
        .map(|(label, peer)| Contender {
            label: label.to_owned(),
            peer,
            load,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_found_by_their_names() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let chosen = |given: &[&str]| chosen(&names(given)).map(|cases| cases.len());
        assert_eq!(chosen(&["memory", "send-100"]).expect("both exist"), 2);
        assert_eq!(chosen(&[]).expect("all"), all().len());
        let error = chosen(&["none"]).expect_err("no such case");
        assert!(error.to_string().contains("sink-64k"), "{error}");
    }

    #[test]
    fn a_setting_changes_one_option_and_no_other_word_does() {
        let window = changed(&RINGMAIN, "window=32").expect("an option");
        assert_eq!((window.window, window.connections), (Some(32), 1));
        let path = changed(&RINGMAIN, "write_path=\"SendZc\"").expect("an option");
        assert_eq!(path.write_path, Some(RawPath::SendZc));
        let epoll = changed(&RINGMAIN, "driver=\"Epoll\"").expect("an option");
        assert_eq!(epoll.driver, Some(Driver::Epoll));
        for wrong in ["window", "window=many", "windows=32", "connections=null"] {
            assert!(changed(&RINGMAIN, wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn bounds_hold_at_their_edge() {
        assert!(Bound::AtLeast(2.0).holds(2.0) && !Bound::AtLeast(2.0).holds(1.99));
        assert!(Bound::AtMost(0.8).holds(0.8) && !Bound::AtMost(0.8).holds(0.81));
    }
}
