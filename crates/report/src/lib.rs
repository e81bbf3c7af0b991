//! Reports of the laboratory's results: text tables, pages, charts and drawings.

pub mod brief;
pub mod capacity;
pub mod explorer;
pub mod html;
pub mod layout;
pub mod palette;
pub mod rate_changes;
pub mod results;
pub mod settings;
pub mod stalls;
pub mod sweep;
pub mod table;
pub mod text;
pub mod topology;
