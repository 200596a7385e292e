//! The same seed gives the same schedule and prompts on every machine: these are them.

use expect_test::expect;
use units::Span;
use workload::{Arrivals, Mix, Source};

/// FNV-1a, to compare much with little.
fn digest(parts: impl IntoIterator<Item = String>) -> String {
    let bytes = parts.into_iter().flat_map(String::into_bytes);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn times(arrivals: Arrivals) -> String {
    let at = arrivals.schedule(Span::from_secs(600), 0).expect("valid");
    let first: Vec<_> = at.iter().take(4).map(|at| at.0).collect();
    let all = digest(at.iter().map(|at| format!("{},", at.0)));
    format!("{first:?} of {}, {all}\n", at.len())
}

#[test]
fn arrivals() {
    let seen = [
        Arrivals::Poisson { rate: 1.4 },
        Arrivals::Constant { rate: 1.4 },
        Arrivals::Gamma { rate: 1.4, burstiness: 0.4 },
        Arrivals::Gamma { rate: 1.4, burstiness: 3.0 },
    ]
    .map(times)
    .concat();
    expect![[r#"
        [99440, 1827905, 1872101, 2437749] of 810, 7e23ed999eaf254d
        [714286, 1428571, 2142857, 2857143] of 839, c564689eea9a4dbd
        [6153805, 6153805, 6154307, 6408127] of 883, 6b40ec51722a7add
        [825246, 2085860, 2441269, 3260291] of 863, 5a05eac2f554cd0e
    "#]]
    .assert_eq(&seen);
}

#[test]
fn prompts() {
    let mut seen = String::new();
    for (name, mix) in [
        ("cadence", Mix::cadence()),
        ("uniform", Mix::uniform()),
        ("scaled", Mix::cadence().scaled(0.25)),
    ] {
        let source = Source::Mix(mix);
        let asks = (0..500).map(|index| {
            let ask = source.ask(0, index);
            format!("{} {}\n", ask.max_tokens.0, ask.prompt.text())
        });
        seen += &format!("{name} {}\n", digest(asks));
    }
    let ask = Source::Mix(Mix::cadence().scaled(0.1)).ask(0, 1);
    seen += &format!("{}\nat most {}\n", ask.prompt.text(), ask.max_tokens.0);
    expect![[r#"
        cadence 5b46c13feebae85f
        uniform ded25b2ed9038ab8
        scaled e066c33cf13eea99
        Do not guess: if you cannot find the account, say that you do not know. End every answer with one clear next step for the guest. For a strong window, tell the writer to cancel the house and to wait for the garden. Use simple words, short sentences and at

        Give me five ideas for
        at most 17
    "#]].assert_eq(&seen);
}
