//! Codes of decisions between gateways, under the name of the mechanism that they run.

/// Stable codes of reasons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    pub shares: &'static str,
    pub joined: &'static str,
    pub silent: &'static str,
    pub limit: &'static str,
    pub follows: &'static str,
    pub leads: &'static str,
    pub refused: &'static str,
}

/// The codes of a mechanism.
macro_rules! codes {
    ($mechanism:literal) => {
        &$crate::gateway::peers::Codes {
            shares: concat!($mechanism, ".peer-shares"),
            joined: concat!($mechanism, ".peer-joined"),
            silent: concat!($mechanism, ".peer-silent"),
            limit: concat!($mechanism, ".peer-limit"),
            follows: concat!($mechanism, ".peer-follows"),
            leads: concat!($mechanism, ".peer-leads"),
            refused: concat!($mechanism, ".peer-refused"),
        }
    };
}

pub(crate) use codes;
