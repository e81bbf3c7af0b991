/** The width and height of an element. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export function useSize<E extends Element>(): [{ current: E | null }, { width: number; height: number }] {
  const ref = useRef<E | null>(null);
  const [size, set] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => {
      const { width, height } = element.getBoundingClientRect();
      set((old) => (Math.abs(old.width - width) < 1 && Math.abs(old.height - height) < 1 ? old : { width, height }));
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return [ref, size];
}
