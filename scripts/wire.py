"""Both sides of the layout in which plans leave the planner: wire.py WIRE_JSON OPTIONS_JSON OUTPUT_FOLDER.

Makes wire.hpp and wire.ts. The record Options, which goes the other way, follows from the description of the options. A
record is laid out as wasm32 lays out a struct. Its fields are u8, u32, u64, i64, f64 or bool (a u32), an enum (a u32),
another record, fixed arrays of numbers (`u32[3]`), texts (address, bytes) and lists (address, count).
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import options
from options import camel

SCALARS = {
    "u8": (1, "std::uint8_t", "number", "{view}.getUint8({at})"),
    "u32": (4, "std::uint32_t", "number", "{view}.getUint32({at}, true)"),
    "bool": (4, "std::uint32_t", "boolean", "{view}.getUint32({at}, true) !== 0"),
    "u64": (8, "std::uint64_t", "number", "readU64({view}, {at})"),
    "i64": (8, "std::int64_t", "bigint", "{view}.getBigInt64({at}, true)"),
    "f64": (8, "double", "number", "{view}.getFloat64({at}, true)"),
}

CPP_HEAD = """// Made from web/wire.json by scripts/wire.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "boundary/boundary.hpp"
#include "plan/plan.hpp"
#include "plan/tuning.hpp"
#include "program/program.hpp"

namespace nibble::wire {

// Elsewhere, as for the fuzzer, records cross to nobody, and addresses have other sizes.
#ifdef __wasm32__
#define NIBBLE_LAID_OUT(...) static_assert(__VA_ARGS__)
#else
#define NIBBLE_LAID_OUT(...) static_assert(true)
#endif

/// Texts and lists belong to somebody else.
template <class T>
struct List {
  List() = default;
  List(std::span<const T> items) : data(items.data()), count(static_cast<std::uint32_t>(items.size())) {}
  const T* data = nullptr;
  std::uint32_t count = 0;
};

struct Text {
  Text() = default;
  Text(std::string_view text) : data(text.data()), bytes(static_cast<std::uint32_t>(text.size())) {}
  const char* data = nullptr;
  std::uint32_t bytes = 0;
};
"""

TS_HEAD = """// Made from web/wire.json by scripts/wire.py.

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Memory of the planner, where records with texts and lists put those. alloc() may make earlier views useless. */
export interface Memory {
  view(): DataView;
  alloc(bytes: number): number;
}

function readU64(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * 0x100000000;
}

function readText(view: DataView, at: number): string {
  const bytes = view.getUint32(at + 4, true);
  return bytes === 0 ? "" : decoder.decode(new Uint8Array(view.buffer, view.getUint32(at, true), bytes));
}

function readList<T>(view: DataView, at: number, size: number, read: (view: DataView, at: number) => T): T[] {
  const data = view.getUint32(at, true);
  return Array.from({ length: view.getUint32(at + 4, true) }, (_, i) => read(view, data + i * size));
}

function writeText(memory: Memory, at: number, text: string): void {
  const bytes = encoder.encode(text);
  const data = memory.alloc(bytes.length);
  new Uint8Array(memory.view().buffer, data, bytes.length).set(bytes);
  memory.view().setUint32(at, data, true);
  memory.view().setUint32(at + 4, bytes.length, true);
}

function writeList<T>(
  memory: Memory,
  at: number,
  size: number,
  items: readonly T[],
  write: (at: number, item: T) => void,
): void {
  const data = memory.alloc(items.length * size);
  items.forEach((item, i) => write(data + i * size, item));
  memory.view().setUint32(at, data, true);
  memory.view().setUint32(at + 4, items.length, true);
}

function readArray<T>(at: number, size: number, count: number, read: (at: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => read(at + i * size));
}
"""


@dataclass(frozen=True)
class Kind:
    """How a field's type looks on both sides."""

    size: int
    align: int
    cpp: str
    ts: str
    read: str  # an expression with {view} and {at}
    write: str = ""  # a statement with {view}, {at} and {value}; empty where only the planner writes
    needs_memory: bool = False  # the statement has `memory`, and no {view}


def align_up(value: int, to: int) -> int:
    return (value + to - 1) // to * to


class Wire:
    def __init__(self, description: dict, described: list[options.Option]):
        self.version = description["version"]
        self.described = described
        self.enums = description["enums"]
        self.records: dict[str, list[tuple[str, int, Kind]]] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        for name, fields in description["records"].items():
            self.add_record(name, fields)
        self.add_record("Options", options.wire_record(described))

    def add_record(self, name: str, fields: dict[str, str]) -> None:
        at, alignment, placed = 0, 1, []
        for field, spelled in fields.items():
            kind = self.kind(spelled)
            at = align_up(at, kind.align)
            placed.append((field, at, kind))
            at += kind.size
            alignment = max(alignment, kind.align)
        self.records[name] = placed
        self.sizes[name] = align_up(at, alignment), alignment

    def kind(self, spelled: str) -> Kind:
        if spelled in SCALARS:
            size, cpp, ts, read = SCALARS[spelled]
            write = {
                "u32": "{view}.setUint32({at}, {value}, true);",
                "bool": "{view}.setUint32({at}, {value} ? 1 : 0, true);",
                "u64": "{view}.setBigUint64({at}, BigInt({value}), true);",
                "i64": "{view}.setBigInt64({at}, {value}, true);",
            }.get(spelled, "")
            return Kind(size, size, cpp, ts, read, write)
        if spelled in self.enums:
            names = f"{camel(spelled[0].lower() + spelled[1:])}Names"
            read = f"{names}[{{view}}.getUint32({{at}}, true)] as {spelled}"
            return Kind(
                4, 4, "std::uint32_t", spelled, read, f"{{view}}.setUint32({{at}}, {names}.indexOf({{value}}), true);"
            )
        if spelled in self.records:
            size, alignment = self.sizes[spelled]
            kinds = [kind for _, _, kind in self.records[spelled]]
            needs_memory = any(kind.needs_memory for kind in kinds)
            write = f"write{spelled}({'memory' if needs_memory else '{view}'}, {{at}}, {{value}});"
            write = write if all(kind.write for kind in kinds) else ""
            read = f"read{spelled}({{view}}, {{at}})"
            return Kind(size, alignment, spelled, spelled, read, write, needs_memory)
        if spelled == "text":
            write = "writeText(memory, {at}, {value});"
            return Kind(8, 4, "Text", "string", "readText({view}, {at})", write, needs_memory=True)
        if array := re.fullmatch(r"(\w+)\[(\d+)\]", spelled):
            item, count = self.kind(array[1]), int(array[2])
            read = f"readArray({{at}}, {item.size}, {count}, (item) => {item.read.format(view='{view}', at='item')})"
            store = item.write.replace("{value}", "item").replace("{at}", f"{{at}} + i * {item.size}")
            write = f"{{value}}.forEach((item, i) => {{{{ {store} }}}});" if store else ""
            cpp = f"std::array<{item.cpp}, {count}>"
            return Kind(item.size * count, item.align, cpp, f"{item.ts}[]", read, write, item.needs_memory)
        if items := re.fullmatch(r"list<(\w+)>", spelled):
            item = self.kind(items[1])
            inner = item.read.format(view="view", at="item")
            read = f"readList({{view}}, {{at}}, {item.size}, (view, item) => {inner})"
            store = item.write.format(view="memory.view()", at="at", value="item")
            write = f"writeList(memory, {{at}}, {item.size}, {{value}}, (at, item) => {{{{ {store} }}}});"
            return Kind(8, 4, f"List<{item.cpp}>", f"{item.ts}[]", read, write if store else "", needs_memory=True)
        raise SystemExit(f"wire.json: '{spelled}' is no kind of field")

    def cpp(self) -> str:
        parts = [CPP_HEAD, f"inline constexpr std::uint32_t kVersion = {self.version};\n"]
        for enum in self.enums.values():
            parts += [
                f"static_assert(static_cast<std::uint32_t>({enum['cpp']}::{name}) == {number});"
                for number, name in enumerate(enum["names"])
            ]
        for name, fields in self.records.items():
            parts.append(f"\nstruct {name} {{")
            parts += [f"  {kind.cpp} {field}{{}};" for field, _, kind in fields]
            parts.append("};")
            parts += [f"NIBBLE_LAID_OUT(offsetof({name}, {field}) == {at});" for field, at, _ in fields]
            parts.append(f"NIBBLE_LAID_OUT(sizeof({name}) == {self.sizes[name][0]});")
        parts.append("\n}  // namespace nibble::wire\n")
        return "\n".join(parts)

    def ts(self) -> str:
        parts = [TS_HEAD, f"export const wireVersion = {self.version};"]
        for name, enum in self.enums.items():
            words = ", ".join(json.dumps(word) for word in enum["names"].values())
            parts.append(f"\nexport const {camel(name[0].lower() + name[1:])}Names = [{words}] as const;")
            parts.append(f"export type {name} = (typeof {camel(name[0].lower() + name[1:])}Names)[number];")
        for name, fields in self.records.items():
            parts += self.ts_record(name, fields)
        parts += options.ts_take(self.described, {field: kind.ts for field, _, kind in self.records["Options"]})
        return "\n".join(parts) + "\n"

    def ts_record(self, name: str, fields: list[tuple[str, int, Kind]]) -> list[str]:
        offsets = ", ".join(f"{camel(field)}: {at}" for field, at, _ in fields)
        lines = [f"\nexport interface {name} {{"]
        lines += [f"  {camel(field)}: {kind.ts};" for field, _, kind in fields]
        lines += ["}", f"export const at{name} = {{ {offsets} }} as const;"]
        lines += [f"export const sizeof{name} = {self.sizes[name][0]};"]
        lines += [f"export function read{name}(view: DataView, at: number): {name} {{", "  return {"]
        lines += [
            f"    {camel(field)}: {kind.read.format(view='view', at=f'at + {at}' if at else 'at')},"
            for field, at, kind in fields
        ]
        lines += ["  };", "}"]
        if all(kind.write for _, _, kind in fields):
            needs_memory = any(kind.needs_memory for _, _, kind in fields)
            to, view = ("memory: Memory", "memory.view()") if needs_memory else ("view: DataView", "view")
            lines.append(f"export function write{name}({to}, at: number, record: {name}): void {{")
            lines += [
                "  " + kind.write.format(view=view, at=f"at + {at}" if at else "at", value=f"record.{camel(field)}")
                for field, at, kind in fields
            ]
            lines.append("}")
        return lines


def main() -> int:
    wire = Wire(json.loads(Path(sys.argv[1]).read_text()), options.read(Path(sys.argv[2])))
    folder = Path(sys.argv[3])
    options.write_if_changed(folder / "wire.hpp", wire.cpp())
    options.write_if_changed(folder / "wire.ts", wire.ts())
    return 0


if __name__ == "__main__":
    sys.exit(main())
