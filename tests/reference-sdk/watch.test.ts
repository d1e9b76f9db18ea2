// watch and checkChanges: changes of files.
import { expect, test } from "bun:test";
import { type FileWatchSSEEvent, parseSSEStream } from "@cloudflare/sandbox";
import { failure, overBothTransports } from "./support";

overBothTransports("watches", (client) => {
  const shell = async (command: string) => (await client().commands.execute(command, undefined as never)).stdout.trim();
  const folder = () => shell("mktemp -d");

  test("changes arrive, and cancelling the stream ends the watch", async () => {
    const path = await folder();
    const stream = await client().watch.watch({ path, include: ["*.ts"] });
    await shell(`cd ${path} && echo 1 >a.js && echo 1 >a.ts && mv a.ts b.ts && rm b.ts`);
    const seen: string[] = [];
    for await (const event of parseSSEStream<FileWatchSSEEvent>(stream)) {
      if (event.type === "watching") expect([event.path, event.watchId.startsWith("watch-")]).toEqual([path, true]);
      if (event.type !== "event") continue;
      expect(event.isDirectory).toBe(false);
      seen.push(`${event.eventType} ${event.path.slice(path.length + 1)}`);
      if (event.eventType === "delete") break;
    }
    expect(seen).toEqual(["create a.ts", "modify a.ts", "move_from a.ts", "move_to b.ts", "delete b.ts"]);
    await shell(`rm -r ${path}`);
  });

  test("a missing directory is an error", async () => {
    const error = await failure(client().watch.watch({ path: "/no/such/folder" }));
    expect(error.message).toContain("no such file");
  });

  test("versions", async () => {
    const path = await folder();
    const first = await client().watch.checkChanges({ path });
    expect(first).toMatchObject({ success: true, status: "unchanged" });
    expect(first.version).toMatch(/^watch-\d+-\d+:0$/);
    await shell(`touch ${path}/new`);
    const second = await client().watch.checkChanges({ path, since: first.version });
    expect(second.status).toBe("changed");
    expect(await client().watch.checkChanges({ path, since: second.version })).toMatchObject({ status: "unchanged" });
    expect(await client().watch.checkChanges({ path, since: "watch-1-1:0" })).toMatchObject({ status: "resync", reason: "restarted" });
    await shell(`rm -r ${path}`);
  });
});
