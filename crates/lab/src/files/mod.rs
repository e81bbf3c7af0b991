//! Output files: Parquet tables, and files and folders that are complete or absent.

pub mod folder;
pub mod parquet;
pub mod results;
