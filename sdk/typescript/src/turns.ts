// Turns: the commands of a session are sent one after the other.
import { unlessAborted } from "./abort.js";

/** Requests that are sent at the same time may arrive in any order, but calls on a session have an order. */
export class Turns {
  readonly #last = new Map<string, Promise<void>>();

  /** Waits for the earlier calls on the session. The result lets the next one continue. */
  async take(sessionId: string | undefined, signal?: AbortSignal): Promise<() => void> {
    let finish = () => {};
    if (!sessionId) return finish;
    const before = this.#last.get(sessionId);
    const mine = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const turn = before ? before.then(() => mine) : mine;
    this.#last.set(sessionId, turn);
    void turn.then(() => this.#last.get(sessionId) === turn && this.#last.delete(sessionId));
    if (before) {
      try {
        await unlessAborted(signal, (resolve) => void before.then(resolve));
      } catch (error) {
        finish();
        throw error;
      }
    }
    return finish;
  }
}
