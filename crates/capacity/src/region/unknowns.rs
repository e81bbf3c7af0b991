//! The variables for which the fixed point is solved.

use super::interference::{Interference, Model};
use super::retry_chain::{Collisions, Service};
use super::timing::Times;
use super::types::Load;
use crate::fair::LinkSpec;

/// One link in the fixed point.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub arrivals: f64,
    pub times: Times,
    pub collisions: Collisions,
    pub service: Service,
    /// Share of time in which all links that its sender senses are off.
    ///
    /// The second field adds the hidden ones.
    pub open: f64,
    pub clear: f64,
    /// Transmission time per frame, including the DIFS after each attempt, s.
    pub sending: f64,
    /// Σ λ E\[S\] of its sender.
    pub used: f64,
    /// Share of time in which its sender's queue is not empty.
    pub load: f64,
    /// Probability that a frame that arrives there over the air finds the queue non-empty.
    pub found: f64,
    /// Expected frames of each rival that collide with an opening frame.
    ///
    /// The index is the position in `Interference::rivals`.
    pub meets: Vec<f64>,
    /// Sum of `meets`.
    pub met: f64,
    /// Share of its frames that arrive at its sender over the air.
    pub via: f64,
    /// Share of the traffic hidden from that sender that crossed the link before.
    pub caused: f64,
    /// Shares of other links' frames that immediately follow others.
    ///
    /// By position in `Interference::rivals`: those after links that this link's ends sense. By
    /// position in `Interference::members`: those after links hidden from its sender. By bystander
    /// and its links: those after links that this link defers.
    pub rivals_follow: Vec<f64>,
    pub members_follow: Vec<f64>,
    pub bystanders_follow: Vec<f64>,
    /// Attempts per second of the sender's idle time while hidden links are off, and while on.
    pub attempt_rates: (f64, f64),
}

/// The fixed point.
#[derive(Clone, Debug)]
pub(super) struct FixedPoint {
    pub links: Vec<Link>,
    /// By stream.
    pub streams: Vec<Load>,
    /// Share of time on by user of the air, with the DIFS that follows.
    pub with: Vec<f64>,
    /// Share of time on by user, without that DIFS.
    pub bare: Vec<f64>,
    /// Exchanges per second by user.
    pub begun: Vec<f64>,
    /// Factors of the joint distribution.
    pub factor: Vec<f64>,
}

impl FixedPoint {
    /// Returns the state without collisions.
    pub fn start(model: &Model) -> Self {
        let users = model.network.members.len();
        let link = |(l, s): (&LinkSpec, &Interference)| Link {
            collisions: Collisions {
                span: 1e-3,
                idle: 1.0,
                idle_beside: 1.0,
                channel_loss: 1.0 - l.delivery,
                ..Collisions::default()
            },
            service: Service { attempts: 1.0, data: 1.0, ..Service::default() },
            meets: vec![0.0; s.rivals.len()],
            rivals_follow: vec![0.0; s.rivals.len()],
            members_follow: vec![0.0; s.members.len()],
            bystanders_follow: vec![0.0; s.bystanders.iter().map(|s| s.own.len()).sum()],
            ..Link::default()
        };
        FixedPoint {
            links: model.network.links.iter().zip(&model.interference).map(link).collect(),
            streams: vec![Load::default(); model.network.streams.len()],
            with: vec![0.0; users],
            bare: vec![0.0; users],
            begun: vec![0.0; users],
            factor: vec![0.0; users],
        }
    }
}
