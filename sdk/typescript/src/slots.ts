// Slots: a bound for the connections of one client. `fetch` has none of its own.
import { unlessAborted } from "./abort.js";
import { AbortError } from "./errors.js";

interface Waiting {
  urgent: boolean;
  admit(): void;
}

/**
 * Requests wait in order for a slot. Some slots are reserved for urgent requests: streams and commands that run for
 * hours must not keep the client from ending them. If there are too few slots to reserve one, there is one more.
 */
export class Slots {
  #used = 0;
  readonly #queue: Waiting[] = [];
  readonly #ordinary: number;
  /** Slots, with those for urgent requests. */
  readonly total: number;

  constructor(max: number) {
    this.#ordinary = Math.max(1, max - Math.min(4, max >> 2));
    this.total = Math.max(max, this.#ordinary + 1);
  }

  /** Slots in use. */
  get used(): number {
    return this.#used;
  }

  /** Waits for a slot. The result gives it back. */
  async acquire(urgent: boolean, signal?: AbortSignal): Promise<() => void> {
    if (signal?.aborted) throw new AbortError(signal.reason);
    if (this.#isFree(urgent) && (urgent || this.#queue.length === 0)) {
      this.#used++;
    } else {
      await this.#wait(urgent, signal);
    }
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#used--;
      this.#admit();
    };
  }

  #isFree(urgent: boolean): boolean {
    return this.#used < (urgent ? this.total : this.#ordinary);
  }

  #wait(urgent: boolean, signal?: AbortSignal): Promise<void> {
    return unlessAborted(signal, (admit) => {
      const waiting = { urgent, admit };
      this.#queue.push(waiting);
      return () => this.#queue.splice(this.#queue.indexOf(waiting), 1);
    });
  }

  /** Gives free slots to those that wait: urgent ones first, then in order. */
  #admit(): void {
    while (this.#queue.length > 0) {
      const urgent = this.#used < this.#ordinary ? -1 : this.#queue.findIndex((waiting) => waiting.urgent);
      const at = Math.max(urgent, 0);
      const next = this.#queue[at];
      if (!next || !this.#isFree(next.urgent)) return;
      this.#queue.splice(at, 1);
      this.#used++;
      next.admit();
    }
  }
}
