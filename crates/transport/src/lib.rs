//! Sans-IO TCP and UDP endpoints and the traffic that drives them
