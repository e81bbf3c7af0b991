//! Nodes, links, wires, interferers, control.

use super::Case;

pub const CASES: &[Case] = &[
    // Nodes and links.
    (
        "[4, 5]",
        "[4, 4]",
        "test.toml:6: topology.links[2]: node \"4\" is linked to itself; expected two different nodes",
    ),
    (
        "[4, 5]",
        "[2, 1]",
        "test.toml:6: topology.links[2]: the link 2 to 1 is given twice; expected each link once",
    ),
    (
        "[4, 5]",
        "[-4, 5]",
        "test.toml:6: topology.links[2][0]: found integer `-4`; expected a node's name",
    ),
    (
        "[4, 5]",
        "[1.5, 5]",
        "test.toml:6: topology.links[2][0]: found floating point `1.5`; expected a node's name",
    ),
    (
        "[4, 5]",
        "{ from = 4, to = 5, delivery = 0 }",
        "test.toml:6: topology.links[2].delivery: 0 is out of range; expected a probability above 0",
    ),
    (
        "[4, 5]",
        "{ from = 4, to = 5, delivery = nan }",
        "test.toml:6: topology.links[2].delivery: NaN is out of range",
    ),
    (
        "[4, 5]",
        "{ from = 4, to = 5, rate = \"54 Mbit/s\" }",
        "test.toml:6: topology.links[2].rate: the PHY has no rate of 54 Mbit/s",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\n[[node]]\nid = \"1\"\n[[flow]]",
        "test.toml:10: node[1].id: node \"1\" is declared twice; expected each name once",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nposition = [nan, 0]\n[[flow]]",
        "test.toml:9: node[0].position: NaN is out of range; expected coordinates",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nposition = [inf, 0]\n[[flow]]",
        "test.toml:9: node[0].position: inf is out of range",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nkind = \"wired\"\n[[flow]]",
        "test.toml:9: node[0].kind: \"1\" is a wireless node of the topology",
    ),
    (
        "[[flow]]",
        "[[link]]\nfrom = 1\nto = 3\n[[flow]]",
        "test.toml:7: link[0]: there is no link 1 to 3; expected two nodes that decode each other",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\ngateway = 9",
        "test.toml:7: topology.gateway: there is no node \"9\"; expected a node of the topology",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\nsenses = [[1, 9]]",
        "test.toml:7: topology.senses[0]: there is no node \"9\"",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\nsense_hops = 3",
        "test.toml:7: topology.sense_hops: 3 is out of range; expected 1 or 2",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\nchain = { hops = 2 }",
        "test.toml:6: topology.links: `chain` and `links` together; expected one layout",
    ),
    (
        "[radio]",
        "[radio]\nprofile = \"ns2\"",
        "test.toml:4: radio.profile: explicit links have no distances; expected `profile = \"graph\"`",
    ),
    (
        "[radio]",
        "[radio]\ndecode = \"90 m\"",
        "test.toml:4: radio.decode: explicit links have no range",
    ),
    // Wires, interferers, control.
    (
        "[[flow]]",
        "[[wire]]\nfrom = 1\nto = \"srv\"\n[[flow]]",
        "test.toml:9: wire[0].to: there is no node \"srv\"",
    ),
    (
        "[[flow]]",
        "[wired]\nhosts = [\"a\"]\n[[flow]]",
        "test.toml:7: wired: the hosts are joined to nothing; expected `at`, or `topology.gateway`",
    ),
    (
        "[[flow]]",
        "[wired]\nhosts = [\"a\", 1]\nat = 2\n[[flow]]",
        "test.toml:8: wired.hosts[1]: node \"1\" is declared twice",
    ),
    (
        "[[flow]]",
        "[[interferer]]\nduty = 0.5\n[[flow]]",
        "test.toml:7: interferer[0]: the nodes that sense it are not given; expected either `nodes` or `position`",
    ),
    (
        "[[flow]]",
        "[[interferer]]\nduty = 1.5\nnodes = [1]\n[[flow]]",
        "test.toml:8: interferer[0].duty: 1.5 is out of range",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"magic\"\n[[flow]]",
        "test.toml:8: control.use: there is no control \"magic\"; expected one of fifo, ",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nepoch = 3\n[[flow]]",
        "test.toml:9: control.epoch: unknown key; expected one of use",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nepoch = \"x\"\n[[flow]]",
        "test.toml:9: control.epoch: found string \"x\"; expected a number without a unit",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nagents = [1, 9]\n[[flow]]",
        "test.toml:9: control.agents[1]: there is no node \"9\"",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nnodes = [1, 9]\n[[flow]]",
        "test.toml:9: control.nodes[1]: there is no node \"9\"",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\ngateway = \"best\"\n[[flow]]",
        "test.toml:9: control.gateway: there is no control \"best\"; expected one of fifo, ",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\ngateway = 1\n[[flow]]",
        "test.toml:9: control.gateway: found integer `1`",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\ngateway = \"rtt\"\n[[flow]]",
        "test.toml:9: control.gateway: there is no gateway; expected topology.gateway to name one",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"rtt\"\nfairness = \"equal\"\n[[flow]]",
        "test.toml:9: control.fairness: found string \"equal\"; expected \"max-min\", \"proportional\" or { alpha = NUMBER }",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"rtt\"\nfairness = { alpha = 0.1 }\n[[flow]]",
        "test.toml:9: control.fairness: 0.1 is out of range; expected 0.5 to 100",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"rtt\"\nalpha_fairness = 2\nfairness = \"max-min\"\n[[flow]]",
        "test.toml:10: control.fairness: `alpha_fairness` and `fairness` are both set; expected one of them",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"pfrc\"\nfairness = \"max-min\"\n[[flow]]",
        "test.toml:9: control.fairness: unknown key; expected one of ",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nagents = [1, 1]\n[[flow]]",
        "test.toml:9: control.agents[1]: 1 twice; expected every node once",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nagents = 5\n[[flow]]",
        "test.toml:9: control.agents: found integer `5`",
    ),
];
