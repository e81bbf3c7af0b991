//! Networks of two and three gateways: `several_gateways FIRST COUNT SEEDS CONTROL,CONTROL REFERENCE`.
//!
//! A line per network and control: what the worst home has, beside one box at all gateways.
//! `several_gateways print NUMBER` prints a network as a scenario file.

use fairmesh_control::Registry;
use fairmesh_experiments::study::families::{Family, Times, beside_one_box, network};
use fairmesh_lab::Pool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let times = Times { duration_s: 500, warmup_s: 200 };
    if let [print, number] = &args[..]
        && print == "print"
    {
        print!("{}", network(Family::Gateways, number.parse()?, times)?.text);
        return Ok(());
    }
    let number = |i: usize, usual: u32| args.get(i).map_or(Ok(usual), |a| a.parse());
    let (first, count, seeds) = (number(0, 0)?, number(1, 2)?, number(2, 1)?);
    let text = |i: usize, usual: &str| args.get(i).cloned().unwrap_or(usual.to_owned());
    let controls: Vec<String> =
        text(3, "maxmin,maxmin+peers").split(',').map(str::to_owned).collect();
    let reference = text(4, "maxmin");
    let mut ratios = vec![Vec::new(); controls.len()];
    println!(
        "network,about,control,worst_kbps,box_worst_kbps,worst_of_box,sum_of_box,jain,box_jain"
    );
    for n in first..first + count {
        let one = network(Family::Gateways, n, times)?;
        let all = beside_one_box(
            std::slice::from_ref(&one),
            &controls,
            &reference,
            seeds,
            &Registry::standard(),
            &Pool { threads: std::num::NonZero::new(1), ..Pool::default() },
        )?;
        for (k, b) in all.iter().enumerate() {
            ratios[k].push(b.worst());
            println!(
                "{},\"{}\",{},{:.1},{:.1},{:.3},{:.3},{:.3},{:.3}",
                one.name,
                one.about,
                b.control,
                b.worst_bps.0 / 1e3,
                b.worst_bps.1 / 1e3,
                b.worst(),
                b.sum_bps.0 / b.sum_bps.1,
                b.jain.0,
                b.jain.1
            );
        }
    }
    for (control, ratios) in controls.iter().zip(ratios) {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{control}: worst home over one box's: mean {mean:.3}, least {least:.3}");
    }
    Ok(())
}
