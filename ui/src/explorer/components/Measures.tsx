import { memo } from "../../common/memo";
import type { Mean, Model } from "../model/types";
import { Term } from "./Term";

function text([mean, ci]: Mean, digits: number): string {
  return ci === null ? mean.toFixed(digits) : `${mean.toFixed(digits)} ± ${ci.toFixed(digits)}`;
}

/** All measures with their intervals, for papers. */
export const Measures = memo(function Measures({ model, control }: { model: Model; control: number }) {
  const names = [...new Set(model.controls.flatMap((c) => c.measures.map((m) => m.name)))];
  return (
    <section class="card" id="measures">
      <header>
        <h2>Measures</h2>
        <span class="sm mut">
          Mean and <Term of="interval">95 % interval</Term> over {model.seeds.length === 1 ? "one seed, so there is no interval" : `${model.seeds.length} seeds`}.
        </span>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Measures">
        <table class="t still">
          <thead>
            <tr>
              <th scope="col">measure</th>
              {model.controls.map((c, i) => (
                <th scope="col" class={`num${i === control ? " now" : ""}`}>
                  {c.name}
                  {c.ours ? " *" : ""}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((name) => (
              <tr>
                <th scope="row">{name}</th>
                {model.controls.map((c) => {
                  const m = c.measures.find((m) => m.name === name);
                  return <td class="num">{m ? `${text(m.value, m.digits)}${m.unit ? ` ${m.unit}` : ""}` : "–"}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {model.controls.some((c) => c.ours) ? <p class="pad xs dim">* ours: not published, or not as it is here</p> : null}
      <ul class="remarks">
        {model.controls.map((c) => (
          <li>
            <b>{c.name}</b>: {c.remarks.join(". ")}.
          </li>
        ))}
      </ul>
    </section>
  );
});
