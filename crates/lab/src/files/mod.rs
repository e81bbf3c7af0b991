//! Files of results: Parquet, NetJSON, and files and folders that are complete or absent.

pub mod folder;
pub mod netjson;
pub mod parquet;
pub mod results;
pub mod runs;
