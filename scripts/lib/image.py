#!/usr/bin/env python3
"""Writes an image as an archive of the OCI layout, with an index of its architectures, in the same bytes each time.

image.py [--dockerfile FILE] [--user USER] [--label KEY=VALUE]... NAME:TAG OUT.tar ARCH=FILE[,FILE...]...

The files of each architecture are in the root of the image. Without a Dockerfile, a container runs the first one. From the last
stage of a Dockerfile come USER, EXPOSE, ENTRYPOINT, CMD and LABEL. All times are $SOURCE_DATE_EPOCH, by default 0.
"""
import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import tarfile

MEDIA = "application/vnd.oci.image."
epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
blobs = {}


def add(tar, path, content, mode=0o644):
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.mtime = len(content), mode, epoch
    tar.addfile(info, io.BytesIO(content))


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def blob(media, content, **more):
    """Adds a blob to the image, and returns its descriptor."""
    blobs[digest(content)] = content
    return {"mediaType": MEDIA + media, "digest": digest(content), "size": len(content), **more}


def encoded(value):
    return json.dumps(value, sort_keys=True).encode()


def dockerfile(path):
    """Returns what the last stage of a Dockerfile says about the containers."""
    config = {}
    with open(path) as f:
        lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", f.read())).splitlines()
    for line in filter(None, map(str.strip, lines)):
        word, rest = line.split(None, 1)
        if word == "FROM":
            config = {}
        elif word == "USER":
            config["User"] = rest
        elif word == "EXPOSE":
            config["ExposedPorts"] = {f"{port}/tcp": {} for port in rest.split()}
        elif word in ("ENTRYPOINT", "CMD"):
            config[word.capitalize()] = json.loads(rest)
        elif word == "LABEL":
            config.setdefault("Labels", {}).update(label.split("=", 1) for label in shlex.split(rest))
        elif word not in ("COPY", "RUN", "WORKDIR"):
            raise SystemExit(f"image.py: {path}: {word} is not known")
    return config


def manifest(arch, files, config):
    """Adds the image of an architecture, and returns its descriptor."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in files:
            with open(path, "rb") as f:
                add(tar, os.path.basename(path), f.read(), 0o755 if os.access(path, os.X_OK) else 0o644)
    layer = layer.getvalue()
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    described = blob("config.v1+json", encoded({
        "created": created, "architecture": arch, "os": "linux",
        "config": {"Entrypoint": ["/" + os.path.basename(files[0])], **config},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "image.py"}],
    }))
    layers = [blob("layer.v1.tar+gzip", gzip.compress(layer, 6, mtime=0))]
    return blob("manifest.v1+json", encoded({
        "schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": described, "layers": layers,
    }), platform={"architecture": arch, "os": "linux"})


def index(manifests):
    return encoded({"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": manifests})


parser = argparse.ArgumentParser()
parser.add_argument("--dockerfile")
parser.add_argument("--user")
parser.add_argument("--label", action="append", default=[])
parser.add_argument("name")
parser.add_argument("out")
parser.add_argument("architectures", nargs="+")
args = parser.parse_args()

config = dockerfile(args.dockerfile) if args.dockerfile else {}
if args.user:
    config["User"] = args.user
if args.label:
    config.setdefault("Labels", {}).update(label.split("=", 1) for label in args.label)
manifests = []
for one in args.architectures:
    arch, files = one.split("=", 1)
    manifests.append(manifest(arch, files.split(","), config))
# containerd takes the whole name, and others the tag.
names = {"io.containerd.image.name": args.name, "org.opencontainers.image.ref.name": args.name.rsplit(":", 1)[1]}
top = index([blob("index.v1+json", index(manifests), annotations=names)])
with tarfile.open(args.out, "w", format=tarfile.GNU_FORMAT) as tar:
    add(tar, "oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
    add(tar, "index.json", top)
    for name in sorted(blobs):
        add(tar, "blobs/" + name.replace(":", "/"), blobs[name])
