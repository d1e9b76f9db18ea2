// What tests share.
import { randomBytes } from "node:crypto";
import { getSandbox, type Sandbox, type SandboxOptions } from "../src/index.js";

/** The server of the suite. */
export function connect(options: SandboxOptions = {}): Sandbox {
  return getSandbox(options);
}

/** A text that differs in every call. */
export function unique(): string {
  return randomBytes(6).toString("hex");
}

export async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of stream) all.push(item);
  return all;
}

export async function text(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

/** Waits until a condition holds. Only for states that no event reports. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const giveUpAt = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > giveUpAt) throw new Error(`not within 60 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
