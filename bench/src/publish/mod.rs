//! The page that users see: docs/benchmarks.md, its plots, and the history of ratios.

mod history;
mod plot;

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use self::plot::Plot;
use crate::compare::cases::{CASES, Case, Unit};
use crate::compare::{self, CompareFlags, Scene, Series, median};
use crate::idle;
use crate::peers::{DIRECT, FAST_FORWARD, FORWARDER, HAPROXY, NARROWS};
use crate::rules::{self, RulesFlags};

/// Options of `publish`.
#[derive(Debug, Args)]
pub struct PublishFlags {
    #[command(flatten)]
    compare: CompareFlags,
    /// Folder of benchmarks.md; its plots and the history are in `benchmarks` below it.
    #[arg(long, default_value = "docs")]
    folder: PathBuf,
}

/// What was measured.
struct Figures {
    all: Vec<Series>,
    /// KiB per idle client, by peer.
    idle: Vec<(&'static str, f64)>,
    /// CPU in us per query, by the number of rules that match nothing.
    rules: Vec<(String, f64)>,
}

/// Measures, and writes the page; an error if a requested peer could not be measured, or any query failed.
pub fn run(flags: &PublishFlags) -> io::Result<()> {
    let figures = measure(&flags.compare)?;
    let plots = flags.folder.join("benchmarks");
    fs::create_dir_all(&plots)?;
    for (name, plot) in figures.plots() {
        plot.write(&plots.join(name)).map_err(|error| io::Error::other(error.to_string()))?;
    }
    history::add(&plots.join("history.csv"), &commit(), &figures.ratios(FORWARDER))?;
    fs::write(flags.folder.join("benchmarks.md"), figures.page(&flags.compare))
}

fn measure(flags: &CompareFlags) -> io::Result<Figures> {
    let scene = Scene::start(flags)?;
    let all = scene.measure_all(&compare::choose_cases(&flags.cases)?, flags)?;
    compare::check(&all)?;
    let mut idle = Vec::new();
    // With fast_forward, each client has a backend connection: its memory is not that of an idle client.
    for party in scene.parties.iter().filter(|party| party.peer.name != FAST_FORWARD) {
        idle.extend(idle::measure(party, &scene.account)?.map(|kib| (party.peer.name, kib)));
    }
    drop(scene);
    let rules = rules::costs(&RulesFlags {
        narrows: flags.narrows.clone(),
        rounds: flags.rounds,
        seconds: flags.seconds,
        load_core: flags.load_core,
        proxy_core: flags.proxy_core,
        nice: flags.nice,
    })?;
    Ok(Figures { all, idle, rules })
}

/// A figure of a series.
type Figure = fn(&Series) -> Option<f64>;

impl Figures {
    fn series(&self, case: &str, peer: &str) -> Option<&Series> {
        self.all
            .iter()
            .find(|series| series.case == case && series.peer == peer && !series.samples.is_empty())
    }

    fn cost(&self, case: &str, peer: &str) -> Option<f64> {
        median(&self.series(case, peer)?.proxy_cost())
    }

    /// The peers that were measured, in the order of the tables.
    fn peers(&self) -> Vec<&'static str> {
        let mut peers: Vec<&'static str> = Vec::new();
        for series in self.all.iter().filter(|series| !series.samples.is_empty()) {
            if !peers.contains(&series.peer) {
                peers.push(series.peer);
            }
        }
        peers
    }

    /// The cases that were measured.
    fn cases(&self) -> impl Iterator<Item = &'static Case> {
        CASES.iter().filter(|case| self.all.iter().any(|series| series.case == case.name))
    }

    /// Median CPU of Narrows divided by that of another peer, by case.
    fn ratios(&self, peer: &str) -> Vec<(&'static str, f64)> {
        let ratio = |case: &Case| Some(self.cost(case.name, NARROWS)? / self.cost(case.name, peer)?);
        self.cases().filter_map(|case| Some((case.name, ratio(case)?))).collect()
    }

    /// The figures of peers, one for each pair of a case and a figure.
    fn bars(&self, peers: &[&'static str], bars: &[(&str, Figure)]) -> Vec<(String, Vec<Option<f64>>)> {
        let of = |peer: &&'static str| {
            let figures: Vec<Option<f64>> =
                bars.iter().map(|(case, figure)| self.series(case, peer).and_then(figure)).collect();
            ((*peer).to_owned(), figures)
        };
        peers.iter().map(of).collect()
    }

    fn plots(&self) -> Vec<(&'static str, Plot<'static>)> {
        let all = self.peers();
        let proxies: Vec<_> = all.iter().copied().filter(|peer| *peer != DIRECT).collect();
        let cost: Figure = |series| median(&series.proxy_cost());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let one = |name: &str, figures: &mut dyn Iterator<Item = f64>| {
            vec![(name.to_owned(), figures.map(Some).collect())]
        };
        vec![
            (
                "clients.svg",
                Plot {
                    title: "CPU of the proxy per point select, by clients",
                    unit: "us",
                    groups: names(&["1 client", "16 clients", "128 clients"]),
                    series: self
                        .bars(&proxies, &[("point-1", cost), ("point-16", cost), ("point-128", cost)]),
                },
            ),
            (
                "latency.svg",
                Plot {
                    title: "Latency of a point select, 16 clients",
                    unit: "us",
                    groups: names(&["50th percentile", "99th percentile"]),
                    series: self.bars(
                        &all,
                        &[
                            ("point-16", |series| series.median(|sample| sample.report.p50_us)),
                            ("point-16", |series| series.median(|sample| sample.report.p99_us)),
                        ],
                    ),
                },
            ),
            (
                "rows.svg",
                Plot {
                    title: "CPU of the proxy per row of 200 bytes",
                    unit: "ns",
                    groups: names(&["1 client", "8 clients"]),
                    series: self.bars(&proxies, &[("rows-1", cost), ("rows-8", cost)]),
                },
            ),
            (
                "rules.svg",
                Plot {
                    title: "CPU of Narrows per point select, by query rules that do not match",
                    unit: "us",
                    groups: self.rules.iter().map(|(name, _)| name.clone()).collect(),
                    series: one(NARROWS, &mut self.rules.iter().map(|(_, cost)| *cost)),
                },
            ),
            (
                "idle.svg",
                Plot {
                    title: "Memory per idle client",
                    unit: "KiB",
                    groups: self.idle.iter().map(|(name, _)| (*name).to_owned()).collect(),
                    series: one("resident memory", &mut self.idle.iter().map(|(_, kib)| *kib)),
                },
            ),
        ]
    }

    fn page(&self, flags: &CompareFlags) -> String {
        let mut page = format!(
            "# Benchmarks\n\n`make bench` writes this page. The figures are from one machine, over loopback, before a mock server that \
             answers from memory: compare the columns, not the times with those of another machine. [bench/README.md](../bench/README.md) \
             says how they are measured.\n\n\
             Commit {}, {}. {}. Medians of {} rounds of {} s; each round runs every peer. The proxy has a core to itself.\n\n\
             ## CPU of the proxy\n\n",
            commit(),
            date(),
            machine(),
            flags.rounds,
            flags.seconds,
        );
        let proxies: Vec<_> = self.peers().into_iter().filter(|peer| *peer != DIRECT).collect();
        let heading = |column: &str| {
            proxies.iter().fold(String::new(), |row, peer| row + column.replace('?', peer).as_str())
        };
        let _ = writeln!(
            page,
            "| case | unit |{} narrows / haproxy |\n|---|---|{}---|",
            heading(" ? |"),
            heading("---|")
        );
        for case in self.cases() {
            let figures = proxies.iter().fold(String::new(), |row, peer| {
                row + &self.cost(case.name, peer).map_or(" |".to_owned(), |cost| format!(" {cost:.1} |"))
            });
            let ratio = self.cost(case.name, NARROWS).zip(self.cost(case.name, HAPROXY));
            let ratio = ratio.map_or(String::new(), |(narrows, haproxy)| format!("{:.2}", narrows / haproxy));
            let _ = writeln!(page, "| {} | {} |{figures} {ratio} |", case.title, case.unit.label());
        }
        page += "\n![CPU by clients](benchmarks/clients.svg)\n\n![CPU per row](benchmarks/rows.svg)\n\n## Latency and throughput\n\n";
        let _ = writeln!(page, "| case | peer | queries/s | p50 us | p99 us |\n|---|---|---|---|---|");
        for case in self.cases().filter(|case| case.unit == Unit::Query) {
            for peer in self.peers() {
                let Some(series) = self.series(case.name, peer) else { continue };
                let of = |figure: fn(&compare::Sample) -> f64| series.median(figure).unwrap_or_default();
                let rate = of(|sample| sample.report.queries_per_second);
                let (p50, p99) = (of(|sample| sample.report.p50_us), of(|sample| sample.report.p99_us));
                let _ = writeln!(page, "| {} | {peer} | {rate:.0} | {p50:.0} | {p99:.0} |", case.title);
            }
        }
        page += "\n![Latency](benchmarks/latency.svg)\n\n## Query rules\n\nRules that match nothing, before the two of the read/write split.\n\n\
                 | rules | CPU us/query |\n|---|---|\n";
        self.rules.iter().for_each(|(rules, cost)| page += &format!("| {rules} | {cost:.1} |\n"));
        page += "\n![Query rules](benchmarks/rules.svg)\n\n## Memory\n\n| peer | KiB per idle client |\n|---|---|\n";
        self.idle.iter().for_each(|(peer, kib)| page += &format!("| {peer} | {kib:.1} |\n"));
        page += "\n![Idle clients](benchmarks/idle.svg)\n\n## History\n\n\
                 [benchmarks/history.csv](benchmarks/history.csv) has the ratio to the bare forwarder by commit.\n";
        page
    }
}

/// The processor, the number of cores and the kernel.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    format!("{model}, {cores} cores, Linux {kernel}")
}

/// The short hash of the current commit.
fn commit() -> String {
    output("git", &["rev-parse", "--short", "HEAD"])
}

fn date() -> String {
    output("date", &["-u", "+%Y-%m-%d"])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(Path::new(".")).output();
    output.map_or_else(|_| "unknown".to_owned(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}
