"""Uploads a backup to a real S3 server (moto) in parts, through presigned URLs, and restores it from there."""

import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile

import boto3
import requests
from botocore.config import Config
from moto.server import ThreadedMotoServer

URL, TOKEN = sys.argv[1], sys.argv[2]
# The minimum size of a part that is not the last one.
PART_BYTES = 5 << 20


def ask(path, body):
    """Sends a request to the server under test."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    answer = requests.post(URL + path, json=body, headers=headers, timeout=120)
    return answer.status_code, answer.json()


def succeed(path, body):
    status, answer = ask(path, body)
    assert status == 200, f"{path}: {status} {json.dumps(answer)}"
    return answer


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    folder = tempfile.mkdtemp()
    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    try:
        host, port = store.get_host_and_port()
        # Presigned URLs are of this host; credentials of the caller's environment are not used.
        s3 = boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret",
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )
        s3.create_bucket(Bucket="bucket")
        in_parts(s3, folder)
        refused(s3, folder)
        print("test result: 2 passed; 0 failed; 0 ignored")
    finally:
        store.stop()
        shutil.rmtree(folder, ignore_errors=True)


def in_parts(s3, folder):
    """A backup of several parts."""
    source = os.path.join(folder, "from")
    os.makedirs(os.path.join(source, "sub"))
    content = os.urandom(12 << 20)
    with open(os.path.join(source, "sub", "file"), "wb") as file:
        file.write(content)
    backup = succeed("/api/backup/create", {"dir": source})
    upload = s3.create_multipart_upload(Bucket="bucket", Key="backup")["UploadId"]
    parts = []
    for offset in range(0, backup["sizeBytes"], PART_BYTES):
        number = len(parts) + 1
        size = min(PART_BYTES, backup["sizeBytes"] - offset)
        signed = {"Bucket": "bucket", "Key": "backup", "UploadId": upload, "PartNumber": number}
        parts.append({"partNumber": number, "url": s3.generate_presigned_url("upload_part", signed), "offset": offset, "size": size})
    assert len(parts) == 3, parts
    uploaded = succeed("/api/backup/upload-parts", {"id": backup["id"], "parts": parts})["parts"]
    done = [{"PartNumber": part["partNumber"], "ETag": part["etag"]} for part in uploaded]
    s3.complete_multipart_upload(Bucket="bucket", Key="backup", UploadId=upload, MultipartUpload={"Parts": done})
    stored = s3.get_object(Bucket="bucket", Key="backup")["Body"].read()
    assert hashlib.sha256(stored).hexdigest() == backup["sha256"]
    url = s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "backup"})
    target = os.path.join(folder, "to")
    succeed("/api/backup/restore", {"dir": target, "url": url})
    with open(os.path.join(target, "sub", "file"), "rb") as file:
        assert file.read() == content


def refused(s3, folder):
    """Objects that do not exist, or are not an archive, change nothing."""
    target = os.path.join(folder, "kept")
    os.makedirs(target)
    s3.put_object(Bucket="bucket", Key="text", Body=b"not an archive")
    s3.put_object(Bucket="bucket", Key="half", Body=s3.get_object(Bucket="bucket", Key="backup")["Body"].read()[: 6 << 20])
    for key, code in [("none", "BACKUP_TRANSFER_FAILED"), ("text", "INVALID_ARCHIVE"), ("half", "INVALID_ARCHIVE")]:
        url = s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": key})
        _, answer = ask("/api/backup/restore", {"dir": target, "url": url})
        assert answer["code"] == code, f"{key}: {answer}"
        assert "X-Amz" not in json.dumps(answer), "a signature is shown"
    assert os.listdir(target) == [] and ".sandcrab" not in " ".join(os.listdir(folder))


main()
