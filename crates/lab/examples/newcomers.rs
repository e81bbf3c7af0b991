//! Who comes late and who leaves: `newcomers CONTROL,CONTROL SEEDS FIRST RANDOM`, a line per network and control.

use fairmesh_lab::Pool;
use fairmesh_lab::study::newcomers::{networks, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [controls, seeds, first, random] = &args[..] else {
        return Err("expected: newcomers CONTROL,CONTROL SEEDS FIRST RANDOM, such as newcomers wcp,cna 10 100 2".into());
    };
    let controls: Vec<String> = controls.split(',').map(str::to_owned).collect();
    let networks = networks(first.parse()?, random.parse()?)?;
    let study = run(&networks, &controls, seeds.parse()?, &Pool::default())?;
    for (network, outcomes) in networks.iter().zip(&study.outcomes) {
        for (control, o) in study.controls.iter().zip(outcomes) {
            let list =
                |of: &[f64]| of.iter().map(|v| format!("{v:.2}")).collect::<Vec<_>>().join(" ");
            println!(
                "{} {control}: silenced {} there {} used {} | heard {} | took {} | freed {}",
                network.name,
                o.silenced(),
                o.there(),
                o.used(),
                list(&o.heard),
                list(&o.took_s),
                list(&o.freed)
            );
        }
    }
    Ok(())
}
