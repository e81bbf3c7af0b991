import { useEffect, useRef, useState } from "preact/hooks";

/** Asks for the token; it is kept in this tab only. */
export function Unlock({ close, unlock, problem }: { close: () => void; unlock: (token: string) => void; problem: string }) {
  const box = useRef<HTMLDialogElement | null>(null);
  const [token, set] = useState("");
  useEffect(() => {
    box.current?.showModal();
  }, []);
  return (
    <dialog ref={box} class="dlg" aria-label="Unlock actions" onClose={close}>
      <form
        method="dialog"
        onSubmit={(e) => {
          e.preventDefault();
          if (token.trim()) unlock(token.trim());
        }}
      >
        <h2>Unlock actions</h2>
        <p class="sm mut">Reading needs no token; pause and boost do. It is the line in the file of `page.token_file`. It stays in this tab and is sent with each action.</p>
        <input class="search wide" type="password" autocomplete="off" aria-label="Token" value={token} onInput={(e) => set(e.currentTarget.value)} />
        <p role="alert" class="bad sm">
          {problem}
        </p>
        <p class="acts">
          <button type="submit" class="btn">
            Unlock
          </button>
          <button type="button" class="btn" onClick={close}>
            Cancel
          </button>
        </p>
      </form>
    </dialog>
  );
}
