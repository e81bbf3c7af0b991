# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of reference.json and cost.json: scenario, options and number of seeds."""

from dataclasses import dataclass, field

RECEPTIONS = ("ns2", "sinr", "nocap", "stock")


@dataclass(frozen=True)
class Row:
    tag: str
    group: str
    scenario: str
    options: dict = field(default_factory=dict)  # options of the harness; what is absent has its default
    seeds: int = 5


LONG = dict(dur=200, warm=20)
MEDIUM = dict(dur=110, warm=10)
SHORT = dict(dur=60, warm=10)
STACK = dict(rate=11, mss=512, queue=64)
SACK_SUFFIX = {0: "", 1: "_sack"}

TCP_VARIANTS = {
    "sack": dict(sack=1),
    "delack": dict(delack=2),
    "wnd20": dict(wnd=20),
    "wnd4": dict(wnd=4),
    "minrto1": dict(minrto=1),
    "shipped": dict(fixreno=0),
}

# Topologies that were not used for tuning: (tag, scenario, options).
VARIED = [
    ("x_tree_ns2", "x_tree", {}),
    ("x_tree_nocap", "x_tree", dict(rx="nocap")),
    ("x_cross_ns2", "x_cross", {}),
    ("x_cross_sinr_2M", "x_cross", dict(rx="sinr", rate=2)),
    ("x_grid3_up_sinr", "x_grid3_up", dict(rx="sinr")),
    ("x_grid3_down_nocap", "x_grid3_down", dict(rx="nocap")),
    ("x_grid3_up_ns2_rts", "x_grid3_up", dict(rts=1)),
    ("x_parallel_nocap", "x_parallel", dict(rx="nocap")),
    ("x_parallel_ns2_11M", "x_parallel", dict(rate=11)),
    ("x_bidirectional_11M", "x_bidirectional", dict(rate=11, sack=1, delack=2)),
    ("x_ring8_ns2", "x_ring8", {}),
    ("x_mixed_sinr_2M", "x_mixed", dict(rx="sinr", rate=2, cbrspread=0.5)),
    ("x_hidden_ns2", "x_hidden", dict(csRange=300)),
    ("x_hidden_nocap_rts", "x_hidden", dict(csRange=300, rx="nocap", rts=1)),
    ("x_exposed_2M", "x_exposed", dict(rate=2)),
    ("x_star_rts", "x_star", dict(rts=1)),
    ("x_line_saturated_ns2", "x_line_saturated", {}),
    ("x_line_saturated_sinr", "x_line_saturated", dict(rx="sinr")),
    ("x_line_saturated_nocap", "x_line_saturated", dict(rx="nocap")),
    ("x_line_saturated_ns2_rts", "x_line_saturated", dict(rts=1)),
    ("x_rand12_saturated_ns2", "x_rand12_saturated", {}),
    ("x_rand12_saturated_sinr", "x_rand12_saturated", dict(rx="sinr")),
    ("x_rand12_saturated_nocap_rts", "x_rand12_saturated", dict(rx="nocap", rts=1)),
    ("x_rand15_ns2_2M", "x_rand15", dict(rate=2)),
    ("x_rand20_sinr", "x_rand20", dict(rx="sinr", cbrspread=0.5)),
    ("x_rand30_ns2_11M_rts", "x_rand30", dict(rate=11, rts=1)),
]


def reference_rows():
    for n in (2, 5, 10, 20, 50):
        yield Row(f"a_11M_n{n}", "a", f"a_sat_11M_n{n}", dict(rate=11, **SHORT))
        yield Row(f"a_1M_n{n}", "a", f"a_sat_1M_n{n}", MEDIUM)
    for rx in RECEPTIONS:
        for hops in range(1, 9):
            yield Row(f"b_{rx}_h{hops}", "b", f"b_chain_h{hops}", dict(rx=rx, **LONG))
    for name, variant in TCP_VARIANTS.items():
        for hops in range(1, 9):
            yield Row(f"bv_{name}_h{hops}", "bv", f"b_chain_h{hops}", {**variant, **LONG})
    for rx in ("ns2", "nocap"):
        for way in ("up", "down"):
            for sack, suffix in SACK_SUFFIX.items():
                yield Row(f"c_{rx}_{way}_tcp{suffix}", "c", f"c_{way}_tcp", dict(rx=rx, sack=sack, **LONG))
            for kbps in range(50, 401, 50):
                load = f"{way}_udp_{kbps}k"
                yield Row(f"c_{rx}_{load}", "cu", f"c_{load}", dict(rx=rx, **LONG))
                yield Row(f"cj_{rx}_{load}", "cj", f"c_{load}", dict(rx=rx, cbrspread=0.5, **LONG))
    for rts in (1, 0):
        for sack, suffix in SACK_SUFFIX.items():
            options = dict(rts=rts, sack=sack, dur=120, warm=20, **STACK)
            yield Row(f"d_stack_rts{rts}{suffix}", "d", "d_stack", options, seeds=10)
    for rx in ("ns2", "nocap"):
        for sack, suffix in SACK_SUFFIX.items():
            yield Row(f"e_{rx}{suffix}", "e", "e_grid6", dict(rx=rx, sack=sack, **LONG))
    for sack, suffix in SACK_SUFFIX.items():
        yield Row(f"f_rand100{suffix}", "f", "f_rand100", dict(rate=11, sack=sack, **SHORT))
    for name in ("m_single_250", "m_pairs_540", "m_pairs_560"):
        yield Row(name, "m", name, MEDIUM)
    for rx in RECEPTIONS:
        yield Row(f"m_hidden_400_{rx}", "m", "m_hidden_400", dict(rx=rx, **MEDIUM))
    for rts in (0, 1):
        yield Row(f"m_hidden_eq_rts{rts}", "m", "m_hidden_eq", dict(rts=rts, **MEDIUM))
    for tag, scenario, options in VARIED:
        yield Row(tag, "x", scenario, {**options, **MEDIUM})


# Cost rows: seed 1 only. The figures were recorded once, for orientation; see README.md.
# (row, nodes, transmissions/s, events/s, simulated s per CPU s of the Debian library, of an optimized build)
def cost_rows():
    chain = dict(dur=400, warm=20)
    timed_stack = dict(dur=60, warm=20, **STACK)
    mesh = dict(rate=11, dur=20, warm=10)
    for tag, scenario, options, nodes, tx, events, debian, optimized in (
        ("a_11M_n10", "a_sat_11M_n10", dict(rate=11, **SHORT), 11, 1175, 82272, 15.5, 18.2),
        ("a_11M_n50", "a_sat_11M_n50", mesh, 51, 1218, 353117, 3.7, 4.3),
        ("a_1M_n10", "a_sat_1M_n10", MEDIUM, 11, 153, 10806, 119.2, 142.4),
        ("b_ns2_h1", "b_chain_h1", chain, 2, 272, 3306, 296.5, 363.5),
        ("b_ns2_h4", "b_chain_h4", chain, 5, 291, 6534, 171.1, 206.9),
        ("b_ns2_h8", "b_chain_h8", chain, 9, 409, 11450, 107.3, 128.0),
        ("b_stock_h4", "b_chain_h4", dict(rx="stock", **chain), 5, 304, 5796, 186.2, 224.8),
        ("c_ns2_up_tcp", "c_up_tcp", chain, 4, 282, 6058, 182.3, 221.1),
        ("c_ns2_up_udp_200k", "c_up_udp_200k", chain, 4, 152, 3431, 342.3, 403.1),
        ("d_stack_rts1", "d_stack", dict(rts=1, **timed_stack), 9, 5147, 113605, 11.9, 14.0),
        ("d_stack_rts0", "d_stack", dict(rts=0, **timed_stack), 9, 3895, 85700, 14.7, 17.5),
        ("e_ns2", "e_grid6", LONG, 36, 385, 33514, 43.3, 50.2),
        ("f_rand100", "f_rand100", mesh, 100, 2867, 564721, 2.8, 3.3),
        ("f_rand100_prune", "f_rand100", dict(prune=1, **mesh), 100, 2867, 341501, 3.3, 3.9),
    ):
        recorded = dict(
            nodes=nodes,
            transmissions_per_s=tx,
            events_per_s=events,
            simulated_per_cpu_debian=debian,
            simulated_per_cpu_optimized=optimized,
        )
        yield Row(tag, "cost", scenario, options, seeds=1), recorded
