//! What the engine offers controls, each tried by a control made for it.

mod acting;
mod airtime;
mod cna;
mod hearing;
mod mesh_maxmin;
mod messages;
mod pacing;
mod probe;
mod wcp;
mod wcpcap;
