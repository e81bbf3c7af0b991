//! The worked examples of Jang 2010, computed by the code that nodes run.

use fairmesh_control::cna::settled::{Hop, Settled, settle};

/// Fig. 2(a): the Stack.
const STACK: [(u32, u32); 8] = [(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)];
const STACK_FLOWS: [[u32; 3]; 3] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]];
/// Links of Fig. 3(a), as far as the text describes it.
const FIG_3A_LINKS: [(u32, u32); 10] =
    [(1, 2), (2, 5), (5, 6), (5, 11), (6, 11), (11, 12), (6, 7), (7, 8), (6, 9), (9, 10)];

/// A number of the table: row, column, value.
type Number = (String, &'static str, f64);

/// Returns both directions of every hop of a path.
fn flow(path: &[u32]) -> impl Iterator<Item = Hop> + '_ {
    path.windows(2).flat_map(|w| {
        let (a, b) = (w[0], w[1]);
        [Hop { from: a, to: b, ack: false }, Hop { from: b, to: a, ack: true }]
    })
}

/// Returns the numbers of Fig. 2: neighbourhood weights and limits in per cent of the air.
///
/// The limits are also computed with acknowledgements that use 60 % of theirs, and with 40 % of the
/// air around node 1 unavailable.
pub fn limits() -> Vec<Number> {
    let hops: Vec<Hop> = STACK_FLOWS.iter().flat_map(|p| flow(p)).collect();
    let plain = settle(&STACK, &hops, 1.0, |_| 1.0);
    let unused = settle(&STACK, &hops, 0.6, |_| 1.0);
    let oven = settle(&STACK, &hops, 0.6, |n| if n == 1 { 0.6 } else { 1.0 });
    let mut numbers = Vec::new();
    for h in &hops {
        let row = format!("{}→{}{}", h.from, h.to, if h.ack { " (ACK)" } else { "" });
        let get = |s: &Settled| s.link(h.from, h.to).copied();
        let (Some(p), Some(u), Some(o)) = (get(&plain), get(&unused), get(&oven)) else { continue };
        let mut put = |column, value| numbers.push((row.clone(), column, value));
        put("NW", p.around);
        put("limit", 100.0 * p.share);
        put("redistributed", 100.0 * u.redistributed);
        put("oven at 1", 100.0 * o.scaled);
    }
    let all =
        |s: &Settled, near: &[u32], of: fn(&fairmesh_control::cna::settled::Limits) -> f64| {
            let inside = s.links.iter().filter(|l| near.contains(&l.from) && near.contains(&l.to));
            100.0 * inside.map(of).sum::<f64>()
        };
    // The links around 1↔2: those at 1, 2, 3 and 5, of which 5↔8 carries no traffic.
    let near = [1, 2, 3, 4, 5, 6];
    let row = || "all around 1↔2".to_owned();
    numbers.push((row(), "limit", all(&plain, &near, |l| l.share)));
    numbers.push((row(), "redistributed", all(&unused, &near, |l| l.redistributed)));
    numbers.push((row(), "oven at 1", all(&oven, &near, |l| l.scaled)));
    numbers
}

/// Returns the numbers of Fig. 3: two-hop sums, their overlap and the neighbourhood weight.
pub fn sums() -> Vec<Number> {
    let paths: [&[u32]; 4] = [&[5, 6, 7, 8], &[11, 12], &[1, 2], &[2, 1]];
    let hops: Vec<Hop> = paths.iter().flat_map(|p| flow(p)).collect();
    let s = settle(&FIG_3A_LINKS, &hops, 1.0, |_| 1.0);
    let gathered = |n| s.gathered.get(&n).copied().unwrap_or(f64::NAN);
    let around = s.link(5, 6).map_or(f64::NAN, |l| l.around);
    [
        ("W′5", gathered(5)),
        ("W′6", gathered(6)),
        ("in common", gathered(5) + gathered(6) - around),
        ("NW(5↔6)", around),
    ]
    .map(|(row, value)| (row.to_owned(), "flows", value))
    .to_vec()
}
