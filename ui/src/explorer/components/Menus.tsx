import { useEffect, useRef, useState } from "preact/hooks";
import { TERMS, type Term } from "../lib/glossary";
import type { Model } from "../model/types";

/** A button with a menu of files. */
export function Download({ items }: { items: [string, () => void][] }) {
  const [open, set] = useState(false);
  const box = useRef<HTMLSpanElement | null>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (e: Event) => !box.current?.contains(e.target as globalThis.Node) && set(false);
    addEventListener("pointerdown", outside);
    (box.current?.querySelector("[role=menuitem]") as HTMLElement | null)?.focus();
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const close = () => {
    set(false);
    (box.current?.querySelector("button") as HTMLElement | null)?.focus();
  };
  const key = (e: KeyboardEvent) => {
    if (!open) return;
    const all = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (e.key === "Escape") {
      e.stopPropagation();
      close();
    } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      all[(at + (e.key === "ArrowDown" ? 1 : -1) + all.length) % all.length]?.focus();
    }
  };
  return (
    <span class="menu" ref={box} onKeyDown={key}>
      <button type="button" class="btn" aria-haspopup="menu" aria-expanded={open} onClick={() => set(!open)}>
        Download
      </button>
      {open ? (
        <div class="items" role="menu">
          {items.map(([text, run]) => (
            <button
              type="button"
              role="menuitem"
              onClick={() => {
                close();
                run();
              }}
            >
              {text}
            </button>
          ))}
        </div>
      ) : null}
    </span>
  );
}

const KEYS: [string, string][] = [
  ["1 … 9", "choose the control"],
  ["m", "maps side by side"],
  ["/", "search"],
  ["j k", "next and previous flow"],
  ["Enter", "open the focused flow"],
  ["Esc", "close the details"],
  ["l", "log or linear scale"],
  ["+ − 0", "zoom the map; arrow keys pan it"],
  ["t", "light or dark"],
  ["?", "this help"],
];

export function Help({ open, close }: { open: boolean; close: () => void }) {
  const ref = useRef<HTMLDialogElement | null>(null);
  useEffect(() => {
    const d = ref.current;
    if (!d) return;
    if (open && !d.open) d.showModal();
    if (!open && d.open) d.close();
  }, [open]);
  return (
    <dialog ref={ref} class="dlg" aria-label="Keyboard" onClose={close} onClick={(e) => e.target === ref.current && close()}>
      <h2>Keyboard</h2>
      <dl class="kb">
        {KEYS.map(([key, text]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </>
        ))}
      </dl>
      <button type="button" class="btn" onClick={close}>
        Close
      </button>
    </dialog>
  );
}

/** Origin of the page, its settings, and the terms it uses. */
export function About({ model }: { model: Model }) {
  return (
    <>
      <section class="card" id="origin">
        <header>
          <h2>Origin</h2>
        </header>
        <div class="pad">
          {model.description ? <p>{model.description}</p> : null}
          <pre class="mono">{model.command}</pre>
          <p class="sm mut">
            {model.generator}. The same version, scenario and seed give the same fingerprint on any machine. This file makes no network request.
          </p>
          {model.notes.length ? (
            <ul class="sm">
              {model.notes.map((n) => (
                <li>{n}</li>
              ))}
            </ul>
          ) : null}
          <details>
            <summary>Settings</summary>
            <table class="mini settings">
              <tbody>
                {model.settings.map(([k, v]) => (
                  <tr>
                    <th scope="row">{k}</th>
                    <td>{v}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </details>
          <details>
            <summary>Seeds and fingerprints</summary>
            <table class="mini settings">
              <tbody>
                {model.controls.flatMap((c) =>
                  c.fingerprints.map((f, i) => (
                    <tr>
                      <th scope="row">{c.name}</th>
                      <td class="num">{model.seeds[i]}</td>
                      <td class="mono">{f}</td>
                    </tr>
                  )),
                )}
              </tbody>
            </table>
          </details>
        </div>
      </section>
      <section class="card" id="terms">
        <header>
          <h2>Terms</h2>
        </header>
        <dl class="gl">
          {(Object.keys(TERMS) as Term[]).map((k) => (
            <>
              <dt>{TERMS[k][0]}</dt>
              <dd>{TERMS[k][1]}</dd>
            </>
          ))}
        </dl>
      </section>
    </>
  );
}
