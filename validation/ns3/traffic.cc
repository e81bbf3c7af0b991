// SPDX-License-Identifier: GPL-2.0-only
#include "traffic.h"

#include "ns3/application-container.h"
#include "ns3/bulk-send-application.h"
#include "ns3/bulk-send-helper.h"
#include "ns3/inet-socket-address.h"
#include "ns3/packet-sink-helper.h"
#include "ns3/simulator.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <algorithm>

using namespace ns3;

namespace harness
{

TypeId
UdpSource::GetTypeId()
{
    static TypeId id =
        TypeId("harness::UdpSource").SetParent<Application>().AddConstructor<UdpSource>();
    return id;
}

void
UdpSource::StartApplication()
{
    m_socket = Socket::CreateSocket(GetNode(), UdpSocketFactory::GetTypeId());
    m_socket->Bind();
    m_socket->Connect(to);
    SendOne();
}

void
UdpSource::SendOne()
{
    m_socket->Send(Create<Packet>(bytes));
    const double factor = spread > 0 ? random->GetValue(1 - spread, 1 + spread) : 1;
    Simulator::Schedule(Seconds(gap.GetSeconds() * factor), &UdpSource::SendOne, this);
}

uint64_t
Flow::Retransmissions(uint32_t mss) const
{
    return segments - (m_sentUpTo + mss - 1) / mss;
}

double
Flow::GoodputBps(const Options& options) const
{
    return (m_sink->GetTotalRx() - m_bytesAtWarmUp) * 8.0 / (options.dur - options.warm);
}

void
Flow::CountSegment(Ptr<const Packet> packet,
                   const TcpHeader& header,
                   Ptr<const TcpSocketBase>)
{
    const uint32_t bytes = packet->GetSize();
    if (bytes > 0)
    {
        segments++;
        // The first byte of the stream has sequence number 1.
        const uint64_t end = uint64_t{header.GetSequenceNumber().GetValue()} + bytes - 1;
        m_sentUpTo = std::max(m_sentUpTo, end);
    }
}

Traffic::Traffic(const Scenario& scenario,
                 const Options& options,
                 const NodeContainer& nodes,
                 const std::function<Ipv4Address(NodeIndex)>& address)
    : m_options(options),
      m_startTime(CreateObject<UniformRandomVariable>()),
      m_flows(scenario.flows.begin(), scenario.flows.end())
{
    uint16_t port = 5000;
    for (Flow& flow : m_flows)
    {
        PacketSinkHelper sink(flow.spec.tcp ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
        flow.m_sink =
            DynamicCast<PacketSink>(sink.Install(nodes.Get(flow.spec.destination)).Get(0));
        flow.m_sink->SetStartTime(Seconds(0));

        const InetSocketAddress to(address(flow.spec.destination), port);
        const Ptr<Node> source = nodes.Get(flow.spec.source);
        if (flow.spec.tcp)
        {
            StartTcp(flow, to, source);
        }
        else
        {
            StartUdp(flow, to, source);
        }
        Simulator::Schedule(Seconds(options.warm), [&flow]() {
            flow.m_bytesAtWarmUp = flow.m_sink->GetTotalRx();
        });
        port++;
    }
}

void
Traffic::StartTcp(Flow& flow, const Address& to, Ptr<Node> source)
{
    BulkSendHelper helper("ns3::TcpSocketFactory", to);
    helper.SetAttribute("SendSize", UintegerValue(m_options.mss));
    const auto sender = DynamicCast<BulkSendApplication>(helper.Install(source).Get(0));
    const Time start = Seconds(m_startTime->GetValue(0, m_options.jitter));
    sender->SetStartTime(start);
    // The socket exists from `start` on; data follows the handshake.
    Simulator::Schedule(start + NanoSeconds(1), [sender, &flow]() {
        sender->GetSocket()->TraceConnectWithoutContext("Tx",
                                                        MakeCallback(&Flow::CountSegment, &flow));
    });
}

void
Traffic::StartUdp(Flow& flow, const Address& to, Ptr<Node> source)
{
    const double gap = m_options.pkt * 8.0 / flow.spec.rateBps;
    auto sender = CreateObject<UdpSource>();
    sender->to = to;
    sender->bytes = m_options.pkt;
    sender->gap = Seconds(gap);
    sender->spread = m_options.cbrspread;
    if (sender->spread > 0)
    {
        sender->random = CreateObject<UniformRandomVariable>();
    }
    source->AddApplication(sender);
    // Phases are uniform over a gap even where the gap is longer than the jitter.
    const double latest = std::max(m_options.jitter, gap);
    sender->SetStartTime(Seconds(m_startTime->GetValue(0, latest)));
}

} // namespace harness
