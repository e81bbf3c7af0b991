//! Prints the scenario file of a network of the families, such as `network random 81 160`.
//!
//! Arguments: family, number, simulated time in seconds, of which three eighths are not measured.

use fairmesh_experiments::study::families::{Family, Times, network};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [family, number, seconds] = &given[..] else {
        return Err("expected: network FAMILY NUMBER SECONDS, such as network random 81 160".into());
    };
    let families = [&Family::ALL[..], &[Family::Gateways]].concat();
    let known = families.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ");
    let chosen = families.iter().find(|f| f.name() == family);
    let family = *chosen.ok_or_else(|| format!("family {family}: expected one of {known}"))?;
    let duration_s: u32 =
        seconds.parse().map_err(|e| format!("seconds {seconds}: {e}; expected such as 160"))?;
    let number =
        number.parse().map_err(|e| format!("number {number}: {e}; expected such as 81"))?;
    let times = Times { duration_s, warmup_s: duration_s * 3 / 8 };
    let network = network(family, number, times)?;
    print!("# {}\n{}", network.about, network.text);
    Ok(())
}
