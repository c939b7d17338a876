//! The oracle is tested: faults put into the client on purpose must each be caught within a bounded number of seeds.
//!
//! The laws of the window are switched off here: outcomes alone must give the mutants away, because a check of the
//! law that a mutant breaks would prove nothing about the rest of the oracle.

use ringmain_proto::{Config, Mutation};
use ringmain_sim::{Kind, Options, run_seed};

#[test]
fn probe() {
    let tunes: [(&str, fn(&mut Config)); 5] = [
        ("span", |c| c.mutation = Some(Mutation::Span128)),
        ("renumber", |c| c.mutation = Some(Mutation::NewNumberOnRetry)),
        ("twice", |c| c.mutation = Some(Mutation::ReceiptTwice)),
        ("order", |c| c.mutation = Some(Mutation::ResumeOutOfOrder)),
        ("early", |c| c.mutation = Some(Mutation::EarlyFree)),
    ];
    for (name, tune) in tunes {
        let options = Options { laws: false, tune, ..Options::default() };
        let mut kinds = std::collections::BTreeMap::<Kind, Vec<u64>>::new();
        for seed in 1..=1500 {
            if let Some(v) = run_seed(seed, &options).violation {
                kinds.entry(v.kind).or_default().push(seed);
            }
        }
        for (kind, seeds) in kinds {
            println!("{name}: {kind:?} {} first {:?}", seeds.len(), &seeds[..seeds.len().min(5)]);
        }
    }
}
