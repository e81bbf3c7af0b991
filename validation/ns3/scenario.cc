// SPDX-License-Identifier: GPL-2.0-only
#include "scenario.h"

#include <fstream>
#include <limits>
#include <queue>
#include <sstream>
#include <stdexcept>

namespace harness
{

namespace
{

constexpr uint32_t UNREACHED = std::numeric_limits<uint32_t>::max();

std::vector<uint32_t>
HopsTo(NodeIndex destination, const std::vector<std::vector<NodeIndex>>& neighbours)
{
    std::vector<uint32_t> hops(neighbours.size(), UNREACHED);
    std::queue<NodeIndex> frontier;
    hops[destination] = 0;
    frontier.push(destination);
    while (!frontier.empty())
    {
        const NodeIndex at = frontier.front();
        frontier.pop();
        for (const NodeIndex next : neighbours[at])
        {
            if (hops[next] == UNREACHED)
            {
                hops[next] = hops[at] + 1;
                frontier.push(next);
            }
        }
    }
    return hops;
}

/// The three kinds of line; false if the line is none of them or incomplete.
bool
ParseLine(const std::string& line, Scenario& into)
{
    std::istringstream in(line);
    std::string kind;
    if (!(in >> kind) || kind.front() == '#')
    {
        return true;
    }
    if (kind == "node")
    {
        size_t id;
        Position at;
        if (!(in >> id >> at.x >> at.y) || id != into.nodes.size())
        {
            return false;
        }
        into.nodes.push_back(at);
        return true;
    }
    const auto known = [&into](NodeIndex n) { return n < into.nodes.size(); };
    if (kind == "link")
    {
        NodeIndex a;
        NodeIndex b;
        if (!(in >> a >> b) || !known(a) || !known(b) || a == b)
        {
            return false;
        }
        into.links.emplace_back(a, b);
        return true;
    }
    if (kind == "flow")
    {
        std::string protocol;
        FlowSpec flow{};
        if (!(in >> protocol >> flow.source >> flow.destination) || !known(flow.source) ||
            !known(flow.destination) || flow.source == flow.destination)
        {
            return false;
        }
        flow.tcp = protocol == "tcp";
        if (!flow.tcp && (protocol != "udp" || !(in >> flow.rateBps) || flow.rateBps <= 0))
        {
            return false;
        }
        into.flows.push_back(flow);
        return true;
    }
    return false;
}

} // namespace

Scenario
Scenario::Load(const std::string& path)
{
    std::ifstream file(path);
    if (!file)
    {
        throw std::runtime_error(path + ": cannot open");
    }
    Scenario scenario;
    std::string line;
    for (unsigned number = 1; std::getline(file, line); number++)
    {
        if (!ParseLine(line, scenario))
        {
            throw std::runtime_error(path + ":" + std::to_string(number) + ": cannot read: " + line);
        }
    }
    return scenario;
}

Routes::Routes(const std::vector<std::vector<NodeIndex>>& neighbours,
               const std::vector<FlowSpec>& flows)
{
    for (const FlowSpec& flow : flows)
    {
        const auto hops = HopsTo(flow.destination, neighbours);
        if (hops[flow.source] == UNREACHED)
        {
            throw std::runtime_error("no path from node " + std::to_string(flow.source) +
                                     " to node " + std::to_string(flow.destination));
        }
        std::vector<NodeIndex> path{flow.source};
        while (path.back() != flow.destination)
        {
            const NodeIndex from = path.back();
            for (const NodeIndex next : neighbours[from])
            {
                if (hops[next] + 1 == hops[from])
                {
                    path.push_back(next);
                    break;
                }
            }
            const NodeIndex to = path.back();
            // emplace keeps a route that an earlier flow has fixed.
            m_nextHops.emplace(std::make_pair(from, flow.destination), to);
            m_nextHops.emplace(std::make_pair(to, flow.source), from);
        }
        m_paths.push_back(std::move(path));
    }
}

} // namespace harness
