"""The image, written once more and from its description: ARCH SITE PROVIDER PROBE[:TYPE...]...

Writes the bytes to the standard output, for comparison with what the library makes.
"""
import os
import struct
import sys

ARCHS = {
    "amd64": dict(
        machine=62, page=0x1000, ret=b"\xc3", fill=b"\xcc",
        sites={"nop1": b"\x90", "nop5": b"\x0f\x1f\x44\0\0",
               "nop10": b"\x66\x2e\x0f\x1f\x84\0\0\0\0\0"},
        operands=["%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9", "8(%rsp)", "16(%rsp)",
                  "24(%rsp)", "32(%rsp)", "40(%rsp)", "48(%rsp)"]),
    "arm64": dict(
        machine=183, page=0x10000, ret=b"\xc0\x03\x5f\xd6", fill=b"\0",
        sites={"nop4": b"\x1f\x20\x03\xd5"},
        operands=["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "[sp, 0]", "[sp, 8]",
                  "[sp, 16]", "[sp, 24]"]),
}


def align(data, to):
    return data + b"\0" * (-len(data) % to)


def elf_hash(name):
    h = 0
    for byte in name:
        h = ((h << 4) + byte) & 0xFFFFFFFF
        g = h & 0xF0000000
        h ^= g >> 24
        h &= ~g & 0xFFFFFFFF
    return h


def fnv128(data):
    h = 0x6C62272E07BB014262B821756295C58D
    for byte in data:
        h = ((h ^ byte) * ((1 << 88) + 0x13B)) & ((1 << 128) - 1)
    return h.to_bytes(16, "big")


def hash_table(names):
    buckets = [0] * max(1, len(names))
    chains = [0] * (len(names) + 1)
    for i, name in enumerate(names, 1):
        b = elf_hash(name) % len(buckets)
        chains[i], buckets[b] = buckets[b], i
    return struct.pack(f"<{2 + len(buckets) + len(chains)}I", len(buckets), len(chains),
                       *buckets, *chains)


def note(location, base, provider, name, args):
    desc = struct.pack("<QQQ", location, base, 0) + provider + b"\0" + name + b"\0" + args + b"\0"
    return align(struct.pack("<III", 8, len(desc), 3) + b"stapsdt\0" + desc, 4)


def image(arch, site, provider, probes):
    nop = arch["sites"][site]
    names = [name for name, _ in probes]
    strings, name_at = b"\0", []
    for name in names:
        name_at.append(len(strings))
        strings += name + b"\0"
    slot = nop + arch["ret"]
    slot += arch["fill"] * (16 - len(slot))

    data = bytearray(64 + 5 * 56)
    headers, at = [bytes(64)], {}
    section_names = b"\0"

    def section(name, kind, flags, alignment, entry, link, info, content, shift=0):
        nonlocal section_names
        data.extend(b"\0" * (-len(data) % alignment))
        offset = len(data)
        address = offset + shift if flags & 2 else 0
        headers.append(struct.pack("<IIQQQQIIQQ", len(section_names), kind, flags, address, offset,
                                   len(content), link, info, alignment, entry))
        section_names += name + b"\0"
        at[name] = (offset, address, len(content))
        data.extend(content)

    def next_at(alignment):
        return len(data) + (-len(data) % alignment)

    section(b".note.gnu.build-id", 7, 2, 4, 0, 0, 0,
            struct.pack("<III", 4, 16, 3) + b"GNU\0" + bytes(16))
    section(b".hash", 5, 2, 8, 4, 3, 0, hash_table(names))
    symbols_size = 24 * (len(names) + 1)
    text = next_at(8) + symbols_size + len(strings)
    text += -text % 16
    symbols = bytes(24)
    for i, at_name in enumerate(name_at):
        symbols += struct.pack("<IBBHQQ", at_name, 0x12, 0, 5, text + 16 * i,
                               len(nop) + len(arch["ret"]))
    section(b".dynsym", 11, 2, 8, 24, 4, 1, symbols)
    section(b".dynstr", 3, 2, 1, 0, 0, 0, strings)
    section(b".text", 1, 6, 16, 0, 0, 0, slot * len(names))
    assert at[b".text"][0] == text
    section(b".stapsdt.base", 1, 2, 1, 0, 0, 0, b"\0")
    end = len(data)
    base = at[b".stapsdt.base"][1]
    tags = [(4, at[b".hash"][1]), (5, at[b".dynstr"][1]), (6, at[b".dynsym"][1]),
            (10, len(strings)), (11, 24), (0, 0)]
    section(b".dynamic", 6, 3, 8, 16, 4, 0, b"".join(struct.pack("<QQ", *tag) for tag in tags),
            arch["page"])
    notes = b""
    for i, (name, types) in enumerate(probes):
        args = " ".join(f"{t}@{arch['operands'][k]}" for k, t in enumerate(types))
        notes += note(text + 16 * i, base, provider, name, args.encode())
    section(b".note.stapsdt", 7, 0, 4, 0, 0, 0, notes)
    section(b".shstrtab", 3, 0, 1, 0, 0, 0, section_names + b".shstrtab\0")

    data.extend(b"\0" * (-len(data) % 8))
    section_headers = len(data)
    for header in headers:
        data.extend(header)
    data[0:64] = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, arch["machine"], 1, 0, 64, section_headers, 0, 64, 56, 5, 64, 10, 9)

    def segment(kind, flags, where, alignment):
        offset, address, size = where
        return struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size,
                           alignment)

    data[64:344] = (segment(1, 5, (0, 0, end), arch["page"])
                    + segment(1, 6, at[b".dynamic"], arch["page"])
                    + segment(2, 6, at[b".dynamic"], 8)
                    + segment(4, 4, at[b".note.gnu.build-id"], 4)
                    + segment(0x6474E551, 6, (0, 0, 0), 16))
    data[360:376] = fnv128(data)
    return bytes(data)


def main():
    arch, site, provider = sys.argv[1:4]
    probes = []
    for word in sys.argv[4:]:
        name, *types = os.fsencode(word).split(b":")
        probes.append((name, [int(t) for t in types]))
    sys.stdout.buffer.write(image(ARCHS[arch], site, os.fsencode(provider), probes))


main()
