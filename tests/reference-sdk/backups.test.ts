// createArchive, restoreArchive and uploadParts: backups, as the Sandbox class uses them.
import { expect, test } from "bun:test";
import { failure, overBothTransports, withSession } from "./support";

overBothTransports("backups", (client) => {
  const shell = async (command: string) => (await client().commands.execute(command, undefined as never)).stdout.trim();

  test("an archive is created, uploaded in parts and restored", async () => {
    const folder = await shell("mktemp -d");
    await shell(`mkdir ${folder}/from && head -c 300000 /dev/urandom >${folder}/from/file && touch ${folder}/from/a.log`);
    const parts: Record<string, Uint8Array> = {};
    const store = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: async (request) => {
        const number = new URL(request.url).searchParams.get("partNumber") ?? "";
        parts[number] = new Uint8Array(await request.arrayBuffer());
        return new Response("", { headers: { ETag: `"tag-${number}"` } });
      },
    });
    try {
      await withSession(client(), async (session) => {
        const archivePath = `${folder}/archives/backup.sqsh`;
        const options = { gitignore: false, excludes: ["*.log"], compression: { format: "lz4" as const, threads: 8 } };
        const made = await client().backup.createArchive(`${folder}/from`, archivePath, session, options);
        expect(made).toMatchObject({ success: true, archivePath });
        expect(made.sizeBytes).toBeGreaterThan(300_000);
        const half = Math.ceil(made.sizeBytes / 2);
        const url = (number: number) => `http://127.0.0.1:${store.port}/bucket/key?partNumber=${number}`;
        const uploaded = await client().backup.uploadParts(
          {
            archivePath,
            parts: [
              { partNumber: 1, url: url(1), offset: 0, size: half },
              { partNumber: 2, url: url(2), offset: half, size: made.sizeBytes - half },
            ],
          },
          session,
        );
        expect(uploaded).toMatchObject({ success: true, parts: [{ partNumber: 1, etag: '"tag-1"' }, { partNumber: 2, etag: '"tag-2"' }] });
        expect(parts["1"]!.length + parts["2"]!.length).toBe(made.sizeBytes);
        const restored = await client().backup.restoreArchive(`${folder}/to`, archivePath, session);
        expect(restored).toMatchObject({ success: true, dir: `${folder}/to` });
        expect(await shell(`cmp ${folder}/from/file ${folder}/to/file && ls ${folder}/to`)).toBe("file");
        const error = await failure(client().backup.restoreArchive(`${folder}/to`, `${folder}/none`, session));
        expect(error.name).toBe("BackupNotFoundError");
        const invalid = await failure(client().backup.createArchive("", archivePath, session));
        expect(invalid.name).toBe("InvalidBackupConfigError");
      });
    } finally {
      await store.stop(true);
    }
    await shell(`rm -r ${folder}`);
  });
});
