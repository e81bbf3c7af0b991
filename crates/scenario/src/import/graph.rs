//! Connectivity of the nodes.

use std::collections::VecDeque;

/// Returns the hops from the nearest of these nodes; `None` if there is no path.
pub(super) fn hops(around: &[Vec<usize>], from: &[usize]) -> Vec<Option<u32>> {
    let mut hops = vec![None; around.len()];
    from.iter().for_each(|&i| hops[i] = Some(0));
    let mut todo: VecDeque<(usize, u32)> = from.iter().map(|&i| (i, 0)).collect();
    while let Some((u, h)) = todo.pop_front() {
        for &v in &around[u] {
            if hops[v].is_none() {
                hops[v] = Some(h + 1);
                todo.push_back((v, h + 1));
            }
        }
    }
    hops
}

/// Returns, for every node, the size of its connected component.
pub(super) fn component_sizes(around: &[Vec<usize>]) -> Vec<usize> {
    let mut sizes = vec![0; around.len()];
    for start in 0..around.len() {
        if sizes[start] > 0 {
            continue;
        }
        let mut members = vec![start];
        sizes[start] = 1;
        let mut next = 0;
        while let Some(&u) = members.get(next) {
            next += 1;
            for &v in &around[u] {
                if sizes[v] == 0 {
                    sizes[v] = 1;
                    members.push(v);
                }
            }
        }
        for &m in &members {
            sizes[m] = members.len();
        }
    }
    sizes
}
