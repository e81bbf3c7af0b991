// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "options.h"
#include "scenario.h"

#include "ns3/application.h"
#include "ns3/ipv4-address.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/packet-sink.h"
#include "ns3/random-variable-stream.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-socket-base.h"

#include <functional>
#include <vector>

namespace harness
{

/// UDP datagrams of one size at a mean interval; each gap is multiplied by U(1-spread, 1+spread).
class UdpSource : public ns3::Application
{
  public:
    static ns3::TypeId GetTypeId();
    ns3::Address to;
    uint32_t bytes = 0;
    ns3::Time gap;
    double spread = 0;
    ns3::Ptr<ns3::UniformRandomVariable> random; ///< needed only if spread > 0

  private:
    void StartApplication() override;
    void SendOne();

    ns3::Ptr<ns3::Socket> m_socket;
};

/// A running flow and what is measured of it.
class Flow
{
  public:
    explicit Flow(const FlowSpec& spec)
        : spec(spec)
    {
    }

    FlowSpec spec;
    uint64_t segments = 0; ///< TCP data segments handed to IP

    /// Segments beyond the first copy of each.
    uint64_t Retransmissions(uint32_t mss) const;

    /// Bit/s read by the sink since the warm-up ended.
    double GoodputBps(const Options& options) const;

  private:
    friend class Traffic;
    void CountSegment(ns3::Ptr<const ns3::Packet> packet,
                      const ns3::TcpHeader& header,
                      ns3::Ptr<const ns3::TcpSocketBase> socket);

    ns3::Ptr<ns3::PacketSink> m_sink;
    uint64_t m_bytesAtWarmUp = 0;
    uint64_t m_sentUpTo = 0; ///< bytes of the stream that have been sent at least once
};

/// Sources and sinks of all flows.
class Traffic
{
  public:
    Traffic(const Scenario& scenario,
            const Options& options,
            const ns3::NodeContainer& nodes,
            const std::function<ns3::Ipv4Address(NodeIndex)>& address);

    const std::vector<Flow>& Flows() const
    {
        return m_flows;
    }

  private:
    void StartTcp(Flow& flow, const ns3::Address& to, ns3::Ptr<ns3::Node> source);
    void StartUdp(Flow& flow, const ns3::Address& to, ns3::Ptr<ns3::Node> source);

    const Options& m_options;
    ns3::Ptr<ns3::UniformRandomVariable> m_startTime;
    std::vector<Flow> m_flows;
};

} // namespace harness
