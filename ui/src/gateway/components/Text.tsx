import type { Piece } from "../types";

/** A sentence of the daemon; names of homes open their details. */
export function Text({ of, choose }: { of: Piece[]; choose: (home: string) => void }) {
  return (
    <>
      {of.map((p) =>
        p.home !== undefined ? (
          <a
            class="lnk"
            dir="auto"
            href={`#home=${encodeURIComponent(p.home)}`}
            onClick={(e) => {
              e.preventDefault();
              choose(p.home!);
            }}
          >
            {p.text}
          </a>
        ) : p.bad ? (
          <em>{p.text}</em>
        ) : (
          p.text
        ),
      )}
    </>
  );
}
