//! The engine's services for controls, each tested by a control written for it.

mod acting;
mod airtime;
mod cna;
mod delivery;
mod mesh_maxmin;
mod messages;
mod pacing;
mod probe;
mod reception;
mod wcp;
mod wcpcap;
