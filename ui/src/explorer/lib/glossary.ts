/** Terms, each explained in at most 35 words. */
export const TERMS = {
  starving: ["Starvation", "A flow starves if it gets less than 10 % of its reference rate in the measured interval."],
  reference: ["Reference rate", "The max-min fair rate while the application had data to send, or the measured optimum if that is lower. A flow that asks for little cannot starve by receiving little."],
  fair: ["Max-min fair rate", "Largest rate that every flow can have at once, computed from the topology, the radio rates and the airtime of each hop."],
  unanswered: ["Frames without ACK", "Frames for which no CTS, ACK or BlockAck arrived in time. The sender repeats the frame and drops the packet at the retry limit."],
  hidden: ["Hidden terminal", "A node that the sender cannot sense but whose frames reach the receiver. Both transmit at the same time and the frames collide."],
  frames: ["Frames per second", "Frames that began an exchange over the link, retries included, per second of simulated time. Mean over the seeds."],
  busy: ["Air busy", "Fraction of the time in which the sending node senses the energy of others while it does not transmit."],
  delay: ["Delay", "Time from the source’s queue to the destination, delivered packets only. Over several flows: the median of their means."],
  interval: ["95 % interval", "Interval of the mean over the seeds (Student’s t). The small dots are the single seeds."],
  limit: ["Limit", "Rate that the control allows this flow."],
  warmup: ["Warm-up", "Start of each run. It is simulated but not measured."],
  control: ["Control", "The mechanism that shares the air; fifo is none."],
  queue: ["Lost by the queue", "The packet arrived at a full interface queue, or was pushed out of it."],
  wire: ["Lost by the wire", "A queue of the wired side was full."],
  retry: ["Lost by the retry limit", "The frame was repeated up to the retry limit without an ACK, then the packet was dropped."],
  limiter: ["Lost by the limiter", "The control’s own rate limit dropped the packet. TCP slows down; this is intended."],
  resent: ["Resent", "Retransmitted segments over segments sent. UDP has none."],
  jain: ["Jain index", "1 if every flow gets the same; 1/n if one flow gets everything."],
  sum: ["Sum of goodput", "Application bytes delivered per second, all flows together. A distant flow needs airtime at each hop, so serving it lowers the sum."],
} as const satisfies Record<string, readonly [string, string]>;

export type Term = keyof typeof TERMS;

export const isTerm = (key: string): key is Term => key in TERMS;
