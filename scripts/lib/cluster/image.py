#!/usr/bin/env python3
"""Writes an image of static programs, as docker save does: image.py NAME:TAG OUT.tar USER PROGRAM...

The first program is what a container runs.
"""
import hashlib
import io
import json
import os
import sys
import tarfile

name, out, user, *programs = sys.argv[1:]


def add(tar, path, content, mode=0o644):
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def digest(content):
    return hashlib.sha256(content).hexdigest()


layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    tmp = tarfile.TarInfo("tmp")
    tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
    tar.addfile(tmp)
    for program in programs:
        with open(program, "rb") as f:
            add(tar, os.path.basename(program), f.read(), 0o755)
layer = layer.getvalue()
config = json.dumps({
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux",
    "config": {"Entrypoint": ["/" + os.path.basename(programs[0])], "User": user},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(layer)]},
}).encode()
path = digest(layer) + "/layer.tar"
manifest = [{"Config": digest(config) + ".json", "RepoTags": [name], "Layers": [path]}]
with tarfile.open(out, "w") as tar:
    add(tar, digest(config) + ".json", config)
    add(tar, path, layer)
    add(tar, "manifest.json", json.dumps(manifest).encode())
