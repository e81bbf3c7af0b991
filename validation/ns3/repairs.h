// SPDX-License-Identifier: GPL-2.0-only
//
// Two defects of ns-3.37 that would make a comparison meaningless, repaired from outside.
//
// 1. TCP without SACK. ns-3 books each duplicate ACK as a guessed "SACKed" segment. The guesses
//    survive recovery, and when a guessed segment becomes the head of the buffer it is declared
//    lost whatever the state is. On a lossless link every segment is then sent twice, for ever.
//    Repair: guesses are dropped when the sender returns to the open state, and a guess at the head
//    is moved on without declaring a loss.
// 2. RTS retries. A missing CTS counts in the short retry counter, but the decision to give up looks
//    at the long one, so such a frame is retried for ever.
//    Repair: the 7th consecutive RTS without CTS drops the frame.
#pragma once

#include "ns3/constant-rate-wifi-manager.h"
#include "ns3/tcp-congestion-ops.h"

namespace harness
{

/// NewReno that forgets guessed SACK marks on return to the open state.
class RepairedNewReno : public ns3::TcpNewReno
{
  public:
    static ns3::TypeId GetTypeId();
    void CongestionStateSet(ns3::Ptr<ns3::TcpSocketState> state,
                            const ns3::TcpSocketState::TcpCongState_t next) override;
    ns3::Ptr<ns3::TcpCongestionOps> Fork() override;
};

/// Constant rates, and a limit on RTS attempts. ns-3 keeps its retry counters per node; so do we.
class RtsLimitManager : public ns3::ConstantRateWifiManager
{
  public:
    static ns3::TypeId GetTypeId();

  private:
    void DoReportRtsFailed(ns3::WifiRemoteStation*) override;
    void DoReportRtsOk(ns3::WifiRemoteStation*, double, ns3::WifiMode, double) override;
    void DoReportFinalRtsFailed(ns3::WifiRemoteStation*) override;
    bool DoNeedRetransmission(ns3::WifiRemoteStation*,
                              ns3::Ptr<const ns3::Packet>,
                              bool withinLongLimit) override;

    static constexpr uint32_t LIMIT = 7;
    uint32_t m_failures = 0; ///< consecutive RTS without CTS
};

/// Switches the TCP repair on or off; call once, before the run.
void ConfigureTcpRepair(bool enabled, bool sack);

} // namespace harness
