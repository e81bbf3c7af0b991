import type { ComponentChildren } from "preact";
import { TERMS, type Term as Key } from "../lib/glossary";

/** A technical term with its explanation, by pointer or focus. The list of terms repeats it. */
export function Term({ of, children }: { of: Key; children: ComponentChildren }) {
  const [title, text] = TERMS[of];
  return (
    <dfn tabIndex={0} data-tip={`${title}\n${text}`}>
      {children}
    </dfn>
  );
}
