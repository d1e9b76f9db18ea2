// commands.executeStream: events, their order, and ends.
import { expect, test } from "bun:test";
import { parseSSEStream, type ExecEvent } from "@cloudflare/sandbox";
import { execEvents, failure, overBothTransports, refusal, text, unique, withSession } from "./support";

overBothTransports("streamed commands", (client, transport) => {
  const stream = (command: string, session?: string, options?: object) =>
    client().commands.executeStream(command, session as string, options);

  test("start, output, complete", async () => {
    const events = await execEvents(await stream("echo out; echo err >&2; exit 3"));
    expect(events[0]).toMatchObject({ type: "start", command: "echo out; echo err >&2; exit 3" });
    expect(text(events, "stdout")).toBe("out\n");
    expect(text(events, "stderr")).toBe("err\n");
    expect(events.at(-1)).toMatchObject({ type: "complete", exitCode: 3 });
    for (const event of events) expect(new Date(event.timestamp).getTime()).toBeGreaterThan(0);
  });

  test("output arrives while the command runs", async () => {
    const session = unique("session");
    await client().utils.createSession({ id: session });
    const reader = parseSSEStream<ExecEvent>(await stream("echo first; sleep 600", session));
    let seen = "";
    for await (const event of reader) {
      if (event.type === "stdout") seen += event.data;
      if (seen === "first\n") break;
    }
    // The test does not wait ten minutes: it deletes the session with its running command.
    expect(await client().utils.deleteSession(session)).toMatchObject({ success: true, sessionId: session });
    expect(seen).toBe("first\n");
  });

  test("every byte of long output, split anywhere", async () => {
    const events = await execEvents(await stream("for i in $(seq 1 30000); do echo \"$i grüße 🦀\"; done"));
    const lines = text(events, "stdout").split("\n");
    expect(lines.pop()).toBe("");
    expect(lines.length).toBe(30_000);
    expect(lines.every((line, index) => line === `${index + 1} grüße 🦀`)).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: "complete", exitCode: 0 });
  });

  test("newlines, quotes and control characters are unchanged", async () => {
    const events = await execEvents(await stream("printf 'a\\r\\nb\\n\\n\"c\"\\t\\\\ data: x\\n\\ndata: y\\n'"));
    expect(text(events, "stdout")).toBe('a\r\nb\n\n"c"\t\\ data: x\n\ndata: y\n');
  });

  test("a silent command", async () => {
    const events = await execEvents(await stream("true"));
    expect(events.map((event) => event.type)).toEqual(["start", "complete"]);
  });

  test("env, cwd and timeout", async () => {
    const options = { env: { WORD: "given" }, cwd: "/usr", timeoutMs: 300 };
    const events = await execEvents(await stream('echo "$WORD"; pwd; sleep 600', undefined, options));
    expect(text(events, "stdout")).toBe("given\n/usr\n");
    expect(events.at(-1)).toMatchObject({ type: "complete", exitCode: 124 });
  });

  test("a streamed command of a session keeps its state", async () => {
    await withSession(client(), async (id) => {
      await execEvents(await stream("cd /usr; WORD=kept", id));
      const events = await execEvents(await stream('echo "$WORD"; pwd', id));
      expect(text(events, "stdout")).toBe("kept\n/usr\n");
    });
  });

  test("a command that ends its shell: output, then an error", async () => {
    await withSession(client(), async (id) => {
      const events = await execEvents(await stream("echo last words; exit 3", id));
      expect(text(events, "stdout")).toBe("last words\n");
      const end = events.at(-1) as ExecEvent & { code: string };
      expect(end).toMatchObject({ type: "error", code: "SESSION_TERMINATED" });
      // The client takes the message from `data`.
      expect(end.data).toBe(end.error);
      expect(end.data).not.toBe("");
    });
  });

  test("a disconnect does not end the command", async () => {
    await withSession(client(), async (id) => {
      const mark = `/tmp/${unique("mark")}`;
      const events = await stream(`echo started; sleep 0.3; echo done > ${mark}`, id);
      const reader = events.getReader();
      await reader.read();
      await reader.cancel();
      // The next command of the session runs after it.
      const after = await client().commands.execute(`cat ${mark}; rm ${mark}`, id);
      expect(after.stdout).toBe("done\n");
    });
  });

  test("fifty concurrent streams", async () => {
    const all = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => execEvents(await stream(`echo ${n}; sleep 0.05; echo ${n}`))),
    );
    all.forEach((events, n) => expect(text(events, "stdout")).toBe(`${n}\n${n}\n`));
  });

  test("an unknown session is refused before the stream begins", async () => {
    const error = await failure(stream("true", unique("nobody")));
    expect(refusal(error, transport)).toMatchObject({ code: "SESSION_NOT_FOUND", httpStatus: 404 });
  });
});
