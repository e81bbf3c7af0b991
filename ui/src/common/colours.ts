/** The tokens of the style as canvases need them; a version that changes with the theme. */
import { useEffect, useState } from "preact/hooks";

export function colour(token: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();
}

export function useTheme(): [version: number, toggle: () => void] {
  const [version, set] = useState(0);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const again = () => set((v) => v + 1);
    dark.addEventListener("change", again);
    return () => dark.removeEventListener("change", again);
  }, []);
  const toggle = () => {
    const root = document.documentElement;
    const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("fairmesh-theme", root.dataset.theme);
    } catch {
      // A page opened from disk may have no storage.
    }
    set((v) => v + 1);
  };
  return [version, toggle];
}

export function rememberedTheme() {
  try {
    const kept = localStorage.getItem("fairmesh-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch {
    // As above.
  }
}
