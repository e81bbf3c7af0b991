// SPDX-License-Identifier: GPL-2.0-only
#include "repairs.h"

#include "interpose.h"

#include "ns3/tcp-tx-buffer.h"

using namespace ns3;

namespace harness
{

namespace
{

bool g_repair = true;

/// The buffer that got the latest ACK. ns-3 changes a sender's congestion state while it processes
/// an ACK, after the buffer has seen it; the congestion module has no other way to the buffer.
TcpTxBuffer* g_ackedBuffer = nullptr;

} // namespace

void
ConfigureTcpRepair(bool enabled, bool sack)
{
    g_repair = enabled && !sack;
}

TypeId
RepairedNewReno::GetTypeId()
{
    static TypeId id = TypeId("harness::RepairedNewReno")
                           .SetParent<TcpNewReno>()
                           .AddConstructor<RepairedNewReno>();
    return id;
}

void
RepairedNewReno::CongestionStateSet(Ptr<TcpSocketState>,
                                    const TcpSocketState::TcpCongState_t next)
{
    if (g_repair && next == TcpSocketState::CA_OPEN && g_ackedBuffer)
    {
        g_ackedBuffer->ResetRenoSack();
    }
}

Ptr<TcpCongestionOps>
RepairedNewReno::Fork()
{
    return CopyObject<RepairedNewReno>(this);
}

NS_OBJECT_ENSURE_REGISTERED(RtsLimitManager);

TypeId
RtsLimitManager::GetTypeId()
{
    static TypeId id = TypeId("harness::RtsLimitManager")
                           .SetParent<ConstantRateWifiManager>()
                           .AddConstructor<RtsLimitManager>();
    return id;
}

void
RtsLimitManager::DoReportRtsFailed(WifiRemoteStation*)
{
    m_failures++;
}

void
RtsLimitManager::DoReportRtsOk(WifiRemoteStation*, double, WifiMode, double)
{
    m_failures = 0;
}

void
RtsLimitManager::DoReportFinalRtsFailed(WifiRemoteStation*)
{
    m_failures = 0;
}

bool
RtsLimitManager::DoNeedRetransmission(WifiRemoteStation*,
                                      Ptr<const Packet>,
                                      bool withinLongLimit)
{
    return withinLongLimit && m_failures < LIMIT;
}

} // namespace harness

namespace ns3
{

// Before the library drops what `ack` covers, the segment that will become the head loses its guessed
// mark, so that the library finds nothing to declare lost; the guess then moves to a later segment.
void
TcpTxBuffer::DiscardUpTo(const SequenceNumber32& ack, const Callback<void, TcpTxItem*>& onDiscard)
{
    using Original = void (*)(TcpTxBuffer*,
                              const SequenceNumber32&,
                              const Callback<void, TcpTxItem*>&);
    static const auto original = harness::NextDefinition<Original>(
        "_ZN3ns311TcpTxBuffer11DiscardUpToE"
        "RKNS_14SequenceNumberIjiEERKNS_8CallbackIvJPNS_9TcpTxItemEEEE");
    harness::g_ackedBuffer = this;

    bool headWasGuessed = false;
    if (harness::g_repair && ack > m_firstByteSeq.Get())
    {
        for (TcpTxItem* item : m_sentList)
        {
            const uint32_t size = item->m_packet->GetSize();
            if (item->m_startSeq + size > ack)
            {
                headWasGuessed = item->m_sacked;
                if (headWasGuessed)
                {
                    item->m_sacked = false;
                    m_sackedOut -= size;
                }
                break;
            }
        }
    }
    original(this, ack, onDiscard);
    if (headWasGuessed)
    {
        AddRenoSack();
    }
}

} // namespace ns3
