//! The fairness mechanisms, one file each, behind one trait
