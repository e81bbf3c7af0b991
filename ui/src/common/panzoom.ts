/** Pan and zoom of a map by pointer, wheel, pinch and keys. */
import { useEffect, useRef } from "preact/hooks";

/** Zoom factor, and offset as a fraction of the drawing's size. */
export interface Viewport {
  k: number;
  x: number;
  y: number;
}

export const WHOLE: Viewport = { k: 1, x: 0, y: 0 };
export const MOST_ZOOM = 12;

/** Zooms about a point, given as a fraction of the drawing's size. */
export function zoomed(v: Viewport, factor: number, cx = 0.5, cy = 0.5): Viewport {
  const k = Math.max(1, Math.min(MOST_ZOOM, v.k * factor));
  if (k === 1) return WHOLE;
  const q = k / v.k;
  return { k, x: (v.x - (cx - 0.5)) * q + (cx - 0.5), y: (v.y - (cy - 0.5)) * q + (cy - 0.5) };
}

const PAN: Record<string, [number, number]> = {
  ArrowLeft: [0.08, 0],
  ArrowRight: [-0.08, 0],
  ArrowUp: [0, 0.08],
  ArrowDown: [0, -0.08],
};

/**
 * Handles the events of an element.
 *
 * The wheel zooms only if the map has the focus, so that scrolling over the map works.
 */
export function usePanZoom(change: (of: (v: Viewport) => Viewport) => void, current: () => Viewport) {
  const ref = useRef<HTMLDivElement | null>(null);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const pointers = new Map<number, [number, number]>();
    let moved = 0;
    let spread = 0;
    const box = () => (element.querySelector(".map") ?? element).getBoundingClientRect();
    const wheel = (e: WheelEvent) => {
      const inside = element.contains(document.activeElement);
      if (!(e.ctrlKey || e.metaKey || inside || current().k > 1)) return;
      e.preventDefault();
      const b = (e.target as Element).closest(".map")?.getBoundingClientRect() ?? box();
      change((v) => zoomed(v, Math.exp(-e.deltaY * 0.0016), (e.clientX - b.left) / b.width, (e.clientY - b.top) / b.height));
    };
    const down = (e: PointerEvent) => {
      if (!(e.target as Element).closest(".map")) return;
      pointers.set(e.pointerId, [e.clientX, e.clientY]);
      moved = 0;
      spread = 0;
    };
    const move = (e: PointerEvent) => {
      const before = pointers.get(e.pointerId);
      if (!before) return;
      pointers.set(e.pointerId, [e.clientX, e.clientY]);
      const b = box();
      const [one, two] = [...pointers.values()];
      if (one && two) {
        const distance = Math.hypot(one[0] - two[0], one[1] - two[1]);
        const factor = spread ? distance / spread : 1;
        spread = distance;
        change((v) => zoomed(v, factor, ((one[0] + two[0]) / 2 - b.left) / b.width, ((one[1] + two[1]) / 2 - b.top) / b.height));
        return;
      }
      moved += Math.abs(e.clientX - before[0]) + Math.abs(e.clientY - before[1]);
      // A finger scrolls the page while the whole map is shown.
      if (moved > 4 && (current().k > 1 || e.pointerType !== "touch")) {
        const [dx, dy] = [(e.clientX - before[0]) / b.width, (e.clientY - before[1]) / b.height];
        change((v) => ({ ...v, x: v.x + dx, y: v.y + dy }));
      }
    };
    const up = (e: PointerEvent) => pointers.delete(e.pointerId);
    const click = (e: MouseEvent) => {
      if (moved > 4) {
        e.stopPropagation();
        e.preventDefault();
      }
    };
    const key = (e: KeyboardEvent) => {
      const by = PAN[e.key];
      if (!by || !(e.target as Element).classList.contains("map")) return;
      e.preventDefault();
      change((v) => ({ ...v, x: v.x + by[0], y: v.y + by[1] }));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", down);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
    element.addEventListener("click", click, true);
    element.addEventListener("keydown", key);
    return () => {
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", down);
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", up);
      element.removeEventListener("click", click, true);
      element.removeEventListener("keydown", key);
    };
  }, []);
  return ref;
}
