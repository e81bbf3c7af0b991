//! Conversion of the file's text to a checked configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairmesh_control::{EventKind, Fairness, Knowledge, Mechanism, Registry};
use fairmesh_document::{KeyPath, Located, Problem};
use fairmesh_linux::{
    Bypass, IpNet, Layout, LayoutError, LeafChoice, LeafKind, MacAddr, ShaperChoice, ShaperKind,
};
use fairmesh_units::{BitRate, Span};

use super::draft::{self, Draft};
use super::libreqos::{Circuit, Tables};
use super::merge::Merged;
use super::refuse::{Result, fail, refused};
use super::schedule::DAY_NAMES;
use super::text::{MAX_RATE, MIN_RATE, valid_name};
use super::{
    Config, Discover, Endpoint, FileReport, Neighbour, PageSettings, Plan, Quota, Rates,
    ReadHeaders, Schedule, SourceText, Subscriber, Unused, Window, Zone, capacity, peers,
};
use crate::gateway::history::HistorySettings;
use crate::gateway::offers::SITE;

/// Longest time that a full queue delays a packet at its limit.
const MAX_QUEUE_DELAY: Span = Span::from_millis(100);
/// Control without `control.use`.
///
/// The published `pfrc` takes a subscriber that pauses for a starved one.
const CONTROL: &str = "pfrc+bursts";
/// Most subscribers: class numbers are 16 bits and some are reserved.
pub(super) const MAX_SUBSCRIBERS: usize = 60_000;

pub(super) fn build(merged: &Merged, tables: &Tables, registry: &Registry) -> Result<Config> {
    let draft = &merged.draft;
    let layout = layout(draft)?;
    let queues_by_control = queues_by_control(draft)?;
    let mechanism = mechanism(&draft.control, CONTROL, registry)?;
    let neighbours = neighbours(&draft.neighbour)?;
    let mut schedules = Vec::new();
    let zone = match &draft.time_zone {
        None => Zone::of_machine(),
        Some(name) => Zone::named(name).or_else(|e| {
            let expected = "a name such as \"Europe/Berlin\", or a POSIX string such as \"CET-1CEST,M3.5.0,M10.5.0/3\"";
            refused(KeyPath::from("time_zone"), e, expected)
        })?,
    };
    let plans = Plans::read(&draft.plan, &mut schedules)?;
    let (subscribers, files) = subscribers(merged, &plans, tables, &mut schedules)?;
    let discover = draft.discover.as_ref().map(|d| discover(d, &plans)).transpose()?;
    if subscribers.is_empty() && discover.is_none() {
        let expected = "[[subscriber]] entries, include, [libreqos] or [discover]";
        return refused(KeyPath::root(), "there is no subscriber", expected);
    }
    let subscribers = with_unmapped(draft, subscribers, discover.as_ref(), &plans)?;
    let peers = draft.peers.as_ref().map(peers::build).transpose()?;
    peers::match_control(&mechanism, peers.is_some())?;
    let agents = peers::agents(&mechanism, draft.agents.as_ref())?;
    knowledge(&mechanism, &neighbours, &subscribers, discover.as_ref(), draft)?;
    let listen = draft.metrics.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9742)));
    if !listen.ip().is_loopback() {
        let expected = "a loopback address such as \"127.0.0.1:9742\": metrics are not protected";
        return refused(
            KeyPath::from("metrics.listen"),
            format!("{listen} is reachable"),
            expected,
        );
    }
    let path = |given: &Option<PathBuf>, key: &str, default: &str| match given {
        Some(p) if p.is_absolute() => Ok(p.clone()),
        Some(p) => refused(KeyPath::from(key), format!("\"{}\"", p.display()), "an absolute path"),
        None => Ok(PathBuf::from(default)),
    };
    let state = path(&draft.paths.state, "paths.state", super::STATE)?;
    Ok(Config {
        mode: draft.mode,
        layout,
        queues_by_control,
        on_exit: draft.shaping.on_exit,
        sample: span(draft.shaping.sample, "shaping.sample", 10, (1, 600))?,
        mechanism,
        neighbours,
        subscribers,
        files,
        schedules,
        zone,
        source: SourceText::default(),
        discover,
        peers,
        agents,
        signs: match draft.signs.read {
            None => ReadHeaders::ForControl,
            Some(true) => ReadHeaders::Always,
            Some(false) => ReadHeaders::Never,
        },
        probe: draft.signs.probe.unwrap_or(true),
        metrics: (listen.port() != 0).then_some(listen),
        textfile: textfile(draft.metrics.textfile.as_ref())?,
        per_subscriber: draft.metrics.per_subscriber.unwrap_or(true),
        history: history(&draft.history, &state)?,
        page: draft.page.as_ref().map(page).transpose()?.flatten(),
        state,
        socket: path(&draft.paths.socket, "paths.socket", super::SOCKET)?,
    })
}

/// Checks the address of the page, its names and the path of its token; port 0 disables it.
fn page(draft: &draft::Page) -> Result<Option<PageSettings>> {
    let listen = draft.listen.clone().unwrap_or(Endpoint::Tcp(super::PAGE));
    match &listen {
        Endpoint::Tcp(address) if !address.ip().is_loopback() => {
            let expected = "a loopback address such as \"127.0.0.1:9743\", or the path of a Unix socket; a proxy \
                            or `ssh -L` makes it reachable";
            let what = format!("{address} is reachable from other machines");
            return refused(KeyPath::from("page.listen"), what, expected);
        }
        Endpoint::Tcp(address) if address.port() == 0 => return Ok(None),
        _ => {}
    }
    for (i, name) in draft.hosts.iter().enumerate() {
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if name.is_empty() || !name.chars().all(valid) {
            let at = KeyPath::from("page.hosts").index(i);
            return refused(at, format!("\"{name}\""), "a name such as \"gateway.example\"");
        }
    }
    if let Some(file) = draft.token_file.as_ref().filter(|file| !file.is_absolute()) {
        let what = format!("\"{}\"", file.display());
        return refused(KeyPath::from("page.token_file"), what, "an absolute path");
    }
    let (hosts, token_file) = (draft.hosts.clone(), draft.token_file.clone());
    Ok(Some(PageSettings { listen, hosts, token_file }))
}

/// Adds unmapped traffic as one subscriber.
///
/// A forged source address therefore neither bypasses a limit nor takes more than one share.
fn with_unmapped(
    draft: &Draft,
    mut subscribers: Vec<Subscriber>,
    discover: Option<&Discover>,
    plans: &Plans,
) -> Result<Vec<Subscriber>> {
    let key = || KeyPath::from("unmapped");
    let expected =
        "\"share\", \"limit RATE\" such as \"limit 2 Mbit/s\", \"plan NAME\", or \"pass\"";
    let word = draft.unmapped.as_deref().unwrap_or("share").trim();
    let mut guest = Plan::default();
    if let Some(name) = word.strip_prefix("plan ") {
        guest = plans.find(Some(name.trim()), key)?;
    }
    let ceiling = match (word, word.strip_prefix("limit ")) {
        (w, _) if w.starts_with("plan ") => None,
        ("pass", _) => return Ok(subscribers),
        ("share", _) => None,
        (_, Some(rate)) => match rate.trim().parse::<BitRate>() {
            Ok(rate) => {
                limit(rate, key)?;
                Some(rate)
            }
            Err(e) => return refused(key(), format!("\"{word}\": {e}"), expected),
        },
        _ => return refused(key(), format!("\"{word}\""), expected),
    };
    // For controls that use fair rates or hops it has the least favourable values of all
    // subscribers.
    let all = || subscribers.iter().map(|s| &s.plan).chain(discover.map(|d| &d.plan));
    let least = |of: fn(&Plan) -> Option<BitRate>| all().map(of).min().flatten();
    let rates = |plan: Rates, fair| Rates {
        ceiling: ceiling.or(plan.ceiling),
        guarantee: None,
        fair: plan.fair.or(fair),
    };
    let plan = Plan {
        down: rates(guest.down, least(|p| p.down.fair)),
        up: rates(guest.up, least(|p| p.up.fair)),
        regular: guest.regular.map(|regular| ceiling.or(regular)),
        ..guest
    };
    let hops = subscribers.iter().map(|s| s.hops).max().flatten();
    let name = super::UNMAPPED.to_owned();
    subscribers.push(Subscriber { name, prefixes: Vec::new(), macs: Vec::new(), plan, hops });
    Ok(subscribers)
}

/// Checks folder, size and period of the history; by default it is beside the state.
fn history(draft: &draft::History, state: &Path) -> Result<HistorySettings> {
    let size = draft.size.map_or(HistorySettings::DEFAULT_SIZE, |size| size.0);
    if size != 0 && !(HistorySettings::SMALLEST..=HistorySettings::LARGEST).contains(&size) {
        let expected = "64 KiB to 64 GiB, or 0 B for no history";
        return fail(KeyPath::from("history.size"), Problem::range(format!("{size} B"), expected));
    }
    let folder = match &draft.folder {
        Some(folder) if !folder.is_absolute() => {
            let what = format!("\"{}\"", folder.display());
            return refused(KeyPath::from("history.folder"), what, "an absolute path");
        }
        Some(folder) => folder.clone(),
        None => state.join("history"),
    };
    let period = span(draft.period, "history.period", 60, (1, 60))?;
    Ok(HistorySettings { folder, size, period })
}

/// Checks the path of the text file: collectors read only files that end in `.prom`.
fn textfile(given: Option<&PathBuf>) -> Result<Option<PathBuf>> {
    match given {
        Some(p) if !p.is_absolute() || p.extension().is_none_or(|e| e != "prom") => refused(
            KeyPath::from("metrics.textfile"),
            format!("\"{}\"", p.display()),
            "an absolute path that ends in .prom",
        ),
        other => Ok(other.cloned()),
    }
}

/// Checks a time in whole or fractional seconds against limits in seconds.
fn span(given: Option<Span>, key: &str, default: u64, limits: (u64, u64)) -> Result<Span> {
    let span = given.unwrap_or(Span::from_secs(default));
    let (least, most) = (Span::from_secs(limits.0), Span::from_secs(limits.1));
    if !(least..=most).contains(&span) {
        return fail(KeyPath::from(key), Problem::range(span, format!("{least} to {most}")));
    }
    Ok(span)
}

fn layout(draft: &Draft) -> Result<Layout> {
    let side = |given: &Option<draft::Side>, table: &str| match given {
        Some(side) => Ok(side.interface.clone()),
        None => refused(
            KeyPath::root(),
            format!("[{table}] is missing"),
            format!("[{table}] with interface = \"…\""),
        ),
    };
    let mut layout = Layout::new(side(&draft.mesh, "mesh")?, side(&draft.wired, "wired")?);
    let shaping = &draft.shaping;
    layout.leaf = match shaping.leaf {
        None | Some(draft::Leaf::Best | draft::Leaf::Control) => LeafChoice::Best,
        Some(draft::Leaf::FqCodel) => LeafChoice::Only(LeafKind::FqCodel),
        Some(draft::Leaf::Cake) => LeafChoice::Only(LeafKind::Cake),
        Some(draft::Leaf::Sfq) => LeafChoice::Only(LeafKind::Sfq),
        Some(draft::Leaf::Bfifo) => LeafChoice::Only(LeafKind::Bfifo),
    };
    layout.shaper = match shaping.shaper {
        draft::ShaperName::Auto => ShaperChoice::Auto,
        draft::ShaperName::Htb => ShaperChoice::Only(ShaperKind::Htb),
        draft::ShaperName::Edt => ShaperChoice::Only(ShaperKind::Edt),
    };
    if let Some(table) = &shaping.table {
        layout.table.clone_from(table);
    }
    if let Some(handle) = shaping.handle {
        layout.handle = u16::try_from(handle).or_else(|_| {
            fail(KeyPath::from("shaping.handle"), Problem::range(handle, "256 to 32767"))
        })?;
    }
    let delay = shaping.delay.unwrap_or(MAX_QUEUE_DELAY);
    if delay != Span::ZERO && !(Span::from_millis(10)..=Span::from_secs(10)).contains(&delay) {
        let expected = "10 ms to 10 s, or 0 s for queues of one length";
        return fail(KeyPath::from("shaping.delay"), Problem::range(delay, expected));
    }
    layout.delay_ms = (delay.as_nanos() / 1_000_000) as u32;
    if let Some(queue) = shaping.queue {
        layout.queue = u32::try_from(queue).or_else(|_| {
            fail(KeyPath::from("shaping.queue"), Problem::range(queue, "2 to 10000"))
        })?;
    }
    let standard = Bypass::default();
    layout.bypass = Bypass {
        udp: shaping.bypass_udp.clone().unwrap_or(standard.udp),
        tcp: shaping.bypass_tcp.clone().unwrap_or(standard.tcp),
    };
    layout.check().map_err(|e| {
        let key = match e {
            LayoutError::SameInterface(_) => "wired.interface",
            LayoutError::TableName(_) => "shaping.table",
            LayoutError::Handle(_) => "shaping.handle",
            LayoutError::Queue(_) => "shaping.queue",
            LayoutError::Shaper(_) => "shaping.leaf",
            _ => "shaping",
        };
        Located::at(KeyPath::from(key), Problem::refused(e.problem(), e.expected()))
    })?;
    Ok(layout)
}

/// True if the control decides on the queues in subscribers' classes.
///
/// The operator's choice takes precedence over the control's; a contradiction is refused.
fn queues_by_control(draft: &Draft) -> Result<bool> {
    let asked = draft.control.parameters.contains_key("queue");
    match draft.shaping.leaf {
        None => Ok(asked),
        Some(draft::Leaf::Control) if draft.shaping.queue.is_some() => refused(
            KeyPath::from("shaping.queue"),
            "shaping.leaf = \"control\" leaves the queues to the control",
            "none, or control.queue instead",
        ),
        Some(draft::Leaf::Control) if draft.shaping.delay.is_some() => refused(
            KeyPath::from("shaping.delay"),
            "shaping.leaf = \"control\" leaves the queues to the control",
            "none, or another leaf",
        ),
        Some(draft::Leaf::Control) => Ok(true),
        Some(_) if asked => refused(
            KeyPath::from("control.queue"),
            "shaping.leaf sets the queue already",
            "none, or leaf = \"control\"",
        ),
        Some(_) => Ok(false),
    }
}

pub(crate) fn mechanism(
    draft: &draft::Control,
    default: &str,
    registry: &Registry,
) -> Result<Mechanism> {
    let key = KeyPath::from("control");
    let name = draft.name.as_deref().unwrap_or(default);
    let mut mechanism = registry.lookup(name).map_err(|e| {
        let what = format!("there is no control \"{name}\"");
        Located::at(key.clone().key("use"), Problem::refused(what, e.known.join(", ")))
    })?;
    if draft.fairness.is_some() && draft.parameters.contains_key(Fairness::PARAMETER) {
        let what = "`alpha_fairness` and `fairness` are both set";
        return refused(key.key("fairness"), what, "one of them");
    }
    let fairness = draft.fairness.map(|f| ("fairness", Fairness::PARAMETER, f.alpha()));
    let parameters = draft.parameters.iter().map(|(name, value)| (&**name, &**name, *value));
    for (name, parameter, value) in parameters.chain(fairness) {
        mechanism.set(parameter, value).or_else(|e| {
            let problem = match e.declared() {
                Some(p) => Problem::range(value, p.range().to_string()),
                None => {
                    let names = e.mechanism.parameters.iter().map(|p| &*p.name);
                    let known = core::iter::once("use").chain(names);
                    Problem::UnknownKey { known: known.map(str::to_owned).collect() }
                }
            };
            fail(key.clone().key(name), problem)
        })?;
    }
    Ok(mechanism)
}

/// Checks that the configuration has the knowledge that the control needs.
fn knowledge(
    mechanism: &Mechanism,
    neighbours: &[Neighbour],
    subscribers: &[Subscriber],
    discover: Option<&Discover>,
    draft: &Draft,
) -> Result<()> {
    let Some(needs) = mechanism.needs(&SITE) else { return Ok(()) };
    if needs.knowledge.has(Knowledge::LinkRates) && neighbours.is_empty() {
        return refused(
            KeyPath::from("control.use"),
            format!("{mechanism} needs the rates of the gateway's links"),
            "a [[neighbour]] with name and rate or capacity for every direct neighbour in the mesh",
        );
    }
    let of = |i: usize| match i < draft.subscriber.len() {
        true => KeyPath::from("subscriber").index(i),
        false => KeyPath::from("libreqos"),
    };
    let fair = |p: &Plan| p.down.fair.is_some() && p.up.fair.is_some();
    if needs.knowledge.has(Knowledge::FairRates) || needs.events.has(EventKind::Allocations) {
        let expected = "fair_down and fair_up, here or in its plan";
        if let Some(i) = subscribers.iter().position(|s| !fair(&s.plan)) {
            let what = format!("{mechanism} needs the fair rates of \"{}\"", subscribers[i].name);
            return refused(of(i), what, expected);
        }
        if discover.is_some_and(|d| !fair(&d.plan)) {
            let what = format!("{mechanism} needs the fair rates of discovered subscribers");
            return refused(KeyPath::from("discover"), what, "a plan with fair_down and fair_up");
        }
    }
    if needs.knowledge.has(Knowledge::Hops)
        && let Some(i) =
            subscribers.iter().position(|s| s.hops.is_none() && s.name != super::UNMAPPED)
    {
        let what = format!("{mechanism} needs the hops of \"{}\"", subscribers[i].name);
        return refused(of(i), what, "hops = number of wireless hops from the gateway");
    }
    Ok(())
}

fn neighbours(drafts: &[draft::Neighbour]) -> Result<Vec<Neighbour>> {
    let mut names = BTreeMap::new();
    let mut built = Vec::with_capacity(drafts.len());
    for (i, draft) in drafts.iter().enumerate() {
        let key = KeyPath::from("neighbour").index(i);
        let name = name(&draft.name, key.clone().key("name"))?;
        if names.insert(name.clone(), i).is_some() {
            return refused(
                key.key("name"),
                format!("neighbour \"{name}\" is listed twice"),
                "each once",
            );
        }
        let (rate, of) = match (draft.rate, draft.capacity) {
            (rate, Some(capacity)) => (rate.unwrap_or(capacity), capacity),
            (Some(rate), None) => (rate, capacity::of_rate(rate)),
            (None, None) => {
                let what = format!("no rate and no capacity of the link to \"{name}\"");
                return refused(key, what, "rate = \"54 Mbit/s\" or a measured capacity");
            }
        };
        if draft.mac.is_some() && draft.capacity.is_some() {
            let what = "a measured rate and a measured capacity of one link";
            return refused(key.key("mac"), what, "mac beside rate, or capacity alone");
        }
        for (given, word) in [(draft.rate, "rate"), (draft.capacity, "capacity")] {
            if let Some(given) = given {
                limit(given, || key.clone().key(word))?;
            }
        }
        built.push(Neighbour { name, rate, capacity: of, mac: draft.mac });
    }
    Ok(built)
}

fn limit(rate: BitRate, key: impl FnOnce() -> KeyPath) -> Result<()> {
    if (MIN_RATE..=MAX_RATE).contains(&rate) {
        return Ok(());
    }
    fail(key(), Problem::range(rate, format!("{MIN_RATE} to {MAX_RATE}")))
}

/// Checks a name: readable text of one line.
fn name(given: &str, key: KeyPath) -> Result<String> {
    valid_name(given).ok_or_else(|| {
        let what = format!("\"{given}\" is not a valid name");
        Located::at(key, Problem::refused(what, "1 to 64 printable characters"))
    })
}

/// Plans by name; a subscriber without a plan has the default.
struct Plans(BTreeMap<String, Plan>);

/// Keys of a plan as given; a subscriber has the same ones.
#[derive(Clone, Copy)]
struct Given {
    weight: Option<f64>,
    down: Rates,
    up: Rates,
}

impl Plans {
    fn read(
        drafts: &BTreeMap<String, draft::Plan>,
        schedules: &mut Vec<Schedule>,
    ) -> Result<Plans> {
        let mut plans = BTreeMap::new();
        for (name, d) in drafts {
            let key = KeyPath::from("plan").key(name);
            let rates = |ceiling, guarantee, fair| Rates { ceiling, guarantee, fair };
            let given = Given {
                weight: d.weight,
                down: rates(d.down, d.guarantee_down, d.fair_down),
                up: rates(d.up, d.guarantee_up, d.fair_up),
            };
            let built = plan(&given, Plan::default(), &key)?;
            let built = Plan { quota: quota(d.quota.as_ref(), &built, &key)?, ..built };
            plans.insert(name.clone(), scheduled(built, &d.during, key, schedules)?);
        }
        Ok(Plans(plans))
    }

    fn find(&self, name: Option<&str>, key: impl FnOnce() -> KeyPath) -> Result<Plan> {
        let Some(name) = name else { return Ok(Plan::default()) };
        self.0.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let expected = match known.as_slice() {
                [] => format!("a table [plan.{name}]"),
                _ => format!("one of {}", known.join(", ")),
            };
            Located::at(key(), Problem::refused(format!("there is no plan \"{name}\""), expected))
        })
    }
}

/// Returns the plan with the given values, and those of `base` for the rest.
fn plan(given: &Given, base: Plan, key: &KeyPath) -> Result<Plan> {
    let weight = given.weight.unwrap_or(base.weight);
    accept_weight(weight, || key.clone().key("weight"))?;
    let side = |given: Rates, base: Rates, direction: &str, ceiling_key: &str| -> Result<Rates> {
        let merged = Rates {
            ceiling: given.ceiling.or(base.ceiling),
            guarantee: given.guarantee.or(base.guarantee),
            fair: given.fair.or(base.fair),
        };
        for (rate, word) in [
            (merged.ceiling, ceiling_key.to_owned()),
            (merged.guarantee, format!("guarantee_{direction}")),
            (merged.fair, format!("fair_{direction}")),
        ] {
            if let Some(rate) = rate {
                limit(rate, || key.clone().key(&word))?;
            }
        }
        if let (Some(ceiling), Some(guarantee)) = (merged.ceiling, merged.guarantee)
            && guarantee > ceiling
        {
            return refused(
                key.clone().key(&format!("guarantee_{direction}")),
                format!("a guarantee of {guarantee} above the ceiling of {ceiling}"),
                "at most the ceiling",
            );
        }
        Ok(merged)
    };
    let down = side(given.down, base.down, "down", "down")?;
    let up = side(given.up, base.up, "up", "up")?;
    let regular = [down.ceiling, up.ceiling];
    let (regular_weight, quota) = (weight, base.quota);
    Ok(Plan { weight, down, up, schedule: base.schedule, regular_weight, regular, quota })
}

/// Checks a weight.
fn accept_weight(weight: f64, key: impl FnOnce() -> KeyPath) -> Result<()> {
    // The kernel's round robin supports weights of 1 to 100.
    match (0.01..=100.0).contains(&weight) {
        true => Ok(()),
        false => fail(key(), Problem::range(weight, "0.01 to 100")),
    }
}

/// Checks a quota; its ceilings apply once it is used up.
fn quota(given: Option<&draft::Quota>, plan: &Plan, key: &KeyPath) -> Result<Option<Quota>> {
    let Some(d) = given else { return Ok(None) };
    let at = |word: &str| key.clone().key("quota").key(word);
    let bytes = d.bytes.map_or(0, |b| b.0);
    if bytes == 0 {
        return refused(at("bytes"), "no bytes", "a number of bytes such as \"100 GB\"");
    }
    if d.down.or(d.up).is_none() {
        return refused(key.clone().key("quota"), "no rate after the quota", "down, up or both");
    }
    ceilings_above([d.down, d.up], plan, at)?;
    Ok(Some(Quota { bytes, per: d.per, ceilings: [d.down, d.up] }))
}

/// Checks ceilings of a part of a plan: accepted rates that are not below the guarantees.
fn ceilings_above(
    ceilings: [Option<BitRate>; 2],
    plan: &Plan,
    at: impl Fn(&str) -> KeyPath,
) -> Result<()> {
    let floors = [plan.down.guarantee, plan.up.guarantee];
    for ((rate, floor), word) in ceilings.into_iter().zip(floors).zip(["down", "up"]) {
        let Some(rate) = rate else { continue };
        limit(rate, || at(word))?;
        if let Some(floor) = floor.filter(|floor| rate < *floor) {
            let expected = format!("at least {floor}");
            return refused(at(word), format!("{rate} is below the guarantee"), expected);
        }
    }
    Ok(())
}

/// Returns a plan with a schedule of its own, if it has one.
fn scheduled(
    plan: Plan,
    drafts: &[draft::During],
    key: KeyPath,
    schedules: &mut Vec<Schedule>,
) -> Result<Plan> {
    if drafts.is_empty() {
        return Ok(plan);
    }
    let mut windows = Vec::with_capacity(drafts.len());
    for (i, d) in drafts.iter().enumerate() {
        let at = |word: &str| key.clone().key("during").index(i).key(word);
        let time = |text: &str, word: &str| {
            let digits = text.len() == 5 && text.as_bytes()[2] == b':';
            let time = text.parse::<jiff::civil::Time>().ok().filter(|_| digits);
            time.map_or_else(
                || refused(at(word), format!("\"{text}\""), "a time such as \"18:00\""),
                Ok,
            )
        };
        let mut days = [d.days.is_none(); 7];
        for (j, name) in d.days.iter().flatten().enumerate() {
            match DAY_NAMES.iter().position(|day| *day == name.to_lowercase()) {
                Some(day) => days[day] = true,
                None => {
                    let known = DAY_NAMES.join(", ");
                    return refused(at("days").index(j), format!("\"{name}\""), known);
                }
            }
        }
        if d.down.or(d.up).is_none() && d.weight.is_none() {
            let expected = "at least one of weight, down, up";
            return refused(key.key("during").index(i), "no weight or rate", expected);
        }
        if let Some(weight) = d.weight {
            accept_weight(weight, || at("weight"))?;
        }
        ceilings_above([d.down, d.up], &plan, at)?;
        let (from, to) = (time(&d.from, "from")?, time(&d.to, "to")?);
        windows.push(Window { days, from, to, weight: d.weight, ceilings: [d.down, d.up] });
    }
    schedules.push(Schedule { name: key.to_string(), windows });
    Ok(Plan { schedule: Some(schedules.len() - 1), ..plan })
}

fn subscribers(
    merged: &Merged,
    plans: &Plans,
    tables: &Tables,
    schedules: &mut Vec<Schedule>,
) -> Result<(Vec<Subscriber>, Vec<FileReport>)> {
    let draft = &merged.draft;
    if draft.subscriber.len() > MAX_SUBSCRIBERS {
        let n = draft.subscriber.len();
        let problem = Problem::range(format!("{n} subscribers"), format!("{MAX_SUBSCRIBERS}"));
        return fail(KeyPath::from("subscriber"), problem);
    }
    let mut taken = Taken::default();
    let mut built = Vec::with_capacity(draft.subscriber.len());
    for (i, d) in draft.subscriber.iter().enumerate() {
        let key = KeyPath::from("subscriber").index(i);
        let name = name(&d.name, key.clone().key("name"))?;
        let base = plans.find(d.plan.as_deref(), || key.clone().key("plan"))?;
        let rates = |ceiling, guarantee, fair| Rates { ceiling, guarantee, fair };
        let given = Given {
            weight: d.weight,
            down: rates(d.down, d.guarantee_down, d.fair_down),
            up: rates(d.up, d.guarantee_up, d.fair_up),
        };
        let hops = match d.hops {
            None => None,
            Some(n @ 1..=64) => Some(n as u32),
            Some(n) => return fail(key.key("hops"), Problem::range(n, "1 to 64")),
        };
        if d.prefixes.is_empty() && d.macs.is_empty() {
            return refused(key, format!("\"{name}\" has no address"), "prefixes or macs");
        }
        let subscriber = Subscriber {
            plan: scheduled(plan(&given, base, &key)?, &d.during, key.clone(), schedules)?,
            prefixes: d.prefixes.iter().map(|p| p.0).collect(),
            macs: d.macs.clone(),
            name,
            hops,
        };
        taken.take(&subscriber, i, &key, merged)?;
        built.push(subscriber);
    }
    let mut files = merged.reports.clone();
    if let (Some(circuits), Some(d)) = (&tables.circuits, &draft.libreqos) {
        let base = plans.find(d.plan.as_deref(), || KeyPath::from("libreqos.plan"))?;
        let mut report = FileReport {
            file: tables.file.clone(),
            ignored: "minimum rates, MAC, sqm",
            unused: circuits.unused.clone(),
            ..FileReport::default()
        };
        for circuit in &circuits.circuits {
            match taken.circuit(circuit, base, merged, &mut report) {
                Ok(subscriber) => built.push(subscriber),
                Err(text) => report.unused.push(Unused { line: circuit.line, text }),
            }
        }
        report.subscribers = built.len() - draft.subscriber.len();
        report.unused.sort_by_key(|u| u.line);
        files.push(report);
        if built.len() > MAX_SUBSCRIBERS {
            let problem = Problem::range(built.len(), format!("at most {MAX_SUBSCRIBERS}"));
            return fail(KeyPath::from("libreqos.devices"), problem);
        }
    }
    Ok((built, files))
}

/// Owner of a name or an address.
#[derive(Clone, Copy)]
enum Owner {
    /// A `[[subscriber]]`, by its position.
    Listed(usize),
    /// A circuit, by the line of its row.
    Circuit(u64),
}

impl Owner {
    /// Returns the file and line of a `[[subscriber]]`, or the line of a row.
    fn place(self, merged: &Merged) -> String {
        match self {
            Owner::Listed(i) => merged.place(&KeyPath::from("subscriber").index(i).key("name")),
            Owner::Circuit(line) => format!("line {line}"),
        }
    }
}

/// Names and addresses that are taken, with their owners.
#[derive(Default)]
struct Taken {
    names: BTreeMap<String, Owner>,
    prefixes: BTreeMap<IpNet, (String, Owner)>,
    macs: BTreeMap<MacAddr, String>,
}

impl Taken {
    /// Takes name and addresses of a circuit, which gets those that are free.
    ///
    /// # Errors
    /// Returns the reason if nothing of it is used.
    fn circuit(
        &mut self,
        circuit: &Circuit,
        mut plan: Plan,
        merged: &Merged,
        report: &mut FileReport,
    ) -> core::result::Result<Subscriber, String> {
        let name = circuit.name.clone();
        if let Some(owner) = self.names.get(&name) {
            return Err(format!("the name \"{name}\" is used in {} already", owner.place(merged)));
        }
        let mut prefixes = Vec::new();
        for (prefix, line) in &circuit.prefixes {
            if let Some((first, owner)) = self.prefixes.get(prefix) {
                let place = owner.place(merged);
                let text = format!("{prefix} belongs to \"{first}\" in {place} already");
                report.unused.push(Unused { line: *line, text });
                continue;
            }
            self.prefixes.insert(*prefix, (name.clone(), Owner::Circuit(*line)));
            prefixes.push(*prefix);
        }
        if prefixes.is_empty() {
            return Err(format!("no address of \"{name}\" is left"));
        }
        self.names.insert(name.clone(), Owner::Circuit(circuit.line));
        for (rates, ceiling) in [&mut plan.down, &mut plan.up].into_iter().zip(circuit.ceilings) {
            rates.ceiling = ceiling.or(rates.ceiling);
            rates.guarantee = rates.guarantee.map(|g| rates.ceiling.map_or(g, |c| c.min(g)));
        }
        plan.regular = [plan.down.ceiling, plan.up.ceiling];
        Ok(Subscriber { name, prefixes, macs: Vec::new(), plan, hops: None })
    }

    fn take(&mut self, s: &Subscriber, index: usize, key: &KeyPath, merged: &Merged) -> Result<()> {
        let owner = Owner::Listed(index);
        if let Some(first) = self.names.insert(s.name.clone(), owner) {
            let what =
                format!("the name \"{}\" is used in {} already", s.name, first.place(merged));
            return refused(key.clone().key("name"), what, "each name once");
        }
        for (i, prefix) in s.prefixes.iter().enumerate() {
            if let Some((first, at)) = self.prefixes.insert(*prefix, (s.name.clone(), owner)) {
                let what =
                    format!("{prefix} belongs to \"{first}\" in {} already", at.place(merged));
                let at = key.clone().key("prefixes").index(i);
                return refused(at, what, "every address to have one subscriber");
            }
        }
        for (i, mac) in s.macs.iter().enumerate() {
            let at = || key.clone().key("macs").index(i);
            if !mac.is_unicast() || mac.0 == [0; 6] {
                return refused(
                    at(),
                    format!("{mac} is not a unicast address"),
                    "the address of a station",
                );
            }
            if let Some(first) = self.macs.insert(*mac, s.name.clone()) {
                let what = format!("{mac} belongs to \"{first}\" already");
                return refused(at(), what, "every address to have one subscriber");
            }
        }
        Ok(())
    }
}

fn discover(d: &draft::Discover, plans: &Plans) -> Result<Discover> {
    let plan = plans.find(d.plan.as_deref(), || KeyPath::from("discover.plan"))?;
    if plan.down.guarantee.or(plan.up.guarantee).is_some() {
        let what = "a guarantee for discovered subscribers";
        let expected = "a plan without guarantees: the number of discovered subscribers is unknown";
        return refused(KeyPath::from("discover.plan"), what, expected);
    }
    let nothing = d.netjson.is_none()
        && d.batman.is_none()
        && d.olsr.is_none()
        && d.babel.is_none()
        && !d.neighbours
        && !d.mesh_paths
        && !d.routes;
    if nothing {
        let expected =
            "netjson, batman, olsr, babel, neighbours = true, mesh_paths = true or routes = true";
        return refused(KeyPath::from("discover"), "no source of subscribers", expected);
    }
    let standard = Discover::default();
    let most = d.most.unwrap_or(standard.most as i64);
    if !(1..=MAX_SUBSCRIBERS as i64).contains(&most) {
        let range = format!("1 to {MAX_SUBSCRIBERS}");
        return fail(KeyPath::from("discover.most"), Problem::range(most, range));
    }
    Ok(Discover {
        netjson: d.netjson.clone(),
        batman: d.batman.as_ref().map(|i| i.name().to_owned()),
        olsr: d.olsr,
        babel: d.babel.clone(),
        neighbours: d.neighbours,
        mesh_paths: d.mesh_paths,
        routes: d.routes,
        routes_by: d.routes_by,
        plan,
        every: span(d.every, "discover.every", 10, (1, 3600))?,
        linger: span(d.linger, "discover.linger", 600, (0, 7 * 86_400))?,
        most: most as usize,
    })
}
