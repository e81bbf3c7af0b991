//! Transfers over real mac80211 stacks and in the simulator, without and with a mechanism.

use fairmesh_engine::record::FlowRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{ImportOptions, parse};
use serde_json::json;

use crate::control::{self, Routers};
use crate::mesh::{self, Driver, Mesh, Mode};
use crate::traffic::{SETTLING, Transfer, transfers};
use crate::{AROUND, MTU, PAYLOAD, exchange_s, jain, seconds};

/// Runs of a comparison (`FAIRMESH_MEDIUM_RUNS`, by default 1), each with another seed.
fn runs() -> u64 {
    std::env::var("FAIRMESH_MEDIUM_RUNS").map_or(1, |n| n.parse().unwrap())
}

/// Number of seeds of the simulator.
pub const SEEDS: u64 = 5;

/// Transfers by cubic from some stations to station 0.
pub struct Comparison<'a> {
    /// Name of the record.
    pub name: &'a str,
    /// Scenario without traffic and control, with `duration = "20 s"` and `warmup = "2 s"`.
    pub text: String,
    /// Next hop of each station towards station 0.
    pub parents: &'a [Option<usize>],
    pub from: Vec<usize>,
    /// Routing of the stations; `Mode::Mesh` has paths of its own.
    pub routing: &'a str,
    pub mode: Mode,
    pub ecn: bool,
    /// Table `[control]` of the scenario and of each router.
    pub control: &'a str,
    /// Rate of all links, Mbit/s.
    ///
    /// The medium sends at it, whatever rate control chooses, so routers must know the capacity.
    pub mbit: u32,
    /// Time of the same transfers under control before the measurement, s.
    pub settling: f64,
}

/// Results of one run or one seed, a transfer for each station of `from`.
pub struct Pair {
    pub without: Vec<Transfer>,
    pub with: Vec<Transfer>,
}

/// Returns the rates of transfers, bit/s.
pub fn rates(all: &[Transfer]) -> Vec<f64> {
    all.iter().map(|t| t.rate).collect()
}

/// Returns the median over runs.
pub fn median(all: &[Pair], of: impl Fn(&Pair) -> f64) -> f64 {
    let mut values: Vec<f64> = all.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the sum of the controlled transfers, bit/s.
pub fn sum(pair: &Pair) -> f64 {
    rates(&pair.with).iter().sum()
}

/// Returns Jain's index of the controlled transfers.
pub fn fairness(pair: &Pair) -> f64 {
    jain(&rates(&pair.with))
}

/// Simulates transfers by cubic to station 0 with the kernel's queues.
///
/// `window`: time before and of the measurement, s. A round trip is the mean delay in one direction.
pub fn simulate(
    text: &str,
    from: &[usize],
    ecn: bool,
    control: &str,
    (settling, measured): (f64, f64),
    seed: u64,
) -> Vec<Transfer> {
    let transport = format!("transport = {{ tcp = \"cubic\", preset = \"linux\", ecn = {ecn} }}");
    let flow = |from: &usize| format!("[[flow]]\nfrom = {from}\nto = 0\n{transport}\n");
    let flows: String = from.iter().map(flow).collect();
    let text = text
        .replace("rate =", "queue = { kind = \"mac80211\" }\nrate =")
        .replace("20 s", &format!("{} s", settling + measured))
        .replace("warmup = \"2 s\"", &format!("warmup = \"{settling} s\""));
    let text = format!("{text}[traffic]\ntraffic = \"bulk\"\n{flows}{control}");
    let scenario = parse("flows.toml", text.as_bytes(), &ImportOptions::default()).unwrap();
    let run = run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap();
    let transfer = |f: &FlowRecord| Transfer { rate: f.goodput_bps, round_trip: f.delay_s.mean };
    run.flows.iter().map(transfer).collect()
}

impl Comparison<'_> {
    /// Simulates the transfers, measured in the same window as over the kernel's stacks.
    pub fn simulated(&self) -> Vec<Pair> {
        let one = |seed, control: &str, window| {
            simulate(&self.text, &self.from, self.ecn, control, window, seed)
        };
        let control = format!("[control]\n{}\n", self.control);
        let pair = |seed| Pair {
            without: one(seed, "", (SETTLING, seconds())),
            with: one(seed, &control, (self.settling, 2.0 * seconds())),
        };
        (1..=SEEDS).map(pair).collect()
    }

    /// Runs the transfers over the kernel's stacks.
    ///
    /// `inspect` gets the mesh while its routers still run.
    pub fn measured(&self, inspect: impl Fn(&Mesh, &Routers)) -> Vec<Pair> {
        let pairs: Vec<(usize, usize)> = self.from.iter().map(|from| (*from, 0)).collect();
        (1..=runs())
            .map(|seed| {
                let options = ["--scenario-rates", "--seed", &seed.to_string()];
                let mesh = Mesh::start(&self.text, Driver::Ours { ring: 2 }, self.mode, &options);
                if let Mode::Ibss(_) = self.mode {
                    control::route(&mesh, self.parents);
                }
                (1..self.parents.len()).for_each(|node| mesh.reach(node));
                let ecn = u8::from(self.ecn);
                for node in 0..self.parents.len() {
                    mesh.sh(node, &format!("sysctl -qw net.ipv4.tcp_ecn={ecn}"));
                }
                let without = transfers(&mesh, &pairs, SETTLING, seconds());
                let capacity = f64::from(8 * MTU) / exchange_s(PAYLOAD + AROUND, self.mbit);
                let routers = Routers::start(&mesh, self.routing, capacity, self.control);
                routers.wait(&mesh);
                let with = transfers(&mesh, &pairs, self.settling, 2.0 * seconds());
                inspect(&mesh, &routers);
                Pair { without, with }
            })
            .collect()
    }

    /// Prints both sides and keeps them as a record.
    pub fn report(&self, measured: &[Pair], simulated: &[Pair]) {
        for (host, all) in [("kernel", measured), ("simulator", simulated)] {
            for (n, pair) in all.iter().enumerate() {
                for (what, side) in [("without", &pair.without), ("with", &pair.with)] {
                    let rate = |t: &Transfer| format!("{:.2}", t.rate / 1e6);
                    let delay = |t: &Transfer| format!("{:.1}", t.round_trip * 1e3);
                    println!(
                        "{}, {host} {}, {what}: {} Mbit/s, Jain {:.3}, {} ms",
                        self.name,
                        n + 1,
                        side.iter().map(rate).collect::<Vec<_>>().join(" "),
                        jain(&rates(side)),
                        side.iter().map(delay).collect::<Vec<_>>().join(" "),
                    );
                }
            }
        }
        let hops =
            |node: &usize| std::iter::successors(Some(*node), |n| self.parents[*n]).count() - 1;
        let of = |all: &[Pair], side: fn(&Pair) -> &[Transfer]| -> Vec<Vec<f64>> {
            all.iter().map(|pair| rates(side(pair))).collect()
        };
        mesh::keep(
            self.name,
            &json!({
                "kernel": mesh::release().trim(),
                "control": self.control,
                "hops": self.from.iter().map(hops).collect::<Vec<_>>(),
                "settling_s": self.settling,
                "measured_s": 2.0 * seconds(),
                "without_bps": of(measured, |p| &p.without),
                "with_bps": of(measured, |p| &p.with),
                "simulated_without_bps": of(simulated, |p| &p.without),
                "simulated_with_bps": of(simulated, |p| &p.with),
            }),
        );
    }
}
