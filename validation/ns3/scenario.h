// SPDX-License-Identifier: GPL-2.0-only
//
// A scenario file and the routes over it. No ns-3 in here.
//
//   node <id> <x> <y>              metres; ids are 0..N-1 in order
//   link <a> <b>                   if any link is given, links replace geometry (see radio.h)
//   flow tcp <src> <dst>           infinite source
//   flow udp <src> <dst> <bit/s>   constant bit rate of UDP payload
//   # comment
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace harness
{

using NodeIndex = uint32_t;

struct Position
{
    double x;
    double y;
};

struct FlowSpec
{
    bool tcp;
    NodeIndex source;
    NodeIndex destination;
    double rateBps; ///< UDP only
};

struct Scenario
{
    std::vector<Position> nodes;
    std::vector<std::pair<NodeIndex, NodeIndex>> links;
    std::vector<FlowSpec> flows;

    /// Reads a file; throws std::runtime_error naming file and line.
    static Scenario Load(const std::string& path);
};

/// Static shortest-hop routes. Ties go to the lowest-numbered neighbour that is one hop nearer the
/// flow's destination; the reverse direction uses the same path. The first flow that needs a route
/// from a node to a destination fixes it.
class Routes
{
  public:
    /// `neighbours[n]` must be sorted. Throws std::runtime_error if a flow has no path.
    Routes(const std::vector<std::vector<NodeIndex>>& neighbours,
           const std::vector<FlowSpec>& flows);

    /// Nodes from source to destination, both included.
    const std::vector<NodeIndex>& Path(size_t flow) const
    {
        return m_paths[flow];
    }

    /// (node, destination) -> next hop.
    const std::map<std::pair<NodeIndex, NodeIndex>, NodeIndex>& NextHops() const
    {
        return m_nextHops;
    }

  private:
    std::vector<std::vector<NodeIndex>> m_paths;
    std::map<std::pair<NodeIndex, NodeIndex>, NodeIndex> m_nextHops;
};

} // namespace harness
