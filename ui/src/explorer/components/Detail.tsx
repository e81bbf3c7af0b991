import { useEffect, useRef } from "preact/hooks";
import { count, ms, percent, rate } from "../../common/format";
import { decode } from "../model/curve";
import { linkOf, sum, type View } from "../model/derive";
import type { Link, Model, Result } from "../model/types";
import { ClassName, classOf } from "../../common/classes";
import { CAUSES, LossBar, ShareBar, Sparkline } from "./bars";
import { Term } from "./Term";

/** Decisions that the panel lists. */
const MOST_DECISIONS = 60;
const TERM_OF = ["queue", "wire", "retry", "limiter"] as const;

function Reason({ model, link }: { model: Model; link: Link }) {
  const [from, to] = [model.network.nodes[link.from]!.name, model.network.nodes[link.to]!.name];
  const main = link.by?.[0];
  return (
    <p>
      Worst hop: <b>{from} → {to}</b>. {percent(link.unanswered)} of the frames get <Term of="unanswered">no ACK</Term>.{" "}
      {main && main.share >= 0.2 ? (
        main.receiver ? (
          `${to} was itself sending during ${percent(main.share)} of them.`
        ) : main.hidden ? (
          <>
            {percent(main.share)} of them met frames of <b>{main.name}</b>, which {from} cannot sense: a <Term of="hidden">hidden terminal</Term>.
          </>
        ) : (
          <>
            {percent(main.share)} of them met frames of <b>{main.name}</b>, which {from} senses.
          </>
        )
      ) : (link.answer_lost ?? 0) > (link.clean ?? 0) ? (
        `${percent(link.answer_lost)} of them had arrived; the response was lost.`
      ) : (
        `${percent(link.clean)} of them met no other frame: a weak link.`
      )}
    </p>
  );
}

function Summary({ model, result, share, link }: { model: Model; result: Result; share: number | null; link?: Link }) {
  const k = classOf(share);
  if (k === "none") return <p>No rate is due: the application had nothing to send, or the runs had no fair rates.</p>;
  if (k === "starve" || k === "low" || k === "short") {
    if (link) return <Reason model={model} link={link} />;
    const all = sum(result.lost) + sum(result.answers);
    const top = result.lost.map((n, i) => n + (result.answers[i] ?? 0));
    const most = top.indexOf(Math.max(...top));
    return all >= 1 ? <p>No hop of its path loses a tenth of its frames. Most of its packets are lost by the {CAUSES[most]!.name}.</p> : <p>No hop of its path loses a tenth of its frames, and hardly a packet is lost.</p>;
  }
  if (k === "above") return <p>It gets more than its reference. Where others get less, it takes airtime that they need.</p>;
  return <p>It gets its reference rate{result.lost[3]! > 0.6 * sum(result.lost) && sum(result.lost) >= 1 ? "; its losses come from the limiter, by which the control slows TCP" : ""}.</p>;
}

/** Everything about one flow or subscriber. */
export function Detail({
  model,
  views,
  control,
  sharer,
  seed,
  choose,
  close,
}: {
  model: Model;
  views: View[];
  control: number;
  sharer: number;
  seed: number;
  choose: (c: number) => void;
  close: () => void;
}) {
  const button = useRef<HTMLButtonElement | null>(null);
  useEffect(() => button.current?.focus({ preventScroll: true }), []);
  const s = model.sharers[sharer]!;
  const c = model.controls[control]!;
  const r = c.results[sharer]!;
  const v = views[control]!;
  const share = v.share[sharer]!;
  const worst = r.worst_hop === undefined ? undefined : c.links[r.worst_hop];
  const width = Math.min(412, (typeof innerWidth === "number" ? innerWidth : 450) - 44);
  const curves = c.curves[Math.min(Math.max(0, seed), c.curves.length - 1)];
  const nodes = model.network.nodes;
  const lossOf = (title: string, lost: number[]) =>
    sum(lost) < 0.05 ? null : (
      <div class="lossline">
        <span>{title}</span>
        <LossBar lost={lost} width={width - 96} height={12} />
        <ul class="lgd sm">
          {CAUSES.map((cause, i) =>
            lost[i]! < 0.05 ? null : (
              <li>
                <i class={`cause${i}`} />
                <Term of={TERM_OF[i]!}>{cause.name}</Term> {lost[i]!.toFixed(lost[i]! < 10 ? 1 : 0)} ({percent(lost[i]! / sum(lost))})
              </li>
            ),
          )}
        </ul>
      </div>
    );
  const about = c.decisions.shown.filter((d) => d.i === sharer || (d.i === undefined && c.decisions.total < 40));
  const decisions = about.slice(-MOST_DECISIONS);
  return (
    <div class="drawer" role="dialog" aria-label={`Details of ${s.label}`}>
      <header>
        <div class="grow">
          <div class="sm">
            <ClassName k={v.class[sharer]!} /> <span class="dim">with {c.name}</span>
          </div>
          <h2 dir="auto">{s.label}</h2>
          <div class="sm mut">
            {percent(share)} of reference · {rate(v.goodput[sharer]!)}
            {r.due ? ` of ${rate(r.due)}` : ""} · {count(s.hops, "hop")}
          </div>
        </div>
        <button type="button" class="btn ic" ref={button} aria-label="Close (Esc)" onClick={close}>
          ✕
        </button>
      </header>
      <div class="body" tabIndex={0} role="region" aria-label="Details">
        <section>
          <Summary model={model} result={r} share={share} link={worst} />
        </section>
        <section>
          <h3>With each control</h3>
          {model.controls.map((other, k) => (
            <button type="button" class="cr" aria-pressed={k === control} onClick={() => choose(k)}>
              <span class="crn">{other.name}</span>
              <ShareBar result={other.results[sharer]!} share={views[k]!.share[sharer]!} width={width - 196} scale="log" top={1} seed={seed} />
              <span class="num">{rate(views[k]!.goodput[sharer]!)}</span>
            </button>
          ))}
          <p class="xs dim">
            Log scale, 0.1 to 2,000 % of the reference.
            {model.seeds.length > 1 ? (
              <>
                {" "}
                Bar: <Term of="interval">95 % interval</Term>; dots: {model.seeds.length} seeds.
              </>
            ) : (
              " One seed: no interval."
            )}
          </p>
          <p class="xs dim">
            {s.fair === undefined ? "" : `Max-min fair rate ${rate(s.fair)}. `}
            {s.optimum === undefined ? "" : `Measured optimum ${rate(s.optimum)}. `}
            {model.reference === "bound" ? "The fair rate is an upper bound here." : ""}
          </p>
        </section>
        {s.flows?.length ? (
          <section>
            <h3>Flows</h3>
            <table class="mini">
              <tbody>
                {s.flows.map((f, i) => (
                  <tr>
                    <th scope="row">{f}</th>
                    <td class="num">{rate(r.flows?.[i] ?? 0)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        ) : null}
        <section>
          <h3>Path and air</h3>
          <table class="mini">
            <thead>
              <tr>
                <th scope="col">hop</th>
                <th scope="col" class="num">
                  <Term of="busy">air busy</Term>
                </th>
                <th scope="col" class="num">
                  <Term of="frames">frames/s</Term>
                </th>
                <th scope="col" class="num">
                  <Term of="unanswered">no ACK</Term>
                </th>
              </tr>
            </thead>
            <tbody>
              {s.paths.flatMap((path) =>
                path.slice(0, -1).map((a, i) => {
                  const b = path[i + 1]!;
                  const link = linkOf(c, a, b);
                  const bad = worst && link === worst;
                  return (
                    <tr class={bad ? "w" : ""}>
                      <th scope="row">
                        {nodes[a]!.name} → {nodes[b]!.name} {bad ? <span class="chip">worst</span> : null}
                      </th>
                      <td class="num">{percent(c.nodes[a]?.busy)}</td>
                      <td class="num">{link ? link.frames.toFixed(1) : "–"}</td>
                      <td class="num">{link ? percent(link.unanswered) : "–"}</td>
                    </tr>
                  );
                }),
              )}
            </tbody>
          </table>
          {worst?.by?.length ? (
            <>
              <h4>
                Frames that {nodes[worst.to]!.name} did not receive from {nodes[worst.from]!.name} met frames of
              </h4>
              <table class="mini">
                <tbody>
                  {worst.by.map((o) => (
                    <tr>
                      <th scope="row">{o.name}</th>
                      <td class="num">{percent(o.share)}</td>
                      <td>{o.receiver ? "the receiver itself, sending" : o.hidden ? `hidden from ${nodes[worst.from]!.name}` : `sensed by ${nodes[worst.from]!.name}`}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <p class="xs dim">Recorded by the simulator, all seeds; one frame may meet several.</p>
            </>
          ) : null}
        </section>
        <section>
          <h3>
            Lost packets <span class="dim light">per run, mean over seeds</span>
          </h3>
          {lossOf("data", r.lost)}
          {lossOf("responses", r.answers)}
          <p class="sm mut">
            {sum(r.lost) + sum(r.answers) < 0.1 ? "None in the measured interval. " : ""}
            {r.warmup >= 0.5 ? `${r.warmup.toFixed(0)} more were sent during the warm-up.` : ""}
          </p>
        </section>
        <section>
          <h3>
            Goodput over time <span class="dim light">own scale{curves ? `, seed ${model.seeds[Math.min(Math.max(0, seed), c.curves.length - 1)]}` : ""}</span>
          </h3>
          {curves ? (
            <Sparkline values={decode(curves.goodput[sharer])} limit={decode(curves.limit?.[sharer])} warmup={model.warmup_s / model.duration_s} width={width} height={56} kind={v.class[sharer]} />
          ) : (
            <p class="sm mut">No curves in this page.</p>
          )}
          <p class="sm mut">
            {r.delay ? `Delay ${ms(r.delay[0])} mean, ${ms(r.delay[1])} 95 %. ` : "No packet was delivered. "}
            {r.resent == null ? "" : `${percent(r.resent)} of segments sent again.`}
          </p>
        </section>
        <section>
          <h3>Decisions of {c.name}</h3>
          {decisions.length ? (
            <>
              <ol class="log">
                {decisions.map((d) => (
                  <li>
                    <span class="mono dim">{d.t.toFixed(1)} s</span>
                    <span>
                      {d.w}
                      {d.r !== undefined && d.p !== undefined ? <b>{d.r > d.p ? " ▲ raised" : " ▼ lowered"}</b> : null}{" "}
                      <span class="dim xs">
                        {d.n} · {d.c}
                      </span>
                    </span>
                  </li>
                ))}
              </ol>
              <p class="xs dim">
                Seed {model.seeds[0]}; repetitions within 10 % are left out ({c.decisions.total} in all).
              </p>
            </>
          ) : (
            <p class="sm mut">{c.decisions.total ? `None about this ${s.subscriber ? "subscriber" : "flow"}.` : `${c.name} takes no decisions at run time.`}</p>
          )}
        </section>
      </div>
    </div>
  );
}
