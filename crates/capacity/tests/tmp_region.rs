include!("region.rs");
#[test]
fn tmp() {
    let udp = Traffic::udp(512, true);
    let ch: &[(&[(u32,u32)], &[&[u32]])] = &[
      (&[(1,2)], &[&[1,2]]),
      (&[(1,2),(2,3)], &[&[1,2,3]]),
      (&[(1,2),(2,3),(3,4)], &[&[1,2,3,4]]),
      (&[(1,2),(2,3),(3,4),(4,5)], &[&[1,2,3,4,5]]),
      (&[(1,2),(2,3),(3,4),(4,5),(5,6),(6,7)], &[&[1,2,3,4,5,6,7]]),
      (&[(1,2),(2,3),(3,4)], &[&[1,2],&[4,3]]),
      (&[(1,2),(2,3),(3,4)], &[&[2,1],&[3,4]]),
      (&[(1,2),(2,3),(3,4)], &[&[1,2],&[3,4]]),
      (&[(1,2),(2,3)], &[&[1,2],&[3,2]]),
      (&[(1,2),(2,3),(3,4)], &[&[1,2],&[2,3],&[3,4]]),
      (&[(1,2),(2,3),(3,4),(4,5)], &[&[1,2,3],&[5,4,3]]),
    ];
    for (links, paths) in ch {
        let t = Topology { links, paths };
        let mut r = region(&t, Access::RtsCts, udp);
        let p = r.max_min();
        println!("{:?} {:?}", paths, p.rates.iter().map(|r| (r / 1e3).round()).collect::<Vec<_>>());
        let back: Vec<f64> = p.rates.iter().map(|r| r * 0.999).collect();
        if let Some(s) = r.state(&back) {
          for (l, h) in s.links.iter().zip(r.hops().collect::<Vec<_>>()) {
            println!("  {}-{}: {:.1}/s share {:.3} refused {:.3} lost {:.3} S {:.2} ms", h.from.0, h.to.0, l.arrivals, 1.0-1.0/l.attempts, l.refused, l.lost, l.service * 1e3);
          }
          println!("  {:?}", s.nodes.iter().map(|v| (v.node.0, (v.idle*100.).round(), (v.utilisation*100.).round())).collect::<Vec<_>>());
        }
    }
}
