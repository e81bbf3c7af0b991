//! The Linux side of fairmesh, and the only place with system calls.

pub mod netns;
pub mod realtime;
pub mod tap;
pub mod tcp;
