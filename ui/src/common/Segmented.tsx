/** A choice of one, as buttons in a row; arrow keys move it. */
export function Segmented<T extends string | number>({
  label,
  options,
  value,
  change,
}: {
  label: string;
  options: [value: T, text: string, tip?: string][];
  value: T;
  change: (v: T) => void;
}) {
  const key = (e: KeyboardEvent) => {
    const by = e.key === "ArrowRight" || e.key === "ArrowDown" ? 1 : e.key === "ArrowLeft" || e.key === "ArrowUp" ? -1 : 0;
    if (!by) return;
    e.preventDefault();
    const at = options.findIndex((o) => o[0] === value);
    const next = (at + by + options.length) % options.length;
    change(options[next]![0]);
    const group = e.currentTarget as HTMLElement;
    requestAnimationFrame(() => (group.children[next] as HTMLElement | undefined)?.focus({ preventScroll: true }));
  };
  return (
    <div class="seg" role="radiogroup" aria-label={label} onKeyDown={key}>
      {options.map(([v, text, tip]) => (
        <button
          type="button"
          role="radio"
          aria-checked={v === value}
          tabIndex={v === value ? 0 : -1}
          data-tip={tip}
          onClick={() => change(v)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** The choice of a control: a row of buttons where they fit, else a list. */
export function ControlChoice({
  names,
  abouts,
  value,
  change,
  label = "Control",
}: {
  names: string[];
  abouts: (string | undefined)[];
  value: number;
  change: (v: number) => void;
  label?: string;
}) {
  if (names.length < 2) return <span class="chip">{names[0]}</span>;
  if (names.length <= 4 && names.join("").length < 44) {
    return <Segmented label={label} options={names.map((n, i) => [i, n, abouts[i] && `${n}\n${abouts[i]}`])} value={value} change={change} />;
  }
  return (
    <select class="choice" aria-label={label} value={value} onChange={(e) => change(Number(e.currentTarget.value))}>
      {names.map((n, i) => (
        <option value={i}>{n}</option>
      ))}
    </select>
  );
}
