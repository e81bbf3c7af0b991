//! Changes during a run.

use super::Case;

pub const CASES: &[Case] = &[
    // Rates that change.
    (
        "to = 3\n",
        "to = 3\n[[rate_change]]\nat = \"5 s\"\nfrom = 1\nto = 3\nrate = \"2 Mbit/s\"\n",
        "test.toml:10: rate_change[0]: 3 does not decode 1; expected two ends of a link",
    ),
    (
        "to = 3\n",
        "to = 3\n[[rate_change]]\nat = \"5 s\"\nfrom = 1\nto = 2\nrate = \"3 Mbit/s\"\n",
        "test.toml:14: rate_change[0].rate: ",
    ),
    (
        "to = 3\n",
        "to = 3\n[[rate_change]]\nfrom = 1\nto = 2\nrate = \"2 Mbit/s\"\n",
        "test.toml:10: rate_change[0]: `at` is missing; expected it to be given",
    ),
    // Routes that change, and interferers that end.
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"5 s\"\nflow = \"1->4\"\npath = [1, 2, 3]\n",
        "test.toml:12: route_change[0].flow: no flow is called \"1->4\"; expected the name of a flow",
    ),
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"5 s\"\nflow = \"1->3\"\npath = [1, 3]\n",
        "test.toml:13: route_change[0].path[1]: ",
    ),
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"5 s\"\nflow = \"1->3\"\npath = [1, 2]\n",
        "test.toml:13: route_change[0].path: the path does not join the flow's ends",
    ),
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"60 s\"\nflow = \"1->3\"\npath = [1, 2, 3]\n",
        "test.toml:11: route_change[0].at: 60 s is out of range; expected a time before the end of the run",
    ),
    (
        "to = 3\n",
        "to = 3\n[[interferer]]\nnodes = [1]\nduty = 0.3\nstart = \"9 s\"\nstop = \"9 s\"\n",
        "test.toml:14: interferer[0].stop: ",
    ),
];
