//! The clique model: one full unit of air per maximal clique of a conflict graph.
//!
//! Jamshaid 2010 §4.1.2.

use core::fmt;

use fixedbitset::FixedBitSet;

use crate::domain::Domains;
use crate::graph::ConflictGraph;

/// Limits of the enumeration: the number of maximal cliques can grow exponentially.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Maximum number of cliques to collect.
    pub cliques: usize,
    /// Maximum number of 64-bit words of vertex sets to compare; about 10⁹ a second.
    pub work: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { cliques: 50_000, work: 2_000_000_000 }
    }
}

/// Error of an enumeration that exceeded its budget: the graph is too large or too dense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyCliques {
    /// Vertices of the graph.
    pub vertices: usize,
    /// Number of maximal cliques found: a lower bound.
    pub found: usize,
    /// The budget that was exhausted.
    pub budget: Budget,
}

impl fmt::Display for TooManyCliques {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooManyCliques { vertices, found, .. } = self;
        write!(
            f,
            "gave up on the clique model: {found} maximal cliques among {vertices} links, and not \
             done; the collision-domain model needs only one domain per link"
        )
    }
}
impl core::error::Error for TooManyCliques {}

impl ConflictGraph {
    /// Returns the clique model: all maximal sets of vertices that exclude each other pairwise.
    ///
    /// Sets are in lexicographic order.
    ///
    /// That no clique uses more than its air is necessary for a schedule, not sufficient: in a ring
    /// of five, cliques allow 1/2 each, but a schedule only 2/5.
    ///
    /// # Errors
    /// Returns an error if the budget is not sufficient.
    pub fn cliques(&self, budget: Budget) -> Result<Domains, TooManyCliques> {
        let mut cliques = Search::new(self, budget)?.run()?;
        cliques.sort_unstable();
        Ok(Domains::from_sets(cliques, self.len()))
    }
}

/// State of the search: the current clique is extended by each of `todo` in turn.
struct Frame {
    /// Vertices that extend the current clique.
    candidates: FixedBitSet,
    /// Vertices that also extend it, but with all of their cliques found.
    done: FixedBitSet,
    todo: Vec<u32>,
}

/// Bron and Kerbosch 1973 with the pivots of Tomita et al. 2006.
///
/// Started from each vertex in degeneracy order (Eppstein et al. 2010). The stack is explicit: a
/// clique may be large.
struct Search<'a> {
    graph: &'a ConflictGraph,
    /// By vertex, its neighbours.
    near: Vec<FixedBitSet>,
    clique: Vec<u32>,
    found: Vec<Vec<u32>>,
    budget: Budget,
    work: u64,
}

impl<'a> Search<'a> {
    fn new(graph: &'a ConflictGraph, budget: Budget) -> Result<Self, TooManyCliques> {
        let mut search = Search {
            graph,
            near: Vec::new(),
            clique: Vec::new(),
            found: Vec::new(),
            budget,
            work: 0,
        };
        // The first level visits every neighbour of every vertex once. If that exceeds the budget,
        // the sets are not built.
        let edges: usize = (0..graph.len()).map(|v| graph.neighbours(v as u32).len()).sum();
        search.spend(graph.len() + edges)?;
        search.work = 0;
        for v in 0..graph.len() {
            let mut set = FixedBitSet::with_capacity(graph.len());
            set.extend(graph.neighbours(v as u32).iter().map(|&n| n as usize));
            search.near.push(set);
        }
        Ok(search)
    }

    /// Charges the budget for visiting `sets` sets of vertices.
    fn spend(&mut self, sets: usize) -> Result<(), TooManyCliques> {
        let words = self.graph.len().div_ceil(64);
        self.work = self.work.saturating_add((sets as u64).saturating_mul(words as u64));
        if self.work > self.budget.work { Err(self.too_many()) } else { Ok(()) }
    }

    fn too_many(&self) -> TooManyCliques {
        let found = self.found.len();
        TooManyCliques { vertices: self.graph.len(), found, budget: self.budget }
    }

    fn run(mut self) -> Result<Vec<Vec<u32>>, TooManyCliques> {
        let mut later = FixedBitSet::with_capacity(self.graph.len());
        later.insert_range(..);
        for v in self.graph.degeneracy_order() {
            later.remove(v as usize);
            let near = &self.near[v as usize];
            let (mut candidates, mut done) = (near.clone(), near.clone());
            candidates.intersect_with(&later);
            done.difference_with(&later);
            self.clique.push(v);
            self.below(candidates, done)?;
            self.clique.pop();
        }
        Ok(self.found)
    }

    /// Finds all maximal cliques that extend the current one.
    fn below(&mut self, candidates: FixedBitSet, done: FixedBitSet) -> Result<(), TooManyCliques> {
        let mut stack = Vec::new();
        stack.extend(self.enter(candidates, done)?);
        while let Some(frame) = stack.last_mut() {
            let Some(v) = frame.todo.pop() else {
                stack.pop();
                // The vertex of the first frame belongs to the caller.
                if !stack.is_empty() {
                    self.clique.pop();
                }
                continue;
            };
            let near = &self.near[v as usize];
            let (mut candidates, mut done) = (frame.candidates.clone(), frame.done.clone());
            candidates.intersect_with(near);
            done.intersect_with(near);
            frame.candidates.remove(v as usize);
            frame.done.insert(v as usize);
            self.clique.push(v);
            match self.enter(candidates, done)? {
                Some(frame) => stack.push(frame),
                None => {
                    self.clique.pop();
                }
            }
        }
        Ok(())
    }

    /// Returns the frame for the vertices that extend the current clique, if there are any.
    ///
    /// Otherwise it records the clique if it is maximal.
    fn enter(
        &mut self,
        candidates: FixedBitSet,
        done: FixedBitSet,
    ) -> Result<Option<Frame>, TooManyCliques> {
        self.spend(2)?;
        let count = candidates.count_ones(..);
        if count == 0 {
            if done.is_clear() {
                if self.found.len() == self.budget.cliques {
                    return Err(self.too_many());
                }
                let mut clique = self.clique.clone();
                clique.sort_unstable();
                self.found.push(clique);
            }
            return Ok(None);
        }
        // A maximal clique without the pivot contains a vertex that is not a neighbour of it;
        // otherwise the pivot could be added. Only such vertices are tried.
        let mut pivot = (0, None);
        for v in done.ones().chain(candidates.ones()) {
            self.spend(1)?;
            let covered = self.near[v].intersection_count(&candidates);
            if pivot.1.is_none() || covered > pivot.0 {
                pivot = (covered, Some(v));
            }
            // The best possible pivot: no vertex covers itself, and none of `done` leaves fewer
            // than zero to try.
            if covered == count - usize::from(candidates.contains(v)) {
                break;
            }
        }
        let mut left = candidates.clone();
        if let Some(v) = pivot.1 {
            left.difference_with(&self.near[v]);
        }
        let todo = left.ones().map(|v| v as u32).collect();
        Ok(Some(Frame { candidates, done, todo }))
    }
}
