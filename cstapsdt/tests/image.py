"""The image, written once more and from its description: ARCH NOP PROVIDER PROBE[:TYPE...]...

Writes the bytes to the standard output, for comparison with what the library makes.
"""
import os
import struct
import sys

ARCHS = {
    "amd64": dict(
        machine=62, page=0x1000, ret=b"\xc3", fill=b"\xcc",
        entry=b"\x48\xeb\xf0",
        nops={"nop1": b"\x90", "nop5": b"\x0f\x1f\x44\0\0",
               "nop10": b"\x66\x2e\x0f\x1f\x84\0\0\0\0\0"},
        operands=["%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9", "8(%rsp)", "16(%rsp)",
                  "24(%rsp)", "32(%rsp)", "40(%rsp)", "48(%rsp)"]),
    "arm64": dict(
        machine=183, page=0x10000, ret=b"\xc0\x03\x5f\xd6", fill=b"\0",
        entry=b"\xe0\x03\x00\xaa\xfd\xff\xff\x17",
        nops={"nop4": b"\x1f\x20\x03\xd5"},
        operands=["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "[sp, 0]", "[sp, 8]",
                  "[sp, 16]", "[sp, 24]"]),
    "riscv64": dict(
        machine=243, flags=5, page=0x1000, ret=b"\x82\x80", fill=b"\0",
        entry=b"\x6f\xf0\x5f\xff", nops={"nop2": b"\x01\0"},
        operands=["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "0(sp)", "8(sp)", "16(sp)",
                  "24(sp)"]),
    "s390x": dict(
        machine=22, order=">", hash="Q", page=0x1000, ret=b"\x07\xfe", fill=b"\0",
        entry=b"\xc0\xf4\xff\xff\xff\xfb",
        nops={"nop4": b"\x47\0\0\0"},
        # On the stack the value is at the end of its 8 bytes.
        operands=["%r2", "%r3", "%r4", "%r5", "%r6"] + [
            lambda size, end=end: f"{end - size}(%r15)" for end in range(168, 217, 8)]),
    "ppc64le": dict(
        machine=21, flags=2, page=0x10000, ret=b"\x20\0\x80\x4e", fill=b"\0",
        entry=b"\xf8\xff\xff\x4b\x00\x00\x00\x00",
        nops={"nop4": b"\0\0\0\x60"},
        operands=["3", "4", "5", "6", "7", "8", "9", "10", "96(1)", "104(1)", "112(1)", "120(1)"]),
    "386": dict(
        machine=3, word="I", page=0x1000, ret=b"\xc3", fill=b"\xcc",
        entry=b"\x48\xeb\xf0", nops={"nop1": b"\x90"},
        operands=[f"{at}(%esp)" for at in range(4, 100, 8)]),
    "arm": dict(
        machine=40, flags=0x05000000, word="I", page=0x10000, ret=b"\x1e\xff\x2f\xe1", fill=b"\0",
        entry=b"\xfb\xff\xff\xea",
        nops={"nop4": b"\0\0\xa0\xe1"}, operands=[f"[sp, #{at}]" for at in range(0, 96, 8)]),
}


class Format:
    """The architecture's numbers: W in a format is a word."""

    def __init__(self, arch):
        self.order, self.word = arch.get("order", "<"), arch.get("word", "Q")
        self.wide = self.word == "Q"
        self.size = 8 if self.wide else 4

    def pack(self, layout, *values):
        return struct.pack(self.order + layout.replace("W", self.word), *values)

    def symbol(self, name, info, section, value, size):
        if self.wide:
            return self.pack("IBBHQQ", name, info, 0, section, value, size)
        return self.pack("IIIBBH", name, value, size, info, 0, section)

    def segment(self, kind, flags, where, alignment):
        offset, address, size = where
        if self.wide:
            return self.pack("IIQQQQQQ", kind, flags, offset, address, address, size, size,
                             alignment)
        return self.pack("IIIIIIII", kind, offset, address, address, size, size, flags, alignment)


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


def hash_table(f, entry, names):
    buckets = [0] * max(1, len(names))
    chains = [0] * (len(names) + 1)
    for i, name in enumerate(names, 1):
        b = elf_hash(name) % len(buckets)
        chains[i], buckets[b] = buckets[b], i
    return f.pack(f"{2 + len(buckets) + len(chains)}{entry}", len(buckets), len(chains), *buckets,
                  *chains)


def note(f, location, base, provider, name, args):
    desc = f.pack("WWW", location, base, 0) + provider + b"\0" + name + b"\0" + args + b"\0"
    return align(f.pack("III", 8, len(desc), 3) + b"stapsdt\0" + desc, 4)


def argument(operand, kind):
    return f"{kind}@{operand(abs(kind)) if callable(operand) else operand}"


def image(arch, nop_name, provider, probes, debug):
    f = Format(arch)
    header_size, segment_size = (64, 56) if f.wide else (52, 32)
    symbol_size = len(f.symbol(0, 0, 0, 0, 0))
    nop = arch["nops"][nop_name]
    names = [name for name, _ in probes]
    strings, name_at = b"\0", []
    for name in names:
        name_at.append(len(strings))
        strings += name + b"\0"
    slot = nop + arch["ret"]
    slot += arch["fill"] * (16 - len(slot) - len(arch["entry"])) + arch["entry"]

    data = bytearray(header_size + 5 * segment_size)
    headers, at = [bytes(64 if f.wide else 40)], {}
    section_names = b"\0"

    def section(name, kind, flags, alignment, entry, link, info, content, shift=0):
        nonlocal section_names
        data.extend(b"\0" * (-len(data) % alignment))
        offset = len(data)
        address = offset + shift if flags & 2 else 0
        headers.append(f.pack("IIWWWWIIWW", len(section_names), kind, flags, address, offset,
                              len(content), link, info, alignment, entry))
        section_names += name + b"\0"
        at[name] = (offset, address, len(content))
        data.extend(content)

    def next_at(alignment):
        return len(data) + (-len(data) % alignment)

    section(b".note.gnu.build-id", 7, 2, 4, 0, 0, 0,
            f.pack("III", 4, 16, 3) + b"GNU\0" + bytes(16))
    entry = arch.get("hash", "I")
    section(b".hash", 5, 2, f.size, struct.calcsize("=" + entry), 3, 0, hash_table(f, entry, names))
    text = next_at(f.size) + symbol_size * (len(names) + 1) + len(strings)
    text += -text % 256
    symbols = bytes(symbol_size)
    for i, at_name in enumerate(name_at):
        symbols += f.symbol(at_name, 0x12, 5, text + 16 * i, len(nop) + len(arch["ret"]))
    section(b".dynsym", 11, 2, f.size, symbol_size, 4, 1, symbols)
    section(b".dynstr", 3, 2, 1, 0, 0, 0, strings)
    section(b".text", 1, 6, 256, 0, 0, 0, slot * len(names))
    assert at[b".text"][0] == text
    section(b".stapsdt.base", 1, 2, 1, 0, 0, 0, b"\0")
    end = len(data)
    base = at[b".stapsdt.base"][1]
    tags = [(4, at[b".hash"][1]), (5, at[b".dynstr"][1]), (6, at[b".dynsym"][1]),
            (10, len(strings)), (11, symbol_size), (0, 0)]
    section(b".dynamic", 6, 3, f.size, 2 * f.size, 4, 0,
            b"".join(f.pack("WW", *tag) for tag in tags), arch["page"])
    notes = b""
    for i, (name, types) in enumerate(probes):
        args = " ".join(argument(arch["operands"][k], t) for k, t in enumerate(types))
        notes += note(f, text + 16 * i, base, provider, name, args.encode())
    section(b".note.stapsdt", 7, 0, 4, 0, 0, 0, notes)
    for name, content in debug:
        strings = name == b".debug_str"
        section(name, 1, 0x30 if strings else 0, 1, strings, 0, 0, content)
    section(b".shstrtab", 3, 0, 1, 0, 0, 0, section_names + b".shstrtab\0")

    data.extend(b"\0" * (-len(data) % f.size))
    section_headers = len(data)
    for header in headers:
        data.extend(header)
    ident = b"\x7fELF" + bytes([2 if f.wide else 1, 1 if f.order == "<" else 2, 1]) + bytes(9)
    start = ident + f.pack(
        "HHIWWWIHHHHHH", 3, arch["machine"], 1, 0, header_size, section_headers,
        arch.get("flags", 0), header_size, segment_size, 5, len(headers[0]), len(headers), len(headers) - 1)
    start += (f.segment(1, 5, (0, 0, end), arch["page"])
              + f.segment(1, 6, at[b".dynamic"], arch["page"])
              + f.segment(2, 6, at[b".dynamic"], f.size)
              + f.segment(4, 4, at[b".note.gnu.build-id"], 4)
              + f.segment(0x6474E551, 6, (0, 0, 0), 16))
    data[:len(start)] = start
    build_id = at[b".note.gnu.build-id"][0] + 16
    data[build_id:build_id + 16] = fnv128(data)
    return bytes(data)


def debug_sections(path):
    """Returns the debug sections of an image of a 64-bit little-endian architecture."""
    with open(path, "rb") as file:
        data = file.read()
    at, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, at + 64 * i) for i in range(count)]
    sections = []
    for name, _, _, _, offset, size in headers:
        start = headers[names][4] + name
        name = data[start:data.index(b"\0", start)]
        if name.startswith(b".debug_"):
            sections.append((name, data[offset:offset + size]))
    return sections


def main():
    """Takes the arguments of dump, and after --debug an image that has the debug sections."""
    debug = []
    if sys.argv[1] == "--debug":
        debug = debug_sections(sys.argv[2])
        del sys.argv[1:3]
    arch, nop, provider = sys.argv[1:4]
    probes = []
    for word in sys.argv[4:]:
        name, *types = os.fsencode(word).split(b":")
        probes.append((name, [min(int(t.split(b"=")[0]), 8) for t in types]))
    sys.stdout.buffer.write(image(ARCHS[arch], nop, os.fsencode(provider), probes, debug))


main()
