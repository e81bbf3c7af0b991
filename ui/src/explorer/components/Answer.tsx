import { isTerm } from "../lib/glossary";
import type { Model, Part } from "../model/types";
import { Term } from "./Term";

/** A text of parts; a click on a name selects its sharer. */
export function Rich({ parts, select, more }: { parts: Part[]; select?: (sharer: number) => void; more?: () => void }) {
  return (
    <>
      {parts.map((p) => {
        if (p.g && isTerm(p.g)) return <Term of={p.g}>{p.t}</Term>;
        if (p.r === "sharer" && p.i !== undefined) {
          return (
            <button type="button" class="lnk" onClick={() => select?.(p.i!)}>
              {p.t}
            </button>
          );
        }
        if (p.r === "more") {
          return (
            <button type="button" class="lnk" onClick={() => more?.()}>
              {p.t}
            </button>
          );
        }
        if (p.r === "strong") return <b>{p.t}</b>;
        if (p.r === "bad") return <em>{p.t}</em>;
        if (p.r === "dim") return <span class="dim">{p.t}</span>;
        return p.t;
      })}
    </>
  );
}

/** The answer: headline, starving flows, reason, remedy and its cost. */
export function Answer({ model, select, more }: { model: Model; select: (sharer: number) => void; more: () => void }) {
  const { headline, facts } = model.answer;
  return (
    <div class="answer">
      <h1>
        {headline.map((line) => (
          <span class="line">
            <Rich parts={line} />{" "}
          </span>
        ))}
      </h1>
      <dl class="facts">
        {facts.map((f) => (
          <>
            <dt>{f.title}</dt>
            <dd>
              <Rich parts={f.text} select={select} more={more} />
            </dd>
          </>
        ))}
      </dl>
      {model.warnings.map((w) => (
        <p class="note">{w}</p>
      ))}
    </div>
  );
}
