// OutputBuffer: the output of a streamed command, bounded.
import { concat, decodeBase64, encodeBase64, toBytes } from "./bytes.js";
import type { OutputEncoding } from "./types.js";

/** How many dropped pieces the tail may hold before it is made shorter. */
const MAX_EMPTY_PIECES = 1_000;

export interface KeptOutput {
  data: string | Uint8Array;
  /** The number of bytes that were left out, and their position. */
  dropped: number;
  droppedAfter: number;
}

/** Keeps the first and the last half of its limit, as the server does. */
export class OutputBuffer {
  readonly #encoding: OutputEncoding | undefined;
  readonly #headLimit: number;
  readonly #tailLimit: number;
  readonly #head: Uint8Array[] = [];
  readonly #tail: Uint8Array[] = [];
  /** The first piece of the tail that is not dropped. */
  #first = 0;
  #tailSize = 0;
  #headSize = 0;
  #dropped = 0;

  constructor(limit: number, encoding: OutputEncoding | undefined) {
    this.#encoding = encoding;
    this.#headLimit = Math.floor(limit / 2);
    this.#tailLimit = limit - this.#headLimit;
  }

  /** Adds the data of an event. */
  push(data: string | Uint8Array): void {
    const bytes = this.#encoding === "base64" ? decodeBase64(data as string) : toBytes(data);
    const inHead = bytes.subarray(0, this.#headLimit - this.#headSize);
    if (inHead.length > 0) {
      this.#head.push(inHead);
      this.#headSize += inHead.length;
    }
    const inTail = bytes.subarray(inHead.length);
    if (inTail.length === 0) return;
    this.#tail.push(inTail);
    this.#tailSize += inTail.length;
    this.#shorten();
  }

  #shorten(): void {
    while (this.#tailSize > this.#tailLimit) {
      const first = this.#tail[this.#first] as Uint8Array;
      const surplus = Math.min(first.length, this.#tailSize - this.#tailLimit);
      this.#tail[this.#first] = first.subarray(surplus);
      if (surplus === first.length) this.#tail[this.#first++] = new Uint8Array();
      this.#tailSize -= surplus;
      this.#dropped += surplus;
    }
    if (this.#first > MAX_EMPTY_PIECES && this.#first > this.#tail.length / 2) {
      this.#tail.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /** The output in the type that the caller has chosen. Characters that the limit cuts are left out. */
  kept(): KeptOutput {
    const head = concat(this.#head);
    const tail = concat(this.#tail);
    const { length } = head;
    const kept = { dropped: this.#dropped, droppedAfter: length };
    if (this.#encoding === "bytes") return { data: concat([head, tail]), ...kept };
    if (this.#encoding === "base64") return { data: encodeBase64(concat([head, tail])), ...kept };
    if (this.#dropped === 0) return { data: textOf(concat([head, tail])), ...kept };
    let start = 0;
    while (start < 3 && ((tail[start] ?? 0) & 0b1100_0000) === 0b1000_0000) start++;
    // As a stream, the decoder holds back an incomplete character.
    const first = textOf(head, true);
    const droppedAfter = toBytes(first).length;
    const dropped = this.#dropped + length - droppedAfter + start;
    return { data: first + textOf(tail.subarray(start)), dropped, droppedAfter };
  }
}

function textOf(bytes: Uint8Array, stream = false): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream });
}
