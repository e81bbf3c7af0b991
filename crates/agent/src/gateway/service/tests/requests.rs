//! Requests of operators that only the daemon as a whole can meet.

use std::io::Write as _;

use super::*;
use crate::gateway::governor::Limiter;

/// Sets a load downstream for each home of the bench.
fn offer(b: &mut Bench, load: f64) {
    for class in 1..=6 {
        let slot = FakeShaper::slot(class, Direction::Down);
        b.plane().classes.get_mut(&slot).unwrap().demand = load;
    }
}

/// Passes a control period, and returns the bytes per second of the homes in it.
fn period(b: &mut Bench) -> Vec<f64> {
    const EPOCH: u64 = 10;
    b.pass(Span::from_secs(EPOCH));
    (0..6).map(|n| f64::from(b.carried(n)) / EPOCH as f64).collect()
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), r| (sum + r, squares + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

/// A mesh that carries half for some minutes.
///
/// The nearest homes take what they can get, so fair rates show that the limits follow.
#[test]
fn limits_follow_a_capacity_that_halves_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    b.pass(Span::from_secs(1));
    offer(&mut b, 5e6);
    for (capacity, settling) in [(8e6, 40), (4e6, 20), (8e6, 40)] {
        b.carries(capacity);
        (0..settling).for_each(|_| drop(period(&mut b)));
        // Over a minute, since the control keeps trying more.
        let minutes: Vec<Vec<f64>> = (0..6).map(|_| period(&mut b)).collect();
        let rates: Vec<f64> =
            (0..6).map(|i| minutes.iter().map(|m| 8.0 * m[i]).sum::<f64>() / 6.0).collect();
        let (sum, fair) = (rates.iter().sum::<f64>(), jain(&rates));
        println!("{capacity}: {sum:.0} bit/s, Jain {fair:.3}: {rates:.0?}");
        assert!(fair > 0.95, "{capacity}: {rates:?}");
        assert!(sum > 0.8 * capacity && sum < 1.02 * capacity, "{capacity}: {rates:?}");
    }
}

/// Output of a bench as text.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_decision_has_one_code_in_log_json_and_metric() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    let log = Log::default();
    b.daemon.out = Box::new(log.clone());
    b.carries(4e6);
    b.pass(Span::from_secs(1));
    offer(&mut b, 5e6);
    b.pass(Span::from_secs(300));
    let governor = &b.daemon.service.host.governor;
    let held: Vec<(String, String)> = governor
        .members()
        .iter()
        .filter(|m| governor.meant(m, 0).1 == Limiter::Control)
        .map(|m| {
            let change = m.directions[0].change.as_ref().unwrap();
            (m.subscriber.name.clone(), change.why.code().to_owned())
        })
        .collect();
    assert!(held.len() >= 6, "{held:?}");
    let page = b.daemon.service.page(None);
    for (name, code) in held {
        assert!(code.starts_with("pfrc."), "{name}: {code}");
        let text = String::from_utf8(log.0.borrow().clone()).unwrap();
        assert!(text.lines().any(|l| l.contains(&code)), "{code} is not logged: {text}");
        let Response::Ok(why) = b.ask(Request::Why { subscriber: name.clone() }) else { panic!() };
        let change = &why["ways"][0]["last_change"];
        assert_eq!(change["code"], code, "{why:#}");
        assert!(change["reason"].as_str().is_some_and(|t| t.len() > 10), "{why:#}");
        let metric = format!("fairmesh_gateway_events_total{{event=\"{code}\"");
        assert!(page.contains(&metric), "{metric}");
    }
}

/// Words of the run in a process that is counted: its seconds.
const WORDS: &str = "FAIRMESH_COST_SECONDS";
/// Most instructions per second with 30 homes, without those of the kernel.
///
/// 2 % of a processor with 580 million instructions per second are 11.6 million.
const MOST: u64 = 11_600_000;

/// The counted process; without words it does nothing.
#[test]
fn thirty_homes_in_virtual_time() {
    let Ok(seconds) = std::env::var(WORDS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut text = text(folder.path());
    for i in 6..30 {
        text += &format!("[[subscriber]]\nname = \"s{i}\"\nprefixes = [\"10.0.{i}.0/24\"]\n");
    }
    let mut b = Bench::on(folder.path(), &text, Dial::new(Time::ZERO));
    b.pass(Span::from_secs(1));
    b.plane().classes.values_mut().for_each(|c| c.demand = 1e6);
    b.pass(Span::from_secs(seconds.parse().unwrap()));
    assert!(b.daemon.service.host.governor.journal.total("pfrc.starved") > 0, "it decided");
}

/// Returns the instructions of a process; `None` without valgrind.
fn instructions(seconds: u32) -> Option<u64> {
    let out = std::process::Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "gateway::service::tests::requests::thirty_homes_in_virtual_time"])
        .arg("--test-threads=1")
        .env(WORDS, seconds.to_string())
        .output()
        .ok()?;
    let report = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}{report}", String::from_utf8_lossy(&out.stdout));
    let line = report.lines().find(|l| l.contains("refs:")).unwrap();
    Some(line.rsplit(':').next().unwrap().trim().replace(',', "").parse().unwrap())
}

/// Samples, decisions, history and the text file, once a minute and more, of a test build.
#[test]
fn thirty_homes_take_few_instructions() {
    let Some(short) = instructions(60) else {
        let mut err = std::io::stderr();
        let _ = writeln!(err, "SKIPPED thirty_homes_take_few_instructions: no valgrind");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
        return;
    };
    let each = (instructions(360).unwrap() - short) / 300;
    let _ = writeln!(std::io::stderr(), "30 homes: {each} instructions per second");
    assert!(each > 1_000, "it did nothing");
    assert!(each < MOST, "{each} instructions per second, most {MOST}");
}
