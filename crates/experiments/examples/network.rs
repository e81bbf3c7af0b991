//! Prints the scenario file of a network of the families, such as `network random 81 160`.
//!
//! Arguments: family, number, simulated time in seconds, of which three eighths are not measured.

use fairmesh_experiments::study::families::{Family, Times, network};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [family, number, seconds] = &given[..] else {
        return Err("expected: network FAMILY NUMBER SECONDS, such as network random 81 160".into());
    };
    let family =
        Family::ALL.into_iter().chain([Family::Gateways]).find(|f| f.name() == family).ok_or_else(
            || format!("family {family}: expected such as random, chains or evenings"),
        )?;
    let duration_s: u32 = seconds.parse().map_err(|e| format!("seconds {seconds}: {e}"))?;
    let number = number.parse().map_err(|e| format!("number {number}: {e}"))?;
    let times = Times { duration_s, warmup_s: duration_s * 3 / 8 };
    let network = network(family, number, times)?;
    print!("# {}\n{}", network.about, network.text);
    Ok(())
}
