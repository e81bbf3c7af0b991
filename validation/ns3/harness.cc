// SPDX-License-Identifier: GPL-2.0-only
//
// Runs one scenario with one seed in ns-3.37 and prints one line of JSON. See README.md.
#include "network.h"
#include "options.h"
#include "radio.h"
#include "repairs.h"
#include "scenario.h"
#include "traffic.h"

#include "ns3/command-line.h"
#include "ns3/nstime.h"
#include "ns3/simulator.h"

#include <chrono>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>

#include <sys/resource.h>
#include <unistd.h>

using namespace harness;

namespace
{

Options
Parse(int argc, char** argv)
{
    Options o;
    ns3::CommandLine line;
    line.AddValue("scen", "scenario file", o.scen);
    line.AddValue("tag", "label copied to the output", o.tag);
    line.AddValue("seed", "seed", o.seed);
    line.AddValue("dur", "simulated seconds", o.dur);
    line.AddValue("warm", "seconds left out of the goodput", o.warm);
    line.AddValue("jitter", "flows start in [0, jitter] s", o.jitter);
    line.AddValue("rx", "reception model: ns2, sinr, nocap, stock", o.rx);
    line.AddValue("rxRange", "decode range, m", o.rxRange);
    line.AddValue("csRange", "sensing range, m", o.csRange);
    line.AddValue("cp", "capture (SINR) threshold, dB", o.cp);
    line.AddValue("rate", "data rate, Mb/s: 1, 2, 11", o.rate);
    line.AddValue("rts", "1: RTS/CTS", o.rts);
    line.AddValue("queue", "interface queue, packets", o.queue);
    line.AddValue("pkt", "UDP payload, bytes", o.pkt);
    line.AddValue("cbrspread", "UDP gaps times U(1-s, 1+s)", o.cbrspread);
    line.AddValue("mss", "TCP segment, bytes", o.mss);
    line.AddValue("sack", "1: TCP SACK", o.sack);
    line.AddValue("delack", "segments per TCP ACK", o.delack);
    line.AddValue("initcwnd", "initial TCP window, segments", o.initcwnd);
    line.AddValue("wnd", "most outstanding segments, 0: no limit", o.wnd);
    line.AddValue("minrto", "TCP minimum RTO, s", o.minrto);
    line.AddValue("fixreno", "0: SACK-less TCP as shipped", o.fixreno);
    line.AddValue("prune", "1: skip receivers out of range", o.prune);
    line.AddValue("trace", "file for one line per transmission", o.trace);
    line.Parse(argc, argv);
    if (!std::set<std::string>{"ns2", "sinr", "nocap", "stock"}.count(o.rx))
    {
        throw std::runtime_error("--rx: ns2, sinr, nocap or stock, not " + o.rx);
    }
    if (!std::set<uint32_t>{1, 2, 11}.count(o.rate))
    {
        throw std::runtime_error("--rate: 1, 2 or 11");
    }
    if (o.warm >= o.dur)
    {
        throw std::runtime_error("--warm must be below --dur");
    }
    return o;
}

double
Seconds(const timeval& t)
{
    return t.tv_sec + t.tv_usec * 1e-6;
}

/// What the simulation loop cost.
struct Cost
{
    double user;
    double system;
    double wall;
    uint64_t events;
    long peakRssKb;
};

Cost
RunSimulation(double seconds)
{
    ns3::Simulator::Stop(ns3::Seconds(seconds));
    rusage before;
    rusage after;
    getrusage(RUSAGE_SELF, &before);
    const auto start = std::chrono::steady_clock::now();
    ns3::Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    getrusage(RUSAGE_SELF, &after);
    return {Seconds(after.ru_utime) - Seconds(before.ru_utime),
            Seconds(after.ru_stime) - Seconds(before.ru_stime),
            wall.count(),
            ns3::Simulator::GetEventCount(),
            after.ru_maxrss};
}

std::string
Report(const Options& o,
       const Scenario& scenario,
       const Routes& routes,
       const std::vector<Flow>& flows,
       const Counters& counters,
       const Cost& cost)
{
    std::ostringstream json;
    json.precision(10);
    json << "{\"tag\":\"" << o.tag << "\",\"scen\":\"" << o.scen << "\",\"seed\":" << o.seed
         << ",\"dur\":" << o.dur << ",\"warm\":" << o.warm << ",\"rx\":\"" << o.rx
         << "\",\"rate\":" << o.rate << ",\"rts\":" << o.rts << ",\"queue\":" << o.queue
         << ",\"pkt\":" << o.pkt << ",\"cbrspread\":" << o.cbrspread << ",\"mss\":" << o.mss
         << ",\"sack\":" << o.sack << ",\"delack\":" << o.delack << ",\"wnd\":" << o.wnd
         << ",\"minrto\":" << o.minrto << ",\"fixreno\":" << o.fixreno << ",\"prune\":" << o.prune
         << ",\"nodes\":" << scenario.nodes.size() << ",\"flows\":[";
    double sum = 0;
    for (size_t i = 0; i < flows.size(); i++)
    {
        const Flow& flow = flows[i];
        const double goodput = flow.GoodputBps(o);
        sum += goodput;
        json << (i ? "," : "") << "{\"p\":\"" << (flow.spec.tcp ? "tcp" : "udp")
             << "\",\"src\":" << flow.spec.source << ",\"dst\":" << flow.spec.destination
             << ",\"hops\":" << routes.Path(i).size() - 1 << ",\"bps\":" << goodput;
        if (flow.spec.tcp)
        {
            json << ",\"segs\":" << flow.segments
                 << ",\"retx\":" << flow.Retransmissions(o.mss);
        }
        json << "}";
    }
    json << "],\"sum_bps\":" << sum << ",\"transmissions\":" << counters.transmissions
         << ",\"retry_drops\":" << counters.retryDrops
         << ",\"queue_drops\":" << counters.queueDrops << ",\"events\":" << cost.events
         << ",\"user_s\":" << cost.user << ",\"sys_s\":" << cost.system
         << ",\"wall_s\":" << cost.wall << ",\"maxrss_kb\":" << cost.peakRssKb << "}";
    return json.str();
}

} // namespace

int
main(int argc, char** argv)
{
    try
    {
        const Options options = Parse(argc, argv);
        const Scenario scenario = Scenario::Load(options.scen);
        SetDefaults(options);
        ConfigureRadio(options);
        ConfigureTcpRepair(options.fixreno != 0, options.sack != 0);
        const Powers powers(scenario, options);
        const Routes routes(powers.Neighbours(), scenario.flows);
        const Network network(scenario, options, powers, routes);
        const Traffic traffic(scenario, options, network.Nodes(), &Network::Address);
        const Cost cost = RunSimulation(options.dur);
        std::cout << Report(options, scenario, routes, traffic.Flows(), network.Totals(), cost)
                  << std::endl;
    }
    catch (const std::exception& error)
    {
        std::cerr << "harness: " << error.what() << std::endl;
        _exit(1);
    }
    _exit(0); // ns-3's tear-down takes longer than many of the runs
}
