//! Resources of this process.

/// CPU time and memory of the process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resources {
    /// CPU time of user and kernel, in s.
    pub cpu_s: f64,
    /// Resident memory, in bytes.
    pub resident: f64,
}

/// Reads the resources of this process; `None` without `/proc`.
pub fn resources() -> Option<Resources> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields behind the name in parentheses; clock ticks are hundredths of a second on Linux.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    let cpu_s = (ticks(11)? + ticks(12)?) / 100.0;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Resources { cpu_s, resident: kib * 1024.0 })
}
