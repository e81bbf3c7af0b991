// SPDX-License-Identifier: GPL-2.0-only
// Prints what ns-3.37 NistErrorRateModel makes of 12000 bits: crates/wifi/src/loss/snr/ns3.txt.
// g++ -std=c++17 error-rates.cc -o error-rates $(pkg-config --cflags --libs ns3-wifi ns3-core)
#include "ns3/core-module.h"
#include "ns3/wifi-module.h"
#include "ns3/nist-error-rate-model.h"
#include "ns3/ht-phy.h"
#include "ns3/vht-phy.h"
#include "ns3/he-phy.h"
#include "ns3/ofdm-phy.h"
using namespace ns3;
int main(){
  Ptr<NistErrorRateModel> m=CreateObject<NistErrorRateModel>();
  WifiTxVector tx;
  for(int mcs=0;mcs<12;mcs++){
    WifiMode mode = HePhy::GetHeMcs(mcs);
    for(double db=-2; db<=38; db+=1.0){
      double snr=std::pow(10.0,db/10);
      double ps=m->GetChunkSuccessRate(mode,tx,snr,8*1500);
      if(ps>1e-4 && ps<1-1e-6) printf("%d %.1f %.17g\n",mcs,db,ps);
    }
  }
  printf("ofdm\n");
  const char*names[]={"6","9","12","18","24","36","48","54"};
  for(int i=0;i<8;i++){ WifiMode mode=WifiMode(std::string("OfdmRate")+names[i]+"Mbps");
    for(double db=-2; db<=38; db+=1.0){double snr=std::pow(10.0,db/10); double ps=m->GetChunkSuccessRate(mode,tx,snr,8*1500); if(ps>1e-4 && ps<1-1e-6) printf("%s %.1f %.17g\n",names[i],db,ps);}}
}
