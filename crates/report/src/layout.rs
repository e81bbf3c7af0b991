//! Layout of nodes without positions.

use std::collections::VecDeque;

/// Places `n` nodes on the plane so that distances drawn resemble hops on `links`.
///
/// Stochastic gradient descent on stress (Zheng, Pawar, Goodman 2018), with a fixed order of pairs
/// and a fixed start, so that the same network is always drawn the same way.
pub fn place(n: usize, links: &[(usize, usize)]) -> Vec<(f64, f64)> {
    let hops = distances(n, links);
    // Start on a sunflower: no two nodes coincide and no direction is preferred.
    let golden = std::f64::consts::PI * (3.0 - 5f64.sqrt());
    let mut at: Vec<(f64, f64)> = (0..n)
        .map(|i| {
            let (r, a) = ((i as f64 + 0.5).sqrt(), i as f64 * golden);
            (r * a.cos(), r * a.sin())
        })
        .collect();
    let longest = hops.iter().copied().max().unwrap_or(1).max(1) as f64;
    let rounds = if n > 1000 { 8 } else { 40 };
    // The step shrinks from a full move of the longest pair to a tenth of a move of neighbours.
    let decay = (0.1 / (longest * longest)).ln() / f64::from(rounds - 1);
    for round in 0..rounds {
        let step = longest * longest * (decay * f64::from(round)).exp();
        for k in 0..n {
            // A stride coprime to n visits every node, with a large distance between successive
            // indices.
            let i = (k * stride(n) + round as usize) % n;
            for j in 0..n {
                if i == j {
                    continue;
                }
                let d = f64::from(hops[i * n + j]);
                let (dx, dy) = (at[i].0 - at[j].0, at[i].1 - at[j].1);
                let drawn = dx.hypot(dy).max(1e-9);
                let pull = (step / (d * d)).min(1.0) * (drawn - d) / drawn / 2.0;
                at[i].0 -= pull * dx;
                at[i].1 -= pull * dy;
                at[j].0 += pull * dx;
                at[j].1 += pull * dy;
            }
        }
    }
    at
}

fn stride(n: usize) -> usize {
    let near = (n as f64 * 0.618) as usize;
    (near..).find(|s| *s > 0 && gcd(*s, n) == 1).unwrap_or(1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the hops between every two nodes, row by row.
///
/// Unreachable pairs count one more than the longest distance.
fn distances(n: usize, links: &[(usize, usize)]) -> Vec<u16> {
    let mut neighbours = vec![vec![]; n];
    for &(a, b) in links {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut hops = vec![u16::MAX; n * n];
    let mut queue = VecDeque::new();
    for start in 0..n {
        hops[start * n + start] = 0;
        queue.push_back(start);
        while let Some(i) = queue.pop_front() {
            for &j in &neighbours[i] {
                if hops[start * n + j] == u16::MAX {
                    hops[start * n + j] = hops[start * n + i] + 1;
                    queue.push_back(j);
                }
            }
        }
    }
    let longest = hops.iter().copied().filter(|h| *h < u16::MAX).max().unwrap_or(0);
    for h in hops.iter_mut().filter(|h| **h == u16::MAX) {
        *h = longest + 1;
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
        (a.0 - b.0).hypot(a.1 - b.1)
    }

    #[test]
    fn a_chain_is_drawn_as_a_line() {
        let links: Vec<_> = (0..7).map(|i| (i, i + 1)).collect();
        let at = place(8, &links);
        assert!((distance(at[0], at[7]) - 7.0).abs() < 0.5, "{at:?}");
        for (a, b) in links {
            assert!((distance(at[a], at[b]) - 1.0).abs() < 0.2, "{at:?}");
        }
    }

    #[test]
    fn parts_without_a_link_between_them_stay_apart() {
        let at = place(4, &[(0, 1), (2, 3)]);
        assert!(distance(at[0], at[2]) > 1.2 && distance(at[1], at[3]) > 1.2, "{at:?}");
        assert!(at.iter().all(|p| p.0.is_finite() && p.1.is_finite()));
    }

    #[test]
    fn small_networks_do_not_trip_it() {
        assert!(place(0, &[]).is_empty());
        assert_eq!(place(1, &[]).len(), 1);
        assert_eq!(place(2, &[(0, 1)]), place(2, &[(0, 1)]));
    }
}
