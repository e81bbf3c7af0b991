import type { Bound, Content, Home } from "../types";
import { BOUNDS, rate } from "../words";

const ORDER: Bound[] = ["control", "aggregate", "plan", "override", "radio", "mesh", "none"];

/** Bottlenecks by their number of homes; a choice filters the table. */
export function Bounds({ homes, value, change }: { homes: Home[]; value: Bound | null; change: (b: Bound | null) => void }) {
  const n = (b: Bound) => homes.filter((h) => h.bound === b).length;
  const used = ORDER.filter((b) => n(b) > 0 || b === value);
  let x = 0;
  return (
    <div class="tile">
      <h2>Bottlenecks of homes</h2>
      <svg class="boundbar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        {used.map((b) => {
          const w = (100 * n(b)) / Math.max(1, homes.length);
          x += w;
          return <rect class={`b-${b}`} x={x - w} width={Math.max(0, w - 0.4)} height="8" />;
        })}
      </svg>
      <div class="chips">
        {used.map((b) => (
          <button type="button" class="lg" aria-pressed={b === value} data-tip={`${BOUNDS[b].name}\n${BOUNDS[b].tip}`} onClick={() => change(b === value ? null : b)}>
            <i class={`b-${b}`} />
            {BOUNDS[b].name} <small>{n(b)}</small>
          </button>
        ))}
      </div>
    </div>
  );
}

/** Modes of the daemon; the present one is marked. */
export function Mode({ content }: { content: Content }) {
  const { mode, enforced, control } = content.head;
  const steps: [string, string][] = [
    ["observe", "computes limits, sets none"],
    ["apply", enforced ? "limits are in force" : mode === "apply" ? "limits are lifted" : "sets the limits"],
  ];
  return (
    <div class="card mode" role="group" aria-label="Mode of the daemon">
      {steps.map(([name, text], i) => (
        <>
          {i ? <span class="dim" aria-hidden="true">→</span> : null}
          <span class={`stp${name === mode ? " cur" : ""}`} aria-current={name === mode ? "step" : undefined}>
            <i aria-hidden="true">{i + 1}</i>
            <span>
              <b>{name}</b>
              <small>{text}</small>
            </span>
          </span>
        </>
      ))}
      <span class="sp" />
      <span class="sm mut">{control}</span>
    </div>
  );
}

/** Links of the gateway and sources of homes. */
export function Known({ content }: { content: Content }) {
  const { links, sources } = content.head;
  if (!links.length && !sources.length) return null;
  return (
    <div class="known sm">
      {links.map(([name, capacity, measured]) => (
        <span>
          link to <b dir="auto">{name}</b>: {rate(capacity)} {measured ? "by its measured rate" : "as configured"}
        </span>
      ))}
      {sources.map(([name, text, failed]) => (
        <span class={failed ? "bad" : ""}>
          source {name}: {text}
        </span>
      ))}
    </div>
  );
}
