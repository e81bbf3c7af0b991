import { count } from "../../common/format";
import type { View } from "../model/derive";
import { CLASSES, Mark, Swatch, type Class } from "../../common/classes";
import { Term } from "./Term";

/** The classes with their numbers; a click shows only one. */
export function Legend({
  view,
  several,
  filter,
  noun,
  change,
}: {
  view: View;
  several: boolean;
  filter: Class | null;
  noun: { one: string; many: string };
  change: (k: Class | null) => void;
}) {
  return (
    <div class="lgs">
      {CLASSES.map((c) => (
        <button
          type="button"
          class="lg"
          aria-pressed={filter === c.key}
          data-tip={`${c.name}\n${c.range} of the reference: ${count(view.count[c.key], noun.one, noun.many)}`}
          onClick={() => change(filter === c.key ? null : c.key)}
        >
          <Swatch k={c.key} r={5.5} />
          {c.name} <small>{several ? c.range : view.count[c.key]}</small>
        </button>
      ))}
      <span class="lg">
        <svg width="16" height="16" aria-hidden="true" class="gatewaykey">
          <rect x="1" y="1" width="14" height="14" rx="4" />
        </svg>
        gateway
      </span>
      <span class="lg">
        <svg width="34" height="14" aria-hidden="true" class="linkkey">
          <path d="M1 7H10" stroke-width="1.5" />
          <path d="M12 7H21" stroke-width="4" />
          <path d="M23 7H33" stroke-width="8" />
        </svg>
        <span>
          <Term of="frames">frames</Term> sent
        </span>
      </span>
    </div>
  );
}

/** The legend of pictures that leave this page. */
export function LegendPicture() {
  let x = 0;
  return (
    <svg class="legendpicture" width="720" height="22" aria-hidden="true">
      {CLASSES.map((c) => {
        const at = x;
        const text = `${c.name} (${c.range})`;
        x += text.length * 6.1 + 34;
        return (
          <g>
            <Mark k={c.key} x={at + 8} y={11} r={5.5} />
            <text x={at + 20} y="15">
              {text}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
