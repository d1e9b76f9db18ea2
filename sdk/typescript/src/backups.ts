// Backups of folders.
import { Git } from "./git.js";
import { segment } from "./http.js";
import type { CallOptions, Options, Schemas } from "./types.js";

export type Backup = Schemas["Backup"];
export type BackupCreated = Schemas["BackupCreated"];
export type BackupRestored = Schemas["BackupRestored"];

export class Backups extends Git {
  /** Packs a folder. `ttl` is in seconds. */
  createBackup(options: Options<"CreateBackupRequest">): Promise<BackupCreated> {
    return this.post("/api/backup/create", options);
  }

  /** Replaces a folder by the content of a backup, at once. */
  restoreBackup(options: Options<"RestoreBackupRequest">): Promise<BackupRestored> {
    return this.post("/api/backup/restore", options);
  }

  /** Sends ranges of an archive to presigned URLs. */
  uploadBackupParts(options: Options<"UploadPartsRequest">): Promise<Schemas["PartsUploaded"]> {
    return this.post("/api/backup/upload-parts", options);
  }

  /** The backups that the server keeps, the newest first. */
  async listBackups(options: CallOptions = {}): Promise<Backup[]> {
    return (await this.client.json<Schemas["BackupList"]>("GET", "/api/backup/list", options)).backups;
  }

  async deleteBackup(id: string, options: CallOptions = {}): Promise<void> {
    await this.client.json("DELETE", `/api/backup/${segment(id, "list")}`, options);
  }
}
