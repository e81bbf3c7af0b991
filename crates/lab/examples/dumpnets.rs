use fairmesh_lab::study::families::{network, Family, Times};
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let times = Times { duration_s: 500, warmup_s: 200 };
    for f in Family::ALL.into_iter() {
        for n in 0..f.size() {
            let net = network(f, n, times).unwrap();
            std::fs::write(format!("{dir}/{}.toml", net.name), &net.text).unwrap();
            println!("{} {}", net.name, net.about);
        }
    }
}
