//! What the commands leave behind: tables on the terminal, JSON, Parquet and result folders.

pub mod folder;
pub mod json;
pub mod parquet;
pub mod table;
