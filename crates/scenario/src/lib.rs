//! Scenario files (TOML, NetJSON, meshviewer) into a validated world
