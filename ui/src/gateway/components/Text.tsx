import type { Piece } from "../types";

/** A sentence of the daemon; names of homes open their details. */
export function Text({ of, choose }: { of: Piece[]; choose: (home: string) => void }) {
  return (
    <>
      {of.map((p) =>
        p.home !== undefined ? (
          <button type="button" class="lnk" dir="auto" onClick={() => choose(p.home!)}>
            {p.text}
          </button>
        ) : p.bad ? (
          <em>{p.text}</em>
        ) : (
          p.text
        ),
      )}
    </>
  );
}
