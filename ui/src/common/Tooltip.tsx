import { useEffect, useRef, useState } from "preact/hooks";

/**
 * The only tooltip: shows `data-tip` of the element under the pointer or in focus.
 *
 * The first line is its title.
 */
export function Tooltip() {
  const [tip, set] = useState<{ lines: string[]; x: number; y: number } | null>(null);
  const box = useRef<HTMLDivElement | null>(null);
  useEffect(() => {
    const of = (e: Event) => (e.target as Element | null)?.closest?.("[data-tip]") as HTMLElement | SVGElement | null;
    const show = (element: HTMLElement | SVGElement, x: number, y: number) => {
      const text = element.dataset.tip;
      set(text ? { lines: text.split("\n"), x, y } : null);
    };
    const move = (e: PointerEvent) => {
      const element = of(e);
      if (element) show(element, e.clientX, e.clientY);
      else set(null);
    };
    const focus = (e: FocusEvent) => {
      const element = of(e);
      if (!element?.matches("dfn")) return;
      const b = element.getBoundingClientRect();
      show(element, b.left, b.bottom - 14);
    };
    const hide = () => set(null);
    const key = (e: KeyboardEvent) => e.key === "Escape" && set(null);
    addEventListener("pointermove", move);
    addEventListener("pointerdown", move);
    addEventListener("focusin", focus);
    addEventListener("focusout", hide);
    addEventListener("scroll", hide, true);
    addEventListener("keydown", key);
    return () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerdown", move);
      removeEventListener("focusin", focus);
      removeEventListener("focusout", hide);
      removeEventListener("scroll", hide, true);
      removeEventListener("keydown", key);
    };
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || !tip) return;
    const b = element.getBoundingClientRect();
    element.style.left = `${Math.max(8, Math.min(innerWidth - b.width - 8, tip.x + 14))}px`;
    const below = tip.y + 18 + b.height <= innerHeight - 8;
    element.style.top = `${below ? tip.y + 18 : Math.max(8, tip.y - b.height - 12)}px`;
  });
  return (
    <div id="tip" role="tooltip" ref={box} class={tip ? "on" : ""}>
      {tip?.lines.map((line, i) => (i ? <div>{line}</div> : <b>{line}</b>))}
    </div>
  );
}
