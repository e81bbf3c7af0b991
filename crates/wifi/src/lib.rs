//! 802.11 airtime arithmetic, the DCF and the medium
