//! What the kernel says of this process.

/// CPU seconds and bytes of memory of this process.
pub(super) fn resources() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses; clock ticks are hundredths of a second on Linux.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    let cpu = (ticks(11)? + ticks(12)?) / 100.0;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((cpu, kib * 1024.0))
}
