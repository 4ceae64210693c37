"""boto3: the operations of S3 one by one, and what it must refuse."""

import base64
import datetime
import hashlib
import hmac
import http.client
import socket
import urllib.error
import urllib.parse
import urllib.request

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import ClientError

from checks import equal, expect, wait_for
from clients import REGION, arrived, boto, content, read_with_token, sha256

MIB = 1 << 20


def code_of(call, *arguments, **options):
    """The S3 error code of a call that must fail, and its HTTP status."""
    try:
        call(*arguments, **options)
    except ClientError as error:
        answer = error.response
        expect(answer["ResponseMetadata"].get("RequestId"), f"no request id: {answer}")
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]
    return "none", 200


def operations(checks, demo):
    one, two = boto(demo, 1), boto(demo, 2)
    bucket = "boto-journey"

    with checks.check("boto3: create, head, list, locate a bucket"):
        one.create_bucket(Bucket=bucket)
        one.head_bucket(Bucket=bucket)
        expect(bucket in [row["Name"] for row in one.list_buckets()["Buckets"]], "not listed")
        one.get_bucket_location(Bucket=bucket)
        wait_for("the bucket at site 2", lambda: bucket in [row["Name"] for row in two.list_buckets()["Buckets"]])

    with checks.check("boto3: objects of 0 bytes, around the inline limit and of several chunks"):
        for size in (0, 1, 32 * 1024, 32 * 1024 + 1, MIB, MIB + 1, 5 * MIB + 3):
            body = content(size, size)
            put = one.put_object(Bucket=bucket, Key=f"size/{size}", Body=body)
            equal(put["ETag"], f'"{hashlib.md5(body).hexdigest()}"', "ETag")
            arrived(two, bucket, f"size/{size}")
            for client in (one, two):
                equal(sha256(client.get_object(Bucket=bucket, Key=f"size/{size}")["Body"].read()), sha256(body), size)

    with checks.check("boto3: an overwrite and a delete arrive at site 2"):
        one.put_object(Bucket=bucket, Key="fresh", Body=b"first")
        wait_for("the object", lambda: code_of(two.head_object, Bucket=bucket, Key="fresh")[1] == 200)
        equal(two.get_object(Bucket=bucket, Key="fresh")["Body"].read(), b"first", "first")
        one.put_object(Bucket=bucket, Key="fresh", Body=b"second")
        wait_for("the overwrite", lambda: two.get_object(Bucket=bucket, Key="fresh")["Body"].read() == b"second")
        one.delete_object(Bucket=bucket, Key="fresh")
        wait_for("the delete", lambda: code_of(two.get_object, Bucket=bucket, Key="fresh")[0] == "NoSuchKey")

    with checks.check("boto3: a read at site 2 with the token of a write at site 1 sees it at once"):
        for number in range(20):
            put = one.put_object(Bucket=bucket, Key="token", Body=str(number).encode())
            token = put["ResponseMetadata"]["HTTPHeaders"]["x-skerry-token"]
            equal(read_with_token(two, token, Bucket=bucket, Key="token"), str(number).encode(), "read")

    with checks.check("boto3: ranges"):
        body = content(3 * MIB, "range")
        one.put_object(Bucket=bucket, Key="range", Body=body)
        arrived(two, bucket, "range")
        for spec, wanted in [
            ("bytes=0-0", body[:1]), ("bytes=-5", body[-5:]), (f"bytes={MIB - 2}-{MIB + 1}", body[MIB - 2 : MIB + 2]),
            (f"bytes={2 * MIB}-", body[2 * MIB :]), (f"bytes=5-{10 * MIB}", body[5:]),
        ]:
            got = two.get_object(Bucket=bucket, Key="range", Range=spec)
            equal((got["ResponseMetadata"]["HTTPStatusCode"], sha256(got["Body"].read())), (206, sha256(wanted)), spec)
        equal(code_of(one.get_object, Bucket=bucket, Key="range", Range=f"bytes={3 * MIB}-"), ("InvalidRange", 416), "beyond")

    with checks.check("boto3: conditional reads"):
        etag = one.head_object(Bucket=bucket, Key="range")["ETag"]
        equal(code_of(one.get_object, Bucket=bucket, Key="range", IfNoneMatch=etag)[1], 304, "If-None-Match")
        equal(code_of(one.get_object, Bucket=bucket, Key="range", IfMatch='"no"')[1], 412, "If-Match")
        future = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        equal(code_of(one.head_object, Bucket=bucket, Key="range", IfModifiedSince=future)[1], 304, "If-Modified-Since")

    with checks.check("boto3: listings: prefix, delimiter, paging, v1 and v2"):
        keys = sorted(f"list/{group}/{number:02}" for group in "abc" for number in range(12))
        for key in keys:
            one.put_object(Bucket=bucket, Key=key, Body=b"x")
        pages = one.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="list/", PaginationConfig={"PageSize": 5})
        equal([row["Key"] for page in pages for row in page["Contents"]], keys, "v2 by pages of 5")
        pages = one.get_paginator("list_objects").paginate(Bucket=bucket, Prefix="list/", PaginationConfig={"PageSize": 7})
        equal([row["Key"] for page in pages for row in page["Contents"]], keys, "v1 by pages of 7")
        level = one.list_objects_v2(Bucket=bucket, Prefix="list/", Delimiter="/")
        equal([row["Prefix"] for row in level["CommonPrefixes"]], ["list/a/", "list/b/", "list/c/"], "prefixes")
        expect("Contents" not in level, "keys beside prefixes")
        after = one.list_objects_v2(Bucket=bucket, Prefix="list/", StartAfter="list/c/09")
        equal([row["Key"] for row in after["Contents"]], ["list/c/10", "list/c/11"], "start after")
        count = lambda: two.list_objects_v2(Bucket=bucket, Prefix="list/")["KeyCount"]
        wait_for("the same listing at site 2", lambda: count() == len(keys))

    with checks.check("boto3: DeleteObjects"):
        keys = [{"Key": f"list/a/{number:02}"} for number in range(12)] + [{"Key": "never/there"}]
        done = one.delete_objects(Bucket=bucket, Delete={"Objects": keys})
        equal((len(done["Deleted"]), done.get("Errors")), (13, None), "deleted")
        expect("Contents" not in one.list_objects_v2(Bucket=bucket, Prefix="list/a/"), "still listed")

    with checks.check("boto3: copies, with and without new metadata"):
        one.put_object(Bucket=bucket, Key="from", Body=b"copied", Metadata={"a": "1"}, ContentType="text/x-a")
        one.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"})
        equal(one.head_object(Bucket=bucket, Key="to")["Metadata"], {"a": "1"}, "copied metadata")
        one.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"},
                        MetadataDirective="REPLACE", Metadata={"b": "2"})
        equal(one.head_object(Bucket=bucket, Key="to")["Metadata"], {"b": "2"}, "replaced metadata")
        equal(code_of(one.copy_object, Bucket=bucket, Key="from", CopySource={"Bucket": bucket, "Key": "from"})[0],
              "InvalidRequest", "a copy onto itself")

    multipart(checks, one, two, bucket)
    checksums(checks, one, two, bucket)
    presigned(checks, demo, one, bucket)
    versions(checks, one, two)


def multipart(checks, one, two, bucket):
    with checks.check("boto3: multipart: list, copy a part, complete, read parts"):
        upload = one.create_multipart_upload(Bucket=bucket, Key="multi", Metadata={"m": "1"})["UploadId"]
        uploads = [row["UploadId"] for row in one.list_multipart_uploads(Bucket=bucket)["Uploads"]]
        expect(upload in uploads, f"{upload} is not among {uploads}")
        parts = [content(5 * MIB, "p1"), content(6 * MIB, "p2")]
        source = content(5 * MIB, "p3")
        one.put_object(Bucket=bucket, Key="part-source", Body=source)
        done = []
        for number, body in ((2, parts[1]), (1, parts[0])):
            put = one.upload_part(Bucket=bucket, Key="multi", UploadId=upload, PartNumber=number, Body=body)
            done.append({"PartNumber": number, "ETag": put["ETag"]})
        copied = one.upload_part_copy(Bucket=bucket, Key="multi", UploadId=upload, PartNumber=3,
                                      CopySource={"Bucket": bucket, "Key": "part-source"}, CopySourceRange="bytes=0-99")
        done.append({"PartNumber": 3, "ETag": copied["CopyPartResult"]["ETag"]})
        done.sort(key=lambda part: part["PartNumber"])
        listed = one.list_parts(Bucket=bucket, Key="multi", UploadId=upload)["Parts"]
        equal([(row["PartNumber"], row["Size"]) for row in listed], [(1, 5 * MIB), (2, 6 * MIB), (3, 100)], "parts")
        equal(code_of(one.get_object, Bucket=bucket, Key="multi")[0], "NoSuchKey", "before completion")
        finished = one.complete_multipart_upload(Bucket=bucket, Key="multi", UploadId=upload, MultipartUpload={"Parts": done})
        sums = b"".join(hashlib.md5(body).digest() for body in (*parts, source[:100]))
        equal(finished["ETag"], f'"{hashlib.md5(sums).hexdigest()}-3"', "ETag")
        whole = parts[0] + parts[1] + source[:100]
        arrived(two, bucket, "multi")
        got = two.get_object(Bucket=bucket, Key="multi")
        equal((sha256(got["Body"].read()), got["Metadata"]), (sha256(whole), {"m": "1"}), "at site 2")
        part = one.get_object(Bucket=bucket, Key="multi", PartNumber=2)
        equal((sha256(part["Body"].read()), part["PartsCount"]), (sha256(parts[1]), 3), "part 2")

    with checks.check("boto3: multipart: abort, small part, wrong order, wrong ETag, unknown upload"):
        upload = one.create_multipart_upload(Bucket=bucket, Key="bad")["UploadId"]
        put = lambda number, body: one.upload_part(Bucket=bucket, Key="bad", UploadId=upload, PartNumber=number, Body=body)["ETag"]
        small, large = put(1, b"small"), put(2, content(5 * MIB, "ok"))
        finish = lambda *parts: code_of(one.complete_multipart_upload, Bucket=bucket, Key="bad", UploadId=upload,
                                        MultipartUpload={"Parts": [{"PartNumber": n, "ETag": e} for n, e in parts]})
        equal(finish((1, small), (2, large)), ("EntityTooSmall", 400), "small part")
        equal(finish((2, large), (1, small)), ("InvalidPartOrder", 400), "wrong order")
        equal(finish((2, small)), ("InvalidPart", 400), "wrong ETag")
        equal(finish((7, large)), ("InvalidPart", 400), "absent part")
        one.abort_multipart_upload(Bucket=bucket, Key="bad", UploadId=upload)
        equal(code_of(one.list_parts, Bucket=bucket, Key="bad", UploadId=upload), ("NoSuchUpload", 404), "after abort")


def checksums(checks, one, two, bucket):
    with checks.check("boto3: declared checksums are kept and verified"):
        body = b"checked"
        for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
            put = one.put_object(Bucket=bucket, Key=f"sum/{algorithm}", Body=body, ChecksumAlgorithm=algorithm)
            field = f"Checksum{algorithm}"
            head = one.head_object(Bucket=bucket, Key=f"sum/{algorithm}", ChecksumMode="ENABLED")
            equal(head[field], put[field], field)
        arrived(two, bucket, "sum/SHA256")
        equal(two.get_object(Bucket=bucket, Key="sum/SHA256", ChecksumMode="ENABLED")["Body"].read(), body, "verified read")
        wrong = base64.b64encode(b"\0" * 32).decode()
        equal(code_of(one.put_object, Bucket=bucket, Key="wrong", Body=body, ChecksumSHA256=wrong)[1], 400, "wrong SHA256")
        wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
        equal(code_of(one.put_object, Bucket=bucket, Key="wrong", Body=body, ContentMD5=wrong), ("BadDigest", 400), "wrong MD5")
        equal(code_of(one.put_object, Bucket=bucket, Key="wrong", Body=body, ContentMD5="!"), ("InvalidDigest", 400), "no MD5")
        equal(code_of(one.head_object, Bucket=bucket, Key="wrong")[1], 404, "nothing was stored")


def presigned(checks, demo, one, bucket):
    with checks.check("boto3: presigned get and put; an expired and a changed one are refused"):
        sign = lambda verb, seconds=300: one.generate_presigned_url(verb, Params={"Bucket": bucket, "Key": "signed ☃"}, ExpiresIn=seconds)
        request = urllib.request.Request(sign("put_object"), data=b"by link", method="PUT")
        equal(urllib.request.urlopen(request, timeout=30).status, 200, "put")
        equal(urllib.request.urlopen(sign("get_object"), timeout=30).read(), b"by link", "get")
        equal(http_code(sign("get_object").replace("signed", "stolen")), (403, "SignatureDoesNotMatch"), "changed")
        expired = sign("get_object", 1)
        wait_for("the link to expire", lambda: http_code(expired) == (403, "AccessDenied"), 10, every=0.3)


def http_code(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        return error.code, text.partition("<Code>")[2].partition("</Code>")[0]


def versions(checks, one, two):
    bucket = "boto-versions"
    with checks.check("boto3: versions are listed at every site, markers hide, an erased version is gone"):
        one.create_bucket(Bucket=bucket)
        one.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        equal(one.get_bucket_versioning(Bucket=bucket)["Status"], "Enabled", "status")
        ids = [one.put_object(Bucket=bucket, Key="k", Body=str(n).encode())["VersionId"] for n in range(3)]
        marker = one.delete_object(Bucket=bucket, Key="k")
        expect(marker["DeleteMarker"], f"no marker: {marker}")
        equal(code_of(one.get_object, Bucket=bucket, Key="k")[0], "NoSuchKey", "hidden")
        rows = lambda client: client.list_object_versions(Bucket=bucket)
        equal([row["VersionId"] for row in rows(one)["Versions"]], ids[::-1], "newest first")
        wait_for("the versions at site 2", lambda: [r["VersionId"] for r in rows(two).get("Versions", [])] == ids[::-1])
        equal(two.get_object(Bucket=bucket, Key="k", VersionId=ids[1])["Body"].read(), b"1", "an old version at site 2")
        one.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
        equal(one.get_object(Bucket=bucket, Key="k")["Body"].read(), b"2", "without the marker")
        one.delete_object(Bucket=bucket, Key="k", VersionId=ids[2])
        equal(one.get_object(Bucket=bucket, Key="k")["Body"].read(), b"1", "without the newest")
        equal(code_of(one.get_object, Bucket=bucket, Key="k", VersionId=ids[2])[0], "NoSuchVersion", "erased")


def refusals(checks, demo):
    """What must be refused, precisely."""
    one = boto(demo, 1)
    bucket = "boto-refusals"
    one.create_bucket(Bucket=bucket)
    one.put_object(Bucket=bucket, Key="k", Body=b"kept")

    with checks.check("boto3: names and keys that are not there or not allowed"):
        equal(code_of(one.get_object, Bucket=bucket, Key="no"), ("NoSuchKey", 404), "key")
        equal(code_of(one.get_object, Bucket="no-such-bucket-here", Key="k"), ("NoSuchBucket", 404), "bucket")
        equal(code_of(one.put_object, Bucket=bucket, Key="k" * 1025, Body=b"x"), ("KeyTooLongError", 400), "1025 bytes")
        one.put_object(Bucket=bucket, Key="k" * 1024, Body=b"x")
        equal(code_of(one.delete_bucket, Bucket=bucket), ("BucketNotEmpty", 409), "not empty")
        for name in ("Upper", "ab", "a..b", "-start", "192.168.1.1", "x" * 64):
            status, code = signed(one, demo, "PUT", f"/{name}", b"")
            equal((status, code), (400, "InvalidBucketName"), name)

    with checks.check("boto3: wrong keys and signatures"):
        options = {"endpoint_url": demo.site(1).endpoint, "region_name": REGION,
                   "config": Config(retries={"total_max_attempts": 1}, signature_version="s3v4", s3={"addressing_style": "path"})}
        stranger = boto3.client("s3", aws_access_key_id="SKNOBODYNOBODYNOBODY", aws_secret_access_key="x", **options)
        equal(code_of(stranger.list_buckets), ("InvalidAccessKeyId", 403), "unknown key")
        liar = boto3.client("s3", aws_access_key_id=demo.access_key, aws_secret_access_key="wrong", **options)
        equal(code_of(liar.list_buckets), ("SignatureDoesNotMatch", 403), "wrong secret")
        status, code = raw(demo, "GET", "/")
        equal((status, code), (403, "AccessDenied"), "no signature")

    with checks.check("boto3: a request of an hour ago is refused where the site's clock is to be trusted"):
        status, code = raw(demo, "GET", "/", headers=old_headers(demo))
        wanted = (403, "RequestTimeTooSkewed") if demo.status(1)["clock_trusted"] else (200, "")
        equal((status, code), wanted, "an old signature")

    with checks.check("boto3: malformed XML, a body shorter than announced, garbage"):
        status, code = signed(one, demo, "POST", f"/{bucket}?delete", b"<Delete><Object>", md5=True)
        equal((status, code), (400, "MalformedXML"), "malformed XML")
        expect(short_body(one, demo, bucket), "a short body was stored")
        equal(one.get_object(Bucket=bucket, Key="k")["Body"].read(), b"kept", "nothing was lost")

    with checks.check("boto3: settings that no bucket has are read as none"):
        for call, code in [
            (one.get_bucket_website, "NoSuchWebsiteConfiguration"), (one.get_bucket_policy, "NoSuchBucketPolicy"),
            (one.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
        ]:
            equal(code_of(call, Bucket=bucket), (code, 404), call.__name__)
        equal(one.get_bucket_logging(Bucket=bucket).get("LoggingEnabled"), None, "logging")
        one.delete_bucket_policy(Bucket=bucket)
        attributes = one.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectSize", "ETag"])
        equal(attributes["ObjectSize"], 4, "the size of an object")

    with checks.check("boto3: what is not carried out says 501 NotImplemented"):
        for call, options in [
            (one.put_bucket_policy, {"Policy": "{}"}), (one.get_bucket_inventory_configuration, {"Id": "i"}),
            (one.put_bucket_accelerate_configuration, {"AccelerateConfiguration": {"Status": "Enabled"}}),
            (one.get_object_torrent, {"Key": "k"}), (one.restore_object, {"Key": "k", "RestoreRequest": {"Days": 1}}),
        ]:
            equal(code_of(call, Bucket=bucket, **options), ("NotImplemented", 501), call.__name__)
        equal(code_of(one.put_object, Bucket=bucket, Key="k", Body=b"x", ServerSideEncryption="aws:kms"),
              ("NotImplemented", 501), "x-amz-server-side-encryption")
        equal(one.get_object(Bucket=bucket, Key="k")["Body"].read(), b"kept", "nothing was lost")


def raw(demo, method, path, body=b"", headers=None):
    """An unsigned request; gives status and S3 error code."""
    host = demo.site(1).endpoint.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request(method, urllib.parse.quote(path, safe="/?=&"), body=body, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, text.partition("<Code>")[2].partition("</Code>")[0]


def headers_for(client, demo, method, path, body, extra=None):
    """Headers of a signed request that boto3 would not send itself."""
    request = AWSRequest(method=method, url=demo.site(1).endpoint + path, data=body, headers=extra or {})
    request.context["payload_signing_enabled"] = True
    S3SigV4Auth(client._request_signer._credentials, "s3", REGION).add_auth(request)
    return dict(request.headers)


def old_headers(demo):
    """Headers of a request signed an hour ago, with the right key."""
    host = demo.site(1).endpoint.removeprefix("http://")
    stamp = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)).strftime("%Y%m%dT%H%M%SZ")
    empty, scope = hashlib.sha256(b"").hexdigest(), f"{stamp[:8]}/{REGION}/s3/aws4_request"
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = f"GET\n/\n\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n\n{names}\n{empty}"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{demo.secret_key}".encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={demo.access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {"x-amz-date": stamp, "x-amz-content-sha256": empty, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def signed(client, demo, method, path, body, md5=False):
    extra = {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()} if md5 else {}
    return raw(demo, method, path, body, headers_for(client, demo, method, path, body, extra))


def short_body(client, demo, bucket):
    """Announces 1000 bytes, sends 10 and hangs up; true if nothing was stored."""
    path = f"/{bucket}/short"
    headers = headers_for(client, demo, "PUT", path, b"x" * 1000)
    host, port = demo.site(1).endpoint.removeprefix("http://").split(":")
    lines = [f"PUT {path} HTTP/1.1", f"Host: {host}:{port}", "Content-Length: 1000"]
    lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() not in ("host", "content-length")]
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + b"x" * 10)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(20)
        try:
            connection.recv(4096)
        except OSError:
            pass
    return code_of(client.head_object, Bucket=bucket, Key="short")[1] == 404
